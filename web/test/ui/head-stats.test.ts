import assert from "node:assert/strict";
import { test } from "node:test";
import { exactLayers, maxEntropy, samplingNote, STATS, statText } from "../../src/ui/head-stats";
import { arranged, heads, summary } from "../../src/views/model/heads";
import type { Overview } from "../../src/core/types";
import { pair } from "../sessions";

const session = pair();
const near = (a: number, b: number) => assert.ok(Math.abs(a - b) < 1e-12, `${a} is not ${b}`);

test("a head that looks equally at all it may has this entropy", () => {
  const [map] = session.maps;
  near(maxEntropy(map, 0, session), Math.log2(6));
  near(maxEntropy({ ...map, causal: true }, 0, session), Math.log2(720) / 6);
  near(maxEntropy({ ...map, causal: true, windows: [2] }, 0, session), 5 / 6);
  near(maxEntropy({ ...map, windows: [2] }, 0, session), (4 * Math.log2(3) + 2) / 6);
});

test("a sample says so", () => {
  assert.equal(samplingNote({ rows_used: 256, rows_total: 4096 }), "sampled 1 of 16 rows");
  assert.equal(samplingNote({ rows_used: 12, rows_total: 12 }), null);
});

test("heads are ordered by a statistic; those that have not come are last", () => {
  const [map] = session.maps;
  const overview = { map: "self", layer: 1, heads: 4, stats: { previous: Float32Array.of(0.1, 0.9, 0.5, 0.5), entropy_bits: Float32Array.of(3, 1, 2, 2) }, summaries: ["a", "b", "c", "d"], kinds: [["broad", 0.9], ["previous token", 0.9], ["previous token", 0.5], ["broad", 0.95]], metrics: { broad: "entropy" } };
  const all = heads(map, new Map([["self/1", overview as unknown as Overview]]));
  assert.equal(all.length, 16);
  const names = (sort: string) => arranged(all, sort).heads.slice(0, 5).map(({ layer, head }) => `${layer}·${head}`);
  assert.deepEqual(names("previous"), ["1·1", "1·2", "1·3", "1·0", "0·0"]);
  assert.deepEqual(names("entropy_bits"), ["1·1", "1·2", "1·3", "1·0", "0·0"]);
  assert.deepEqual(arranged(all.slice(4, 8), "kind").groups!.map(({ name, heads: of }) => [name, of.map(({ head }) => head)]), [["broad", [3, 0]], ["previous token", [1, 2]]]);
  assert.deepEqual(names("kind").slice(0, 4), ["1·3", "1·0", "1·1", "1·2"]);
  assert.equal(summary(all[5]), "b");
  assert.equal(summary(all[0]), "on its way");
});

test("a standalone page says whose exact numbers it holds", () => {
  const [map] = session.maps;
  assert.equal(exactLayers(map, [0, 1, 2, 3]), "exact: all layers");
  assert.equal(exactLayers(map, [3, 0, 1]), "exact: layers 0 to 1, 3");
  assert.equal(exactLayers(map, [2]), "exact: layer 2");
  assert.equal(exactLayers(map, []), "exact: no layer");
});

test("a statistic that two sides do not have is a dash", () => {
  for (const each of STATS) assert.equal(statText(each, NaN), "–");
});
