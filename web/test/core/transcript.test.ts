import assert from "node:assert/strict";
import { test } from "node:test";
import type { BinaryFrame } from "../../src/core/binary-frame";
import { type Description, transcriptOf } from "../../src/core/transcript";

const about = {
  name: "clip.wav", alignments: 1, duration: 2,
  segments: [{ start: 0, end: 2, text: " a b", temperature: 0, words: [{ word: " a", start: 0.1, end: 0.5, probability: 0.9 }, { word: " b", start: 0.5, end: 0.9, probability: 0.4 }] }],
} as unknown as Description;

/** Two heads' pictures (the mean first) of three words, the last of which was left out, over two columns of two frames. */
const frames: Record<string, BinaryFrame> = {
  spectrogram: { kind: "spectrogram", header: { rate: 50 }, arrays: { values: new Uint8Array(4 * 100) }, shapes: { values: [4, 100] } },
  alignment: {
    kind: "alignment",
    header: { begin: 10, rate: 50, pool: 2, words: [[" a", 0.1], [" b", 0.5], [" c", 1.5]], queries: [3, 4, 6] },
    arrays: { weights: Uint8Array.from({ length: 12 }, (_, at) => at), paths: Uint32Array.from([0, 1, 2, 3, 0, 2, 3, 4]) },
    shapes: { weights: [2, 3, 2], paths: [2, 4] },
  },
};

test("frames become pictures, paths in seconds, and queries of each word", async () => {
  const transcript = await transcriptOf(about, (kind) => Promise.resolve(frames[kind]));
  assert.deepEqual(transcript.words.map(({ word }) => word), [" a", " b"]);
  assert.deepEqual([transcript.spectrogram.height, transcript.spectrogram.width, transcript.spectrogram.rate], [4, 100, 50]);
  const [{ heads, paths, texts, words, queries, rate, pool }] = transcript.attention;
  assert.deepEqual(heads.map(({ values, height, width }) => [[...values], height, width]), [[[0, 1, 2, 3, 4, 5], 3, 2], [[6, 7, 8, 9, 10, 11], 3, 2]]);
  assert.deepEqual(paths, [[10, 10.02, 10.04, 10.06], [10, 10.04, 10.06, 10.08]]);
  assert.deepEqual([texts, words, queries, rate * pool], [["a", "b", "c"], [0, 1, -1], [3, 4, 6], 50]);
});
