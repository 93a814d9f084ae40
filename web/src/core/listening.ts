/** Sounds to be compared by ear and eye, several to an example, as they lie in a page; see explorer/listening_page.py. */

import { type BinaryFrame, readFrame } from "./binary-frame";
import type { Bytes } from "./heatmap";
import { decompress } from "./inline-transport";

/** A label on the axis of time, in seconds: a moment, or a span where it has an end; a note where it has a pitch (MIDI). */
export interface Mark {
  label: string;
  start: number;
  end: number | null;
  pitch: number | null;
}

/** Codes of a codec, [books × frames]. */
export interface Codes {
  values: Uint32Array;
  books: number;
  frames: number;
  /** Frames a second. */
  rate: number;
  /** Of each code of each codebook, [books × entries]: like codes have like bytes; null: by their numbers. */
  shades: Bytes | null;
}

/** Attention of heads over time: at each moment (a row) where in time (a column) each looks. */
export interface Attention {
  heads: string[];
  /** Of each head, 255 · √(p / most). */
  maps: Bytes[];
  /** The largest probability of each head. */
  most: Float32Array;
  /** Rows and columns a second. */
  rate: number;
  opening: number;
  /** What the head that is shown first does. */
  sentence: string;
}

export interface Sound {
  name: string;
  about: string;
  /** Samples a second. */
  rate: number;
  /** 16-bit samples, as in the file. */
  samples: Int16Array;
  wav: Blob;
  seconds: number;
  marks: Mark[];
  /** Log-mel spectrogram, low tones in the first row; `top`: its highest tone in Hz. */
  mel: Bytes & { rate: number; top: number };
  codes: Codes | null;
  attention: Attention | null;
}

export interface Example {
  title: string;
  about: string;
  facts: [name: string, value: string][];
  sounds: Sound[];
  /** Of the longest sound, in seconds. */
  seconds: number;
  /** The loudest sample of its sounds, as a share of full scale. */
  peak: number;
}

export interface Listening {
  title: string;
  about: string;
  command: string;
  version: string;
  examples: Example[];
  /** Titles of the examples for which there was no room. */
  left_out: string[];
}

type Description = Omit<Listening, "examples"> & {
  examples: (Omit<Example, "sounds" | "seconds" | "peak"> & { sounds: (Pick<Sound, "name" | "about" | "rate" | "marks"> & { coded: boolean; heads: string[] | null })[] })[];
};

export async function openListening(holder: Document = document): Promise<Listening> {
  const data = JSON.parse(new TextDecoder().decode(await decompress(holder.getElementById("listening")!))) as Description;
  const block = (kind: string, key: string) => holder.querySelector(`script[data-key="${kind}/${key}"]`)!;
  const examples = await Promise.all(data.examples.map(async (example, at): Promise<Example> => {
    const sounds = await Promise.all(example.sounds.map(async ({ coded, heads, ...sound }, number): Promise<Sound> => {
      const key = `${at}/${number}`;
      const wav = bytesOf(block("wav", key).textContent ?? "");
      const samples = samplesOf(wav);
      const mel = readFrame(await decompress(block("mel", key)), "spectrogram");
      const codes = coded ? readFrame(await decompress(block("codes", key)), "codes") : null;
      const attention = heads ? attentionOf(readFrame(await decompress(block("attention", key)), "attention"), heads) : null;
      const [height, width] = mel.shapes.values;
      return {
        ...sound, samples, attention, seconds: samples.length / sound.rate, wav: new Blob([wav], { type: "audio/wav" }),
        mel: { values: mel.arrays.values as Uint8Array, height, width, rate: mel.header.rate as number, top: mel.header.top as number },
        codes: codes && codesOf(codes),
      };
    }));
    return { ...example, sounds, seconds: Math.max(...sounds.map(({ seconds }) => seconds)), peak: Math.max(...sounds.map(loudest)) };
  }));
  return { ...data, examples };
}

function codesOf({ header, arrays, shapes }: BinaryFrame): Codes {
  const [books, frames] = shapes.codes;
  const shades = arrays.shades ? { values: arrays.shades as Uint8Array, height: shapes.shades[0], width: shapes.shades[1] } : null;
  return { values: arrays.codes as Uint32Array, books, frames, rate: header.rate as number, shades };
}

/** The shade of a code, from 0 to 1. */
export function shadeOf({ shades }: Codes, book: number, code: number): number {
  return shades ? shades.values[book * shades.width + code] / 255 : (code * 0.6180339887) % 1; // far apart for neighbours
}

function attentionOf({ header, arrays, shapes }: BinaryFrame, heads: string[]): Attention {
  const { rate, opening, sentence } = header as { rate: number; opening: number; sentence: string };
  const [, height, width] = shapes.values;
  const values = arrays.values as Uint8Array;
  const maps = heads.map((_, head) => ({ values: values.subarray(head * height * width, (head + 1) * height * width), height, width }));
  return { heads, maps, most: arrays.most as Float32Array, rate, opening, sentence };
}

/** The columns with the largest probability of a row, strongest first. */
export function strongestColumns({ maps, most }: Attention, head: number, row: number, count: number): { column: number; p: number }[] {
  const { values, width } = maps[head];
  const all = Array.from({ length: width }, (_, column) => ({ column, p: most[head] * (values[row * width + column] / 255) ** 2 }));
  return all.sort((a, b) => b.p - a.p).slice(0, count).filter(({ p }) => p > 0);
}

const bytesOf = (base64: string): ArrayBuffer => Uint8Array.from(atob(base64.trim()), (character) => character.charCodeAt(0)).buffer;

/** The samples of a wav file of one channel and 16 bits. */
export function samplesOf(wav: ArrayBuffer): Int16Array {
  const view = new DataView(wav);
  for (let at = 12; at + 8 <= wav.byteLength; ) {
    const size = view.getUint32(at + 4, true);
    if (view.getUint32(at, false) === 0x64617461) return new Int16Array(wav, at + 8, size >> 1); // "data"
    at += 8 + size + (size & 1);
  }
  throw new Error("A sound of this page has no samples.");
}

function loudest({ samples }: Sound): number {
  const { low, high } = peaks(samples, 0, samples.length, 1);
  return Math.max(-low[0], high[0], 1 / 32768);
}

/** Lowest and highest sample of each of `count` stretches of equal length that begin at `from`, as shares of full scale. */
export function peaks(samples: Int16Array, from: number, each: number, count: number): { low: Float32Array; high: Float32Array } {
  const low = new Float32Array(count);
  const high = new Float32Array(count);
  for (let column = 0; column < count; column++) {
    const first = Math.max(Math.floor(from + column * each), 0);
    const last = Math.min(Math.max(Math.floor(from + (column + 1) * each), first + 1), samples.length);
    let [least, most] = first < last ? [32767, -32768] : [0, 0];
    for (let at = first; at < last; at++) {
      if (samples[at] < least) least = samples[at];
      if (samples[at] > most) most = samples[at];
    }
    low[column] = least / 32768;
    high[column] = most / 32768;
  }
  return { low, high };
}

/** How often a code occurs in a codebook of these codes. */
export function occurrences({ values, frames }: Codes, book: number, code: number): number {
  let count = 0;
  for (let at = book * frames; at < (book + 1) * frames; at++) if (values[at] === code) count++;
  return count;
}
