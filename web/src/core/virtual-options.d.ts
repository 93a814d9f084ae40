/** The options of generation by heading, as views-plugin.mjs makes them of the library's JSON schema. */
declare module "virtual:generation-options" {
  type Option = import("./generation-options").Option;
  export const GROUPS: Record<string, (Pick<Option, "name" | "description"> & Partial<Option>)[]>;
}
