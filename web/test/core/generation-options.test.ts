import assert from "node:assert/strict";
import { test } from "node:test";
import { FIELDS, methodOf, initialGeneration, moreOptions, OPTIONS, readPairs, valueOf, within, withMethod, withValue, formatPairs } from "../../src/core/generation-options";

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
  ["g.temperature=0", /temperature 0, which it cannot be: leaving it out/],
  ["g.min_p=1.5", /min_p 1.5: taking 1/],
  ["g.num_return_sequences=33", /num_return_sequences 33: taking 32/],
  ["g.early_stopping=perhaps", /early_stopping perhaps, which it cannot be/],
  ["g.penalty_alpha=0.6", /penalty_alpha 0.6, which is no option here: leaving it out/],
  ["g.max_new_tokens=99999", /max_new_tokens 99999: taking 1024/],
  ["g.top_p=much", /top_p much, which it cannot be: leaving it out/],
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

test("every option of the schema has a control for some method, of the kind of its values", () => {
  const shown = new Set((["greedy", "sample", "beams"] as const).flatMap((method) => [...moreOptions(method).values()].flat().map(({ name }) => name)));
  for (const { name } of Object.values(FIELDS)) shown.add(name);
  shown.add("do_sample"); // the method itself
  assert.deepEqual([...shown].sort(), OPTIONS.map(({ name }) => name).sort());
  const kinds = Object.fromEntries(OPTIONS.map(({ name, kind }) => [name, kind]));
  assert.deepEqual(
    ["max_time", "do_sample", "regex", "json_schema", "stop_strings", "choices", "early_stopping"].map((name) => kinds[name]),
    ["number", "boolean", "text", "text", "texts", "texts", "choice"],
  );
  assert.deepEqual([...moreOptions("greedy").keys()], ["Text generation", "Logits processors", "Constrained decoding"]);
  assert.ok(moreOptions("sample").get("Sampling")!.some(({ name }) => name === "min_p"));
});

test("a number is within the limits of the library, and at none that it leaves out", () => {
  assert.deepEqual([within(FIELDS.tokens, "5000"), within(FIELDS.tokens, "-1"), within(FIELDS.beams, "1"), within(FIELDS.topP, "2")], [1024, 0, 2, 1]);
  assert.deepEqual([within(FIELDS.temperature, "0"), within(FIELDS.temperature, "7"), within(FIELDS.topK, "2.4"), within(FIELDS.topK, ""), within(FIELDS.topK, "x")], [null, 7, 2, null, null]);
});

test("texts survive a link, those that look like numbers and lists too", () => {
  const options = { stop_strings: ["The end", "a,b"], regex: "12", bad_words: "[x", choices: ["yes"], early_stopping: "never", json_schema: '{"type":"string"}' };
  const text = formatPairs({ ...initialGeneration(), options }).map((pair) => pair.map(encodeURIComponent).join("=")).join("&");
  const { state, notices } = through(text);
  assert.deepEqual([state.options, notices], [options, []]);
});
