/** Frames as the program writes them, for tests. */

type Numbers = Uint8Array | Uint32Array | Float32Array | Float64Array;

const padded = (size: number) => Math.ceil(size / 8) * 8;

export function frame(kind: string, header: object, arrays: [name: string, dtype: string, shape: number[], values: Numbers][]): ArrayBuffer {
  const described = arrays.map(([name, dtype, shape]) => ({ name, dtype, shape }));
  const json = new TextEncoder().encode(JSON.stringify({ frame: kind, arrays: described, ...header }));
  const start = padded(16 + json.length);
  const body = arrays.reduce((size, [, , , values]) => size + padded(values.byteLength), 0);
  const bytes = new Uint8Array(start + body);
  const view = new DataView(bytes.buffer);
  bytes.set(new TextEncoder().encode("GLAS"));
  view.setUint16(4, 2, true);
  view.setUint32(8, json.length, true);
  view.setUint32(12, body, true);
  bytes.set(json, 16);
  let at = start;
  for (const [, , , values] of arrays) {
    bytes.set(new Uint8Array(values.buffer, values.byteOffset, values.byteLength), at);
    at += padded(values.byteLength);
  }
  return bytes.buffer;
}
