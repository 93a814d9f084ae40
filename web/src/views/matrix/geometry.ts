/**
 * Geometry of the heat map: viewport, zoom, tiles and labels, as pure functions.
 *
 *     cell (row, column) ── (column − view.x) · cell.width, (row − view.y) · cell.height ──> CSS pixel of the plot
 *     level n: a tile pixel stands for 2ⁿ × 2ⁿ cells; a tile is 256 × 256 of them
 *
 * Cells are square, but for those of a long matrix (a few words against many frames): shown whole it fills the plot, its
 * cells longer the other way. Zooming in spreads the crowded way first, until cells are square, and then both.
 */

import { TILE } from "../../core/attention";

/** A cell is never drawn larger than this, in CSS pixels. */
const LARGEST = 96;

/** A matrix that is shown whole is not blown up beyond this many CSS pixels a cell. */
const COMFORTABLE = 72;

/** A matrix this many times as long as it is across is long: in squares it would be a strip that nobody can read. */
const LONG = 3;

/** Of a long matrix that is shown whole, a cell's longer side is drawn out to this many CSS pixels, if there is room. */
const ROOMY = 24;

/** Tile pixels, one byte each, that may be asked for to show the whole matrix, and to show a part of it. */
const WHOLE = 2 ** 20 - 1;
const PART = 2 ** 22;

/** Which part of the matrix is on screen: the cell in the top left corner (with fractions) and how large a cell is. */
export interface View {
  x: number;
  y: number;
  cell: Size;
}

/** A width and a height: of the plot or of a cell in CSS pixels, or of the matrix in cells. */
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

/** CSS pixels of a cell's narrower side: what is written or drawn in the cell has to do with them. */
export function scaleOf({ cell }: View): number {
  return Math.min(cell.width, cell.height);
}

/** A cell when the whole matrix fits. */
export function fitCell(plot: Size, matrix: Size): Size {
  const room = { width: plot.width / matrix.width, height: plot.height / matrix.height };
  const side = Math.min(COMFORTABLE, room.width, room.height);
  const long = Math.max(matrix.width / matrix.height, matrix.height / matrix.width) > LONG;
  const dragZoom = (maxCount: number) => (long ? Math.max(side, Math.min(ROOMY, maxCount)) : side);
  return { width: dragZoom(room.width), height: dragZoom(room.height) };
}

/** The whole matrix, in the top left corner. */
export function fit(plot: Size, matrix: Size): View {
  return { x: 0, y: 0, cell: fitCell(plot, matrix) };
}

/** Is all of the matrix in view? */
export function isWhole(view: View, plot: Size, matrix: Size): boolean {
  return scaleOf(view) <= 1.001 * scaleOf(fit(plot, matrix));
}

/** A cell whose narrower side has this many CSS pixels, or as near as may be; no side is smaller than when the matrix is whole. */
function cellOf(scale: number, plot: Size, matrix: Size): Size {
  const whole = fit(plot, matrix);
  const side = within(scaleOf(whole), scale, LARGEST);
  return { width: Math.max(side, whole.cell.width), height: Math.max(side, whole.cell.height) };
}

/** The nearest view that is neither beyond the matrix nor smaller than all of it. */
export function clamp(view: View, plot: Size, matrix: Size): View {
  const cell = cellOf(scaleOf(view), plot, matrix);
  return {
    x: within(0, view.x, Math.max(0, matrix.width - plot.width / cell.width)),
    y: within(0, view.y, Math.max(0, matrix.height - plot.height / cell.height)),
    cell,
  };
}

/** Larger by `factor`, the cell under the plot's pixel (px, py) staying where it is. */
export function zoom(view: View, factor: number, px: number, py: number, plot: Size, matrix: Size): View {
  const cell = cellOf(scaleOf(view) * factor, plot, matrix);
  return clamp(
    { x: view.x + px / view.cell.width - px / cell.width, y: view.y + py / view.cell.height - py / cell.height, cell },
    plot,
    matrix,
  );
}

/** The view when what lies under the plot's pixel (0, 0) has come to (dx, dy). */
export function pan(view: View, dx: number, dy: number, plot: Size, matrix: Size): View {
  return clamp({ ...view, x: view.x - dx / view.cell.width, y: view.y - dy / view.cell.height }, plot, matrix);
}

/** The view in which the cells fill the plot as well as their shape allows, in its middle. */
export function zoomTo(cells: Cells, plot: Size, matrix: Size): View {
  const scale = Math.min(plot.width / (cells.right - cells.left), plot.height / (cells.bottom - cells.top));
  const cell = cellOf(scale, plot, matrix);
  return clamp(
    {
      x: (cells.left + cells.right) / 2 - plot.width / cell.width / 2,
      y: (cells.top + cells.bottom) / 2 - plot.height / cell.height / 2,
      cell,
    },
    plot,
    matrix,
  );
}

/** The least movement that brings a cell, and the one next to it, into the plot. */
export function reveal(view: View, row: number, column: number, plot: Size, matrix: Size): View {
  const slide = (at: number, cell: number, span: number) => {
    const margin = Math.min(1, Math.max(0, (span - 1) / 2));
    return within(cell + 1 + margin - span, at, cell - margin);
  };
  return clamp(
    { x: slide(view.x, column, plot.width / view.cell.width), y: slide(view.y, row, plot.height / view.cell.height), cell: view.cell },
    plot,
    matrix,
  );
}

/** The cell under a pixel of the plot, or null outside the matrix. */
export function cellAt(view: View, px: number, py: number, matrix: Size): { row: number; column: number } | null {
  const column = Math.floor(view.x + px / view.cell.width);
  const row = Math.floor(view.y + py / view.cell.height);
  return row >= 0 && column >= 0 && row < matrix.height && column < matrix.width ? { row, column } : null;
}

/** The cells of which anything is on screen. */
export function visibleRange(view: View, plot: Size, matrix: Size): Cells {
  return {
    left: within(0, Math.floor(view.x), matrix.width),
    top: within(0, Math.floor(view.y), matrix.height),
    right: within(0, Math.ceil(view.x + plot.width / view.cell.width), matrix.width),
    bottom: within(0, Math.ceil(view.y + plot.height / view.cell.height), matrix.height),
  };
}

/** The level at which one tile holds the whole matrix. */
export function topLevel(matrix: Size): number {
  return Math.max(0, Math.ceil(Math.log2(Math.max(matrix.width, matrix.height) / TILE)));
}

/** The finest level whose pixels are at least as large as the screen's, with this many CSS pixels a cell. */
function enough(side: number, density: number): number {
  return Math.max(0, Math.ceil(-Math.log2(side * density) - 1e-9));
}

/** The finest level that a cell's longer side has a use for, and whose tiles on screen stay within the budget. */
export function levelFor(view: View, density: number, plot: Size, matrix: Size): number {
  const top = topLevel(matrix);
  let level = Math.min(enough(Math.max(view.cell.width, view.cell.height), density), top);
  const budget = isWhole(view, plot, matrix) ? WHOLE : PART;
  while (level < top && pixels(visibleRange(view, plot, matrix), level, matrix) > budget) level++;
  return level;
}

/**
 * How many pixels of such a tile, across and down, are painted as one, their maximum.
 *
 * A painted pixel is never smaller than one of the screen: the browser would drop or average some, and a peak would be lost.
 */
export function pooling(view: View, density: number, level: number): Size {
  const at = (side: number) => 2 ** Math.max(0, enough(side, density) - level);
  return { width: at(view.cell.width), height: at(view.cell.height) };
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

/** Every how many tokens, of this many pixels each, a label has room: 1, 2, 5, 10, 20, 50 … */
export function stride(side: number, room: number): number {
  for (let power = 1; ; power *= 10)
    for (const step of [power, 2 * power, 5 * power]) if (step * side >= room) return step;
}

/** The tokens in [from, to) that get a label: multiples of the stride, so that labels stay put while one pans. */
export function labelled(from: number, to: number, step: number): number[] {
  const ticks: number[] = [];
  for (let place = Math.ceil(from / step) * step; place < to; place += step) ticks.push(place);
  return ticks;
}
