import assert from "node:assert/strict";
import { test } from "node:test";
import {
  cellAt,
  cellsOf,
  clamp,
  fit,
  labelled,
  levelFor,
  parent,
  pixels,
  reveal,
  shown,
  stride,
  tilesFor,
  topLevel,
  zoom,
  zoomTo,
} from "../src/views/matrix/geometry";
import { seen } from "../src/core/mask";

const plot = { width: 800, height: 600 };
const long = { width: 4096, height: 4096 };

test("the whole matrix fits, and a small one is not blown up", () => {
  assert.equal(fit(plot, long).scale, 600 / 4096);
  assert.equal(fit(plot, { width: 4, height: 4 }).scale, 72);
});

test("zooming keeps the cell under the pointer", () => {
  const before = fit(plot, long);
  const after = zoom(before, 8, 300, 200, plot, long);
  assert.ok(Math.abs(before.x + 300 / before.scale - (after.x + 300 / after.scale)) < 1e-9);
  assert.ok(Math.abs(before.y + 200 / before.scale - (after.y + 200 / after.scale)) < 1e-9);
});

test("no view is beyond the matrix, however it is asked for", () => {
  const view = clamp({ x: -50, y: 5000, scale: 1e6 }, plot, long);
  assert.equal(view.x, 0);
  assert.equal(view.scale, 96);
  assert.equal(view.y, 4096 - 600 / 96);
  assert.deepEqual(clamp({ x: 9, y: 9, scale: 0 }, plot, long), { x: 4096 - 800 / (600 / 4096) < 0 ? 0 : 9, y: 0, scale: 600 / 4096 });
});

test("a rectangle that was drawn is on screen afterwards", () => {
  const cells = { left: 1000, top: 2000, right: 1100, bottom: 2030 };
  const seenCells = shown(zoomTo(cells, plot, long), plot, long);
  assert.ok(seenCells.left <= 1000 && seenCells.right >= 1100 && seenCells.top <= 2000 && seenCells.bottom >= 2030);
});

test("the cursor's cell is brought into the plot and nothing moves when it is there", () => {
  const view = { x: 100, y: 100, scale: 40 };
  assert.deepEqual(reveal(view, 105, 105, plot, long), view);
  const moved = shown(reveal(view, 300, 50, plot, long), plot, long);
  assert.ok(moved.left <= 50 && moved.top <= 300 && moved.bottom > 300);
});

test("a pixel beside the matrix is no cell", () => {
  const view = { x: 0, y: 0, scale: 50 };
  assert.deepEqual(cellAt(view, 120, 60, { width: 4, height: 4 }), { row: 1, column: 2 });
  assert.equal(cellAt(view, 201, 60, { width: 4, height: 4 }), null);
});

test("tile pixels are never smaller than the screen's, and the first look stays under a megabyte", () => {
  const first = fit(plot, long);
  assert.equal(topLevel(long), 4);
  assert.equal(levelFor(first, 1, plot, long), 3);
  for (const density of [1, 2, 3]) {
    const level = levelFor(first, density, plot, long);
    assert.ok(pixels(shown(first, plot, long), level, long) <= 1e6, `density ${density}`);
  }
  assert.equal(levelFor({ x: 0, y: 0, scale: 0.5 }, 2, plot, long), 0, "a part may cost more");
  assert.equal(levelFor({ x: 0, y: 0, scale: 40 }, 1, plot, long), 0);
});

test("tiles cover what is on screen, each cell once", () => {
  const cells = { left: 250, top: 0, right: 520, bottom: 260 };
  const tiles = tilesFor(cells, 0);
  assert.equal(tiles.length, 3 * 2);
  assert.equal(new Set(tiles.map((tile) => `${tile.row}/${tile.column}`)).size, 6);
  assert.deepEqual(tiles[0], { level: 0, row: 0, column: 1 });
  assert.equal(pixels(cells, 0, { width: 530, height: 300 }), 530 * 300);
});

test("the tile one level up holds its child", () => {
  const child = { level: 1, row: 5, column: 2 };
  const inner = cellsOf(child, long);
  const outer = cellsOf(parent(child), long);
  assert.ok(outer.left <= inner.left && outer.top <= inner.top && outer.right >= inner.right && outer.bottom >= inner.bottom);
  assert.equal(outer.right - outer.left, 1024);
});

test("labels are thinned to what has room and stay put while one pans", () => {
  assert.equal(stride(20, 14), 1);
  assert.equal(stride(8, 14), 2);
  assert.equal(stride(0.15, 14), 100);
  assert.deepEqual(labelled(7, 31, 5), [10, 15, 20, 25, 30]);
  assert.deepEqual(labelled(8, 32, 5).slice(0, 3), [10, 15, 20]);
});

test("hidden keys follow the one rule of the masks", () => {
  assert.deepEqual(seen({ causal: true, window: null }, 4, 4, 1), [0, 2]);
  assert.deepEqual(seen({ causal: true, window: null }, 2, 4, 0), [0, 3]);
  assert.deepEqual(seen({ causal: true, window: 2 }, 4, 4, 2), [1, 3]);
  assert.deepEqual(seen({ causal: false, window: 2 }, 4, 4, 2), [1, 4]);
  assert.deepEqual(seen({ causal: false, window: null }, 3, 9, 1), [0, 9]);
});
