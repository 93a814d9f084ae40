import assert from "node:assert/strict";
import { test } from "node:test";
import { type Layer, biasOf, quantize, kvHead, weightedValues, maxPoolInto, scores, softmax, topKeys } from "../src/core/attention";
import * as mask from "../src/core/mask";

const seen = (one: Layer, query: number) => mask.visibleKeys(one, one.queries, one.keys, query);

/** One head, T = S = 3, E = 2, scale 1/2: scores 1/2 · [[1,0,1],[0,2,2],[1,2,3]]. */
function layer(change: Partial<Layer> = {}): Layer {
  const k = Float64Array.of(1, 0, 0, 2, 1, 2);
  const q = Float64Array.of(1, 0, 0, 1, 1, 1);
  const v = Float64Array.of(1, 0, 0, 1, 2, 2);
  return { heads: 1, kvHeads: 1, queries: 3, keys: 3, width: 2, scale: 0.5, scoreCap: null, q, k, v, written: Float64Array.of(1, 1, 1), causal: false, window: null, ...change };
}

function close(found: ArrayLike<number>, wanted: number[], within = 1e-12): void {
  assert.equal(found.length, wanted.length);
  wanted.forEach((value, i) => assert.ok(found[i] === value || Math.abs(found[i] - value) <= within, `${i}: ${found[i]}, not ${value}`));
}

test("scores are q · k · scale", () => {
  close(scores(layer(), 0, 0), [0.5, 0, 0.5]);
  close(scores(layer(), 0, 1), [0, 1, 1]);
  close(scores(layer(), 0, 2), [0.5, 1, 1.5]);
});

test("a soft cap bends the scaled product, before bias and mask", () => {
  const cap = (x: number) => 1.25 * Math.tanh(x / 1.25);
  const bias = Float64Array.of(0, 0, 0, 4, 0);
  close(scores(layer({ scoreCap: 1.25, bias }), 0, 0), [cap(0.5), 4, cap(0.5)]);
  close(scores(layer({ scoreCap: 1.25 }), 0, 2), [cap(0.5), cap(1), cap(1.5)]);
});

test("softmax: shares of one, in closed form", () => {
  close(softmax(scores(layer(), 0, 1)), [1 / (1 + 2 * Math.E), Math.E / (1 + 2 * Math.E), Math.E / (1 + 2 * Math.E)]);
  close(softmax(Float64Array.of(Math.log(1), Math.log(3), -Infinity)), [0.25, 0.75, 0]);
  close(softmax(Float64Array.of(1000, 1000)), [0.5, 0.5]); // exp(1000) alone is infinite
  close(softmax(Float64Array.of(-Infinity, -Infinity)), [0, 0]);
});

test("causal: a later key is hidden, and its probability is exactly 0", () => {
  const causal = layer({ causal: true });
  close(scores(causal, 0, 0), [0.5, -Infinity, -Infinity]);
  close(scores(causal, 0, 1), [0, 1, -Infinity]);
  close(softmax(scores(causal, 0, 0)), [1, 0, 0]);
});

test("fewer queries than keys: the last query stands at the last key", () => {
  const two = layer({ causal: true, queries: 2, q: Float64Array.of(1, 0, 0, 1) });
  assert.deepEqual([seen(two, 0), seen(two, 1)], [[0, 2], [0, 3]]);
  close(scores(two, 0, 0), [0.5, 0, -Infinity]);
  close(scores(two, 0, 1), [0, 1, 1]);
});

test("more queries than keys: the first ones see nothing, and attend to nothing", () => {
  const one = layer({ causal: true, keys: 1, k: Float64Array.of(1, 0), v: Float64Array.of(1, 0) });
  assert.deepEqual([seen(one, 0), seen(one, 2)], [[0, 0], [0, 1]]);
  close(softmax(scores(one, 0, 0)), [0]);
});

test("a window hides keys at its width and beyond, on both sides or on one", () => {
  const wide = { queries: 5, keys: 5, window: 2 };
  const both = layer(wide);
  assert.deepEqual([0, 1, 2, 3, 4].map((query) => seen(both, query)), [[0, 2], [0, 3], [1, 4], [2, 5], [3, 5]]);
  const past = layer({ ...wide, causal: true });
  assert.deepEqual([0, 1, 2, 3, 4].map((query) => seen(past, query)), [[0, 1], [0, 2], [1, 3], [2, 4], [3, 5]]);
  const late = layer({ queries: 2, keys: 5, window: 2, causal: true });
  assert.deepEqual([seen(late, 0), seen(late, 1)], [[2, 4], [3, 5]]);
});

test("a bias goes by the distance from query to key", () => {
  // key − query = −2 … 2 adds 10, 20, 30, 40, 50
  const biased = layer({ bias: Float64Array.of(10, 20, 30, 40, 50) });
  close(biasOf(biased, 0, 0)!, [30, 40, 50]);
  close(biasOf(biased, 0, 2)!, [10, 20, 30]);
  close(scores(biased, 0, 2), [10.5, 21, 31.5]);
  assert.equal(biasOf(layer(), 0, 0), null);
});

test("a bias where there are fewer queries than keys, and a head of its own", () => {
  const biased = layer({ heads: 2, queries: 2, keys: 3, bias: Float64Array.of(0, 0, 0, 0, 1, 2, 3, 4) });
  close(biasOf(biased, 1, 0)!, [2, 3, 4]);
  close(biasOf(biased, 1, 1)!, [1, 2, 3]);
});

test("heads share keys and values in groups of neighbours", () => {
  const grouped = layer({
    heads: 4, kvHeads: 2, queries: 1, keys: 1, width: 1, scale: 1, scoreCap: null,
    q: Float64Array.of(1, 2, 3, 4), k: Float64Array.of(10, 100), v: Float64Array.of(5, 7),
  });
  assert.deepEqual([0, 1, 2, 3].map((head) => kvHead(grouped, head)), [0, 0, 1, 1]);
  assert.deepEqual([0, 1, 2, 3].map((head) => scores(grouped, head, 0)[0]), [10, 20, 300, 400]);
  assert.deepEqual([0, 3].map((head) => weightedValues(grouped, head, Float64Array.of(0.5))[0]), [2.5, 3.5]);
});

test("z is the values, each as much as its probability", () => {
  close(weightedValues(layer(), 0, Float64Array.of(0.25, 0.25, 0.5)), [1.25, 1.25]);
});

test("the strongest keys, in order; the rest adds up", () => {
  const found = topKeys(Float64Array.of(0.1, 0.4, 0.2, 0.3), 2);
  assert.deepEqual([found.keys, found.probs], [[1, 3], [0.4, 0.3]]);
  assert.ok(Math.abs(found.other - 0.3) < 1e-12);
});

test("the strongest keys: among equals the earlier, never a hidden one, and only those allowed", () => {
  assert.deepEqual(topKeys(Float64Array.of(0.25, 0.5, 0.25), 2).keys, [1, 0]);
  assert.deepEqual(topKeys(Float64Array.of(1, 0, 0), 3), { keys: [0], probs: [1], other: 0 });
  const even = topKeys(Float64Array.of(0.4, 0.3, 0.2, 0.1), 3, (key) => key % 2 === 0);
  assert.deepEqual(even.keys, [0, 2]);
  assert.ok(Math.abs(even.other - 0.4) < 1e-12);
});

test("pixels hold the largest of the cells they stand for", () => {
  const pixels = new Float32Array(2);
  maxPoolInto(pixels, Float64Array.of(9, 9, 1, 3, 2), 2, 1);
  maxPoolInto(pixels, Float64Array.of(9, 9, 2, 1, 4), 2, 1);
  assert.deepEqual([...pixels], [3, 4]);
});

test("bytes go by the tile's own maximum, straight or by the root", () => {
  const pixels = Float32Array.of(0, 0.125, 0.5);
  assert.deepEqual(quantize(pixels, "linear"), { values: Uint8Array.of(0, 64, 255), scale: 0.5 });
  assert.deepEqual(quantize(pixels, "sqrt"), { values: Uint8Array.of(0, 128, 255), scale: 0.5 });
  assert.deepEqual(quantize(new Float32Array(2), "linear"), { values: new Uint8Array(2), scale: 0 });
});
