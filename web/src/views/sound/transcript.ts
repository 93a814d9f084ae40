/** Data of a transcription's page, which lies in the page itself; see speech/sound_page.py. */

import { readFrame } from "../../core/binary-frame";
import type { Bytes } from "../../core/heatmap";
import { decompress } from "../../core/inline-transport";

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
  words?: Word[];
}

export interface Attempt {
  temperature: number;
  avg_logprob: number;
  compression_ratio: number;
}

/** A window of the recording, and every attempt to decode it; the last one stands. */
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
  /** Columns a second. */
  rate: number;
  /** Each head's picture, words × columns. */
  heads: Bytes[];
  /** Seconds at which each word, and then the end, begins on each head's path. */
  paths: number[][];
  texts: string[];
  /** The transcript's number of each word; −1 where it was left out. */
  words: number[];
}

export interface Transcript {
  name: string;
  text: string;
  duration: number;
  language?: string;
  language_probability?: number;
  segments: Segment[];
  windows: Window[];
  /** Was it decoded window by window? A model of letters reads it in one go. */
  windowed: boolean;
  /** Does the page carry the sound? */
  embedded: boolean;
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

export const hasTranscript = (holder: Document = document): boolean => holder.getElementById("transcript") !== null;

export async function openTranscript(holder: Document = document): Promise<Transcript> {
  const data = JSON.parse(new TextDecoder().decode(await decompress(holder.getElementById("transcript")!)));
  const words: Word[] = (data.segments as Segment[]).flatMap((segment) => segment.words ?? []);
  const numbers = new Map(words.map((word, at) => [word.start, at] as const).reverse()); // of two that begin at once, the first
  const { header, arrays, shapes } = await frame(holder, "spectrogram");
  const [height, width] = shapes.values;
  const attention = await Promise.all(Array.from({ length: data.alignments }, (_, at) => alignment(holder, at, numbers)));
  return { ...data, words, spectrogram: { values: arrays.values as Uint8Array, height, width, rate: header.rate as number }, attention };
}

async function alignment(holder: Document, at: number, numbers: Map<number, number>): Promise<Alignment> {
  const { header, arrays, shapes } = await frame(holder, "alignment", `alignment/${at}`);
  const [count, height, width] = shapes.weights;
  const { begin, rate, pool, words } = header as { begin: number; rate: number; pool: number; words: [string, number][] };
  const weights = arrays.weights as Uint8Array;
  const frames = arrays.paths as Uint32Array;
  const heads = Array.from({ length: count }, (_, head) => ({ values: weights.subarray(head * height * width, (head + 1) * height * width), height, width }));
  const path = (head: number) => Array.from(frames.subarray(head * (height + 1), (head + 1) * (height + 1)), (each) => begin + each / rate);
  return { begin, rate: rate / pool, heads, paths: heads.map((_, head) => path(head)), texts: words.map(([text]) => text.trim()), words: words.map(([, start]) => numbers.get(start) ?? -1) };
}

async function frame(holder: Document, kind: "spectrogram" | "alignment", key: string = kind) {
  return readFrame(await decompress(holder.querySelector(`script.frame[data-key="${key}"]`)!), kind);
}

/** The sound that the page carries; null where it carries none. */
export function embeddedSound(holder: Document = document): Blob | null {
  const block = holder.getElementById("sound");
  if (!block) return null;
  const text = atob((block.textContent ?? "").trim());
  return new Blob([Uint8Array.from(text, (character) => character.charCodeAt(0))], { type: block.dataset.media });
}

/** Part of a spectrogram: columns from `first` up to `last`, zeros beyond its edges. */
export function cut(map: Bytes, first: number, last: number): Bytes {
  const width = Math.max(last - first, 1);
  const values = new Uint8Array(map.height * width);
  for (let row = 0; row < map.height; row++) {
    values.set(map.values.subarray(row * map.width + Math.min(first, map.width), row * map.width + Math.min(last, map.width)), row * width);
  }
  return { values, height: map.height, width };
}

/** How sure the model was of a word, in three steps that are told apart without colour. */
export const sureness = ({ probability }: Word): "sure" | "fair" | "low" => (probability >= 0.8 ? "sure" : probability >= 0.5 ? "fair" : "low");

/** 1:02:03.4; of short recordings 2:03.40 */
export function clock(seconds: number, digits = 2): string {
  const whole = Math.max(seconds, 0);
  const hours = Math.floor(whole / 3600);
  const minutes = Math.floor(whole / 60) % 60;
  const rest = (whole % 60).toFixed(digits).padStart(digits ? digits + 3 : 2, "0");
  return hours ? `${hours}:${String(minutes).padStart(2, "0")}:${rest}` : `${minutes}:${rest}`;
}

/** The last of ascending times that is not after t; -1 = none. */
export function lastBefore(times: ArrayLike<number>, t: number): number {
  let low = 0;
  let high = times.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle] <= t) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}
