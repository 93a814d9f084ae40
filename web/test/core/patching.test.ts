import assert from "node:assert/strict";
import { test } from "node:test";
import { changesOf, formatPatch, headComponent, initialPatch, optionsOf, readPatch, type Sweep } from "../../src/core/patching";
import { toSvg } from "../../src/core/figure";
import { cellAt, cellsOf, geometryOf, captioned, figureOf, labelsOf, shownOf } from "../../src/views/patch/geometry";
import { pair } from "../sessions";

const sweep: Sweep = {
  component_kind: "heads", map: "self", mode: "zero", direction: "denoising", metric: "logit of <b>", target: "<b>", against: null, before: 2, other: null,
  rows: ["0", "1"], columns: ["0", "1", "2"], components: [["a.z[0]", "a.z[1]", null], ["b.z[0]", "b.z[1]", "b.z[2]"]],
  values: [[2, 1, null], [2.5, 4, 2]], normalised: null, at: 3, classes: { 7: { name: "x", logit: 1, probability: 0.5 } },
  changes: [[], [{ number: 7, logit: 0, probability: 0.25 }], [], [], []],
};

test("a link holds the sweep, the cell and the heads that are off", () => {
  const patch = { ...initialPatch(), kind: "residual" as const, mode: "swap" as const, other: "a & b", cell: [1, 2] as [number, number] };
  const pairs = formatPatch(patch, [["self", 1, 2], ["self", 0, 0]]);
  const notices: string[] = [];
  const read = readPatch(new URLSearchParams(pairs), pair(), notices);
  assert.deepEqual(read, { patch, off: [["self", 1, 2], ["self", 0, 0]] });
  assert.deepEqual(notices, []);
  assert.deepEqual(formatPatch(initialPatch(), []), []);
});

test("what a link asks for and is not there is said", () => {
  const notices: string[] = [];
  const { patch, off } = readPatch(new URLSearchParams("p.kind=neurons&p.cell=x&off=self.9.0,other.0.0,self.1.1"), pair(), notices);
  assert.deepEqual([patch.kind, patch.cell, off], ["heads", null, [["self", 1, 1]]]);
  assert.equal(notices.length, 3);
});

test("only a swap sends the other text", () => {
  const state = { ...initialPatch(), other: "text", target: "" };
  assert.deepEqual([optionsOf(state, null).other, optionsOf({ ...state, mode: "swap" }, 4).other, optionsOf(state, null).target], [null, "text", null]);
  assert.equal(headComponent(pair().maps[0], 2, 3), "blocks.2.attn.z[3]");
});

test("classes of a component, before and after", () => {
  assert.deepEqual(changesOf(sweep, "a.z[1]"), [{ name: "x", logit_before: 1, logit_after: 0, probability_before: 0.5, probability_after: 0.25 }]);
  assert.equal(changesOf({ ...sweep, changes: [] }, "a.z[1]"), null);
});

test("what is shown: the change, or of two texts the way from corrupt to clean", () => {
  assert.deepEqual(shownOf(sweep), { values: [[0, -1, null], [0.5, 2, 0]], neutral: 0, range: 2 });
  const noising = shownOf({ ...sweep, direction: "noising", normalised: [[1, 0.5, null], [1, 1, 1]] });
  assert.deepEqual([noising.neutral, noising.range], [1, 0.5]);
});

test("cells, labels and the drawing", () => {
  const geometry = geometryOf(sweep, 900);
  const { left, cell } = geometry;
  assert.deepEqual(cellAt(geometry, sweep, left + 1.5 * cell.width, 0.5 * cell.height), [0, 1]);
  assert.equal(cellAt(geometry, sweep, left + 2.5 * cell.width, 0.5 * cell.height), null); // a layer with fewer heads
  assert.equal(cellAt(geometry, sweep, left - 1, 1), null);
  assert.deepEqual(cellsOf(sweep, geometry, false).map(({ text }) => text), ["0", "\u22121.00", null, "0.50", "2.00", "0"]);
  assert.deepEqual(labelsOf(sweep, geometry).map(({ text }) => text), ["layer 0", "1", "head 0", "1", "2"]);
  const ink = { ink: "#000", soft: "#444", panel: "#fff", line: "#ccc", dark: false, font: "sans-serif" };
  assert.match(toSvg(captioned(figureOf(sweep, geometry, ink), sweep.metric, ink.soft), ink.panel, ink.font), /logit of &#60;b&#62;/);
  const wide = geometryOf({ ...sweep, component_kind: "residual", columns: Array(500).fill("word") as string[] }, 600);
  assert.ok(wide.every > 1 && wide.width > 600); // it scrolls, and labels do not overlap
});
