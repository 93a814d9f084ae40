/** The binary answer: 16 bytes, a JSON header, arrays; each part padded to a multiple of 8 from the start. */

import { type Distribution, Refusal, type Overview } from "./types";

export type FrameArray = Uint8Array | Uint32Array | Float32Array | Float64Array;

export interface Frame {
  kind: FrameKind;
  header: Record<string, unknown>;
  arrays: Record<string, FrameArray>;
  shapes: Record<string, number[]>;
}

const KINDS = ["overview", "lines", "tile", "row", "neuron", "layer", "distribution"] as const;
export type FrameKind = (typeof KINDS)[number];

const TYPES = { u8: Uint8Array, u32: Uint32Array, f32: Float32Array, f64: Float64Array };
const MAGIC = 0x53414c47; // "GLAS" read as a little-endian number
const VERSION = 1;
const PREFIX = 16;

const padded = (size: number) => Math.ceil(size / 8) * 8;

/** Read a frame of the kind asked for; the arrays are views of the buffer. Anything unexpected is a Refusal. */
export function readFrame(buffer: ArrayBuffer, kind: FrameKind): Frame {
  const wrong = (what: string) => new Refusal(`The answer cannot be read: ${what}. Reload the page.`, "request");
  if (buffer.byteLength < PREFIX) throw wrong(`${buffer.byteLength} bytes are too few`);
  const view = new DataView(buffer);
  if (view.getUint32(0, true) !== MAGIC) throw wrong("it is not one of this program's frames");
  if (view.getUint16(4, true) !== VERSION) throw wrong(`version ${view.getUint16(4, true)}, and this page reads version ${VERSION}`);
  const found = KINDS[view.getUint16(6, true) - 1];
  if (found !== kind) throw wrong(`it is ${found ?? "of an unknown kind"}, and ${kind} was asked for`);
  const headerSize = view.getUint32(8, true);
  const start = padded(PREFIX + headerSize);
  if (start + view.getUint32(12, true) !== buffer.byteLength) throw wrong("its length is not what it says");

  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, PREFIX, headerSize))) as Record<string, unknown>;
  const frame: Frame = { kind, header, arrays: {}, shapes: {} };
  let at = start;
  for (const { name, dtype, shape } of header.arrays as { name: string; dtype: keyof typeof TYPES; shape: number[] }[]) {
    const Type = TYPES[dtype];
    if (!Type) throw wrong(`${name} has numbers of an unknown type, ${dtype}`);
    const length = shape.reduce((product, size) => product * size, 1);
    if (at + length * Type.BYTES_PER_ELEMENT > buffer.byteLength) throw wrong(`${name} ends after the frame does`);
    frame.arrays[name] = new Type(buffer, at, length);
    frame.shapes[name] = shape;
    at += padded(length * Type.BYTES_PER_ELEMENT);
  }
  if (at !== buffer.byteLength) throw wrong("there are bytes that belong to no array");
  return frame;
}

/** A layer's thumbnails and what is said of its heads. */
export function overviewOf(frame: Frame): Overview {
  const { map, layer, bins, rows_used, rows_total, stats: names, summaries } = frame.header as unknown as Overview & { stats: string[] };
  const [heads, height, width] = frame.shapes.thumbnails;
  const numbers = frame.arrays.stats as Float32Array;
  const stats = Object.fromEntries(
    names.map((name, column) => [name, Float32Array.from({ length: heads }, (_, head) => numbers[head * names.length + column])]),
  );
  return {
    map, layer, heads, height, width, bins, rows_used, rows_total, stats, summaries,
    thumbnails: frame.arrays.thumbnails as Uint8Array,
    scale: frame.arrays.scale as Float32Array,
  };
}

/** What could follow a node. */
export function distributionOf({ header, arrays }: Frame): Distribution {
  const { node, vocabulary, tokens } = header as unknown as Distribution;
  const { ids, logprobs, ruled, rest_logprobs, rest_counts } = arrays as unknown as Distribution;
  return { node, vocabulary, tokens, ids, logprobs, ruled, rest_logprobs, rest_counts };
}
