/**
 * Tables as Arrow IPC files, which pandas, polars and R read with their types: numbers as float64, all else as text.
 *
 *     magic | schema message | record batch message, columns | footer: the schema again, where the batch is | magic
 *
 * Messages are FlatBuffers, written from their end to their beginning. Source: Apache Arrow, columnar format 1.5, IPC.
 */

type Cell = string | number;

const MAGIC = new TextEncoder().encode("ARROW1");
const VERSION = 4; // of the metadata: V5
const [SCHEMA, RECORD_BATCH] = [1, 3]; // kinds of message
const [FLOATING_POINT, UTF8, DOUBLE] = [3, 5, 2]; // types, and a precision
const ALIGNED = 8;

const padded = (size: number) => Math.ceil(size / ALIGNED) * ALIGNED;

interface Column {
  name: string;
  text: boolean;
  empty: number;
  buffers: Uint8Array[];
}

/** A table whose first row holds the names of its columns, as an Arrow file. An empty cell of a column of numbers is null. */
export function arrow([names, ...rows]: Cell[][]): Uint8Array<ArrayBuffer> {
  const columns = names.map((name, at) => columnOf(String(name), rows.map((row) => row[at] ?? "")));
  const buffers = columns.flatMap((column) => column.buffers);
  const places: [offset: number, length: number][] = [];
  let bodyLength = 0;
  for (const { length } of buffers) {
    places.push([bodyLength, length]);
    bodyLength += padded(length);
  }
  const schema = message(SCHEMA, 0, (at) => schemaOf(at, columns));
  const batch = message(RECORD_BATCH, bodyLength, (at) => {
    const where = at.structs(16, places.flat().map(BigInt));
    const nodes = at.structs(16, columns.flatMap(({ empty }) => [BigInt(rows.length), BigInt(empty)]));
    return at.table({ 0: at.long(rows.length), 1: at.to(nodes), 2: at.to(where) });
  });
  const start = padded(MAGIC.length);
  const footer = new Builder();
  const blocks = footer.structs(24, [BigInt(start + schema.length), BigInt(batch.length), BigInt(bodyLength)]);
  const again = schemaOf(footer, columns);
  const end = footer.finish(footer.table({ 0: footer.short(VERSION), 1: footer.to(again), 3: footer.to(blocks) }));
  const size = new Uint8Array(4);
  new DataView(size.buffer).setInt32(0, end.length, true);
  const stop = Uint8Array.of(255, 255, 255, 255, 0, 0, 0, 0);
  return joined([MAGIC, new Uint8Array(start - MAGIC.length), schema, batch, ...buffers.flatMap((each) => [each, new Uint8Array(padded(each.length) - each.length)]), stop, end, size, MAGIC]);
}

/** Validity bits, then numbers; or validity bits, offsets and letters. */
function columnOf(name: string, cells: Cell[]): Column {
  const given = cells.filter((cell) => cell !== "");
  const text = !given.length || given.some((cell) => typeof cell !== "number");
  const valid = new Uint8Array(Math.ceil(cells.length / 8));
  cells.forEach((cell, at) => (text || cell !== "") && (valid[at >> 3] |= 1 << (at & 7)));
  if (!text) {
    const values = Float64Array.from(cells, (cell) => (cell === "" ? 0 : (cell as number)));
    return { name, text, empty: cells.length - given.length, buffers: [valid, new Uint8Array(values.buffer)] };
  }
  const letters = cells.map((cell) => new TextEncoder().encode(String(cell)));
  const offsets = new Int32Array(cells.length + 1);
  letters.forEach(({ length }, at) => (offsets[at + 1] = offsets[at] + length));
  return { name, text, empty: 0, buffers: [valid, new Uint8Array(offsets.buffer), joined(letters)] };
}

function schemaOf(at: Builder, columns: Column[]): number {
  const fields = columns.map(({ name, text }) => {
    const [label, none] = [at.string(name), at.offsets([])];
    const type = at.table(text ? {} : { 0: at.short(DOUBLE) });
    return at.table({ 0: at.to(label), 1: at.byte(1), 2: at.byte(text ? UTF8 : FLOATING_POINT), 3: at.to(type), 5: at.to(none) });
  });
  const list = at.offsets(fields);
  return at.table({ 1: at.to(list) });
}

/** A message with its length in front, whose body follows. */
function message(kind: number, bodyLength: number, header: (at: Builder) => number): Uint8Array {
  const at = new Builder();
  const made = header(at);
  const content = at.finish(at.table({ 0: at.short(VERSION), 1: at.byte(kind), 2: at.to(made), 3: at.long(bodyLength) }));
  const size = padded(content.length);
  const front = new DataView(new ArrayBuffer(8));
  front.setInt32(0, -1, true);
  front.setInt32(4, size, true);
  return joined([new Uint8Array(front.buffer), content, new Uint8Array(size - content.length)]);
}

function joined(parts: Uint8Array[]): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(parts.reduce((total, { length }) => total + length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/** A field of a table: its size in bytes, and what writes it. */
interface Field {
  size: number;
  write(): void;
}

/** FlatBuffers, from the end on: a place is the number of bytes from there to the end. Source: flatbuffers.dev, internals. */
class Builder {
  private bytes = new Uint8Array(1024);
  private used = 0;
  private widest = 1;

  short = (x: number): Field => ({ size: 2, write: () => this.view(2).setInt16(0, x, true) });
  byte = (x: number): Field => ({ size: 1, write: () => this.view(1).setUint8(0, x) });
  long = (x: number): Field => ({ size: 8, write: () => this.view(8).setBigInt64(0, BigInt(x), true) });
  /** Where something that is written already begins. */
  to = (place: number): Field => ({ size: 4, write: () => this.offset(place) });

  string(text: string): number {
    const letters = new TextEncoder().encode(text);
    this.align(4, letters.length + 1);
    this.view(letters.length + 1); // ends with a zero
    this.bytes.set(letters, this.bytes.length - this.used);
    this.view(4).setUint32(0, letters.length, true);
    return this.used;
  }

  offsets(places: number[]): number {
    this.align(4, 4 * places.length);
    for (const place of [...places].reverse()) this.offset(place);
    this.view(4).setUint32(0, places.length, true);
    return this.used;
  }

  /** Structs of this many bytes, whose numbers have 64 bits each. */
  structs(size: number, numbers: bigint[]): number {
    this.align(4, 8 * numbers.length);
    this.align(8, 8 * numbers.length);
    for (const x of [...numbers].reverse()) this.view(8).setBigInt64(0, x, true);
    this.view(4).setUint32(0, (8 * numbers.length) / size, true);
    return this.used;
  }

  /** A table of fields by their numbers. */
  table(fields: Record<number, Field>): number {
    const end = this.used;
    const numbers = Object.keys(fields).map(Number);
    const places = new Map<number, number>();
    for (const number of numbers) {
      this.align(fields[number].size, 0);
      fields[number].write();
      places.set(number, this.used);
    }
    this.align(4, 0);
    this.view(4);
    const table = this.used;
    const count = Math.max(-1, ...numbers) + 1;
    for (let number = count - 1; number >= 0; number--) this.view(2).setUint16(0, places.has(number) ? table - places.get(number)! : 0, true);
    this.view(2).setUint16(0, table - end, true);
    this.view(2).setUint16(0, 2 * count + 4, true);
    new DataView(this.bytes.buffer, this.bytes.length - table, 4).setInt32(0, this.used - table, true);
    return table;
  }

  finish(root: number): Uint8Array {
    this.align(this.widest, 4);
    this.offset(root);
    return this.bytes.slice(this.bytes.length - this.used);
  }

  private offset(place: number): void {
    this.align(4, 0);
    const from = this.used + 4;
    this.view(4).setUint32(0, from - place, true);
  }

  /** Zeros, so that something of this width begins at a multiple of it once `then` bytes are written before it. */
  private align(width: number, then: number): void {
    this.widest = Math.max(this.widest, width);
    this.view((width - ((this.used + then) % width)) % width);
  }

  /** So many bytes more in front, zeros at first. */
  private view(size: number): DataView {
    while (this.used + size > this.bytes.length) {
      const more = new Uint8Array(2 * this.bytes.length);
      more.set(this.bytes, this.bytes.length);
      this.bytes = more;
    }
    this.used += size;
    return new DataView(this.bytes.buffer, this.bytes.length - this.used, size);
  }
}
