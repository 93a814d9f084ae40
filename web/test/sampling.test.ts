import assert from "node:assert/strict";
import { test } from "node:test";
import type { Distribution } from "../src/core/types";
import { choices, type Sampling, shaped, sorted } from "../src/views/generate/sampling";

const ALL: Sampling = { temperature: 1, topK: 0, topP: 1 };
const given = (logprobs: number[], more: Partial<Distribution> = {}): Distribution => ({
  node: 0, ids: Uint32Array.from(logprobs, (_, id) => id), logprobs: Float32Array.from(logprobs), rest_logprobs: Float32Array.of(), rest_counts: Uint32Array.of(),
  vocabulary: logprobs.length, tokens: [], ...more,
});
/** Shares by id, and how many are left. */
function shape(logprobs: number[], change: Partial<Sampling>, more: Partial<Distribution> = {}) {
  const order = sorted(given(logprobs, more));
  const found = shaped(order, { ...ALL, ...change });
  const probs = new Array<number>(logprobs.length).fill(0);
  order.ids.forEach((id, at) => (probs[id] = found.probs[at]));
  return { ...found, probs, all: found.probs };
}
const logs = (...probs: number[]) => probs.map(Math.log);
const near = (found: ArrayLike<number>, wanted: number[]) =>
  wanted.forEach((value, at) => assert.ok(Math.abs(found[at] - value) < 1e-6, `${Array.from(found)}`));

test("left alone, the shares are the model's, and the entropy theirs", () => {
  const found = shape(logs(0.25, 0.5, 0.125, 0.125), {});
  near(found.probs, [0.25, 0.5, 0.125, 0.125]);
  assert.equal(found.allowed, 4);
  assert.ok(Math.abs(found.entropy - 1.75) < 1e-6);
  assert.ok(Math.abs(choices(shape(logs(0.25, 0.25, 0.25, 0.25), {}).entropy) - 4) < 1e-6);
});

test("temperature sharpens below one, flattens above, and is greedy at nought", () => {
  near(shape(logs(0.6, 0.3, 0.1), { temperature: 0.5 }).probs, [36 / 46, 9 / 46, 1 / 46]);
  assert.ok(shape(logs(0.6, 0.3, 0.1), { temperature: 2 }).probs[0] < 0.6);
  const cold = shape(logs(0.3, 0.3, 0.4), { temperature: 0 });
  near(cold.probs, [0, 0, 1]);
  assert.deepEqual([cold.allowed, cold.entropy], [1, 0]);
  near(shape(logs(0.2, 0.4, 0.4), { temperature: 0 }).probs, [0, 1, 0]);
});

test("top-k keeps what is as likely as the last of them", () => {
  near(shape(logs(0.4, 0.2, 0.2, 0.2), { topK: 1 }).probs, [1, 0, 0, 0]);
  assert.equal(shape(logs(0.4, 0.2, 0.2, 0.2), { topK: 2 }).allowed, 4);
  assert.equal(shape(logs(0.4, 0.3, 0.3), { topK: 9 }).allowed, 3);
});

test("top-p keeps the fewest that reach p, the likeliest always; of equals those with larger ids", () => {
  const four = logs(0.5, 0.3, 0.15, 0.05);
  near(shape(four, { topP: 0.79 }).probs, [0.625, 0.375, 0, 0]);
  assert.equal(shape(four, { topP: 0.81 }).allowed, 3);
  assert.equal(shape(four, { topP: 0.01 }).allowed, 1);
  near(shape(logs(0.4, 0.3, 0.3), { topP: 0.69 }).probs, [4 / 7, 0, 3 / 7]);
});

test("top-p judges what temperature and top-k have left", () => {
  const four = logs(0.4, 0.3, 0.2, 0.1);
  near(shape(four, { topK: 2, topP: 0.6 }).probs, [4 / 7, 3 / 7, 0, 0]);
  near(shape(four, { topK: 2, topP: 0.57 }).probs, [1, 0, 0, 0]);
});

test("rules come before all else, and what may not be said takes no part", () => {
  const found = shape(logs(0.6, 0.2, 0.2), {}, { ruled: Float32Array.of(-Infinity, Math.log(0.2), Math.log(0.2)) });
  near(found.probs, [0, 0.5, 0.5]);
  assert.equal(found.allowed, 2);
  const none = shape([-Infinity, -Infinity], {});
  assert.deepEqual([none.allowed, none.entropy, ...none.probs], [0, 0, 0, 0]);
});

test("bins stand for the tokens that are not listed", () => {
  const bins = { rest_logprobs: Float32Array.of(Math.log(0.001), Math.log(0.02)), rest_counts: Uint32Array.of(100, 5) };
  const found = shape(logs(0.5, 0.3), {}, bins);
  near(found.all, [0.5, 0.3, 0.02, 0.001]);
  assert.equal(found.allowed, 107);
  const whole = shape([...logs(0.5, 0.3), ...new Array(5).fill(Math.log(0.02)), ...new Array(100).fill(Math.log(0.001))], { temperature: 0.7 });
  const part = shape(logs(0.5, 0.3), { temperature: 0.7 }, bins);
  near(part.probs, whole.probs.slice(0, 2));
  assert.ok(Math.abs(part.entropy - whole.entropy) < 1e-6);
  assert.equal(shape(logs(0.5, 0.3), { topP: 0.95 }, bins).allowed, 57, "a bin is cut in its middle");
});
