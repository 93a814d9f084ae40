// Bundles every test with esbuild and hands the bundles to Node's own test runner.

import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { viewsPlugin } from "../views-plugin.mjs";

const here = dirname(fileURLToPath(import.meta.url));
const wanted = process.argv.slice(2);
const tests = readdirSync(here, { recursive: true })
  .filter((name) => /\.test\.tsx?$/.test(name))
  .filter((name) => wanted.length === 0 || wanted.some((part) => name.includes(part)));
const out = mkdtempSync(join(tmpdir(), "explorer-tests-"));
try {
  await build({
    entryPoints: tests.map((name) => join(here, name)),
    outdir: out,
    bundle: true,
    platform: "node",
    format: "esm",
    outExtension: { ".js": ".mjs" },
    target: "node20",
    jsx: "automatic",
    jsxImportSource: "preact",
    sourcemap: "inline",
    loader: { ".css": "empty" },
    plugins: [viewsPlugin(join(here, ".."))],
    logLevel: "warning",
  });
  const bundles = readdirSync(out, { recursive: true }).filter((name) => name.endsWith(".mjs")).map((name) => join(out, name));
  process.exitCode = spawnSync(process.execPath, ["--test", ...bundles], { stdio: "inherit" }).status ?? 1;
} finally {
  rmSync(out, { recursive: true, force: true });
}
