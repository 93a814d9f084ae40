/** Histograms of numbers before and after rounding, of their levels and of the errors, as shapes. */

import type { Figure } from "../../core/figure";
import { number, percent } from "../../core/format";

/** Numbers of a layer, as inspect/quantisation.py describes them. */
export interface Rounded {
  centres: number[];
  before: number[];
  after: number[];
  error: number | null;
  scales: number;
  scale: number[];
  zero: number[];
  first_level: number;
  levels: number[];
  step_errors: number[];
  largest_error: number | null;
  clipped: number | null;
}

/** A whole number with a real minus sign. */
export const signed = (x: number) => String(x).replace("-", "−");

interface Chart {
  title: string;
  bars: number[];
  /** Drawn as a line over the bars. */
  outline?: number[];
  /** Under the left end, the place at a share of the width, and the right end. */
  ends: [string, string, string];
  place?: number;
  /** In words. */
  label: string;
}

export interface Colours { bar: string; line: string; ink: string }

export const SIZE = { width: 320, height: 130 };
export const INK = "#10202c";
export const ON_PAPER: Colours = { bar: "#0b6b83", line: "#8f4700", ink: INK };
const FOOT = 18;
/** Powers of ten of a logarithmic height, below the highest bar. */
const DECADES = 5;

export function chartsOf({ centres, before, after, zero, first_level, levels, step_errors }: Rounded): Chart[] {
  const end = -1.5 * centres[0] + 0.5 * centres[1];
  const charts: Chart[] = [{
    title: "numbers", bars: after.length ? after : before, outline: after.length && before.length ? before : undefined,
    ends: [number(-end, 2), "0", number(end, 2)], label: `from ${number(-end, 2)} to ${number(end, 2)}`,
  }];
  if (levels.length) {
    const last = first_level + levels.length - 1;
    const one = zero[0] === zero[1];
    const middle = one ? zero[0] : 0;
    charts.push({
      title: "levels q", bars: levels, ends: [signed(first_level), one ? `Z = ${signed(middle)}` : "0", String(last)], place: (middle - first_level + 0.5) / levels.length, label: `${levels.filter(Boolean).length} of ${levels.length} occur`,
    });
  }
  if (step_errors.length) charts.push({ title: "error, in steps S", bars: step_errors, ends: ["−½", "0", "½"], label: `at most ${percent(Math.max(...step_errors))} in one bin` });
  return charts;
}

/** A chart with its left upper corner at x, y. */
export function shapesOf({ bars, outline, ends, place = 0.5 }: Chart, log: boolean, { bar, line, ink }: Colours, x = 0, y = 0): Figure["shapes"] {
  const { width } = SIZE;
  const room = SIZE.height - FOOT;
  const most = Math.max(...bars, ...(outline ?? []), 1e-12);
  const height = (share: number) => room * (log ? (share > 0 ? Math.max(1 + Math.log10(share / most) / DECADES, 0.01) : 0) : share / most);
  const step = width / bars.length;
  const gap = step > 3 ? 1 : 0;
  const shapes: Figure["shapes"] = [];
  bars.forEach((share, at) => share && shapes.push({ kind: "rect", x: x + at * step, y: y + room - height(share), width: step - gap, height: height(share), colour: bar }));
  if (outline) {
    const steps = outline.map((share, at) => `${at ? "L" : "M"}${(at * step).toFixed(1)} ${(room - height(share)).toFixed(1)}h${step.toFixed(1)}`).join("");
    shapes.push({ kind: "path", d: steps, x, y, colour: line });
  }
  shapes.push({ kind: "rect", x, y: y + room, width, height: 1, colour: ink });
  shapes.push({ kind: "rect", x: x + place * width, y: y + room, width: 1, height: 4, colour: ink });
  ends.forEach((text, at) => {
    const near = place < 0.25 ? 0 : place > 0.75 ? 2 : 1; // the end that the place is at: its own number makes room
    if (at === 1 || at !== near) shapes.push({ kind: "text", x: x + [0, place, 1][at] * width, y: y + SIZE.height - 6, text, colour: ink, size: 11, middle: at === 1 && near === 1, end: at === 2 || (at === 1 && near === 2) });
  });
  return shapes;
}
