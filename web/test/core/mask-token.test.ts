import assert from "node:assert/strict";
import { test } from "node:test";
import { masked } from "../../src/core/mask-token";
import { pair } from "../sessions";

const session = { ...pair(), texts: ["𝒜 b", "c d"] };
session.model = { ...session.model, mask_token: "[MASK]" };
const token = { text: "b", piece: "b", id: 1, segment: 0, special: false, continues: false, span: [2, 3] as [number, number] };

test("a token is replaced by its characters, counted in code points", () => {
  assert.deepEqual(masked(session, token), ["𝒜 [MASK]", "c d"]);
  assert.deepEqual(masked(session, { ...token, segment: 1 }), ["𝒜 b", "c [MASK]"]);
});

test("the space before a token stays", () => {
  assert.deepEqual(masked(session, { ...token, span: [1, 3] }), ["𝒜 [MASK]", "c d"]);
});

test("what is of no text cannot be hidden, nor where the model knows no mask", () => {
  assert.equal(masked(session, { ...token, special: true }), null);
  assert.equal(masked(session, { ...token, segment: null }), null);
  assert.equal(masked(session, { ...token, span: null }), null);
  assert.equal(masked(pair(), token), null);
});

test("a token of the target is of the second text, where that was given", () => {
  const translation = { ...session, streams: { source: [token], target: [{ ...token }] }, texts: ["𝒜 b", "𝒜 d"] };
  const written = translation.streams.target[0];
  assert.deepEqual(masked(translation, token), ["𝒜 [MASK]", "𝒜 d"]);
  assert.deepEqual(masked(translation, written), ["𝒜 b", "𝒜 [MASK]"]);
  assert.equal(masked({ ...translation, texts: ["𝒜 b"] }, written), null, "the model's own");
});
