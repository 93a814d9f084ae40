import assert from "node:assert/strict";
import { test } from "node:test";
import { occurrences, peaks, samplesOf, shadeOf } from "../../src/core/listening";
import { codeColour } from "../../src/core/palette";

/** A wav file with a chunk before its samples. */
function wav(samples: number[]): ArrayBuffer {
  const view = new DataView(new ArrayBuffer(12 + 8 + 3 + 1 + 8 + 2 * samples.length));
  const name = (at: number, text: string) => [...text].forEach((character, i) => view.setUint8(at + i, character.charCodeAt(0)));
  name(0, "RIFF");
  name(8, "WAVEnote");
  view.setUint32(16, 3, true); // an odd length is padded
  name(24, "data");
  view.setUint32(28, 2 * samples.length, true);
  samples.forEach((sample, i) => view.setInt16(32 + 2 * i, sample, true));
  return view.buffer;
}

test("samples are found behind other chunks", () => {
  assert.deepEqual([...samplesOf(wav([1, -2, 32767]))], [1, -2, 32767]);
  assert.throws(() => samplesOf(wav([]).slice(0, 20)), /no samples/);
});

test("peaks are the lowest and highest sample of each stretch, beyond the end silence", () => {
  const { low, high } = peaks(Int16Array.from([0, 16384, -16384, 8192, -32768]), 1, 2, 3);
  assert.deepEqual([...low], [-0.5, -1, 0]);
  assert.deepEqual([...high], [0.5, 0.25, 0]);
  assert.deepEqual([...peaks(Int16Array.from([8192, 16384]), 0, 0.5, 4).high], [0.25, 0.25, 0.5, 0.5]); // closer than a sample
});

test("a code occurs so often in its codebook", () => {
  const codes = { values: Uint32Array.from([1, 2, 1, 1, 1, 1]), books: 2, frames: 3, rate: 50, shades: null };
  assert.deepEqual([occurrences(codes, 0, 1), occurrences(codes, 1, 1), occurrences(codes, 1, 2)], [2, 3, 0]);
});

test("like codes have like colours, and each codebook its own", () => {
  for (const dark of [false, true]) {
    const colours = Array.from({ length: 256 }, (_, at) => codeColour(2, at / 255, dark));
    const steps = colours.slice(1).map((colour, at) => Math.max(...colour.map((channel, i) => Math.abs(channel - colours[at][i]))));
    assert.ok(Math.max(...steps) <= 3, `a step of ${Math.max(...steps)}`);
    assert.ok(Math.max(...colours[0].map((channel, i) => Math.abs(channel - colours[255][i]))) > 90);
    assert.notDeepEqual(codeColour(0, 0.5, dark), codeColour(1, 0.5, dark));
  }
});

test("a code's shade is the codec's, or spread by its number", () => {
  const codes = { values: new Uint32Array(), books: 2, frames: 0, rate: 50, shades: { values: Uint8Array.from([0, 51, 255, 102]), height: 2, width: 2 } };
  assert.deepEqual([shadeOf(codes, 0, 1), shadeOf(codes, 1, 0), shadeOf(codes, 1, 1)], [0.2, 1, 0.4]);
  const spread = Array.from({ length: 100 }, (_, code) => shadeOf({ ...codes, shades: null }, 0, code));
  assert.equal(new Set(spread).size, 100);
});
