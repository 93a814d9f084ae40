/** A transcription: its words, and the frames from which its pictures come; see speech/transcription_trace.py. */

import type { BinaryFrame } from "./binary-frame";
import type { Bytes } from "./heatmap";

export interface Word {
  word: string;
  start: number;
  end: number;
  probability: number;
}

export interface Segment {
  start: number;
  end: number;
  text: string;
  temperature: number;
  words: Word[] | null;
}

export interface Attempt {
  temperature: number;
  avg_logprob: number;
  compression_ratio: number;
}

/** A window of the recording, and every attempt to decode it; the last one counts. */
export interface Window {
  start: number;
  end: number;
  no_speech_prob: number;
  attempts: Attempt[];
  skipped: boolean;
}

/** Cross-attention of one window: the mean of the alignment heads first, then each of them, where the page holds them. */
export interface Alignment {
  begin: number;
  /** Columns a second, and frames a column. */
  rate: number;
  pool: number;
  /** Each head's picture, words × columns. */
  heads: Bytes[];
  /** Seconds at which each word, and then the end, begins on each head's path. */
  paths: number[][];
  texts: string[];
  /** The transcript's number of each word; −1 where it was left out. */
  words: number[];
  /** The decoder's position at which the first token of each word is predicted, and looks for its sound. */
  queries: number[];
}

export interface Transcript {
  name: string;
  text: string;
  duration: number;
  language: string | null;
  language_probability: number | null;
  segments: Segment[];
  windows: Window[];
  /** Was it decoded window by window? A model of letters reads it in one go. */
  windowed: boolean;
  /** Does the page have the sound? */
  playable: boolean;
  bytes: number;
  command: string;
  /** Options that are not as they come. */
  options: Record<string, string>;
  model: { name: string; family: string; revision: string; dtype: string; parameters: number };
  thresholds: { compression_ratio: number | null; logprob: number | null; no_speech: number | null };
  /** The alignment heads (layer, head), and the size of the decoder; null for models without a decoder. */
  heads: { pairs: [number, number][]; layers: number; heads: number; published: boolean } | null;
  /** All words, in order. */
  words: Word[];
  spectrogram: Bytes & { rate: number };
  attention: Alignment[];
}

/** A transcript from its description, and the frames of its spectrogram and of each window's attention. */
export async function transcriptOf(data: Description, frame: (kind: "spectrogram" | "alignment", window: number) => Promise<BinaryFrame>): Promise<Transcript> {
  const words = data.segments.flatMap((segment) => segment.words ?? []);
  const numbers = new Map(words.map((word, at) => [word.start, at] as const).reverse()); // of two that begin at once, the first
  const { header, arrays, shapes } = await frame("spectrogram", 0);
  const [height, width] = shapes.values;
  const attention = await Promise.all(Array.from({ length: data.alignments }, async (_, window) => alignmentOf(await frame("alignment", window), numbers)));
  return { ...data, words, spectrogram: { values: arrays.values as Uint8Array, height, width, rate: header.rate as number }, attention };
}

/** What the program says of a transcription, before any pictures. */
export type Description = Omit<Transcript, "words" | "spectrogram" | "attention"> & { alignments: number };

function alignmentOf({ header, arrays, shapes }: BinaryFrame, numbers: Map<number, number>): Alignment {
  const [count, height, width] = shapes.weights;
  const { begin, rate, pool, words, queries } = header as { begin: number; rate: number; pool: number; words: [string, number][]; queries: number[] };
  const weights = arrays.weights as Uint8Array;
  const frames = arrays.paths as Uint32Array;
  const heads = Array.from({ length: count }, (_, head) => ({ values: weights.subarray(head * height * width, (head + 1) * height * width), height, width }));
  const path = (head: number) => Array.from(frames.subarray(head * (height + 1), (head + 1) * (height + 1)), (each) => begin + each / rate);
  return {
    begin, rate: rate / pool, pool, heads, queries, paths: heads.map((_, head) => path(head)),
    texts: words.map(([text]) => text.trim()), words: words.map(([, start]) => numbers.get(start) ?? -1),
  };
}
