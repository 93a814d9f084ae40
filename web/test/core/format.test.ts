import assert from "node:assert/strict";
import { test } from "node:test";
import { bytes, count, number, percent, plural, rank, sentence, visible } from "../../src/core/format";

test("a number keeps its significant digits and a real minus sign", () => {
  assert.equal(number(0.410712), "0.4107");
  assert.equal(number(-12.3), "\u221212.30");
  assert.equal(number(0.99996), "1.000");
  assert.equal(number(123456), "123456");
  assert.equal(number(3.21e-7), "3.210e\u22127");
  assert.equal(number(0), "0");
  assert.equal(number(-Infinity), "\u2212∞");
  assert.equal(number(0.9, 2), "0.90");
});

test("a sentence begins with a capital letter, and a path or a name as it is", () => {
  assert.equal(sentence("there is no such run"), "There is no such run.");
  for (const message of ["runs/nb: holds no run.", "mood: has no run “x”.", "journal.jsonl is missing."]) assert.equal(sentence(message), message);
});

test("a share is a percentage, and never a zero that is none", () => {
  assert.equal(percent(0.41), "41%");
  assert.equal(percent(0.0412), "4.1%");
  assert.equal(percent(0.0004), "0.04%");
  assert.equal(percent(0.00001), "<0.01%");
  assert.equal(percent(0), "0%");
  assert.equal(percent(1), "100%");
  assert.deepEqual([0.9949, 0.996, 0.99996, 1 - 1e-7].map(percent), ["99%", "99.6%", ">99.9%", "100%"]);
});

test("counts, sizes and plurals", () => {
  assert.equal(count(22713216), "22,713,216");
  assert.equal(bytes(812), "812 B");
  assert.equal(bytes(3_140_000), "3.1 MB");
  assert.equal(plural(1, "head"), "1 head");
  assert.equal(plural(12, "head"), "12 heads");
});

test("the rank counts from one, and equals share the better place", () => {
  assert.equal(rank([0.1, 0.7, 0.2], 1), 1);
  assert.equal(rank([0.1, 0.7, 0.2], 0), 3);
  assert.equal(rank([0.5, 0.5, 0.1], 1), 1);
});

test("every token can be seen", () => {
  assert.equal(visible(" flies"), "flies");
  assert.equal(visible("\n"), "↵");
  assert.equal(visible("  "), "␣␣");
  assert.equal(visible(""), "∅");
  assert.equal(visible("<script>"), "<script>");
});
