declare module "virtual:views" {
  export const MODULES: Record<string, import("./view-module").ViewModule>;
}
