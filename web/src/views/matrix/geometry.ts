/**
 * Where cells, tiles and labels lie: the matrix view's arithmetic, without a canvas.
 *
 *     cell (row, column) ── (column − view.x) · view.scale, (row − view.y) · view.scale ──> CSS pixel of the plot
 *     level n: a tile pixel stands for 2ⁿ × 2ⁿ cells; a tile is 256 × 256 of them
 */

import { TILE } from "../../core/attention";

/** A cell is never drawn larger than this, in CSS pixels. */
const LARGEST = 96;

/** A matrix that is shown whole is not blown up beyond this many CSS pixels a cell. */
const COMFORTABLE = 72;

/** Tile pixels, one byte each, that may be asked for to show the whole matrix, and to show a part of it. */
const WHOLE = 2 ** 20 - 1;
const PART = 2 ** 22;

/** Which part of the matrix is on screen: the cell in the top left corner (with fractions) and the CSS pixels a cell. */
export interface View {
  x: number;
  y: number;
  scale: number;
}

/** A width and a height: of the plot in CSS pixels, or of the matrix in cells. */
export interface Size {
  width: number;
  height: number;
}

/** Half open ranges of cells: [left, right) × [top, bottom). */
export interface Cells {
  left: number;
  top: number;
  right: number;
  bottom: number;
}

export interface TileAt {
  level: number;
  row: number;
  column: number;
}

const within = (low: number, x: number, high: number) => Math.max(low, Math.min(high, x));

/** CSS pixels a cell at which the whole matrix fits. */
export function fitScale(plot: Size, matrix: Size): number {
  return Math.min(COMFORTABLE, plot.width / matrix.width, plot.height / matrix.height);
}

/** The whole matrix, in the top left corner. */
export function fit(plot: Size, matrix: Size): View {
  return { x: 0, y: 0, scale: fitScale(plot, matrix) };
}

/** The nearest view that is neither beyond the matrix nor smaller than all of it. */
export function clamp(view: View, plot: Size, matrix: Size): View {
  const scale = within(fitScale(plot, matrix), view.scale, Math.max(LARGEST, fitScale(plot, matrix)));
  return {
    x: within(0, view.x, Math.max(0, matrix.width - plot.width / scale)),
    y: within(0, view.y, Math.max(0, matrix.height - plot.height / scale)),
    scale,
  };
}

/** Larger by `factor`, the cell under the plot's pixel (px, py) staying where it is. */
export function zoom(view: View, factor: number, px: number, py: number, plot: Size, matrix: Size): View {
  const scale = clamp({ ...view, scale: view.scale * factor }, plot, matrix).scale;
  return clamp({ x: view.x + px / view.scale - px / scale, y: view.y + py / view.scale - py / scale, scale }, plot, matrix);
}

/** The view in which the cells fill the plot as well as their shape allows, in its middle. */
export function zoomTo(cells: Cells, plot: Size, matrix: Size): View {
  const scale = Math.min(LARGEST, plot.width / (cells.right - cells.left), plot.height / (cells.bottom - cells.top));
  return clamp(
    {
      x: (cells.left + cells.right) / 2 - plot.width / scale / 2,
      y: (cells.top + cells.bottom) / 2 - plot.height / scale / 2,
      scale,
    },
    plot,
    matrix,
  );
}

/** The least movement that brings a cell, and the one beside it, into the plot. */
export function reveal(view: View, row: number, column: number, plot: Size, matrix: Size): View {
  const slide = (at: number, cell: number, span: number) => {
    const margin = Math.min(1, Math.max(0, (span - 1) / 2));
    return within(cell + 1 + margin - span, at, cell - margin);
  };
  return clamp(
    { x: slide(view.x, column, plot.width / view.scale), y: slide(view.y, row, plot.height / view.scale), scale: view.scale },
    plot,
    matrix,
  );
}

/** The cell under a pixel of the plot, or null beside the matrix. */
export function cellAt(view: View, px: number, py: number, matrix: Size): { row: number; column: number } | null {
  const column = Math.floor(view.x + px / view.scale);
  const row = Math.floor(view.y + py / view.scale);
  return row >= 0 && column >= 0 && row < matrix.height && column < matrix.width ? { row, column } : null;
}

/** The cells of which anything is on screen. */
export function shown(view: View, plot: Size, matrix: Size): Cells {
  return {
    left: within(0, Math.floor(view.x), matrix.width),
    top: within(0, Math.floor(view.y), matrix.height),
    right: within(0, Math.ceil(view.x + plot.width / view.scale), matrix.width),
    bottom: within(0, Math.ceil(view.y + plot.height / view.scale), matrix.height),
  };
}

/** The level at which one tile holds the whole matrix. */
export function topLevel(matrix: Size): number {
  return Math.max(0, Math.ceil(Math.log2(Math.max(matrix.width, matrix.height) / TILE)));
}

/**
 * The finest level whose pixels are at least as large as the screen's, and whose tiles on screen stay within the budget.
 *
 * A pixel of a tile is never smaller than one of the screen: the browser would average them, and a peak would be lost.
 */
export function levelFor(view: View, density: number, plot: Size, matrix: Size): number {
  const top = topLevel(matrix);
  let level = within(0, Math.ceil(-Math.log2(view.scale * density) - 1e-9), top);
  const budget = view.scale > 1.01 * fitScale(plot, matrix) ? PART : WHOLE;
  while (level < top && pixels(shown(view, plot, matrix), level, matrix) > budget) level++;
  return level;
}

/** How many pixels the tiles that cover these cells have. */
export function pixels(cells: Cells, level: number, matrix: Size): number {
  const side = TILE * 2 ** level;
  const covered = (from: number, to: number, end: number) =>
    Math.ceil((Math.min(end, Math.ceil(to / side) * side) - Math.floor(from / side) * side) / 2 ** level);
  return covered(cells.left, cells.right, matrix.width) * covered(cells.top, cells.bottom, matrix.height);
}

/** The tiles of a level that cover these cells, those in the middle first. */
export function tilesFor(cells: Cells, level: number): TileAt[] {
  const side = TILE * 2 ** level;
  const tiles: TileAt[] = [];
  for (let row = Math.floor(cells.top / side); row * side < cells.bottom; row++)
    for (let column = Math.floor(cells.left / side); column * side < cells.right; column++)
      tiles.push({ level, row, column });
  const away = (tile: TileAt) =>
    Math.hypot((tile.column + 0.5) * side - (cells.left + cells.right) / 2, (tile.row + 0.5) * side - (cells.top + cells.bottom) / 2);
  return tiles.sort((a, b) => away(a) - away(b));
}

/** The tile one level up that holds this one. */
export function parent(tile: TileAt): TileAt {
  return { level: tile.level + 1, row: tile.row >> 1, column: tile.column >> 1 };
}

/** The cells that a tile covers. */
export function cellsOf(tile: TileAt, matrix: Size): Cells {
  const side = TILE * 2 ** tile.level;
  return {
    left: tile.column * side,
    top: tile.row * side,
    right: Math.min(matrix.width, (tile.column + 1) * side),
    bottom: Math.min(matrix.height, (tile.row + 1) * side),
  };
}

/** Every how many tokens a label has room: 1, 2, 5, 10, 20, 50 … */
export function stride(scale: number, room: number): number {
  for (let power = 1; ; power *= 10)
    for (const step of [power, 2 * power, 5 * power]) if (step * scale >= room) return step;
}

/** The tokens in [from, to) that get a label: multiples of the stride, so that labels stay put while one pans. */
export function labelled(from: number, to: number, step: number): number[] {
  const places: number[] = [];
  for (let place = Math.ceil(from / step) * step; place < to; place += step) places.push(place);
  return places;
}
