import assert from "node:assert/strict";
import { test } from "node:test";
import { groups, similarities } from "../src/views/model/clusters";
import type { Overview } from "../src/core/types";

/** The same by the definition: the two most similar groups are joined, one pair after another. */
function plainly(similar: Float64Array, n: number, least: number): number[][] {
  const all = Array.from({ length: n }, (_, at) => [at]);
  const mean = (a: number[], b: number[]) => a.reduce((sum, i) => b.reduce((total, j) => total + similar[i * n + j], sum), 0) / (a.length * b.length);
  for (;;) {
    let best: [number, number, number] = [least, -1, -1];
    for (let a = 0; a < all.length; a++) for (let b = 0; b < a; b++) if (mean(all[a], all[b]) >= best[0]) best = [mean(all[a], all[b]), a, b];
    if (best[1] < 0) return all;
    all[best[2]].push(...all[best[1]]);
    all.splice(best[1], 1);
  }
}

const sorted = (found: number[][]) => found.map((members) => [...members].sort((a, b) => a - b)).sort((a, b) => a[0] - b[0]);

test("groups are those of joining the two most similar again and again", () => {
  let seed = 1;
  const random = () => (seed = (seed * 48271) % 2147483647) / 2147483647;
  for (const n of [1, 2, 7, 40]) {
    for (const least of [0.2, 0.5, 0.8, 1.1]) {
      const similar = new Float64Array(n * n);
      for (let a = 0; a < n; a++) for (let b = 0; b <= a; b++) similar[a * n + b] = similar[b * n + a] = a === b ? 1 : random();
      assert.deepEqual(sorted(groups(similar, n, least)), sorted(plainly(similar, n, least)));
    }
  }
});

test("similarity is the cosine of the maps, whatever the scale of each", () => {
  const overview = { heads: 3, height: 1, width: 3, thumbnails: Uint8Array.of(3, 4, 0, 6, 8, 0, 0, 0, 9) } as unknown as Overview;
  const found = similarities([0, 1, 2].map((head) => ({ head, overview })));
  [1, 1, 0, 1, 1, 0, 0, 0, 1].forEach((value, at) => assert.ok(Math.abs(found[at] - value) < 1e-6));
});
