/**
 * Transport of a standalone page: its data comes from script elements in the page itself.
 *
 *     <script id="session">, <script class="frame" data-key="overview/self/0">, … "layer/self/0">
 *         ──base64, inflate──> session, overviews; q, k, v of a layer ──core/attention──> lines, tiles, rows, neurons
 *
 * A block is unpacked when it is first needed. Probabilities are made in stripes of rows, of which the last used stay.
 */

import { type Floats, type Layer, TILE, biasOf, quantize, kvHead, weightedValues, maxPoolInto, scores, softmax, topKeys } from "./attention";
import { distributionOf, type BinaryFrame, type FrameKind, overviewOf, readFrame } from "./binary-frame";
import { type Contexts, type ContextsQuery, sameQuery } from "./contexts";
import { type EmbeddingSource, inlineEmbeddings } from "./embedding";
import type { Lookup, StoredLookups } from "./lookup";
import { LRUCache } from "./lru-cache";
import { maskOf } from "./mask";
import { type Attribution, attributionOf, type AttributionRequest, type Lens, lensOf, type LensRequest } from "./readings";
import type { Options } from "./generation-options";
import { changesOf, type PatchEffect, type PatchRequest, type Sweep, type SweepRequest } from "./patching";
import { mapOf } from "./url-state";
import { type Similarity, similarityOf } from "./similarity";
import { typeOf } from "./tokens";
import type { Transcript } from "./transcript";
import {
  type AttentionMap, type Distribution, type Lines, type LinesQuery, type Neuron, type Overview, UserError, type Row, type Session, type Tile, type TileQuery, type Transport,
  nullToMinusInfinity, type GenerationTrace, type TraceLine, type GenerationRequest, type TraceResult, type TraceStep,
} from "./types";

/** Rows computed at once. */
const STRIPE = 64;
/** Cache budget, in bytes, of decompressed layers, and of probabilities. */
const BUDGET = 128e6;
/** Longest computation, in ms, before yielding to the event loop. */
const YIELD_INTERVAL = 12;

/** Is this a page with its data inside? */
export function hasInline(holder: Document = document): boolean {
  return holder.getElementById("session") !== null;
}

export class InlineTransport implements Transport {
  readonly host = "page";
  private readonly blocks = new Map<string, Element>();
  private readonly layers = new LRUCache<Promise<Layer>>(BUDGET);
  private readonly stripes = new LRUCache<Floats>(BUDGET);
  private sessionData: Promise<Session> | undefined;
  private traceData: Promise<StoredTrace> | undefined;
  private sweepData: Promise<StoredSweep[]> | undefined;
  private lastYield = 0;

  constructor(private readonly holder: Document = document) {
    for (const block of holder.querySelectorAll("script.frame")) this.blocks.set(block.getAttribute("data-key") ?? "", block);
  }

  async run(texts: string[] | null): Promise<Session> {
    const session = await (this.sessionData ??= this.open());
    if (texts && texts.join("\0") !== session.texts.join("\0")) {
      throw new UserError(`This page holds one text; another page is made in the same way: ${session.command}`, "absent");
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
    const separate = query.mix === "each";
    const rows = query.rows[1] - query.rows[0];
    const maps = separate ? members.length : 1;
    const types = session.streams[map.keys].map(typeOf);
    const allowed = query.keys && ((key: number) => query.keys!.includes(types[key]));
    const count = Math.min(query.count, types.length);
    const keys = new Uint32Array(maps * rows * count);
    const probs = new Float32Array(maps * rows * count);
    const other = new Float32Array(maps * rows);
    const list = (at: number, values: Floats) => {
      const top = topKeys(values, count, allowed);
      keys.set(top.keys, at * count);
      probs.set(top.probs, at * count);
      other[at] = top.other;
    };
    const mix = separate ? null : Array.from({ length: rows }, () => new Float64Array(types.length));
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
    return { query, members: separate ? members : [], maps, count, keys, probs, other };
  }

  async tile(session: Session, query: TileQuery, signal?: AbortSignal): Promise<Tile> {
    const layer = await this.layer(session, query.map, query.layer);
    const side = TILE << query.level;
    const extent = (length: number, index: number) => Math.min(TILE, (length - index * side + (1 << query.level) - 1) >> query.level);
    const height = extent(layer.queries, query.row);
    const width = extent(layer.keys, query.column);
    if (!(height > 0 && width > 0)) throw new UserError(`There is no tile (${query.row}, ${query.column}) at level ${query.level}.`, "request");
    const pixels = new Float32Array(height * width);
    for (let row = query.row * side, end = Math.min(row + side, layer.queries); row < end; row++) {
      const at = ((row - query.row * side) >> query.level) * width;
      const values = await this.probs(layer, query.map, query.layer, query.head, row, signal);
      maxPoolInto(pixels.subarray(at, at + width), values, query.column * side, query.level);
    }
    return { query, height, width, ...quantize(pixels, query.companding) };
  }

  async row(session: Session, map: string, layer: number, head: number, query: number): Promise<Row> {
    const exact = scores(await this.layer(session, map, layer), head, query);
    return { map, layer, head, query, scores: exact, probs: softmax(exact) };
  }

  async neuron(session: Session, map: string, layer: number, head: number, query: number, keys: [number, number]): Promise<Neuron> {
    const data = await this.layer(session, map, layer);
    const { width } = data;
    const row = await this.row(session, map, layer, head, query);
    const group = kvHead(data, head);
    const of = (all: Floats) => all.slice((group * data.keys + keys[0]) * width, (group * data.keys + keys[1]) * width);
    const from = (head * data.queries + query) * width;
    return {
      ...row,
      keys,
      scale: data.scale,
      score_cap: data.scoreCap,
      kv_head: group,
      q: data.q.slice(from, from + width),
      k: of(data.k),
      v: of(data.v),
      z: weightedValues(data, head, row.probs),
      bias: biasOf(data, head, query) ?? undefined,
    };
  }

  async write(request: GenerationRequest, onLine: (line: TraceLine) => void): Promise<void> {
    const { trace, steps, ready, node } = await this.storedTrace();
    if ("w" in request || !same(request.options, trace.options)) throw await this.cannotGenerate();
    onLine({ trace });
    for (const step of steps) onLine({ step });
    onLine({ ready: ready ?? { answers: [{ node, score: 0 }], ended: [], seconds: 0, count: steps.reduce((sum, step) => sum + step.nodes.length, 0) } });
  }

  async stop(): Promise<void> {}

  async distribution(_: string, node: number): Promise<Distribution> {
    const block = this.blocks.get(`distribution/${node}`);
    if (!block) throw await this.cannotGenerate();
    return distributionOf(readFrame(await decompress(block), "distribution"));
  }

  /** The page's own session, where the node is on its path. */
  async attend(_: string, node: number): Promise<Session> {
    const session = await this.run(null);
    const data = await this.storedTrace();
    if (!session.generated || !onPath(data, node)) throw await this.cannotGenerate();
    return session;
  }

  async transcribe(session: Session): Promise<Transcript> {
    throw new UserError(`This page holds no transcript. A page of its own does: ${session.look.replace("glassformer look", "glassformer transcribe")} --html page.html`, "absent");
  }

  recording(): Promise<Blob> {
    return Promise.reject(new UserError("This page holds no sound.", "absent"));
  }

  async listen(): Promise<Session> {
    return this.run(null);
  }

  /** One component of a sweep that the page holds. */
  async patch(session: Session, { components, ...options }: PatchRequest): Promise<PatchEffect> {
    const [component] = components;
    for (const { request, sweep } of await this.storedSweeps()) {
      const row = sweep.components.findIndex((each) => each.includes(component));
      const classes = row >= 0 && components.length === 1 ? changesOf(sweep, component) : null;
      if (!classes || !(Object.keys(options) as (keyof typeof options)[]).every((name) => request[name] === options[name])) continue;
      const column = sweep.components[row].indexOf(component);
      return { metric: sweep.metric, before: sweep.before, after: sweep.values[row][column], normalised: sweep.normalised?.[row][column] ?? null, classes, at: sweep.at };
    }
    throw new UserError(`This page holds no such patch, and no model to compute it. To look at it: ${session.look} --view patch`, "absent");
  }

  async lens(session: Session, request: LensRequest): Promise<Lens> {
    return lensOf(await this.reading(session, "lens", request));
  }

  async attribution(session: Session, request: AttributionRequest): Promise<Attribution> {
    return attributionOf(await this.reading(session, "attribution", request));
  }

  private async reading(session: Session, kind: "lens" | "attribution", request: object): Promise<BinaryFrame> {
    const stored = session.readings?.find((each) => each.kind === kind && JSON.stringify(each.request) === JSON.stringify(request));
    const block = stored && this.blocks.get(`reading/${stored.key}`);
    if (block) return readFrame(await decompress(block), kind);
    throw new UserError(`This page holds no such ${kind}, and no model to compute it. To look at it: ${session.look} --view ${kind}`, "absent");
  }

  async sweep(session: Session, request: SweepRequest): Promise<Sweep> {
    const sweeps = await this.storedSweeps();
    const same = sweeps.find((each) => (Object.keys(request) as (keyof SweepRequest)[]).every((name) => each.request[name] === request[name]));
    if (same) return same.sweep;
    throw new UserError(`This page holds ${sweeps.length ? "another sweep" : "no sweep"}, and no model to run one. To run it: ${session.look} --view patch`, "absent");
  }

  private storedSweeps(): Promise<StoredSweep[]> {
    return (this.sweepData ??= (async () => {
      const block = this.holder.getElementById("sweeps");
      return block ? (JSON.parse(new TextDecoder().decode(await decompress(block))) as { sweeps: StoredSweep[] }).sweeps : [];
    })());
  }

  async lookup(session: Session, stream: string, token: number): Promise<Lookup> {
    const block = this.holder.getElementById("lookups");
    const stored = block ? (JSON.parse(new TextDecoder().decode(await decompress(block))) as StoredLookups) : {};
    const lookup = stored[stream]?.find(({ id }) => id === session.streams[stream][token].id);
    if (lookup) return lookup;
    throw new UserError(`This page holds no look-up of this token. To see it: ${session.look} --view head`, "absent");
  }

  async similarity(session: Session): Promise<Similarity> {
    const block = this.blocks.get("similarity");
    if (!block) throw new UserError(`This page holds no similarity of two texts. To see one: ${session.look.replace("glassformer look", "glassformer similar")}`, "absent");
    return similarityOf(readFrame(await decompress(block), "similarity"));
  }

  async contexts(session: Session, query: ContextsQuery): Promise<Contexts> {
    const block = this.holder.getElementById("contexts");
    const stored = block && (JSON.parse(new TextDecoder().decode(await decompress(block))) as { query: ContextsQuery; result: Contexts });
    if (stored && sameQuery(stored.query, query)) return stored.result;
    throw new UserError(`This page holds ${stored ? "one search" : "no search"} of the corpus. For another: ${session.look} --corpus INDEX --view contexts`, "absent");
  }

  embeddings(session: Session, stream: string): EmbeddingSource {
    const id = this.holder.getElementById("embedding") ? "embedding" : `embedding/${stream}`;
    const frame = async (name: string) => {
      const block = this.blocks.get(`${id}/${name}`);
      return block ? readFrame(await decompress(block), "embedding") : null;
    };
    return inlineEmbeddings(this.holder.getElementById(id), frame, decompress, session);
  }

  private storedTrace(): Promise<StoredTrace> {
    return (this.traceData ??= (async () => {
      const block = this.holder.getElementById("trace");
      if (!block) throw new UserError(`This page holds nothing that was written. To add it: ${(await this.run(null)).look} --view generate --html page.html`, "absent");
      return JSON.parse(new TextDecoder().decode(await decompress(block)), nullToMinusInfinity);
    })());
  }

  private async cannotGenerate(): Promise<UserError> {
    return new UserError(`This page holds one writing, and no model to go on with. To write on: ${(await this.storedTrace()).command}`, "absent");
  }

  private async open(): Promise<Session> {
    const block = this.holder.getElementById("session");
    if (!block) throw new UserError("This page holds no session.", "absent");
    return JSON.parse(new TextDecoder().decode(await decompress(block)));
  }

  private async frame(session: Session, kind: FrameKind, map: string, layer: number): Promise<BinaryFrame> {
    const block = this.blocks.get(`${kind}/${map}/${layer}`);
    if (block) return readFrame(await decompress(block), kind);
    const data = session.exact_layers?.[map] ?? [];
    const what = data.length ? `only of ${data.length === 1 ? "layer" : "layers"} ${data.join(", ")}` : "of no layer";
    const target = [...data, layer].sort((a, b) => a - b).join(",");
    throw new UserError(`Layer ${layer} is not in this page: it holds exact numbers ${what}. To add it: ${session.look} --html page.html --layers ${target}`, "absent");
  }

  private layer(session: Session, map: string, number: number): Promise<Layer> {
    const key = `${map}/${number}`;
    const cached = this.layers.get(key);
    if (cached) return cached;
    const pending = this.frame(session, "layer", map, number).then((frame) => {
      const layer = layerOf(frame, mapOf(session, map));
      this.layers.set(key, pending, layer.q.byteLength + layer.k.byteLength + layer.v.byteLength);
      return layer;
    });
    this.layers.set(key, pending, 0); // whoever asks meanwhile waits for the same; its size is known later
    return pending;
  }

  /** One row of probabilities, out of the stripe of rows around it. */
  private async probs(layer: Layer, map: string, number: number, head: number, row: number, signal?: AbortSignal): Promise<Floats> {
    const first = row - (row % STRIPE);
    const key = `${map}/${number}/${head}/${first}`;
    let stripe = this.stripes.get(key);
    if (!stripe) {
      await this.yieldToBrowser(signal);
      const rows = Math.min(STRIPE, layer.queries - first);
      stripe = layer.q instanceof Float64Array ? new Float64Array(rows * layer.keys) : new Float32Array(rows * layer.keys);
      for (let r = 0; r < rows; r++) stripe.set(softmax(scores(layer, head, first + r)), r * layer.keys);
      this.stripes.set(key, stripe, stripe.byteLength);
    }
    return stripe.subarray((row - first) * layer.keys, (row - first + 1) * layer.keys);
  }

  /** Yield to the event loop now and then, so that scrolling and painting go on; throws where the request was aborted. */
  private async yieldToBrowser(signal?: AbortSignal): Promise<void> {
    if (performance.now() - this.lastYield > YIELD_INTERVAL) {
      await new Promise((resolve) => setTimeout(resolve));
      this.lastYield = performance.now();
    }
    signal?.throwIfAborted();
  }
}

/** A sweep stored in a page, and what it answers. */
interface StoredSweep {
  request: SweepRequest;
  sweep: Sweep;
}

/** The generation trace stored in a page; `node` ends the path of its session. */
interface StoredTrace {
  trace: GenerationTrace;
  steps: TraceStep[];
  /** null where it was saved before it had come to its end. */
  ready: TraceResult | null;
  node: number;
  command: string;
}

/** Is a node on the path of the page's session? */
function onPath({ steps, node }: StoredTrace, target: number): boolean {
  const parents = new Map(steps.flatMap(({ nodes }) => nodes.map(({ id, parent }) => [id, parent])));
  for (let at: number | undefined = node; at !== undefined; at = parents.get(at)) if (at === target) return true;
  return false;
}

/** Are these the options of the trace? Options that are not named do not matter. */
const same = (requested: Options, options: Options): boolean => Object.entries(requested).every(([name, value]) => options[name] === value);

function layerOf(frame: BinaryFrame, map: AttentionMap): Layer {
  const { q, k, v, bias } = frame.arrays as Record<string, Floats>;
  const { heads, kv_heads: kvHeads, head_width: width } = map;
  const { layer, scale, score_cap: scoreCap } = frame.header as { layer: number; scale: number; score_cap: number | null };
  return { heads, kvHeads, queries: q.length / heads / width, keys: k.length / kvHeads / width, width, scale, scoreCap, q, k, v, bias, ...maskOf(map, layer) };
}

/** base64(deflate(bytes)) → bytes */
export async function decompress(block: Element): Promise<ArrayBuffer> {
  const text = atob((block.textContent ?? "").trim());
  const bytes = Uint8Array.from(text, (character) => character.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).arrayBuffer();
}
