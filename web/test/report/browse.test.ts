import assert from "node:assert/strict";
import { test } from "node:test";
import { groupTitle, grouped, matching, readState, toggled, writtenState } from "../../src/report/browse";
import { plainRows } from "../../src/report/spreadsheet";
import type { Browsing } from "../../src/report/browse";
import type { Cell, TableData } from "../../src/report/types";

const HEADINGS = ["run", "state", "f1", "training.rate"];
const table = (rows: Cell[][]): TableData => ({
  caption: "Runs", headings: HEADINGS, rows, words: [0, 1], shades: null, reference: null, baselines: [], folded: false, note: "", browse: { measure: 2, address: "" },
});
const RUNS = table([
  ["a/0", "ended", "0.9", "1e-4"],
  ["a/1", "running", { text: "0.7 [0.6, 0.8]", value: 0.7, low: 0.6, high: 0.8, signed: false }, "1e-3"],
  ["b", "ended", "–", "1e-4"],
  ["Ünder & =", "ended", "0.5", ""],
]);
const NAMES = new Set(["a/0", "a/1", "b", "Ünder & ="]);

test("the state comes back from the address, and what is as at first is not in it", () => {
  const first = ["a/0"], start: Browsing = { sort: null, find: "", by: null, picked: first };
  assert.equal(writtenState(start, HEADINGS, first), "");
  assert.deepEqual(readState("", HEADINGS, NAMES, first), start);
  for (const state of [
    { ...start, sort: { column: 3, down: true }, find: "a=b & c#", by: 1 },
    { ...start, sort: { column: 2, down: false }, picked: ["a/1", null, "Ünder & ="] },
  ]) assert.deepEqual(readState(writtenState(state, HEADINGS, first), HEADINGS, NAMES, first), state);
});

test("an address without rows has none selected, and one of columns and rows that are gone is harmless", () => {
  const cleared = writtenState({ sort: null, find: "", by: null, picked: [] }, HEADINGS, ["a/0"]);
  assert.deepEqual(readState(cleared, HEADINGS, NAMES, ["a/0"]).picked.filter(Boolean), []);
  assert.deepEqual(readState("sort=gone&by=gone&pick=gone//b", HEADINGS, NAMES, []), { sort: null, find: "", by: null, picked: [null, "b"] });
});

test("a row has all words, in any column; of a setting it has the value", () => {
  const found = (find: string) => RUNS.rows.map((_, i) => i).filter(matching(RUNS, find));
  assert.deepEqual(found(""), [0, 1, 2, 3]);
  assert.deepEqual(found("ENDED  a"), [0]);
  assert.deepEqual(found("0.7"), [1]);
  assert.deepEqual(found("rate=1e-4"), [0, 2]);
  assert.deepEqual(found("training.rate=1e-4 b"), [2]);
  assert.deepEqual(found("rate="), [3], "without a value: where there is none");
  assert.deepEqual(found("="), [3], "no column has this name: it is a text");
  assert.deepEqual(found("nothing"), []);
});

test("groups are in the order of their values, with the mean of their rows", () => {
  const groups = grouped(RUNS, [2, 1, 0, 3], 3);
  assert.deepEqual(groups, [{ value: "1e-3", rows: [1] }, { value: "1e-4", rows: [2, 0] }, { value: "", rows: [3] }].sort((a, b) => (a.value === "" ? 1 : b.value === "" ? -1 : Number(a.value) - Number(b.value))));
  assert.equal(groupTitle(RUNS, 3, "1e-4", [0, 2]), "training.rate 1e-4 · 2 rows · f1: 0.9");
  assert.equal(groupTitle(RUNS, 1, "ended", [0, 1, 3]), "state ended · 3 rows · f1: mean 0.7, from 0.5 to 0.9");
  assert.equal(groupTitle(RUNS, 3, "", [2]), "training.rate – · 1 row");
  assert.deepEqual(grouped(RUNS, [1, 0], null), [{ value: "", rows: [1, 0] }]);
});

test("a spreadsheet has numbers as such, times in seconds, and nothing where there is no number", () => {
  const interval = { text: "0.7 [0.6, 0.8]", value: 0.7, low: 0.6, high: "NaN", signed: false };
  const runs = { ...table([["1,000", "10,826", "0:22", "null", interval], ["b", "–", "–", "adamw", "–"], ["c", "200 of 10,826", "1:00:01", "\u22121.5", "–"]]), headings: ["run", "steps", "time", "rate", "f1"], words: [0] };
  assert.deepEqual(plainRows(runs), [
    ["run", "steps", "time in seconds", "rate", "f1", "f1 low", "f1 high"],
    ["1,000", 10826, 22, "", 0.7, 0.6, ""],
    ["b", "", "", "adamw", "", "", ""],
    ["c", "200 of 10826", 3601, -1.5, "", "", ""],
  ]);
  const counts = { ...table([["joy", { text: "1,200 · 66.7%", value: 0.66667, low: null, high: null, signed: false, from_zero: true }]]), headings: ["class", "train"], words: [0] };
  assert.deepEqual(plainRows(counts), [["class", "train", "train share"], ["joy", 1200, 0.66667]]);
  const named = { ...table([["a", "1,000 rows"], ["b", "–"]]), headings: ["run", "data"], words: [0, 1] };
  assert.deepEqual(plainRows(named), [["run", "data"], ["a", "1,000 rows"], ["b", ""]], "words stay as they are");
  const turned = { ...table([["steps", "600"], ["time of steps", "0:22"]]), headings: ["run", "mood"], words: [0] };
  assert.deepEqual(plainRows(turned), [["run", "mood"], ["steps", 600], ["time of steps in seconds", 22]]);
});

test("a row that is selected keeps its colour, and a place that is free is taken again", () => {
  let picked = ["a", "b", "c"].reduce<(string | null)[]>(toggled, []);
  picked = toggled(picked, "b");
  assert.deepEqual(picked, ["a", null, "c"]);
  assert.deepEqual(toggled(picked, "d"), ["a", "d", "c"]);
  assert.deepEqual(toggled(toggled(picked, "c"), "a"), []);
});
