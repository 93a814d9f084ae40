/** The heat map of a sweep: where its cells are, and how they are drawn on a canvas or as SVG. */

import { visible } from "../../core/format";
import type { Sweep } from "../../core/patching";
import { diverging } from "../neuron/diverging-colours";

export interface Geometry {
  left: number;
  bottom: number;
  cell: { width: number; height: number };
  width: number;
  height: number;
  /** Every so many columns has its label. */
  every: number;
}

export interface Ink {
  ink: string;
  soft: string;
  panel: string;
  hatch: string;
  dark: boolean;
  font: string;
}

const LEFT = 58;
const [LEAST, MOST] = [11, 72];
const LABEL = 13;
const NUMBERS = 44;

export function geometryOf(sweep: Sweep, room: number): Geometry {
  const columns = Math.max(sweep.columns.length, 1);
  const width = Math.min(Math.max((room - LEFT - 2) / columns, LEAST), MOST);
  const height = Math.min(Math.max(width * 0.62, 20), 34);
  const upright = sweep.kind === "heads" || width >= 60;
  const longest = Math.max(...sweep.columns.map((text) => visible(text).length));
  const bottom = upright ? 24 : Math.min(longest * 6.6 + 16, 96);
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

/** A number with so many decimals; one that rounds to zero has no sign. */
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
    const shown = sweep.kind === "heads" ? (column === 0 ? "head 0" : text) : visible(text);
    return [{ text: shown.length > 14 ? `${shown.slice(0, 13)}…` : shown, x: left + (column + 0.5) * cell.width, y: foot + (turned ? 8 : 14), turned, end: turned }];
  });
  return [...rows, ...columns];
}

type Pen = CanvasRenderingContext2D | OffscreenCanvasRenderingContext2D;

/** Draw the map. marks: cells with a frame, the first the pinned one. */
export function draw(pen: Pen, sweep: Sweep, geometry: Geometry, ink: Ink, marks: ([number, number] | null)[]): void {
  const { cell, left } = geometry;
  pen.clearRect(0, 0, geometry.width, geometry.height);
  pen.textBaseline = "middle";
  const gap = cell.width >= 20 ? 1 : 0;
  for (const { x, y, fill, text, strong } of cellsOf(sweep, geometry, ink.dark)) {
    pen.fillStyle = fill ?? ink.hatch;
    if (fill) pen.fillRect(x, y, cell.width - gap, cell.height - gap);
    if (!text) continue;
    pen.font = `11px ${ink.font}`;
    pen.textAlign = "center";
    pen.fillStyle = strong ? ink.panel : ink.ink;
    pen.fillText(text, x + cell.width / 2, y + cell.height / 2);
  }
  pen.strokeStyle = ink.hatch;
  pen.lineWidth = 1;
  pen.strokeRect(left - 0.5, -0.5, cell.width * sweep.columns.length + 1, cell.height * sweep.rows.length + 1);
  pen.font = `12px ${ink.font}`;
  pen.fillStyle = ink.soft;
  for (const { text, x, y, turned, end } of labelsOf(sweep, geometry)) {
    pen.save();
    pen.translate(x, y);
    if (turned) pen.rotate(-Math.PI / 2);
    pen.textAlign = end ? "right" : "center";
    pen.fillText(text, 0, 0);
    pen.restore();
  }
  pen.lineWidth = 2;
  pen.strokeStyle = ink.ink;
  for (const mark of marks) if (mark) pen.strokeRect(left + mark[1] * cell.width, mark[0] * cell.height, cell.width - gap, cell.height - gap);
}

const escape = (text: string) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/"/g, "&quot;");

/** The map as SVG, on white. */
export function svg(sweep: Sweep, geometry: Geometry, caption: string): string {
  const { cell, width, height } = geometry;
  const text = (x: number, y: number, words: string, anchor: string, more = "") => `<text x="${x}" y="${y}" text-anchor="${anchor}" dominant-baseline="middle"${more}>${escape(words)}</text>`;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height + 28}" viewBox="0 0 ${width} ${height + 28}" font-family="Inter, system-ui, sans-serif" font-size="12" fill="#41526a">`,
    `<rect width="100%" height="100%" fill="#fff"/>`,
    ...cellsOf(sweep, geometry, false).map(({ x, y, fill, text: shown, strong }) =>
      fill ? `<rect x="${x}" y="${y}" width="${cell.width}" height="${cell.height}" fill="${fill}"/>${shown ? text(x + cell.width / 2, y + cell.height / 2, shown, "middle", ` font-size="11" fill="${strong ? "#fff" : "#0f1c2b"}"`) : ""}` : ""),
    ...labelsOf(sweep, geometry).map(({ text: words, x, y, turned, end }) => text(x, y, words, end ? "end" : "middle", turned ? ` transform="rotate(-90 ${x} ${y})"` : "")),
    text(8, height + 14, caption, "start"),
    "</svg>",
  ].join("\n");
}
