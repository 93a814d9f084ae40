/** The map of a similarity as shapes: cells, and the tokens of both texts along its edges. */

import { type Figure, fitted, inLines, lengthOf } from "../../core/figure";
import { number, visible } from "../../core/format";
import { largestOf, type Similarity } from "../../core/similarity";
import { diverging } from "../neuron/diverging-colours";

/** Where the cells are: of this many pixels, from here on. */
export interface Grid {
  left: number;
  top: number;
  cell: number;
}

/** The least and the largest edge of a cell, from which on there is room for tokens, and room for these. */
const [LEAST, MOST, NAMED] = [3, 56, 11];
/** So large cells are, even if the screen is too low for all of them. */
const EASY = 24;
const [LABEL, PAD] = [132, 6];

/** The cells as large as the width allows, and where it can be without making them small, the height. */
export function gridOf({ tokens: [first, second] }: Similarity, width: number, height = Infinity): Grid {
  const label = (tokens: readonly { text: string }[]) => Math.min(LABEL, 2 * PAD + Math.max(...tokens.map(({ text }) => lengthOf(visible(text)))));
  const left = Math.min(label(first), 0.4 * width);
  const low = Math.max(EASY, Math.floor((height - label(second)) / first.length));
  const cell = Math.max(LEAST, Math.min(MOST, low, Math.floor((width - left - 2) / second.length)));
  return cell < NAMED ? { left: 2, top: 2, cell: Math.max(LEAST, Math.min(MOST, Math.floor((width - 4) / second.length))) } : { left, top: label(second), cell };
}

export function figureOf(of: Similarity, { left, top, cell }: Grid, ink: string, dark: boolean): Figure {
  const [first, second] = of.tokens;
  const most = largestOf(of.cells) || 1;
  const gap = cell >= NAMED ? 1 : 0;
  const shapes: Figure["shapes"] = Array.from(of.cells, (value, at) => ({
    kind: "rect", x: left + cell * (at % second.length), y: top + cell * Math.floor(at / second.length), width: cell - gap, height: cell - gap, colour: diverging(value / most, dark),
  }));
  if (top > 2) {
    first.forEach(({ text }, row) => shapes.push({ kind: "text", x: left - PAD, y: top + cell * (row + 0.5), text: fitted(visible(text), left - 2 * PAD), colour: ink, end: true }));
    second.forEach(({ text }, column) => shapes.push({ kind: "text", x: left + cell * (column + 0.5), y: top - PAD, text: fitted(visible(text), top - 2 * PAD), colour: ink, upwards: true }));
  }
  return { width: left + cell * second.length + 2, height: top + cell * first.length + 2, shapes };
}

const [ROOM, LINE, SWATCH] = [12, 20, 14];

/** The map with what it shows in words above it, and below it what its colours mean. */
export function titledFigureOf(of: Similarity, grid: Grid, title: string, ink: string, dark: boolean): Figure {
  const map = figureOf(of, grid, ink, dark), width = Math.max(map.width, 360) + 2 * ROOM, lines = inLines(title, width - 2 * ROOM);
  const top = ROOM + lines.length * LINE, most = largestOf(of.cells);
  const shapes: Figure["shapes"] = lines.map((text, at) => ({ kind: "text", x: ROOM, y: ROOM + LINE * (at + 0.5), text, colour: ink, strong: true }));
  for (const shape of map.shapes) shapes.push({ ...shape, x: shape.x + ROOM, y: shape.y + top });
  let x = ROOM;
  const y = top + map.height + LINE;
  for (const [sign, text] of [[1, `adds, up to ${number(most, 3)}`], [-1, "subtracts"]] as const) {
    shapes.push({ kind: "rect", x, y: y - SWATCH / 2, width: SWATCH, height: SWATCH, colour: diverging(sign, dark) }, { kind: "text", x: x + SWATCH + 6, y, text, colour: ink });
    x += SWATCH + 24 + lengthOf(text);
  }
  return { width, height: y + LINE, shapes };
}
