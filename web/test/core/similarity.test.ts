import assert from "node:assert/strict";
import { test } from "node:test";
import { byWords, largestOf, readSimilarity, sharesOf, type Similarity, similarityPairs } from "../../src/core/similarity";

const token = (text: string, continues = false) => ({ text, piece: text, id: 1, segment: 0, special: false, continues, span: null });
const map: Similarity = {
  measure: "cosine", similarity: 21, notes: [], cells: Float64Array.from([1, 2, 3, 4, 5, 6]),
  tokens: [[token("a"), token("b")], [token("c"), token("d", true), token("e")]],
};

test("a word has the sum of its pieces, and nothing is lost", () => {
  const words = byWords(map);
  assert.deepEqual(words.tokens[1].map(({ text }) => text), ["cd", "e"]);
  assert.deepEqual([...words.cells], [3, 3, 9, 6]);
  assert.deepEqual([...byWords(words).cells], [...words.cells]);
});

test("shares are the sums of rows and of columns", () => {
  assert.deepEqual(sharesOf(map).map((share) => [...share]), [[6, 15], [5, 7, 9]]);
  assert.equal(largestOf(Float64Array.from([1, -3, 2])), 3);
});

test("what is pinned goes through a link", () => {
  const state = { words: false, row: 3, column: 0 };
  assert.deepEqual(readSimilarity(new URLSearchParams(similarityPairs(state))), state);
  assert.deepEqual(similarityPairs({ words: true, row: null, column: null }), []);
  assert.equal(readSimilarity(new URLSearchParams("sr=-1")).row, null);
});
