import assert from "node:assert/strict";
import { test } from "node:test";
import { overviewOf, readFrame } from "../../src/core/binary-frame";
import { UserError } from "../../src/core/types";
import { frame } from "../frames";

const overview = () =>
  frame("overview", { map: "self", layer: 2, bins: [1, 1], rows_used: 2, rows_total: 4, stats: ["entropy_bits", "first"], summaries: ["a", "b"], kinds: [["broad", 1], ["itself", 0.5]], metrics: {} }, [
    ["thumbnails", "u8", [2, 2, 3], Uint8Array.from({ length: 12 }, (_, i) => i)],
    ["scale", "f32", [2], Float32Array.of(0.5, 1)],
    ["stats", "f32", [2, 2], Float32Array.of(1, 2, 3, 4)],
  ]);

test("an overview is read: heads, thumbnails, statistics by name", () => {
  const read = overviewOf(readFrame(overview(), "overview"));
  assert.deepEqual([read.heads, read.height, read.width, read.layer], [2, 2, 3, 2]);
  assert.deepEqual([...read.thumbnails.subarray(6)], [6, 7, 8, 9, 10, 11]);
  assert.deepEqual([...read.stats.first], [2, 4]);
  assert.deepEqual([...read.scale], [0.5, 1]);
});

test("eight-byte numbers stand where they may", () => {
  const { arrays, shapes } = readFrame(frame("row", {}, [["scores", "f32", [3], Float32Array.of(1, -Infinity, 2)], ["probs", "f64", [3], Float64Array.of(0.1, 0, 0.9)]]), "row");
  assert.deepEqual([...arrays.probs], [0.1, 0, 0.9]);
  assert.deepEqual([...arrays.scores], [1, -Infinity, 2]);
  assert.deepEqual(shapes.probs, [3]);
});

const spoiled: [string, RegExp, (bytes: DataView) => ArrayBuffer | void][] = [
  ["too short", /too few/, (view) => view.buffer.slice(0, 8) as ArrayBuffer],
  ["another magic", /not one of/, (view) => view.setUint8(0, 0)],
  ["another version", /version 3/, (view) => view.setUint16(4, 3, true)],
  ["another kind", /it is tile, and overview was asked for/, () => frame("tile", {}, [])],
  ["cut off", /length/, (view) => view.buffer.slice(0, view.byteLength - 8) as ArrayBuffer],
  ["a wrong length", /length/, (view) => view.setUint32(12, 8, true)],
];
for (const [what, why, spoil] of spoiled) {
  test(`a frame that is ${what} is refused`, () => {
    const bytes = overview();
    const changed = spoil(new DataView(bytes)) ?? bytes;
    assert.throws(() => readFrame(changed, "overview"), (error) => error instanceof UserError && why.test(error.message));
  });
}

test("an array that ends after the frame, an unknown type and bytes of no array are refused", () => {
  const long = frame("row", {}, [["scores", "f32", [9], Float32Array.of(1, 2)]]);
  assert.throws(() => readFrame(long, "row"), /ends after/);
  assert.throws(() => readFrame(frame("row", {}, [["scores", "f16", [2], Float32Array.of(1, 2)]]), "row"), /f16/);
  assert.throws(() => readFrame(frame("row", {}, [["scores", "f32", [1], Float32Array.of(1, 2, 3, 4)]]), "row"), /no array/);
});
