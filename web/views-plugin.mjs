// What is made of other files while the page is built.
//
// virtual:views                every src/views/*.tsx that exports `view`, so that adding one is adding its file
// virtual:generation-options   the options of the library's JSON schema, by heading, as the page's controls have them

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** Options whose controls have words of their own. */
const OWN_WORDS = ["do_sample", "max_new_tokens", "num_beams", "temperature", "top_k", "top_p"];

/** An option of the schema; what is left out has the values of `DEFAULTS` in src/core/generation-options.ts. */
function optionOf([name, about]) {
  const alternatives = about.anyOf ?? [about];
  const types = alternatives.map(({ type }) => type);
  const words = alternatives.flatMap((each) => each.enum ?? []);
  const kind = words.length ? "choice" : ["array", "string", "boolean"].find((each) => types.includes(each));
  return {
    name, description: OWN_WORDS.includes(name) ? "" : about.description, kind: { array: "texts", string: "text" }[kind] ?? kind, integer: about.type === "integer" || undefined,
    min: about.minimum, max: about.maximum, above: about.exclusiveMinimum, below: about.exclusiveMaximum, fallback: about.default,
    choices: words.length ? [...(types.includes("boolean") ? [true, false] : []), ...words] : undefined,
  };
}

function optionsModule(web) {
  const { properties } = JSON.parse(readFileSync(join(web, "src", "core", "generation-schema.json"), "utf8"));
  const groups = {};
  for (const entry of Object.entries(properties)) (groups[entry[1]["x-group"]] ??= []).push(optionOf(entry));
  return `export const GROUPS = ${JSON.stringify(groups)};`;
}

export function viewsPlugin(web) {
  const folder = join(web, "src", "views");
  return {
    name: "views",
    setup({ onResolve, onLoad }) {
      onResolve({ filter: /^virtual:generation-options$/ }, ({ path }) => ({ path, namespace: "options" }));
      onLoad({ filter: /.*/, namespace: "options" }, () => ({ contents: optionsModule(web) }));
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
