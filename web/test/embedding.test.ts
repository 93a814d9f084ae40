import assert from "node:assert/strict";
import { test } from "node:test";
import { type EmbeddingDescription, hexbins, inside, nearestPoint, normalised, pointName, towards } from "../src/core/embedding";
import { formatEmbedding, initialEmbedding, readEmbedding } from "../src/core/embedding-state";

const places = (...points: [number, number][]) => Float32Array.from(points.flat());
const cross = places([0, 0], [1, 0], [0, 1], [-1, 0], [0, -1], [3, 0.2]);

test("places fill the square from −1 to 1 on their wider side, about their middle", () => {
  assert.deepEqual([...normalised(places([2, 1], [6, 3]))], [-1, -0.5, 1, 0.5]);
  assert.deepEqual([...normalised(places([5, 5], [5, 5]))], [0, 0, 0, 0]);
});

test("a point is named as a reader would: by its token, its sentence, its number", () => {
  const named = (kind: string, ...keys: string[]) => pointName({ kind, keys, texts: ["The capital of France"], spans: [[15, 21]] } as unknown as EmbeddingDescription, 0);
  assert.equal(named("tokens", "0:3"), "“France”, token 3");
  assert.equal(named("tokens", "0:3", "1:0"), "“France”, token 3 of text 1");
  assert.equal(named("words", "4:7"), "sentence 4, token 7");
  assert.equal(named("texts", "12"), "point 12");
});

test("the point next to a place, within reach", () => {
  assert.equal(nearestPoint(cross, 0.9, 0.05, 0.3), 1);
  assert.equal(nearestPoint(cross, 0.5, 0.5, 0.3), -1);
});

test("arrow keys go to the nearest point in their direction, and stay where there is none", () => {
  assert.equal(towards(cross, 0, 1, 0), 1);
  assert.equal(towards(cross, 1, 1, 0), 5);
  assert.equal(towards(cross, 0, 0, 1), 2);
  assert.equal(towards(cross, 3, -1, 0), 3);
});

test("a lasso holds what is inside, also of a shape that is not convex", () => {
  assert.deepEqual(inside(cross, [[-0.5, -0.5], [1.5, -0.5], [1.5, 0.5], [-0.5, 0.5]]), [0, 1]);
  assert.deepEqual(inside(places([0, 0.9], [0, -0.5]), [[-1, -1], [1, -1], [1, 1], [0, 0], [-1, 1]]), [1]);
});

test("every point is in the hexagon whose middle is nearest", () => {
  const points = Array.from({ length: 400 }, (_, i): [number, number] => [Math.sin(i * 12.9898) * 2, Math.cos(i * 78.233) * 2]);
  const all = places(...points);
  const bins = hexbins(all, points.keys(), 0.25);
  assert.equal(bins.reduce((sum, { count }) => sum + count, 0), 400);
  for (let i = 0; i < 400; i++) {
    const [bin] = hexbins(all, [i], 0.25);
    const apart = Math.hypot(bin.x - all[2 * i], bin.y - all[2 * i + 1]);
    assert.ok(apart <= 0.25 + 1e-6, `${apart}`);
    for (const other of bins) assert.ok(Math.hypot(other.x - all[2 * i], other.y - all[2 * i + 1]) >= apart - 1e-6);
  }
});

test("a link holds the view; what is out of range is left out, an unknown projection is said", () => {
  const state = { ...initialEmbedding(), method: "umap" as const, level: 3, point: 12, by: "label", neighbours: 40 };
  const pairs = new URLSearchParams(formatEmbedding(state));
  assert.equal(pairs.toString(), "em=umap&lv=3&pt=12&by=label&nn=40");
  const notices: string[] = [];
  assert.deepEqual(readEmbedding(pairs, notices), state);
  assert.deepEqual(readEmbedding(new URLSearchParams("em=isomap&perp=1&pt=x"), notices), initialEmbedding());
  assert.match(notices[0], /isomap/);
});
