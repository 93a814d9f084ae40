// Bundles web/src into src/glassformer/explorer/static, which is kept in the tree: nobody needs Node to install or run.
//
//   node build.mjs            build
//   node build.mjs --check    build in memory, and fail where static/ is not what these sources give

import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, relative, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const web = dirname(fileURLToPath(import.meta.url));
const target = join(web, "..", "src", "glassformer", "explorer", "static");

const sha256 = (bytes) => createHash("sha256").update(bytes).digest("hex");

/** One hash over every file the bundle is made from: path, NUL, bytes, NUL, in the order of the paths. */
function sourceHash() {
  const inside = readdirSync(join(web, "src"), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(web, join(entry.parentPath, entry.name)).split(sep).join("/"));
  const hash = createHash("sha256");
  for (const path of [...inside, "index.html", "package-lock.json", "build.mjs"].sort()) {
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
  return ["The explorer's page holds code of these packages.\n", ...parts].join(`\n${"-".repeat(72)}\n\n`);
}

async function make() {
  const result = await build({
    absWorkingDir: web,
    entryPoints: { app: "src/main.tsx", listen: "src/listen-main.tsx" },
    outdir: "static",
    bundle: true,
    minify: true,
    format: "iife",
    target: "es2022",
    jsx: "automatic",
    jsxImportSource: "preact",
    charset: "utf8",
    legalComments: "none",
    metafile: true,
    write: false,
  });
  const files = { "index.html": readFileSync(join(web, "index.html")), "THIRD_PARTY.txt": Buffer.from(licences(result.metafile)) };
  for (const { path, contents } of result.outputFiles) files[path.split(sep).pop()] = Buffer.from(contents);
  const hashes = Object.fromEntries(Object.keys(files).sort().map((name) => [name, sha256(files[name])]));
  files["manifest.json"] = Buffer.from(`${JSON.stringify({ source: sourceHash(), files: hashes }, null, 2)}\n`);
  return files;
}

/** The names of files that are missing, different, or not made by this build. */
function differences(files) {
  const there = existsSync(target) ? readdirSync(target) : [];
  const stale = Object.keys(files).filter((name) => !there.includes(name) || !readFileSync(join(target, name)).equals(files[name]));
  return [...stale, ...there.filter((name) => !(name in files))];
}

const files = await make();
if (process.argv.includes("--check")) {
  const wrong = differences(files);
  if (wrong.length) {
    console.error(`explorer/static is not what web/ builds (${wrong.join(", ")}): run "npm ci && npm run build" in web/.`);
    process.exit(1);
  }
  console.log("explorer/static is what web/ builds.");
} else {
  rmSync(target, { recursive: true, force: true });
  mkdirSync(target, { recursive: true });
  for (const [name, bytes] of Object.entries(files)) writeFileSync(join(target, name), bytes);
  console.log(Object.entries(files).map(([name, bytes]) => `${name} ${bytes.length}`).join("\n"));
}
