/** The columns of a whole lens that a request asks for. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { cellAt, type Lens, partOf } from "../src/core/readings";

const whole = {
  columns: "tokens", first: 0, top: 2, rows: ["embedding", "layer 0"], names: ["a", "b", "c"], targets: Uint32Array.of(7, 8, 9),
  ids: Uint32Array.from({ length: 12 }, (_, at) => at), logprobs: Float32Array.from({ length: 12 }, (_, at) => -at),
  entropy: Float32Array.of(0, 1, 2, 3, 4, 5), kl: Float32Array.of(0, 1, 2, 3, 4, 5), ranks: Uint32Array.of(0, 1, 2, 3, 4, 5), target_logprobs: Float32Array.of(0, 1, 2, 3, 4, 5),
} as unknown as Lens;

test("a part has the numbers of its columns, in each row", () => {
  const part = partOf(whole, { target: null, first: 1, count: 64 });
  assert.deepEqual([...part.targets], [8, 9]);
  assert.deepEqual([...part.ids], [2, 3, 4, 5, 8, 9, 10, 11]);
  assert.equal(part.entropy[cellAt(part, 1, 2)], whole.entropy[cellAt(whole, 1, 2)]);
});

test("a part that is all of it, or of a head with one output, is the lens itself", () => {
  assert.equal(partOf(whole, { target: null, first: 0, count: 64 }), whole);
  const labels = { ...whole, columns: "text" } as Lens;
  assert.equal(partOf(labels, { target: null, first: 1, count: 1 }), labels);
});
