import assert from "node:assert/strict";
import { test } from "node:test";
import { csv, distinct, records } from "../../src/core/csv";

test("commas, quotes and line ends are quoted; what a spreadsheet would compute is not computed", () => {
  assert.equal(csv([["token", "p"], ['a "b", c', 0.5], ["=1+1", -1]]), 'token,p\r\n"a ""b"", c",0.5\r\n\'=1+1,-1\r\n');
});

test("no formula begins where semicolons or tabs separate cells, or in full width", () => {
  const shown: [string, string][] = [["good film;=cmd|' /C calc'!A0;x", "good film;'=cmd|' /C calc'!A0;x"], ["\uff1d1+1", "'\uff1d1+1"], ["\tx", "'\tx"], ["a -b; c", "a -b; c"]];
  for (const [cell, written] of shown) assert.equal(csv([[cell]]), `${written}\r\n`);
});

test("no two columns have one name", () => {
  assert.deepEqual(distinct(["step", "mood", "mood", "mood (2)", "mood"]), ["step", "mood", "mood (2)", "mood (2) (2)", "mood (3)"]);
});

test("records are named by the first row", () => {
  assert.deepEqual(records([["a", "b"], [1, "x"], [2, "y"]]), [{ a: 1, b: "x" }, { a: 2, b: "y" }]);
});
