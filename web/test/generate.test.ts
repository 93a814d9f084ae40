import assert from "node:assert/strict";
import { test } from "node:test";
import type { TreeNode, TraceStep } from "../src/core/types";
import { lanes } from "../src/views/generate/lanes";
import { gaps, parts } from "../src/views/generate/token-text";
import { surprise } from "../src/views/generate/token-colours";
import { TokenTree } from "../src/views/generate/token-tree";

const node = (id: number, parent: number, depth: number, token: number, change: Partial<TreeNode> = {}): TreeNode => ({
  id, parent, depth, token, text: ` t${token}`, piece: `t${token}`, special: false, logprob: -1, filtered_logprob: -1, total: -depth, rank: 1, chosen: "method", ...change,
});
const step = (nodes: TreeNode[], live: [number, number][], ended: [number, number][] = []): TraceStep => ({
  nodes, choices: [], live: live.map(([at, score]) => ({ node: at, score })), ended: ended.map(([at, score]) => ({ node: at, score, reason: "end_token" })),
});

/** Greedy: 7 8 9; by hand 5 instead of 8, which goes on with 6. */
function branched(): TokenTree {
  const tree = new TokenTree();
  tree.add(step([node(1, 0, 1, 7)], [[1, -1]]), true);
  tree.add(step([node(2, 1, 2, 8)], [[2, -2]]), true);
  tree.add(step([node(3, 2, 3, 9)], [], [[3, -3]]), true);
  tree.close({ answers: [{ node: 3, score: -3 }], ended: [{ node: 3, score: -3, reason: "end_token" }], seconds: 0, count: 3 }, true);
  tree.add(step([node(4, 1, 2, 5, { chosen: "hand" })], [[4, -4]]), false);
  tree.add(step([node(5, 4, 3, 6)], [[5, -5]]), false);
  tree.close({ answers: [{ node: 5, score: -5 }], ended: [{ node: 5, score: -5, reason: "max_new_tokens" }], seconds: 0, count: 5 }, false);
  return tree;
}

test("a branch stands beside what was written first, and both stay", () => {
  const tree = branched();
  assert.equal(tree.first, 3);
  assert.deepEqual(tree.path(5).map(({ token }) => token), [7, 5, 6]);
  assert.deepEqual(tree.branches().map(({ id }) => id), [4]);
  assert.deepEqual([tree.leaf(1), tree.leaf(2), tree.leaf(4), tree.leaf(0)], [3, 3, 5, 3]);
  assert.deepEqual(tree.ended.map(({ node: at }) => at), [5, 3]);
  assert.equal(tree.text(tree.path(3)), " t7 t8 t9");
});

test("a link's tokens are followed as far as they lead", () => {
  const tree = branched();
  assert.deepEqual(tree.find([7, 5, 6]), { node: 5, rest: [] });
  assert.deepEqual(tree.find([7, 8, 1, 2]), { node: 2, rest: [1, 2] });
  assert.deepEqual(tree.find([]), { node: 0, rest: [] });
});

test("a branch that was put away is gone from the picture, and comes back when it is taken again", () => {
  const tree = branched();
  tree.hide(4);
  assert.deepEqual(tree.levels().map((level) => level.map(({ id }) => id)), [[1], [2], [3]]);
  assert.deepEqual(tree.branches(), []);
  assert.equal(tree.isShown(5), false);
  assert.equal(tree.child(1, 5), 4);
  assert.deepEqual(tree.branches().map(({ id }) => id), [4]);
});

test("where somebody wrote on is no end any more, and the text goes on", () => {
  const tree = branched();
  tree.add(step([node(6, 3, 4, 1)], [[6, -4]]), false);
  tree.close({ answers: [{ node: 6, score: -4 }], ended: [{ node: 6, score: -4, reason: "max_new_tokens" }], seconds: 0, count: 6 }, false);
  assert.deepEqual([tree.leaf(tree.first), tree.leaf(1)], [6, 6]);
  assert.deepEqual(tree.ended.map(({ node: at }) => at), [6, 5]);
});

test("tokens of one branch by hand are one branch, another one within it is its own", () => {
  const tree = branched();
  tree.add(step([node(6, 5, 4, 1, { chosen: "hand" }), node(7, 6, 5, 2, { chosen: "hand" })], [[7, -7]]), false);
  tree.add(step([node(8, 5, 4, 3, { chosen: "hand" })], [[8, -7]]), false);
  assert.deepEqual(tree.branches().map(({ id }) => id), [4, 6, 8]);
});

test("what left the pool of a search is no end any more", () => {
  const tree = new TokenTree();
  tree.add(step([node(1, 0, 1, 7), node(2, 0, 1, 8)], [[2, -1]], [[1, -5]]), true);
  tree.add(step([node(3, 2, 2, 9), node(4, 2, 2, 6)], [[4, -2]], [[3, -2]]), true);
  assert.deepEqual(tree.ended.map(({ node: at }) => at), [3]);
});

test("a beam keeps its lane; its likeliest child inherits it, others take the nearest that is free", () => {
  const levels = [
    [node(1, 0, 1, 7), node(2, 0, 1, 8)],
    [node(3, 1, 2, 7, { total: -3 }), node(4, 1, 2, 8)], // the second beam ends
    [node(5, 4, 3, 7), node(6, 3, 3, 8), node(7, 4, 3, 9)],
  ];
  const found = lanes(levels);
  assert.deepEqual([1, 2, 3, 4, 5, 6, 7].map((id) => found.get(id)), [0, 1, 1, 0, 0, 1, 2]);
  for (const level of levels) assert.equal(new Set(level.map(({ id }) => found.get(id))).size, level.length, "no two in one place");
});

test("what the method wrote keeps its line when a branch leaves it", () => {
  const tree = branched();
  const found = lanes(tree.levels());
  assert.deepEqual([1, 2, 3].map((id) => found.get(id)), [0, 0, 0]);
  assert.deepEqual([4, 5].map((id) => found.get(id)), [1, 1]);
});

test("white space stays white space, and what is nothing else can be pointed at", () => {
  assert.deepEqual(parts(" cat", "_cat", false), { before: " ", body: "cat", after: "" });
  assert.deepEqual(parts("cat ", "cat_", false), { before: "", body: "cat", after: " " });
  assert.deepEqual(parts("\n\n", "\n\n", false), { before: "", body: "↵↵", after: "\n\n" });
  assert.equal(parts("", "<0xE2>", false).body, "·");
  assert.equal(parts("", "</s>", true).body, "</s>");
});

test("surprise grows evenly with the log-probability, and ends", () => {
  assert.equal(surprise(0), 0);
  assert.ok(Math.abs(surprise(Math.log(0.1)) - 1 / 3) < 1e-9);
  assert.equal(surprise(-99), 1);
  assert.equal(surprise(-Infinity), 1);
});

test("what stands between tokens is found in the text, whatever a tokenizer has done to their letters", () => {
  const token = (text: string, special = false, continues = false) => ({ text, piece: text, id: 0, segment: 0, special, continues, span: null });
  assert.deepEqual(gaps([token("<s>", true), token("once", false, true), token("up", false, true), token("on", false, true)], "Once  upon"), ["", " ", "  ", ""]);
  assert.deepEqual(gaps([token("Hi"), token("#!"), token("you", false, true)], "Hi there"), ["", " ", ""]);
});
