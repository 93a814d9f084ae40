// What is made of other files while the page is built.
//
// virtual:views                every src/views/*.tsx that exports `view`, so that adding one is adding its file; in the page
//                              each is loaded when it is opened, and what stands before its Component is there before
// virtual:page                 the page, which exports to these views what it shares with them
// virtual:view/NAME            a view, which adds itself to those that are there
// virtual:generation-options   the options of the library's JSON schema, by heading, as the page's controls have them

import { readdirSync, readFileSync } from "node:fs";
import { join, relative, sep } from "node:path";

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

const filesOf = (folder) => readdirSync(folder, { recursive: true }).map((name) => name.replaceAll("\\", "/")).sort();

/** Name → source of every view. */
export const viewsOf = (web) => Object.fromEntries(filesOf(join(web, "src", "views"))
  .filter((name) => /^[^/]+\.tsx$/.test(name))
  .map((name) => [name.slice(0, -4), readFileSync(join(web, "src", "views", name), "utf8")])
  .filter(([, source]) => /^export const view\b/m.test(source)));

/** What a view says of itself before its Component: name, title, sentence and options, which are constants. */
function aboutOf([name, source]) {
  const found = /^export const view: ViewModule = \{\n([^]*?)^  Component\b/m.exec(source);
  if (!found) throw new Error(`src/views/${name}.tsx: in what it exports as \`view\`, constants have to stand before Component`);
  return new Function(`return {${found[1]}}`)();
}

function viewsModule(web, lazily) {
  const views = Object.entries(viewsOf(web));
  if (lazily) {
    const list = views.map((each) => `{ ...${JSON.stringify(aboutOf(each))}, Component: later("${each[0]}", () => import("./view-${each[0]}.js")) }`);
    return `import { later } from "../ui/later";\nexport const MODULES = Object.fromEntries([${list}].map((view) => [view.name, view]));`;
  }
  const imports = views.map(([name], at) => `import { view as view${at} } from "./${name}";`);
  return `${imports.join("\n")}\nexport const MODULES = Object.fromEntries([${views.map((_, at) => `view${at}`)}].map((view) => [view.name, view]));`;
}

const viewModule = (name) => `import { LOADED } from "./ui/later";\nimport { view } from "./views/${name}";\nLOADED["${name}"] = view;`;

/** Packages and folders of which the page has the one copy. */
const SHARED = /^(preact|preact\/hooks|@preact\/signals)$/;
const SHARED_FOLDERS = /^src\/(core|ui)\//;

/** Every part of core/ and ui/ that can be imported without beginning something. */
const sharedFiles = (web) => ["core", "ui"].flatMap((folder) => filesOf(join(web, "src", folder)).map((name) => `./${folder}/${name}`)).filter((name) => /(?<!\.d)\.tsx?$/.test(name));

/** What the page exports: of these files the names that are words of some view. Two files may not export the same name. */
function pageModule(web) {
  const views = filesOf(join(web, "src", "views")).filter((name) => /\.tsx?$/.test(name)).map((name) => readFileSync(join(web, "src", "views", name), "utf8"));
  const words = new Set(views.join("\n").match(/\w+/g));
  const files = new Map();
  for (const file of sharedFiles(web)) {
    for (const [, name] of readFileSync(join(web, "src", file), "utf8").matchAll(/^export (?:async )?(?:const|function|class) (\w+)/gm)) {
      if (files.has(name)) throw new Error(`${files.get(name)} and ${file} both export ${name}: give one of them another name`);
      files.set(name, file);
    }
  }
  const shared = [...files].filter(([name]) => words.has(name) || name === "LOADED").map(([name, file]) => `export { ${name} } from "${file}";`);
  return [`import "./main";`, ...["preact", "preact/hooks", "@preact/signals"].map((name) => `export * from "${name}";`), ...shared].join("\n");
}

/**
 * @param lazily The page: its views are files of their own.
 * @param within A file of a view: what the page shares comes from it.
 */
export function viewsPlugin(web, { lazily = false, within = "" } = {}) {
  return {
    name: "views",
    setup({ onResolve, onLoad, resolve }) {
      const made = (filter, namespace, contents, resolveDir) => {
        onResolve({ filter }, ({ path }) => ({ path, namespace }));
        onLoad({ filter: /.*/, namespace }, ({ path }) => ({ contents: contents(path), resolveDir }));
      };
      made(/^virtual:generation-options$/, "options", () => optionsModule(web));
      made(/^virtual:views$/, "views", () => viewsModule(web, lazily), join(web, "src", "views"));
      made(/^virtual:page$/, "page", () => pageModule(web), join(web, "src"));
      made(/^virtual:view\//, "view", (path) => viewModule(path.split("/").pop()), join(web, "src"));
      if (lazily) onResolve({ filter: /^\.\/view-[\w-]+\.js$/ }, ({ path }) => ({ path, external: true }));
      if (!within) return;
      onResolve({ filter: SHARED }, () => ({ path: within, external: true }));
      onResolve({ filter: /^\./ }, async ({ path, pluginData, ...about }) => {
        if (pluginData === "resolved" || !about.importer) return;
        const found = await resolve(path, { ...about, pluginData: "resolved" });
        return SHARED_FOLDERS.test(relative(web, found.path).split(sep).join("/")) && !found.path.endsWith(".css") ? { path: within, external: true } : found;
      });
    },
  };
}
