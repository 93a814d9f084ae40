/**
 * The transport of a standalone page: its answers come out of data blocks in the page itself.
 *
 *     <script id="session">, <script class="frame" data-key="overview/self/0">, … "layer/self/0">
 *         ──base64, inflate──> session, overviews; q, k, v of a layer ──core/attention──> lines, tiles, rows, neurons
 *
 * A block is unpacked when it is first needed. Probabilities are made in stripes of rows, of which the last used stay.
 */

import { type Floats, type Layer, TILE, biasOf, companded, kvHead, mixed, poolInto, scores, softmax, strongest } from "./attention";
import { distributionOf, type Frame, type FrameKind, overviewOf, readFrame } from "./frame";
import { Kept } from "./kept";
import { maskOf } from "./mask";
import type { Options } from "./recipe";
import { mapOf } from "./state";
import { typeOf } from "./tokens";
import {
  type AttentionMap, type Distribution, type Lines, type LinesQuery, type Neuron, type Overview, Refusal, type Row, type Session, type Tile, type TileQuery, type Transport,
  unsaid, type Writing, type WritingLine, type WritingOrder, type WritingReady, type WritingStep,
} from "./types";

/** Rows made at once. */
const STRIPE = 64;
/** What is kept of unpacked layers, and of probabilities. */
const BUDGET = 128e6;
/** Work this long, in ms, then let the page breathe. */
const BREATH = 12;

/** Is this a page with its data inside? */
export function hasInline(holder: Document = document): boolean {
  return holder.getElementById("session") !== null;
}

export class InlineTransport implements Transport {
  readonly host = "page";
  private readonly blocks = new Map<string, Element>();
  private readonly layers = new Kept<Promise<Layer>>(BUDGET);
  private readonly stripes = new Kept<Floats>(BUDGET);
  private opened: Promise<Session> | undefined;
  private replay: Promise<Held> | undefined;
  private breath = 0;

  constructor(private readonly holder: Document = document) {
    for (const block of holder.querySelectorAll("script.frame")) this.blocks.set(block.getAttribute("data-key") ?? "", block);
  }

  async run(texts: string[] | null): Promise<Session> {
    const session = await (this.opened ??= this.open());
    if (texts && texts.join("\0") !== session.texts.join("\0")) {
      throw new Refusal(`This page holds one text; to look at another: ${session.command}`, "absent");
    }
    return session;
  }

  async overview(session: Session, map: string, layer: number): Promise<Overview> {
    return overviewOf(await this.frame(session, "overview", map, layer));
  }

  async lines(session: Session, query: LinesQuery, signal?: AbortSignal): Promise<Lines> {
    const map = mapOf(session, query.map);
    const members: [number, number][] = [];
    for (let layer = query.layers[0]; layer <= query.layers[1]; layer++) for (const head of query.heads) members.push([layer, head]);
    const each = query.mix === "each";
    const rows = query.rows[1] - query.rows[0];
    const maps = each ? members.length : 1;
    const types = session.sides[map.keys].map(typeOf);
    const allowed = query.keys && ((key: number) => query.keys!.includes(types[key]));
    const count = Math.min(query.count, types.length);
    const keys = new Uint32Array(maps * rows * count);
    const probs = new Float32Array(maps * rows * count);
    const other = new Float32Array(maps * rows);
    const list = (at: number, values: Floats) => {
      const top = strongest(values, count, allowed);
      keys.set(top.keys, at * count);
      probs.set(top.probs, at * count);
      other[at] = top.other;
    };
    const mix = each ? null : Array.from({ length: rows }, () => new Float64Array(types.length));
    for (const [m, [number, head]] of members.entries()) {
      const layer = await this.layer(session, query.map, number);
      for (let r = 0; r < rows; r++) {
        const values = await this.probs(layer, query.map, number, head, query.rows[0] + r, signal);
        if (!mix) list(m * rows + r, values);
        else if (query.mix === "mean") for (let key = 0; key < values.length; key++) mix[r][key] += values[key] / members.length;
        else for (let key = 0; key < values.length; key++) mix[r][key] = Math.max(mix[r][key], values[key]);
      }
    }
    mix?.forEach((values, r) => list(r, values));
    return { query, members: each ? members : [], maps, count, keys, probs, other };
  }

  async tile(session: Session, query: TileQuery, signal?: AbortSignal): Promise<Tile> {
    const layer = await this.layer(session, query.map, query.layer);
    const side = TILE << query.level;
    const extent = (length: number, index: number) => Math.min(TILE, (length - index * side + (1 << query.level) - 1) >> query.level);
    const height = extent(layer.queries, query.row);
    const width = extent(layer.keys, query.column);
    if (!(height > 0 && width > 0)) throw new Refusal(`There is no tile (${query.row}, ${query.column}) at level ${query.level}.`, "request");
    const pixels = new Float32Array(height * width);
    for (let row = query.row * side, end = Math.min(row + side, layer.queries); row < end; row++) {
      const at = ((row - query.row * side) >> query.level) * width;
      const values = await this.probs(layer, query.map, query.layer, query.head, row, signal);
      poolInto(pixels.subarray(at, at + width), values, query.column * side, query.level);
    }
    return { query, height, width, ...companded(pixels, query.companding) };
  }

  async row(session: Session, map: string, layer: number, head: number, query: number): Promise<Row> {
    const exact = scores(await this.layer(session, map, layer), head, query);
    return { map, layer, head, query, scores: exact, probs: softmax(exact) };
  }

  async neuron(session: Session, map: string, layer: number, head: number, query: number, keys: [number, number]): Promise<Neuron> {
    const held = await this.layer(session, map, layer);
    const { width } = held;
    const row = await this.row(session, map, layer, head, query);
    const group = kvHead(held, head);
    const of = (all: Floats) => all.slice((group * held.keys + keys[0]) * width, (group * held.keys + keys[1]) * width);
    const from = (head * held.queries + query) * width;
    return {
      ...row,
      keys,
      scale: held.scale,
      kv_head: group,
      q: held.q.slice(from, from + width),
      k: of(held.k),
      v: of(held.v),
      z: mixed(held, head, row.probs),
      bias: biasOf(held, head, query) ?? undefined,
    };
  }

  async write(order: WritingOrder, heard: (line: WritingLine) => void): Promise<void> {
    const { writing, steps, ready, node } = await this.written();
    if ("w" in order || !same(order.options, writing.options)) throw await this.unwritten();
    heard({ writing });
    for (const step of steps) heard({ step });
    heard({ ready: ready ?? { answers: [{ node, score: 0 }], ended: [], seconds: 0, count: steps.reduce((sum, step) => sum + step.nodes.length, 0) } });
  }

  async stop(): Promise<void> {}

  async distribution(_: string, node: number): Promise<Distribution> {
    const block = this.blocks.get(`distribution/${node}`);
    if (!block) throw await this.unwritten();
    return distributionOf(readFrame(await unpacked(block), "distribution"));
  }

  /** The page's own pass, if that is what it read. */
  async attend(_: string, node: number): Promise<Session> {
    const session = await this.run(null);
    const held = await this.written();
    if (!session.written || !onPath(held, node)) throw await this.unwritten();
    return session;
  }

  private written(): Promise<Held> {
    return (this.replay ??= (async () => {
      const block = this.holder.getElementById("writing");
      if (!block) throw new Refusal(`This page holds nothing that was written. To add it: ${(await this.run(null)).command} --view generate`, "absent");
      return JSON.parse(new TextDecoder().decode(await unpacked(block)), unsaid);
    })());
  }

  private async unwritten(): Promise<Refusal> {
    return new Refusal(`This page holds one writing, and no model to go on with. To write on: ${(await this.written()).command}`, "absent");
  }

  private async open(): Promise<Session> {
    const block = this.holder.getElementById("session");
    if (!block) throw new Refusal("This page holds no session.", "absent");
    return JSON.parse(new TextDecoder().decode(await unpacked(block)));
  }

  private async frame(session: Session, kind: FrameKind, map: string, layer: number): Promise<Frame> {
    const block = this.blocks.get(`${kind}/${map}/${layer}`);
    if (block) return readFrame(await unpacked(block), kind);
    const held = session.held?.[map] ?? [];
    const what = held.length ? `only of ${held.length === 1 ? "layer" : "layers"} ${held.join(", ")}` : "of no layer";
    const wanted = [...held, layer].sort((a, b) => a - b).join(",");
    throw new Refusal(`Layer ${layer} is not in this page: it holds exact numbers ${what}. To add it: ${session.command} --layers ${wanted}`, "absent");
  }

  private layer(session: Session, map: string, number: number): Promise<Layer> {
    const key = `${map}/${number}`;
    const kept = this.layers.get(key);
    if (kept) return kept;
    const reading = this.frame(session, "layer", map, number).then((frame) => {
      const layer = layerOf(frame, mapOf(session, map));
      this.layers.set(key, reading, layer.q.byteLength + layer.k.byteLength + layer.v.byteLength);
      return layer;
    });
    this.layers.set(key, reading, 0); // whoever asks meanwhile waits for the same; its size is known later
    return reading;
  }

  /** One row of probabilities, out of the stripe of rows around it. */
  private async probs(layer: Layer, map: string, number: number, head: number, row: number, signal?: AbortSignal): Promise<Floats> {
    const first = row - (row % STRIPE);
    const key = `${map}/${number}/${head}/${first}`;
    let stripe = this.stripes.get(key);
    if (!stripe) {
      await this.breathe(signal);
      const rows = Math.min(STRIPE, layer.queries - first);
      stripe = layer.q instanceof Float64Array ? new Float64Array(rows * layer.keys) : new Float32Array(rows * layer.keys);
      for (let r = 0; r < rows; r++) stripe.set(softmax(scores(layer, head, first + r)), r * layer.keys);
      this.stripes.set(key, stripe, stripe.byteLength);
    }
    return stripe.subarray((row - first) * layer.keys, (row - first + 1) * layer.keys);
  }

  /** Give way to scrolling and painting now and then; stop where nobody waits any more. */
  private async breathe(signal?: AbortSignal): Promise<void> {
    if (performance.now() - this.breath > BREATH) {
      await new Promise((resolve) => setTimeout(resolve));
      this.breath = performance.now();
    }
    signal?.throwIfAborted();
  }
}

/** What was written, as a page holds it; `node` ends the path that its pass read. */
interface Held {
  writing: Writing;
  steps: WritingStep[];
  /** null where it was saved before it had come to its end. */
  ready: WritingReady | null;
  node: number;
  command: string;
}

/** Is a node on the path that the page's pass read? */
function onPath({ steps, node }: Held, wanted: number): boolean {
  const parents = new Map(steps.flatMap(({ nodes }) => nodes.map(({ id, parent }) => [id, parent])));
  for (let at: number | undefined = node; at !== undefined; at = parents.get(at)) if (at === wanted) return true;
  return false;
}

/** Are these the options that hold? What is not named is as it was. */
const same = (asked: Options, hold: Options): boolean => Object.entries(asked).every(([name, value]) => hold[name] === value);

function layerOf(frame: Frame, map: AttentionMap): Layer {
  const { q, k, v, bias } = frame.arrays as Record<string, Floats>;
  const { heads, kv_heads: kvHeads, head_width: width } = map;
  const { layer, scale } = frame.header as { layer: number; scale: number };
  return { heads, kvHeads, queries: q.length / heads / width, keys: k.length / kvHeads / width, width, scale, q, k, v, bias, ...maskOf(map, layer) };
}

/** base64(deflate(bytes)) → bytes */
async function unpacked(block: Element): Promise<ArrayBuffer> {
  const text = atob((block.textContent ?? "").trim());
  const bytes = Uint8Array.from(text, (character) => character.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).arrayBuffer();
}
