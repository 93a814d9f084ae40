import assert from "node:assert/strict";
import test from "node:test";
import { type Context, nearestTokens, tokenPairs, partsOf, passagePlace, type Passage, unmarked } from "../src/views/ask/documents";

const token = (text: string) => ({ text, piece: text, id: 0, segment: 0, special: false, continues: false, span: null });
const context = (question: string[], passage: string[], cells: number[]): Context => ({
  before: [], after: [], score: 0.5, tokens: [question.map(token), passage.map(token)] as unknown as Context["tokens"], cells: Float32Array.from(cells),
});

test("a text is cut where a mark begins or ends, and characters count as in Python", () => {
  const parts = partsOf("a 🦆 duck", [{ start: 2, stop: 3, value: "bird" }, { start: 2, stop: 8, value: "answer" }]);
  assert.deepEqual(parts, [{ text: "a ", values: [] }, { text: "🦆", values: ["bird", "answer"] }, { text: " duck", values: ["answer"] }]);
  assert.equal(partsOf("<script>", []).map(({ text }) => text).join(""), "<script>");
  assert.deepEqual(partsOf("", []), []);
});

test("the map has the nearest tokens of the passage, in their order", () => {
  const passage = Array.from({ length: 40 }, (_, j) => `t${j}`);
  const cells = [...passage.map((_, j) => (j % 2 ? j / 40 : 0)), ...passage.map(() => -1)];
  const { tokens: [rows, columns], cells: chosen } = nearestTokens(context(["a", "b"], passage, cells));
  assert.deepEqual(rows.map(({ text }) => text), Array.from({ length: 16 }, (_, n) => `t${9 + 2 * n}`));
  assert.deepEqual(columns.map(({ text }) => text), ["a", "b"]);
  assert.equal(chosen.length, 32);
  assert.deepEqual([...chosen.slice(0, 2)], [Math.fround(9 / 40), -1]);
});

test("each token of the question has its nearest", () => {
  const pairs = tokenPairs(context(["a", "b"], ["x", "y"], [0.25, 0.5, 0.75, -1]));
  assert.deepEqual(pairs.map(([mine, its, cosine]) => [mine.text, its.text, cosine]), [["a", "y", 0.5], ["b", "x", 0.75]]);
});

test("a place has a line, a page, or neither", () => {
  const place = (some: object) => passagePlace({ file: "f", line: 0, page: 0, ...some } as Passage);
  assert.deepEqual([place({ line: 3 }), place({ page: 2 }), place({})], ["f:3", "f, page 2", "f"]);
});

test("a sentence loses the marks of Markdown, and no others", () => {
  assert.equal(unmarked("**Select** runs, *Compare* them, `look` at both"), "Select runs, Compare them, look at both");
  for (const text of ["2 * 3 * 4", "2**3**4", "snake_case_name and __init__.py's _x_", "a * b", "**open"]) assert.equal(unmarked(text), text);
});
