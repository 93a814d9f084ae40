/** The range of probabilities that the shades of a lens span. */

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Lens } from "../src/core/readings";
import { rangeWords, shadeRange } from "../src/views/lens/shade-range";

const lensOf = (columns: Lens["columns"], top: number, shares: number[], targets: number[] = []): Lens =>
  ({ columns, top, logprobs: Float32Array.from(shares, Math.log), target_logprobs: Float32Array.from(targets, Math.log) }) as unknown as Lens;

test("shades of labels near an equal share are those of the range that there is, and not of a difference of nothing", () => {
  assert.deepEqual(shadeRange(lensOf("text", 3, [0.36, 0.33, 0.31, 0.4, 0.35, 0.25]), false), [0.25, 0.4]);
  assert.deepEqual(shadeRange(lensOf("text", 3, [0.9, 0.08, 0.02]), false), [0, 1]);
  const [low, high] = shadeRange(lensOf("text", 3, [1 / 3, 1 / 3, 1 / 3]), false);
  assert.ok(low < 1 / 3 && high > 1 / 3 && high - low >= 0.005 && high - low <= 0.007, `${low} to ${high}`);
});

test("the scale says its range", () => {
  assert.deepEqual([rangeWords([0, 1]), rangeWords([0, 0.02]), rangeWords([0.329, 0.342])], [["0%", "100%"], ["0%", "2.0%"], ["32.9%", "34.2%"]]);
});

test("shades of a vocabulary begin at 0, and are those of the likeliest output, or of the one that is followed", () => {
  assert.deepEqual(shadeRange(lensOf("tokens", 2, [0.018, 0.01, 0.012, 0.002]), false), [0, 0.02]);
  assert.deepEqual(shadeRange(lensOf("tokens", 2, [0.9, 0.01, 0.012, 0.002]), false), [0, 1]);
  assert.deepEqual(shadeRange(lensOf("tokens", 2, [0.9, 0.01], [0.1]), true).map((x) => Number(x.toFixed(4))), [0, 0.1]);
});
