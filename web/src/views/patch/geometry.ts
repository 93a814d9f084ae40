/** The heat map of a sweep: where its cells are, and how they are drawn on a canvas or as SVG. */

import { type Figure, fitted, lengthOf } from "../../core/figure";
import { visible } from "../../core/format";
import type { Sweep } from "../../core/patching";
import { diverging } from "../neuron/diverging-colours";

export interface Geometry {
  left: number;
  bottom: number;
  cell: { width: number; height: number };
  width: number;
  height: number;
  /** Every N columns has its label. */
  every: number;
}

export interface Ink {
  ink: string;
  soft: string;
  panel: string;
  line: string;
  dark: boolean;
  font: string;
}

const LEFT = 58;
const [LEAST, MOST] = [11, 72];
const LABEL = 13;
const NUMBERS = 44;
const [TEXT, PAD] = [12, 8];

export function geometryOf(sweep: Sweep, room: number): Geometry {
  const columns = Math.max(sweep.columns.length, 1);
  const width = Math.min(Math.max((room - LEFT - 2) / columns, LEAST), MOST);
  const height = Math.min(Math.max(width * 0.62, 20), 34);
  const upright = sweep.component_kind === "heads" || width >= 60;
  const longest = Math.max(...sweep.columns.map((text) => lengthOf(visible(text), TEXT)));
  const bottom = upright ? 24 : Math.min(longest + 2 * PAD, 112);
  return { left: LEFT, bottom, cell: { width, height }, width: LEFT + width * columns + 2, height: height * sweep.rows.length + bottom, every: Math.ceil(LABEL / width) };
}

/** What a cell shows, and what stands for no change: of two texts that differ the normalised effect, else the change. */
export function shownOf(sweep: Sweep): { values: (number | null)[][]; neutral: number; range: number } {
  const values = sweep.normalised ?? sweep.values.map((row) => row.map((value) => (value === null ? null : value - sweep.before)));
  const neutral = sweep.normalised && sweep.direction === "noising" ? 1 : 0;
  const range = Math.max(...values.flat().map((value) => (value === null ? 0 : Math.abs(value - neutral))), 1e-9);
  return { values, neutral, range };
}

export function cellAt({ left, cell }: Geometry, sweep: Sweep, x: number, y: number): [number, number] | null {
  const [row, column] = [Math.floor(y / cell.height), Math.floor((x - left) / cell.width)];
  return row >= 0 && row < sweep.rows.length && column >= 0 && column < sweep.columns.length && sweep.components[row][column] !== null ? [row, column] : null;
}

interface Cell {
  row: number;
  column: number;
  x: number;
  y: number;
  fill: string | null;
  text: string | null;
  strong: boolean;
}

/** Every cell with its colour, and its number where there is room for one. */
export function cellsOf(sweep: Sweep, geometry: Geometry, dark: boolean): Cell[] {
  const { values, neutral, range } = shownOf(sweep);
  const { left, cell } = geometry;
  const digits = range < 0.1 ? 3 : range < 100 ? 2 : 0;
  return values.flatMap((line, row) =>
    line.map((value, column) => {
      const share = value === null ? null : (value - neutral) / range;
      return {
        row, column, x: left + column * cell.width, y: row * cell.height, fill: share === null ? null : diverging(share, dark),
        text: value !== null && cell.width >= NUMBERS ? fixed(value, digits) : null, strong: Math.abs(share ?? 0) > 0.55,
      };
    }),
  );
}

/** A number with this many decimals; one that rounds to zero has no sign. */
const fixed = (value: number, digits: number) => {
  const text = value.toFixed(digits).replace("-", "\u2212");
  return /[1-9]/.test(text) ? text : "0";
};

interface Label {
  text: string;
  x: number;
  y: number;
  /** Is it written upwards? */
  turned: boolean;
  end: boolean;
}

export function labelsOf(sweep: Sweep, { left, bottom, cell, every, height }: Geometry): Label[] {
  const foot = height - bottom;
  const rows = sweep.rows.map((text, row) => ({ text: row === 0 || text === "out" ? (text === "out" ? "out" : `layer ${text}`) : text, x: left - 8, y: (row + 0.5) * cell.height, turned: false, end: true }));
  const turned = bottom > 24;
  const columns = sweep.columns.flatMap((text, column) => {
    if (column % every) return [];
    const shown = sweep.component_kind === "heads" ? (column === 0 ? "head 0" : text) : visible(text);
    const middle = left + (column + 0.5) * cell.width;
    // Where heads are narrow the word is before the number, so that it meets no other.
    if (sweep.component_kind === "heads") return [column === 0 && cell.width < NUMBERS ? { text: shown, x: middle + 4, y: foot + 14, turned, end: true } : { text: shown, x: middle, y: foot + 14, turned, end: false }];
    return [{ text: fitted(shown, turned ? bottom - 2 * PAD : every * cell.width, TEXT), x: middle, y: foot + (turned ? PAD : 14), turned, end: turned }];
  });
  return [...rows, ...columns];
}

/** The map as shapes. */
export function figureOf(sweep: Sweep, geometry: Geometry, ink: Ink): Figure {
  const { cell, width, height } = geometry;
  const gap = cell.width >= 20 ? 1 : 0;
  const edge = `M0 0H${cell.width * sweep.columns.length + 1}V${cell.height * sweep.rows.length + 1}H0Z`;
  const shapes: Figure["shapes"] = [{ kind: "path", d: edge, x: geometry.left - 0.5, y: -0.5, colour: ink.line }];
  for (const { x, y, fill, text, strong } of cellsOf(sweep, geometry, ink.dark)) {
    if (fill) shapes.push({ kind: "rect", x, y, width: cell.width - gap, height: cell.height - gap, colour: fill });
    if (text) shapes.push({ kind: "text", x: x + cell.width / 2, y: y + cell.height / 2, text, colour: strong ? ink.panel : ink.ink, size: 11, middle: true });
  }
  for (const { turned, end, ...label } of labelsOf(sweep, geometry)) shapes.push({ kind: "text", ...label, colour: ink.soft, size: TEXT, upwards: turned, end, middle: !end });
  return { width, height, shapes };
}

/** The map, and below it what it shows. */
export function captioned({ width, height, shapes }: Figure, caption: string, colour: string): Figure {
  return { width, height: height + 28, shapes: [...shapes, { kind: "text", x: 8, y: height + 14, text: caption, colour, size: TEXT }] };
}
