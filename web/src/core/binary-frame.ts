/** Binary frame parser: 16-byte prefix, JSON header, typed arrays; each part padded to a multiple of 8 from the start. */

import { type Distribution, UserError, type Overview } from "./types";

export type FrameArray = Uint8Array | Uint32Array | Float32Array | Float64Array;

export interface BinaryFrame {
  kind: string;
  header: Record<string, unknown>;
  arrays: Record<string, FrameArray>;
  shapes: Record<string, number[]>;
  /** Size of the whole frame, as it was sent. */
  bytes?: number;
}

const TYPES = { u8: Uint8Array, u32: Uint32Array, f32: Float32Array, f64: Float64Array };
const MAGIC = 0x53414c47; // "GLAS" read as a little-endian number
const VERSION = 2;
const PREFIX = 16;

const padded = (size: number) => Math.ceil(size / 8) * 8;

/** Parse a binary frame of an expected kind; the arrays are views of the buffer. Throws a UserError on invalid data. */
export function readFrame(buffer: ArrayBuffer, kind: string): BinaryFrame {
  const invalid = (what: string) => new UserError(`The answer cannot be read: ${what}. Reload the page.`, "request");
  if (buffer.byteLength < PREFIX) throw invalid(`${buffer.byteLength} bytes are too few`);
  const view = new DataView(buffer);
  if (view.getUint32(0, true) !== MAGIC) throw invalid("it is not one of this program's frames");
  if (view.getUint16(4, true) !== VERSION) throw invalid(`version ${view.getUint16(4, true)}, and this page reads version ${VERSION}`);
  const headerSize = view.getUint32(8, true);
  const start = padded(PREFIX + headerSize);
  if (start + view.getUint32(12, true) !== buffer.byteLength) throw invalid("its length is not what it says");

  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, PREFIX, headerSize))) as Record<string, unknown>;
  if (header.frame !== kind) throw invalid(`it is ${String(header.frame)}, and ${kind} was asked for`);
  const frame: BinaryFrame = { kind, header, arrays: {}, shapes: {}, bytes: buffer.byteLength };
  let offset = start;
  for (const { name, dtype, shape } of header.arrays as { name: string; dtype: keyof typeof TYPES; shape: number[] }[]) {
    const Type = TYPES[dtype];
    if (!Type) throw invalid(`${name} has numbers of an unknown type, ${dtype}`);
    const length = shape.reduce((product, size) => product * size, 1);
    if (offset + length * Type.BYTES_PER_ELEMENT > buffer.byteLength) throw invalid(`${name} ends after the frame does`);
    frame.arrays[name] = new Type(buffer, offset, length);
    frame.shapes[name] = shape;
    offset += padded(length * Type.BYTES_PER_ELEMENT);
  }
  if (offset !== buffer.byteLength) throw invalid("there are bytes that belong to no array");
  return frame;
}

/** The overview in a frame. */
export function overviewOf(frame: BinaryFrame): Overview {
  const { map, layer, bins, rows_used, rows_total, stats: names, summaries, kinds, metrics } = frame.header as unknown as Overview & { stats: string[] };
  const [heads, height, width] = frame.shapes.thumbnails;
  const numbers = frame.arrays.stats as Float32Array;
  const stats = Object.fromEntries(
    names.map((name, column) => [name, Float32Array.from({ length: heads }, (_, head) => numbers[head * names.length + column])]),
  );
  return {
    map, layer, heads, height, width, bins, rows_used, rows_total, stats, summaries, kinds, metrics,
    thumbnails: frame.arrays.thumbnails as Uint8Array,
    scale: frame.arrays.scale as Float32Array,
  };
}

/** The next-token distribution in a frame. */
export function distributionOf({ header, arrays }: BinaryFrame): Distribution {
  const { node, vocabulary, tokens } = header as unknown as Distribution;
  const { ids, logprobs, ruled, rest_logprobs, rest_counts } = arrays as unknown as Distribution;
  return { node, vocabulary, tokens, ids, logprobs, ruled, rest_logprobs, rest_counts };
}
