import assert from "node:assert/strict";
import { test } from "node:test";
import {
  cellAt,
  cellsOf,
  clamp,
  fit,
  isWhole,
  labelled,
  levelFor,
  pan,
  parent,
  pixels,
  pooling,
  reveal,
  visibleRange,
  stride,
  tilesFor,
  topLevel,
  type View,
  zoom,
  zoomTo,
} from "../src/views/matrix/geometry";
import { visibleKeys } from "../src/core/mask";

const plot = { width: 800, height: 600 };
const long = { width: 4096, height: 4096 };
const square = (side: number) => ({ width: side, height: side });

/** A few words against many frames of sound, and the same on its side. */
const wide = { width: 1500, height: 27 };
const tall = { width: 27, height: 1500 };

test("the whole matrix fits, and a small one is not blown up", () => {
  assert.deepEqual(fit(plot, long).cell, square(600 / 4096));
  assert.deepEqual(fit(plot, { width: 4, height: 4 }).cell, square(72));
});

test("a long matrix fills the plot, its cells drawn out to what can be read", () => {
  assert.deepEqual(fit(plot, wide).cell, { width: 800 / 1500, height: 600 / 27 });
  assert.deepEqual(fit({ width: 800, height: 900 }, wide).cell, { width: 800 / 1500, height: 24 });
  assert.deepEqual(fit(plot, tall).cell, { width: 24, height: 0.4 });
  assert.deepEqual(fit(plot, { width: 20, height: 4 }).cell, square(40), "squares that are large enough stay squares");
  for (const matrix of [wide, tall]) {
    assert.ok(isWhole(fit(plot, matrix), plot, matrix));
    assert.deepEqual(visibleRange(fit(plot, matrix), plot, matrix), { left: 0, top: 0, right: matrix.width, bottom: matrix.height });
  }
});

test("the cells of a matrix that is not long are squares, whatever the plot's shape", () => {
  for (const matrix of [{ width: 30, height: 10 }, { width: 10, height: 30 }, { width: 500, height: 500 }])
    for (const window of [plot, { width: 2400, height: 280 }, { width: 200, height: 1400 }]) {
      const side = Math.min(72, window.width / matrix.width, window.height / matrix.height);
      for (const factor of [1, 1.5, 40]) {
        const { cell } = zoom(fit(window, matrix), factor, 9, 9, window, matrix);
        assert.deepEqual(cell, square(Math.min(96, side * factor)));
      }
    }
});

test("zooming into a long matrix spreads the crowded way until cells are squares, then both, and back", () => {
  const step = (view: View, factor: number) => zoom(view, factor, 300, 200, plot, wide);
  const whole = fit(plot, wide);
  const spread = step(whole, 10);
  assert.deepEqual(spread.cell, { width: 8000 / 1500, height: 600 / 27 });
  assert.equal(spread.y, 0, "all words stay on screen");
  const near = step(spread, 8);
  assert.deepEqual(near.cell, square(64000 / 1500));
  assert.ok(!isWhole(spread, plot, wide) && !isWhole(near, plot, wide));
  assert.ok(isWhole(step(step(near, 1 / 8), 1 / 10), plot, wide));
  for (const view of [whole, spread, near]) assert.deepEqual(cellAt(view, 300, 200, wide), { row: 9, column: 562 });
});

test("what is under a pixel of drawn out cells is found, revealed and moved", () => {
  for (const matrix of [wide, tall]) {
    const view = zoom(fit(plot, matrix), 20, 400, 300, plot, matrix);
    for (const [row, column] of [[3, 20], [26, 0], [11, 26]]) {
      const there = reveal(view, row, column, plot, matrix);
      const middle = [(column + 0.5 - there.x) * there.cell.width, (row + 0.5 - there.y) * there.cell.height];
      assert.deepEqual(cellAt(there, middle[0], middle[1], matrix), { row, column });
      assert.ok(middle[0] > 0 && middle[0] < plot.width && middle[1] > 0 && middle[1] < plot.height);
      assert.deepEqual(there.cell, view.cell);
    }
  }
  const spread = zoom(fit(plot, wide), 10, 400, 300, plot, wide);
  const moved = pan(spread, -80, -80, plot, wide);
  assert.deepEqual(moved, { x: spread.x + 80 / spread.cell.width, y: 0, cell: spread.cell });
  const cells = { left: 700, top: 4, right: 800, bottom: 9 };
  const seenCells = visibleRange(zoomTo(cells, plot, wide), plot, wide);
  assert.ok(seenCells.left <= 700 && seenCells.right >= 800 && seenCells.right - seenCells.left <= 102);
  assert.ok(seenCells.top <= 4 && seenCells.bottom >= 9);
});

test("of a long matrix each word has its own row of tile pixels, and frames are pooled to what the screen has", () => {
  const whole = fit(plot, wide);
  assert.equal(levelFor(whole, 1, plot, wide), 0);
  assert.deepEqual(pooling(whole, 1, 0), { width: 2, height: 1 });
  assert.deepEqual(pooling(whole, 2, 0), { width: 1, height: 1 });
  assert.deepEqual(pooling(whole, 1, 1), { width: 1, height: 1 }, "a coarser tile that is already here needs less");
  assert.deepEqual(pooling(fit(plot, tall), 1, 0), { width: 1, height: 4 });
  for (const density of [1, 2]) {
    const view = fit(plot, long);
    assert.deepEqual(pooling(view, density, levelFor(view, density, plot, long)), { width: 1, height: 1 });
  }
});

test("zooming keeps the cell under the pointer", () => {
  const before = fit(plot, long);
  const after = zoom(before, 8, 300, 200, plot, long);
  assert.ok(Math.abs(before.x + 300 / before.cell.width - (after.x + 300 / after.cell.width)) < 1e-9);
  assert.ok(Math.abs(before.y + 200 / before.cell.height - (after.y + 200 / after.cell.height)) < 1e-9);
});

test("no view is beyond the matrix, however it is asked for", () => {
  const view = clamp({ x: -50, y: 5000, cell: square(1e6) }, plot, long);
  assert.equal(view.x, 0);
  assert.deepEqual(view.cell, square(96));
  assert.equal(view.y, 4096 - 600 / 96);
  assert.deepEqual(clamp({ x: 9, y: 9, cell: square(0) }, plot, long), { x: 0, y: 0, cell: square(600 / 4096) });
});

test("a rectangle that was drawn is on screen afterwards", () => {
  const cells = { left: 1000, top: 2000, right: 1100, bottom: 2030 };
  const seenCells = visibleRange(zoomTo(cells, plot, long), plot, long);
  assert.ok(seenCells.left <= 1000 && seenCells.right >= 1100 && seenCells.top <= 2000 && seenCells.bottom >= 2030);
});

test("the cursor's cell is brought into the plot and nothing moves when it is there", () => {
  const view = { x: 100, y: 100, cell: square(40) };
  assert.deepEqual(reveal(view, 105, 105, plot, long), view);
  const moved = visibleRange(reveal(view, 300, 50, plot, long), plot, long);
  assert.ok(moved.left <= 50 && moved.top <= 300 && moved.bottom > 300);
});

test("a pixel beside the matrix is no cell", () => {
  const view = { x: 0, y: 0, cell: square(50) };
  assert.deepEqual(cellAt(view, 120, 60, { width: 4, height: 4 }), { row: 1, column: 2 });
  assert.equal(cellAt(view, 201, 60, { width: 4, height: 4 }), null);
});

test("tile pixels are never smaller than the screen's, and the first look stays under a megabyte", () => {
  const first = fit(plot, long);
  assert.equal(topLevel(long), 4);
  assert.equal(levelFor(first, 1, plot, long), 3);
  for (const density of [1, 2, 3]) {
    const level = levelFor(first, density, plot, long);
    assert.ok(pixels(visibleRange(first, plot, long), level, long) <= 1e6, `density ${density}`);
  }
  assert.equal(levelFor({ x: 0, y: 0, cell: square(0.5) }, 2, plot, long), 0, "a part may cost more");
  assert.equal(levelFor({ x: 0, y: 0, cell: square(40) }, 1, plot, long), 0);
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
  assert.deepEqual(visibleKeys({ causal: true, window: null }, 4, 4, 1), [0, 2]);
  assert.deepEqual(visibleKeys({ causal: true, window: null }, 2, 4, 0), [0, 3]);
  assert.deepEqual(visibleKeys({ causal: true, window: 2 }, 4, 4, 2), [1, 3]);
  assert.deepEqual(visibleKeys({ causal: false, window: 2 }, 4, 4, 2), [1, 4]);
  assert.deepEqual(visibleKeys({ causal: false, window: null }, 3, 9, 1), [0, 9]);
});
