// Bundles web/src into src/glassformer/{explorer,reports}/static, which are kept in the tree: nobody needs Node to install or run.
//
//   node build.mjs            build
//   node build.mjs --check    build in memory, and fail where they are not what these sources give

import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, relative, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { viewsOf, viewsPlugin } from "./views-plugin.mjs";

const web = dirname(fileURLToPath(import.meta.url));
const { compilerOptions } = JSON.parse(readFileSync(join(web, "tsconfig.json"), "utf8"));

// JSX as createElement(type, properties, ...children), which compresses to 1,300 bytes less than jsx(type, {children: […]}) of
// the types' settings. Not named `h`, which a component may call a height.
const calls = {
  tsconfigRaw: { compilerOptions: { ...compilerOptions, jsx: "react", jsxFactory: "createElement", jsxFragmentFactory: "Fragment", jsxImportSource: undefined } },
  jsx: "transform",
  jsxFactory: "createElement",
  jsxFragment: "Fragment",
  inject: ["src/core/elements.ts"],
};
const targets = {
  // A server sends app.js, and each view when it is opened. A saved page holds app.js, and behind it the views that it shows.
  explorer: {
    entryPoints: { listen: "src/listen-main.tsx", ask: "src/ask-main.tsx" },
    views: viewsOf(web),
    shell: ["index.html"],
    jsx: calls,
  },
  // The charts of series, which need uPlot, trade-offs, matrices, rows and tables to search in are bundles of their own: not every
  // report has some. Their JSX makes elements by itself, without Preact.
  reports: {
    entryPoints: { report: "src/report/main.tsx", series: "src/report/series.ts", "trade-off": "src/report/trade-off.tsx", matrix: "src/report/matrix.tsx", rows: "src/report/rows.tsx", review: "src/report/review.tsx", save: "src/report/save.tsx", browse: "src/report/browse.tsx", served: "src/report/served.tsx", live: "src/report/live.ts", steps: "src/report/steps.ts", page: "src/report/page.css", kernel: "src/cell/kernel.ts" },
    modules: { cell: "src/cell/widget.ts" }, // what a notebook imports
    shell: [],
    jsx: { jsx: "automatic", jsxImportSource: "preact" },
    alias: { "preact/jsx-runtime": "./src/report/dom.ts" },
  },
};
const folderOf = (target) => join(web, "..", "src", "glassformer", target, "static");

const sha256 = (bytes) => createHash("sha256").update(bytes).digest("hex");

/** One hash over every file the bundle is made from: path, NUL, bytes, NUL, in the order of the paths. */
function sourceHash() {
  const inside = readdirSync(join(web, "src"), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(web, join(entry.parentPath, entry.name)).split(sep).join("/"));
  const hash = createHash("sha256");
  for (const path of [...inside, "index.html", "package-lock.json", "tsconfig.json", "build.mjs", "views-plugin.mjs"].sort()) {
    hash.update(path).update("\0").update(readFileSync(join(web, path))).update("\0");
  }
  return hash.digest("hex");
}

/** The licence of every package whose code is in the bundle. */
function licences(metafile) {
  const names = new Set();
  for (const path of Object.keys(metafile.inputs)) {
    const match = path.match(/node_modules\/((?:@[^/]+\/)?[^/]+)\/(?!.*node_modules\/)/);
    if (match) names.add(match[1]);
  }
  const parts = [...names].sort().map((name) => {
    const folder = join(web, "node_modules", name);
    const about = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
    const file = readdirSync(folder).find((entry) => /^licen[cs]e/i.test(entry));
    if (!file) throw new Error(`${name} is in the bundle and has no licence file`);
    const text = readFileSync(join(folder, file), "utf8").trim();
    return `${name} ${about.version} (${about.license})\n\n${text}\n`;
  });
  return ["The page holds code of these packages.\n", ...parts].join(`\n${"-".repeat(72)}\n\n`);
}

/** The explorer and its views: scripts, of which a view takes from the page what they share; and the style of all. */
async function makeExplorer(views, options) {
  const scripts = (entryPoints, how, more) => build({ ...options, entryPoints, loader: { ".css": "empty" }, plugins: [viewsPlugin(web, how)], ...more });
  const style = await build({ ...options, entryPoints: { app: "src/style-main.ts" } });
  const page = await scripts({ app: "virtual:page" }, { lazily: true }, { format: "iife", globalName: "glassformer" });
  const parts = await scripts(Object.fromEntries(Object.keys(views).map((name) => [`view-${name}`, `virtual:view/${name}`])), { within: "./app.js" }, { format: "esm" });
  const files = [...style.outputFiles.filter(({ path }) => path.endsWith(".css")), ...page.outputFiles];
  for (const { path, text } of parts.outputFiles) files.push({ path, contents: Buffer.from(asScript(path, text)) });
  return { files, metafile: page.metafile };
}

/** A module that imports from the page alone, as a script that can stand behind the page too. */
function asScript(path, module) {
  const script = module.replaceAll(/\bimport(?:\{([^{}]*)\}|\*as (\S+) )from"\.\/app\.js";/g, (_, names, all) => `const ${all ?? `{${names.replaceAll(" as ", ":")}}`}=glassformer;`).replaceAll(/\bimport"\.\/app\.js";/g, "");
  if (/"\.\/app\.js"|\bexport\{/.test(script)) throw new Error(`${path} imports or exports in a way that asScript does not know`);
  return `(()=>{${script.trimEnd()}})();\n`;
}

async function make({ entryPoints, modules = {}, views, shell, alias, jsx }) {
  const options = {
    absWorkingDir: web,
    outdir: "static",
    bundle: true,
    alias,
    minify: true,
    target: "es2022",
    ...jsx,
    charset: "utf8",
    legalComments: "none",
    metafile: true,
    plugins: [viewsPlugin(web)],
    write: false,
  };
  const result = await build({ ...options, entryPoints, format: "iife" });
  const imported = await build({ ...options, entryPoints: modules, format: "esm" });
  const explorer = views ? await makeExplorer(views, options) : { files: [], metafile: { inputs: {} } };
  const files = Object.fromEntries(shell.map((name) => [name, readFileSync(join(web, name))]));
  files["THIRD_PARTY.txt"] = Buffer.from(licences({ inputs: { ...result.metafile.inputs, ...explorer.metafile.inputs } }));
  for (const { path, contents } of [...result.outputFiles, ...imported.outputFiles, ...explorer.files]) files[path.split(sep).pop()] = Buffer.from(contents);
  const hashes = Object.fromEntries(Object.keys(files).sort().map((name) => [name, sha256(files[name])]));
  files["manifest.json"] = Buffer.from(`${JSON.stringify({ source: sourceHash(), files: hashes }, null, 2)}\n`);
  return files;
}

/** The names of files that are missing, different, or not made by this build. */
function differences(folder, files) {
  const there = existsSync(folder) ? readdirSync(folder) : [];
  const stale = Object.keys(files).filter((name) => !there.includes(name) || !readFileSync(join(folder, name)).equals(files[name]));
  return [...stale, ...there.filter((name) => !(name in files))];
}

for (const [target, description] of Object.entries(targets)) {
  const [folder, files] = [folderOf(target), await make(description)];
  if (process.argv.includes("--check")) {
    const wrong = differences(folder, files);
    if (wrong.length) {
      console.error(`${target}/static is not what web/ builds (${wrong.join(", ")}): run "npm ci && npm run build" in web/.`);
      process.exitCode = 1;
    } else console.log(`${target}/static is what web/ builds.`);
  } else {
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(folder, { recursive: true });
    for (const [name, bytes] of Object.entries(files)) writeFileSync(join(folder, name), bytes);
    console.log(Object.entries(files).map(([name, bytes]) => `${target}/${name} ${bytes.length}`).join("\n"));
  }
}
