import assert from "node:assert/strict";
import { test } from "node:test";
import { elide, inCell, inkOn, scene, type SceneInput } from "../src/views/matrix/layout";

const input = (changes: Partial<SceneInput>): SceneInput => ({
  view: { x: 0, y: 0, cell: { width: 40, height: 40 } },
  plot: { width: 160, height: 160 },
  matrix: { width: 4, height: 4 },
  mask: { causal: false, window: null },
  row: (place) => `r${place}`,
  column: (place) => `c${place}`,
  fit: (text) => text,
  exact: (row, column) => (row === 2 ? column / 10 : undefined),
  pinned: null,
  share: (p) => p,
  dark: true,
  ...changes,
});

test("every token has its label beside its cells when there is room", () => {
  const { rows, columns } = scene(input({}));
  assert.deepEqual(rows.map(({ text, y }) => [text, y]), [["r0", 20], ["r1", 60], ["r2", 100], ["r3", 140]]);
  assert.deepEqual(columns.map(({ text, x }) => [text, x]), [["c0", 20], ["c1", 60], ["c2", 100], ["c3", 140]]);
});

test("thinned labels say which token they are", () => {
  const { rows } = scene(input({ view: { x: 0, y: 0, cell: { width: 2, height: 2 } }, plot: { width: 100, height: 100 }, matrix: { width: 50, height: 50 } }));
  assert.deepEqual(rows.map((label) => label.text), ["0 r0", "10 r10", "20 r20", "30 r30", "40 r40"]);
});

test("numbers stand only where they are exact, and only in cells that are large enough", () => {
  assert.deepEqual(scene(input({})).numbers.map((cell) => cell.text), [".00", ".10", ".20", ".30"]);
  assert.equal(scene(input({ view: { x: 0, y: 0, cell: { width: 33, height: 33 } } })).numbers.length, 0);
});

test("a drawn out cell is marked by both its sides, and has a number only if the narrower one has room for it", () => {
  const view = { x: 0, y: 0, cell: { width: 4, height: 40 } };
  const made = scene(input({ view, matrix: { width: 40, height: 4 }, pinned: { row: 2, column: 3 } }));
  assert.deepEqual(made.pinned, { x: 12, y: 80, width: 4, height: 40 });
  assert.deepEqual(made.rows.map(({ text, y }) => [text, y]), [["r0", 20], ["r1", 60], ["r2", 100], ["r3", 140]]);
  assert.deepEqual(made.columns.map(({ text, x }) => [text, x]).slice(0, 2), [["0 c0", 2], ["5 c5", 22]]);
  assert.deepEqual([made.across, made.down, made.numbers], [[], [0, 40, 80, 120, 160], []]);
  assert.deepEqual([made.width, made.height], [160, 160]);
});

test("a causal map's hidden half is a staircase, and no number stands in it", () => {
  const { hidden, numbers } = scene(input({ mask: { causal: true, window: null } }));
  assert.equal(hidden.length, 1);
  assert.deepEqual(hidden[0].slice(0, 4), [[40, 0], [40, 40], [80, 40], [80, 80]]);
  assert.equal(numbers.length, 3);
  assert.deepEqual(scene(input({})).hidden, []);
});

test("a causal window hides keys on both sides", () => {
  assert.equal(scene(input({ mask: { causal: true, window: 2 } })).hidden.length, 2);
});

test("long labels are cut, and say so", () => {
  const measure = (text: string) => text.length;
  assert.equal(elide("attention", 9, measure), "attention");
  assert.equal(elide("attention", 5, measure), "atte…");
});

test("numbers in cells have as many digits as fit", () => {
  assert.deepEqual([inCell(0.41234, 40), inCell(0.001, 40), inCell(1, 40), inCell(0.41234, 80), inCell(0.000241, 80)], [".41", ".00", "1.00", "0.4123", "2.4e−4"]);
});

test("ink on a cell is dark on bright colours and bright on dark ones", () => {
  assert.deepEqual([inkOn(0, true), inkOn(1, true)], ["#ffffff", "#10131a"]);
  assert.deepEqual([inkOn(0, false), inkOn(1, false)], ["#10131a", "#ffffff"]);
});
