/**
 * Layout of the heat map as plain data, from which both the canvas and the SVG file are drawn.
 *
 *            keys
 *          ╱ ╱ ╱ ╱
 *     q    ▉ ░ ░ ░     labels · tiles from the faintest look to the finest · hidden cells hatched · cell borders · numbers
 *     u    ░ ▉ ░ ░
 */

import { number } from "../../core/format";
import { type Mask, visibleKeys } from "../../core/mask";
import { heatColour } from "../../core/palette";
import { labelled, scaleOf, visibleRange, type Size, stride, type View } from "./geometry";

/** Room for the labels left of the plot and above it, and right of it for those that lean over, in CSS pixels. */
export interface Gutter {
  left: number;
  top: number;
  right: number;
}

export interface Label {
  text: string;
  /** Where the text ends (rows) or begins (columns), with the plot's corner at 0, 0. */
  x: number;
  y: number;
  position: number;
}

export interface Scene {
  rows: Label[];
  columns: Label[];
  /** Outlines of what the mask hides, in the plot's pixels. */
  hidden: [number, number][][];
  /** Distances of cell borders from the plot's corner; none where cells are small. */
  across: number[];
  down: number[];
  numbers: { text: string; x: number; y: number; ink: string }[];
  /** The pinned cell's corner and sides. */
  pinned: ({ x: number; y: number } & Size) | null;
  /** Where the matrix ends, if that is before the plot does. */
  width: number;
  height: number;
}

/** Column labels lean by this angle. */
export const LEAN = -Math.PI / 3;

const ROW_ROOM = 15;
const COLUMN_ROOM = 17;
const BORDERED = 10;
export const NUMBERED = 34;

/** As much of a text as fits, with … where it was cut. */
export function elide(text: string, width: number, measure: (text: string) => number): string {
  if (measure(text) <= width) return text;
  const letters = [...text];
  while (letters.length > 1 && measure(`${letters.join("")}…`) > width) letters.pop();
  return `${letters.join("")}…`;
}

/** A probability in a cell whose narrower side has this many pixels. */
export function inCell(p: number, scale: number): string {
  if (scale >= 60) return p > 0 && p < 1e-3 ? p.toExponential(1).replace("-", "−") : number(p, p >= 0.1 ? 4 : 3);
  return p.toFixed(2).replace(/^0/, "");
}

/** Ink that can be read on the colour of `share` in [0, 1]. */
export function inkOn(share: number, dark: boolean): string {
  const [r, g, b] = heatColour(share, dark);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 119 ? "#10131a" : "#ffffff";
}

export interface SceneInput {
  view: View;
  plot: Size;
  matrix: Size;
  mask: Mask;
  /** Tokens, by place. */
  row(position: number): string;
  column(position: number): string;
  /** A label cut to the room there is. */
  fit(text: string): string;
  /** The exact probability of a cell, where it is known. */
  exact(row: number, column: number): number | undefined;
  pinned: { row: number; column: number } | null;
  /** The share of the strongest colour that a probability gets. */
  share(p: number): number;
  dark: boolean;
}

export function scene({ view, plot, matrix, mask, row, column, fit, exact, pinned, share, dark }: SceneInput): Scene {
  const cells = visibleRange(view, plot, matrix);
  const x = (position: number) => (position - view.x) * view.cell.width;
  const y = (position: number) => (position - view.y) * view.cell.height;
  const named = (position: number, text: string, thinned: number) => fit(thinned > 1 ? `${position} ${text}` : text);
  const [byRow, byColumn] = [stride(view.cell.height, ROW_ROOM), stride(view.cell.width, COLUMN_ROOM)];
  const labels: Scene = {
    rows: labelled(cells.top, cells.bottom, byRow)
      .map((position) => ({ text: named(position, row(position), byRow), x: -8, y: y(position + 0.5), position }))
      .filter((label) => label.y >= 0 && label.y <= plot.height),
    columns: labelled(cells.left, cells.right, byColumn)
      .map((position) => ({ text: named(position, column(position), byColumn), x: x(position + 0.5), y: -8, position }))
      .filter((label) => label.x >= 0 && label.x <= plot.width),
    hidden: hidden(view, plot, matrix, mask),
    across: [],
    down: [],
    numbers: [],
    pinned: pinned && { x: x(pinned.column), y: y(pinned.row), ...view.cell },
    width: Math.min(plot.width, x(matrix.width)),
    height: Math.min(plot.height, y(matrix.height)),
  };
  if (view.cell.width >= BORDERED) for (let position = cells.left; position <= cells.right; position++) labels.across.push(x(position));
  if (view.cell.height >= BORDERED) for (let position = cells.top; position <= cells.bottom; position++) labels.down.push(y(position));
  if (scaleOf(view) >= NUMBERED)
    for (let r = cells.top; r < cells.bottom; r++) {
      const [from, to] = visibleKeys(mask, matrix.height, matrix.width, r);
      for (let c = Math.max(from, cells.left); c < Math.min(to, cells.right); c++) {
        const p = exact(r, c);
        if (p !== undefined) labels.numbers.push({ text: inCell(p, scaleOf(view)), x: x(c + 0.5), y: y(r + 0.5), ink: inkOn(share(p), dark) });
      }
    }
  return labels;
}

/** Outlines, staircases where cells are large enough, of the cells on screen to the left and to the right of what may be seen. */
function hidden(view: View, plot: Size, matrix: Size, mask: Mask): [number, number][][] {
  if (!mask.causal && mask.window === null) return [];
  const cells = visibleRange(view, plot, matrix);
  const x = (place: number) => (Math.max(cells.left, Math.min(cells.right, place)) - view.x) * view.cell.width;
  const y = (place: number) => (place - view.y) * view.cell.height;
  const step = Math.max(1, Math.round(1 / view.cell.height));
  const before: [number, number][] = [];
  const after: [number, number][] = [];
  for (let row = cells.top; row < cells.bottom; row += step) {
    const [from, to] = visibleKeys(mask, matrix.height, matrix.width, row);
    const [top, bottom] = [y(row), y(Math.min(row + step, cells.bottom))];
    before.push([x(from), top], [x(from), bottom]);
    after.push([x(to), top], [x(to), bottom]);
  }
  const outline = (edge: [number, number][], side: number): [number, number][][] =>
    edge.some(([at]) => at !== side) ? [[...edge, [side, edge.at(-1)![1]], [side, edge[0][1]]]] : [];
  return [...outline(before, x(cells.left)), ...outline(after, x(cells.right))];
}
