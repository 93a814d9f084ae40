import assert from "node:assert/strict";
import { test } from "node:test";
import { barsHint } from "../../src/report/report";
import { cellsOf, confused, neighbour, numeral, opacity } from "../../src/report/matrix";
import { chooser, cut, places, rowsOf, sheetOf } from "../../src/report/rows";
import { extent, intervalRange, nearest, number, padded, place, significant, ticks, withInterval, withRoom } from "../../src/report/scales";
import { reviewSheet } from "../../src/report/review";
import { coloursOf, placesOf, wholeRange } from "../../src/report/series";
import { dashOf, markOf, spread, svgOf } from "../../src/report/series-drawing";
import { savedAt, toldOf } from "../../src/report/steps";
import { hasArrows, hasBars, numberOf, partsOf, scaleOf, sorted } from "../../src/report/table";
import { axisName, front, scaleOf as tradeOffScale, tableOf } from "../../src/report/trade-off";
import { withAxes } from "../../src/report/unpack";
import type { BrowserData, Cell, Choice, IntervalCell, LineData, SeriesData, TableData, TradeOffData } from "../../src/report/types";

const interval = (value: number | string, low: number | null = null, high: number | null = null, signed = false): IntervalCell => ({
  text: `${value}`, value, low, high, signed,
});
const table = (rows: Cell[][], more: Partial<TableData> = {}): TableData => ({
  caption: "", headings: rows[0].map(() => ""), rows, words: [0], shades: null, reference: null, baselines: [], folded: false, note: "", ...more,
});
const line = (name: string, x: number[], y: (number | string)[], more: Partial<LineData> = {}): LineData => ({
  name, group: "", x, y, low: null, high: null, faint: false, dashed: false, markers: false, bars: false, best: null, ...more,
});
const series = (lines: LineData[], more: Partial<SeriesData> = {}): SeriesData => ({
  type: "series", title: "t", x_label: "step", y_label: "", log_x: false, log_y: false, wide: false, folded: false, note: "", lines, marks: [], ...more,
});

test("ticks are round numbers within the range, powers of ten on a wide logarithmic one", () => {
  assert.deepEqual(ticks(0, 2020, 5), [0, 500, 1000, 1500, 2000]);
  assert.deepEqual(ticks(-1, 1, 4), [-1, -0.5, 0, 0.5, 1]);
  assert.deepEqual(ticks(0.03, 4, 5, true), [0.05, 0.1, 0.2, 0.5, 1, 2]);
  assert.deepEqual(ticks(1e-7, 1, 5, true), [1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1]);
  assert.deepEqual(ticks(3, 3, 5), [3]);
});

test("numbers are written as in the tables of training curves", () => {
  const written = [[0, "0"], [0.41237, "0.4124"], [1240, "1,240"], [5.96e-4, "5.96e-4"], [12_345_678, "1.23e7"], ["NaN", "NaN"], [null, "–"]] as const;
  for (const [x, text] of written) assert.equal(number(x), text);
});

test("places in sorted numbers", () => {
  assert.equal(place([1, 3, 5], 3), 1);
  assert.equal(place([1, 3, 5], 6), 3);
  assert.deepEqual([0, 1.9, 2.1, 9].map((x) => nearest([1, 3, 5], x)), [0, 0, 1, 2]);
});

test("a spike of a faint line does not flatten the rest, one of another line is shown", () => {
  const x = Array.from({ length: 300 }, (_, i) => i);
  const y = x.map((i) => (i === 150 ? 1e6 : 1 + (i % 2)));
  assert.ok(extent([line("raw", x, y, { faint: true })], 0, 300, false)[1] < 3);
  assert.ok(extent([line("smooth", x, y)], 0, 300, false)[1] > 1e6);
  assert.ok(extent([line("smooth", x, y)], 0, 100, false)[1] < 3, "what is not in view does not count");
  assert.deepEqual(extent([line("none", [1], ["NaN"])], 0, 2, false), [0, 1]);
  const [low, high] = extent([line("a", [1, 2], [-1, 0.01], { low: [-2, 0.001], high: [0, 0.1] })], 0, 3, true);
  assert.ok(low > 0 && low < 0.001 && high > 0.1, "a logarithm takes what is above zero");
});

test("a range has a margin, and begins at zero where it comes near", () => {
  assert.deepEqual(padded(0.01, 1)[0], 0.01);
  assert.ok(padded(0.5, 1)[0] < 0.5);
  assert.deepEqual(padded(2, 2, true), [1, 4]);
});

test("bars are on one scale with their intervals, differences with zero", () => {
  const [low, high] = intervalRange([interval(0.5, 0.4, 0.6), interval("NaN")]);
  assert.ok(low < 0.4 && low > 0.38 && high > 0.6);
  assert.ok(intervalRange([interval(0.5, 0.4, 0.6, true)])[0] < 0);
  assert.deepEqual(intervalRange([interval("NaN")]), [0, 1]);
  assert.ok(significant(interval(0.2, 0.1, 0.3, true)) && significant(interval(-0.2, -0.3, -0.1, true)));
  assert.ok(!significant(interval(0.2, -0.1, 0.3, true)) && !significant(interval(0.2, 0.1, 0.3)));
});

test("a column of bars marks the value of the reference; amounts before differences; without an interval it is text", () => {
  const mixed = table([["a", interval(0.9, 0.8, 1)], ["effect", interval(-0.1, -0.2, 0, true)]], { reference: 0 });
  const scale = scaleOf(mixed, 1);
  assert.ok(scale && !scale.signed && scale.reference === 0.9 && scale.low > 0.7);
  assert.equal(scaleOf(table([["a", interval(-0.1, -0.2, 0, true)]]), 1)?.reference, 0);
  assert.equal(scaleOf(table([["a", interval(1)], ["b", "1"]]), 1), null);
  assert.ok(hasBars(mixed) && !hasBars(table([["a", "1"]])));
  assert.match(barsHint([mixed]), /dashed line is the value of a/);
  assert.equal(barsHint([table([["a", "1"]])]), "");
});

test("a baseline so far away that no interval could be seen is an arrow at the end of the scale", () => {
  const rows: Cell[][] = [["ours", interval(0.94, 0.93, 0.95)], ["near", interval(0.89, 0.88, 0.9)], ["most frequent", interval(0, 0, 0)]];
  const far = table(rows, { baselines: [1, 2], reference: 0 });
  assert.ok(scaleOf(far, 1)!.low > 0.8 && hasArrows(far));
  assert.match(barsHint([far]), /An arrow is a baseline beyond the scale\./);
  const two = table(rows.slice(0, 2), { baselines: [1], reference: 0 });
  assert.ok(scaleOf(two, 1)!.low < 0.88 && !hasArrows(two) && !/arrow/.test(barsHint([two])), "what is compared is shown");
  const runs = table(rows, { reference: 0 });
  assert.ok(scaleOf(runs, 1)!.low <= 0 && !hasArrows(runs), "a run is never left out");
});

test("a name is broken between its parts, and only where it is long", () => {
  assert.deepEqual(partsOf("precision_weighted, zero_division=0"), ["precision_weighted, zero_division=0"]);
  assert.deepEqual(partsOf("of models/encoders/emotion_small.json"), ["of models/", "encoders/", "emotion_", "small.", "json"]);
});

test("cells are numbers where they look so", () => {
  const known: [Cell, number][] = [["1,240", 1240], ["12.5 %", 12.5], ["0.91 ± 0.02", 0.91], ["−3", -3], ["1e-5", 1e-5], ["0:42", 42], ["1:00:01", 3601], [interval(2), 2]];
  for (const [cell, value] of known) assert.equal(numberOf(cell), value, JSON.stringify(cell));
  for (const cell of ["", "step 480", "3rd", "v2", interval("NaN")]) assert.ok(Number.isNaN(numberOf(cell)));
});

test("sorting puts numbers before texts and empty cells last, either way, and keeps the order of equals", () => {
  const rows: Cell[][] = [["a", "9"], ["b", ""], ["c", "10"], ["d", "none"], ["e", "9"], ["f", interval(9.5)]];
  const names = (down: boolean) => sorted(rows, { column: 1, down }).map((i) => rows[i][0]).join("");
  assert.equal(names(true), "cfaedb");
  assert.equal(names(false), "aefcdb");
  assert.equal(sorted(rows, null).join(), "0,1,2,3,4,5");
});

const tradeOff: TradeOffData = {
  type: "trade-off", title: "t", x: { label: "size", unit: "MB", log: true, more: false }, y: { label: "f1", unit: "", log: false, more: true },
  points: [["big", 100, 0.9], ["small", 10, 0.8], ["worse", 20, 0.7], ["same", 110, 0.9], ["none", "NaN", 1]].map(([name, x, y]) => ({
    name: String(name), x: interval(x), y: interval(y), size: null, baseline: name === "big", group: null, mark: String(name),
  })),
  groups: [],
};

test("the front of a trade-off holds what no other beats in both amounts", () => {
  assert.deepEqual(front(tradeOff).map(({ name }) => name), ["small", "big"]);
  assert.deepEqual(front({ ...tradeOff, x: { ...tradeOff.x, more: true } }).map(({ name }) => name), ["same"]);
  assert.deepEqual(front({ ...tradeOff, y: { ...tradeOff.y, more: null } }), []);
});

test("the axes of a trade-off hold all points and say what is better; its table says the same", () => {
  const scale = tradeOffScale(tradeOff.points.map(({ x }) => x), tradeOff.x, 5);
  assert.ok([10, 20, 100, 110].every((x) => scale.share(x) > 0 && scale.share(x) < 1));
  assert.ok(Math.abs(scale.share(20) - scale.share(10) - (scale.share(40) - scale.share(20))) < 1e-9, "a logarithm");
  assert.equal(axisName(tradeOff.x), "size, MB · less is better");
  assert.deepEqual(tableOf(tradeOff).baselines, [0]);
});

test("lines of a group have one colour in all charts, a faint line that of the line over it", () => {
  const one = series([line("raw", [1], [1], { faint: true }), line("smooth", [1], [1]), line("validation", [1], [1])]);
  assert.deepEqual(coloursOf(one, []), [0, 0, 1]);
  assert.deepEqual(coloursOf(series([line("b", [1], [1], { group: "b" })]), ["a", "b"]), [1]);
});

test("the range of x is that of all charts, from zero where it is positive", () => {
  const charts = [series([line("a", [5, 100], [1, 1])]), series([line("b", [1, 200], [1, 1]), line("none", [], [])])];
  assert.deepEqual(wholeRange(charts), [0, 204]);
  assert.deepEqual(wholeRange([series([])]), [0, 1]);
  assert.deepEqual(wholeRange([series([line("a", [-2, 3], [1, 1])])]), [-2, 3]);
  const [low, high] = wholeRange([series([line("a", [10, 1000], [1, 1])], { log_x: true })]);
  assert.ok(low > 0 && low < 10 && high > 1000);
  assert.deepEqual(placesOf(charts[1].lines), [1, 200]);
});

test("lines of a page get back the x values that they share", () => {
  const line = { name: "a", group: "", y: [], low: null, high: null, faint: false, dashed: false, markers: false, best: null };
  const chart = { type: "series", lines: [{ ...line, x: 1 }, { ...line, x: 0 }, { ...line, x: 1 }] };
  const page = withAxes({ title: "", page: true, axes: [[1, 2, 4, 9], [[10, 5, 4]]], reports: [{ charts: [chart] }] } as never);
  const { lines } = page.reports[0].charts[0] as SeriesData;
  assert.deepEqual(lines.map(({ x }) => x), [[10, 15, 20, 25], [1, 2, 4, 9], [10, 15, 20, 25]]);
  assert.ok(!("axes" in page));
});

test("amounts are bars from zero on one scale of their table, without an axis", () => {
  const amount = (value: number): IntervalCell => ({ ...interval(value), from_zero: true });
  const shares = table([["a", amount(0.75), amount(0.1)], ["b", amount(0.25), amount(0.9)]]);
  assert.deepEqual([1, 2].map((column) => scaleOf(shares, column)), Array(2).fill({ low: 0, high: 0.9, signed: false, reference: null, fromZero: true, longest: "0.75" }));
  assert.equal(hasBars(shares), true);
});

test("a column is as wide as its longest text, in which a plus is the widest sign", () => {
  const [less, more] = ["-0.9 [-1.0, -0.8]", "+0.9 [+0.8, +1.0]"].map((text) => ({ ...interval(0.9, 0.8, 1), text, signed: true }));
  for (const rows of [[["a", less], ["b", more]], [["a", more], ["b", less]]]) assert.match(scaleOf(table(rows), 1)!.longest, /^\+0.9 \[\+.*, \+.*\]$/);
});

test("bars begin at zero, and the range ends after the last one", () => {
  const histogram = line("texts", [0, 5, 10], [4, 9, 2], { bars: true });
  assert.equal(extent([histogram], 0, 15, false)[0], 0);
  assert.ok(wholeRange([series([histogram])])[1] >= 15);
});

test("values that were tried are labelled where there is room for all", () => {
  const cells = [1e-4, 2e-4, 9e-4].map((x) => interval(x));
  const axis = { label: "rate", unit: "", log: true, more: null };
  assert.deepEqual(tradeOffScale(cells, { ...axis, ticks: [2e-4, 1e-4, 9e-4] }, 6).ticks, [1e-4, 2e-4, 9e-4]);
  assert.ok(!tradeOffScale(cells, { ...axis, ticks: [1e-4, 1.01e-4] }, 6).ticks.includes(1.01e-4));
});

test("shares of a matrix are of what is true or predicted; cells without anything are left out", () => {
  const counts = [[6, 4, 0], [0, 3, 1], [0, 0, 0]];
  assert.deepEqual(cellsOf(counts, "true").map(({ row, column, share }) => [row, column, share]), [[0, 0, 0.6], [0, 1, 0.4], [1, 1, 0.75], [1, 2, 0.25]]);
  assert.deepEqual(cellsOf(counts, "predicted").map(({ share }) => share), [1, 4 / 7, 3 / 7, 1]);
  assert.deepEqual(confused(cellsOf(counts, "")).map(({ row, column, count }) => [row, column, count]), [[0, 1, 4], [1, 2, 1]]);
  const [first] = cellsOf([[12_345]], "");
  assert.deepEqual([numeral(first, ""), numeral(first, "true"), opacity(1), opacity(0.01)], ["12k", "100%", "1.000", "0.107"]);
});

test("arrow keys go from a cell to the next one with something in it", () => {
  const cells = cellsOf([[1, 0, 1], [0, 1, 0], [1, 0, 0]], "");
  const go = (key: string) => neighbour(cells, cells[0], key);
  assert.deepEqual([go("ArrowRight")?.column, go("ArrowDown")?.row, go("ArrowLeft"), go("Tab")], [2, 2, undefined, undefined]);
});

const browser = (rows: BrowserData["rows"], more: Partial<BrowserData> = {}): BrowserData => ({ kind: "classes", names: ["a", "b"], grouped_by: "", command: "", explorer: "", first: null, review: "", doubt: "", rows, ...more });
const choice = (more: Partial<Choice> = {}): Choice => ({ order: "high", true: "", predicted: "", answers: "", group: "", find: "", page: "", at: "", ...more });
const indices = (choose: ReturnType<typeof chooser>, more: Partial<Choice>) => choose(choice(more)).map(({ index }) => index);

test("rows are ordered and chosen by what is true, predicted, right, found and of a group", () => {
  const rows = rowsOf(browser([
    { index: 0, where: "x.csv: line 2", texts: [["text", "Time flies"]], true: ["a"], predicted: ["b"], correct: false, loss: 2, scores: [["b", 0.8]], groups: ["x", "y"] },
    { index: 1, where: "x.csv: line 3", texts: [["text", "fruit"]], true: ["b"], predicted: ["b"], correct: true, loss: 0, scores: [["b", 1]], groups: ["x"] },
    { index: 2, where: "y.csv: line 4", texts: [["text", "flies"]], true: ["a"], predicted: ["b"], correct: false, loss: 3, scores: [["b", 0.9]] },
    { index: 3, where: "y.csv: line 5", true: ["a"] },
  ]));
  const choose = chooser(rows);
  const orders = { high: [2, 0, 1, 3], low: [1, 0, 2, 3], sure: [2, 0], file: [0, 1, 2, 3] };
  for (const [order, wanted] of Object.entries(orders)) assert.deepEqual(indices(choose, { order }), wanted, order);
  assert.deepEqual(indices(choose, { true: "a", predicted: "b" }), [2, 0]);
  assert.deepEqual(indices(choose, { answers: "right" }), [1]);
  assert.deepEqual(indices(choose, { find: "FLIES", group: "y" }), [0]);
  assert.deepEqual(indices(choose, { find: "line 5" }), [3]);
  assert.deepEqual(sheetOf(rows.slice(0, 1)), [["index", "where", "text", "true", "predicted", "probability", "loss"], [0, "x.csv: line 2", "Time flies", "a", "b", 0.8, 2]]);
  const unranked = chooser(rowsOf(browser([{ index: 5, where: "" }, { index: 4, where: "" }], { kind: "texts" })));
  assert.deepEqual([indices(unranked, {}), indices(unranked, { order: "low" })], [[5, 4], [4, 5]], "as they came, the worst first");
});

test("of words that are tagged, those that a choice means", () => {
  const [row] = rowsOf(browser([{ index: 0, where: "", words: ["Rome", "saw", "Jeff"], true: ["L", "O", "P"], predicted: ["L", "O", "L"], losses: [0.1, null, 2] }], { kind: "tags" }));
  assert.deepEqual(places(row, choice({ predicted: "L" })), [0, 2]);
  assert.deepEqual(places(row, choice({ answers: "wrong" })), [2]);
  assert.deepEqual(places(row, choice()), [0, 2], "a word that was not read is none");
});

test("a text is cut where it holds what is sought", () => {
  assert.deepEqual(cut("Time flies, flies", "flies"), ["Time ", "flies", ", ", "flies", ""]);
  assert.deepEqual(cut("İ flies", "flies"), ["İ flies"], "small letters that are longer");
  assert.deepEqual(cut("x", ""), ["x"]);
});

test("a hundred thousand rows are chosen while one types", () => {
  const rows = rowsOf(browser(Array.from({ length: 100_000 }, (_, i) => ({ index: i, where: `x.csv: line ${i}`, texts: [["text", `time flies like an arrow ${i}`.repeat(3)] as [string, string]], true: ["a"], predicted: ["b"], correct: false, loss: (i * 7919) % 100_003 }))));
  const choose = chooser(rows);
  choose(choice());
  const start = process.cpuUsage();
  assert.equal(choose(choice({ find: "arrow 99999", true: "a" })).length, 1);
  const { user } = process.cpuUsage(start);
  assert.ok(user < 1_000_000, `${user / 1000} ms`);
});

test("a click means what is kept nearby, and says what that is", () => {
  const kept = { at: 20, rows: "#Errors", states: [30], removed: [10], group: "" };
  assert.deepEqual([19.9, 20.4, 29.8, 25, 0, 10.1].map((x) => savedAt([kept], x, 30)), [20, 20, 30, 25, 0, 10]);
  assert.equal(savedAt([], 3, 30), 3);
  assert.deepEqual(toldOf(kept, 20, "step"), { words: "the model of step 20 was kept", link: "Its rows" });
  assert.deepEqual(toldOf(kept, 1000, "step"), { words: "no model was kept of step 1,000", link: "Rows of step 20" });
  assert.deepEqual(toldOf({ ...kept, rows: "", group: "a" }, 30, "step"), { words: "a: of step 30 a training state is kept, to resume from: checkpoints/step-00000030; no rows were evaluated, which \"glassformer evaluate RUN\" does", link: "" });
  assert.deepEqual(toldOf(kept, 10, "step"), { words: "the checkpoint of step 10 was removed when newer ones were saved (training.keep)", link: "Rows of step 20" });
});

test("a sheet of corrected tags has a line a word", () => {
  const rows = rowsOf(browser([{ index: 3, where: "x.conll: line 1", words: ["Rome", "saw"], true: ["B-LOC", "O"], predicted: ["O", "O"], losses: [2, 0.1], fingerprint: "r1" }], { kind: "tags" }));
  assert.deepEqual(reviewSheet(rows, "tags", (row, word) => (row.index === 3 && word === 1 ? "B-PER" : "")), [
    ["index", "where", "row", "word", "text", "label", "predicted", "correction"],
    [3, "x.conll: line 1", "r1", 1, "Rome", "B-LOC", "O", "B-PER"],
  ]);
  const one = rowsOf(browser([{ index: 0, where: "x", texts: [["text", "a"]], true: [], predicted: ["a", "b"], fingerprint: "r2" }], { kind: "labels" }));
  assert.deepEqual(reviewSheet(one, "labels", () => "delete")[1], [0, "x", "r2", "a", "(none)", "a|b", "delete"]);
});

test("each of two dozen lines has a look of its own without its colour", () => {
  const looks = Array.from({ length: 24 }, (_, i) => `${markOf(i, 0, 0, 4)} ${dashOf(i, false, 8)} ${i % 8}`);
  assert.equal(new Set(looks).size, 24);
  assert.equal(new Set([0, 1, 2, 3, 4].map((i) => markOf(i, 0, 0, 4))).size, 5);
  assert.deepEqual(dashOf(3, true, 8), [6, 4], "a baseline is dashed whatever its number");
});

test("names at the ends of lines do not cover each other and stay in the chart", () => {
  assert.deepEqual(spread([50, 10], 0, 100), [50, 10]);
  const close = spread([50, 51, 52, 52], 0, 100);
  assert.ok(close.every((y, i) => i === 0 || y - close[i - 1] >= 13));
  const low = spread([98, 99, 100], 0, 100);
  assert.ok(Math.max(...low) <= 100 && low[2] - low[1] >= 13 && low[1] - low[0] >= 13);
});

test("an axis of measured numbers has the first, the last, and those between that have room", () => {
  assert.deepEqual(withRoom([8, 16, 32], (x) => 10 * x, 34), [8, 16, 32]);
  assert.deepEqual(withRoom([1, 2, 3, 50, 51], (x) => x, 10), [1, 51]);
  assert.deepEqual([withRoom([7], Number, 1), withRoom([], Number, 1)], [[7], []]);
});

test("a chart as SVG holds texts as texts", () => {
  const svg = svgOf([{ d: "M1.23456 2L3 4", stroke: "#fff", dash: [2, 3] }, { text: "<b> & co", x: 1, y: 2, colour: "#000" }], 11);
  assert.ok(svg.includes('d="M1.23 2L3 4"') && svg.includes('stroke-dasharray="2 3"') && svg.includes("&#60;b&#62; &#38; co") && !svg.includes("<b>"));
});

test("a number and its interval have as many decimals", () => {
  assert.equal(withInterval(0.488, 0.4319, 0.5367), "0.4880 [0.4319, 0.5367]");
  assert.equal(withInterval(0.1083, 0.08458, 0.1382), "0.1083 [0.0846, 0.1382]");
  assert.equal(withInterval(12.5, 9.123, 14), "12.50 [9.12, 14.00]");
  assert.equal(withInterval(0.9, 0.8, 1), "0.9 [0.8, 1.0]");
  assert.equal(withInterval(0.5, null, 0.6), number(0.5));
  assert.equal(withInterval(0.5, 1e-5, 0.6), `0.5 [${number(1e-5)}, 0.6]`);
});
