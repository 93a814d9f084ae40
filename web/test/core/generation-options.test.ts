import assert from "node:assert/strict";
import { test } from "node:test";
import { FIELDS, methodOf, initialGeneration, readPairs, valueOf, withMethod, withValue, formatPairs } from "../../src/core/generation-options";

const through = (text: string) => {
  const notices: string[] = [];
  return { state: readPairs(new URLSearchParams(text), notices), notices };
};

test("a writing survives being written and read", () => {
  const state = {
    options: { max_new_tokens: 12, do_sample: true, temperature: 0.8, top_k: 0, seed: 7, stop_strings: "The end" }, path: [263, 9, 77], at: 2, shades: "head" as const,
  };
  const text = formatPairs(state).map((pair) => pair.map(encodeURIComponent).join("=")).join("&");
  assert.equal(text, "g.max_new_tokens=12&g.do_sample=true&g.temperature=0.8&g.top_k=0&g.seed=7&g.stop_strings=The%20end&path=263.9.77&at=2&shades=head");
  assert.deepEqual(through(text), { state, notices: [] });
  assert.deepEqual(formatPairs(initialGeneration()), []);
  assert.deepEqual(through(""), { state: initialGeneration(), notices: [] });
});

const asked: [string, RegExp][] = [
  ["g.temperature=0", /temperature 0: taking 0.05/],
  ["g.max_new_tokens=99999", /max_new_tokens 99999: taking 1024/],
  ["g.top_p=much", /top_p much: taking 1/],
  ["path=1.x", /the branch in this link cannot be read/],
  ["shades=rainbow", /shades “rainbow”/],
];
for (const [text, said] of asked) {
  test(`a link to what cannot be shows the nearest and says so: ${text}`, () => {
    const { notices } = through(text);
    assert.equal(notices.length, 1);
    assert.match(notices[0], said);
  });
}

test("another method drops what only the one before uses, and keeps the rest", () => {
  const sampled = { max_new_tokens: 9, repetition_penalty: 1.2, do_sample: true, temperature: 0.5, seed: 1 };
  assert.equal(methodOf(sampled), "sample");
  assert.deepEqual(withMethod(sampled, "greedy"), { max_new_tokens: 9, repetition_penalty: 1.2 });
  const beams = withMethod(sampled, "beams");
  assert.deepEqual(beams, { max_new_tokens: 9, repetition_penalty: 1.2, num_beams: 4 });
  assert.equal(methodOf(beams), "beams");
  assert.deepEqual(withMethod({ ...beams, num_beams: 6, length_penalty: 2 }, "sample"), { max_new_tokens: 9, repetition_penalty: 1.2, do_sample: true });
  assert.equal(methodOf({ num_beams: 1 }), "greedy");
});

test("what is as it would be anyway is left out", () => {
  assert.deepEqual(withValue({ temperature: 0.5 }, FIELDS.temperature, 1), {});
  assert.deepEqual(withValue({}, FIELDS.tokens, 12), { max_new_tokens: 12 });
  assert.equal(valueOf(FIELDS.tokens, {}), 40);
});
