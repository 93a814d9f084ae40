import assert from "node:assert/strict";
import { test } from "node:test";
import { maxDifference, around, keysThatFit, normaliser, products, root, runs, sharing, sum, tolerance, weighted, whyHidden } from "../src/views/neuron/arithmetic";
import { diverging } from "../src/views/neuron/diverging-colours";

test("the dot product is the sum of its parts", () => {
  const parts = products(Float32Array.of(1, -2, 3), Float32Array.of(4, 5, -6));
  assert.deepEqual([...parts], [4, -10, -18]);
  assert.equal(sum(parts), -24);
});

test("softmax: parts over their sum are probabilities, and hidden keys take no part", () => {
  const scores = Float64Array.of(1, 3, -Infinity, 2);
  const { largest, total, visible } = normaliser(scores);
  assert.equal(largest, 3);
  assert.equal(visible, 3);
  const probs = [...scores].map((score) => Math.exp(score - largest) / total);
  assert.equal(probs[2], 0);
  assert.ok(Math.abs(sum(probs) - 1) < 1e-12);
  assert.ok(Math.abs(probs[1] / probs[0] - Math.E ** 2) < 1e-9);
});

test("a sum of values says how much of the probability it holds", () => {
  const probs = Float64Array.of(0.5, 0.3, 0, 0.2);
  const some = new Map([[0, Float64Array.of(2, 0)], [1, Float64Array.of(0, 10)]]);
  const part = weighted(probs, some, 2);
  assert.deepEqual([...part.z], [1, 3]);
  assert.equal(part.share, 0.8);
  assert.equal(part.complete, false);
  assert.equal(weighted(probs, new Map([...some, [3, Float64Array.of(1, 1)]]), 2).complete, true, "a key of probability zero is not missed");
  assert.ok(Math.abs(maxDifference(part.z, Float64Array.of(1, 2.5)) - 0.5) < 1e-12);
});

test("what may be apart depends on the model's numbers", () => {
  assert.equal(tolerance("float64", 100), 1e-10);
  assert.ok(tolerance("float32", 1) < 1e-4);
  assert.ok(tolerance("bfloat16", 1) > tolerance("float16", 1));
});

test("the scale is named where it is one over the root of the width", () => {
  assert.equal(root(Math.fround(1 / Math.sqrt(32)), 32), "1/√32");
  assert.equal(root(1, 32), null);
});

test("shared key/value heads are named", () => {
  assert.deepEqual(sharing({ heads: 8, kv_heads: 2 }, 1), [4, 7]);
  assert.equal(sharing({ heads: 8, kv_heads: 8 }, 1), null);
});

test("hidden keys say why", () => {
  assert.equal(whyHidden({ causal: true, window: null }, 5, 5, 2, 3), "comes later");
  assert.equal(whyHidden({ causal: true, window: null }, 5, 5, 2, 2), null);
  assert.equal(whyHidden({ causal: true, window: 2 }, 5, 5, 4, 1), "outside the window of 2");
});

test("no answer is larger than it may be", () => {
  for (const keys of [12, 512, 4096])
    for (const head_width of [32, 64, 128])
      for (const bytes of [4, 8]) {
        const fit = keysThatFit({ head_width, biased: false }, keys, bytes, 60_000);
        if (fit > 1) assert.ok((2 * fit * head_width + 2 * keys + 2 * head_width) * bytes <= 60_000, `${keys} ${head_width} ${bytes}`);
      }
  assert.equal(keysThatFit({ head_width: 64, biased: false }, 512, 4, 60_000), 108);
});

test("keys are asked for in ranges no longer than an answer holds", () => {
  assert.deepEqual(runs([7, 3, 4, 5, 9], 8), [[3, 6], [7, 8], [9, 10]]);
  assert.deepEqual(runs([0, 1, 2, 3, 4], 2), [[0, 2], [2, 4], [4, 5]]);
  assert.deepEqual(runs([1, 4, 9], 8, 2), [[1, 5], [9, 10]]);
  assert.deepEqual(runs([], 4), []);
});

test("a window has its key in the middle where the ends allow", () => {
  assert.equal(around(50, 100, 10), 45);
  assert.equal(around(2, 100, 10), 0);
  assert.equal(around(99, 100, 10), 90);
  assert.equal(around(3, 5, 5), 0);
});

test("zero is the ground, and the two signs never share a colour", () => {
  for (const dark of [false, true]) {
    assert.equal(diverging(0, dark), diverging(-0, dark));
    assert.notEqual(diverging(0.2, dark), diverging(-0.2, dark));
    assert.equal(diverging(5, dark), diverging(1, dark));
  }
});
