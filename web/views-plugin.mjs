// Collects the views: every src/views/*.tsx that exports `view` is in "virtual:views", so that adding one is adding its file.

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

export function viewsPlugin(web) {
  const folder = join(web, "src", "views");
  return {
    name: "views",
    setup({ onResolve, onLoad }) {
      onResolve({ filter: /^virtual:views$/ }, ({ path }) => ({ path, namespace: "views" }));
      onLoad({ filter: /.*/, namespace: "views" }, () => {
        const files = readdirSync(folder).filter((name) => name.endsWith(".tsx") && /^export const view\b/m.test(readFileSync(join(folder, name), "utf8"))).sort();
        const imports = files.map((name, at) => `import { view as view${at} } from "./${name}";`);
        const list = files.map((_, at) => `view${at}`).join(", ");
        return { contents: `${imports.join("\n")}\nexport const MODULES = Object.fromEntries([${list}].map((view) => [view.name, view]));\n`, resolveDir: folder, watchDirs: [folder] };
      });
    },
  };
}
