/**
 * Transport of a standalone page: its data comes from script elements in the page itself.
 *
 *     <script id="session">, <script class="frame" data-key="overview/self/0">, … "layer/self/0">
 *         ──base64, inflate──> session, overviews; q, k, v of a layer ──core/attention──> lines, tiles, rows, neurons
 *
 * A block is unpacked when it is first needed. Probabilities are made in stripes of rows, of which the last used stay.
 */

import { type Floats, type Layer, TILE, biasOf, quantize, kvHead, weightedValues, maxPoolInto, scores, softmax, topKeys } from "./attention";
import { type BinaryFrame, type FrameArray, readFrame } from "./binary-frame";
import { type EmbeddingSource, inlineEmbeddings } from "./embedding";
import type { StoredLookups } from "./lookup";
import { LRUCache } from "./lru-cache";
import { maskOf } from "./mask";
import type { Options } from "./generation-options";
import { changesOf, type PatchRequest, type Sweep } from "./patching";
import { mapOf } from "./url-state";
import { typeOf } from "./tokens";
import type { Transcript } from "./transcript";
import {
  type AttentionMap, type LinesQuery, UserError, type Session, type TileQuery, type Transport, type ViewOptions,
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
  private written: Promise<Session> | undefined;
  private traceData: Promise<StoredTrace> | undefined;
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

  /** Overviews and stored views as they are; tiles, rows and links are computed from the exact numbers of a layer. */
  async view(name: string, session: Session | null, request: object, { signal }: ViewOptions = {}): Promise<BinaryFrame> {
    if (name === "distribution") return this.distribution((request as { node: number }).node);
    const own = session ?? (await this.run(null));
    switch (name) {
      case "overview": {
        const { map, layer } = request as { map: string; layer: number };
        return this.frame(own, name, map, layer);
      }
      case "lines": return this.lines(own, request as LinesQuery, signal);
      case "tile": return this.tile(own, request as TileQuery, signal);
      case "row": return this.row(own, request as RowRequest);
      case "neuron": return this.neuron(own, request as RowRequest & { keys: [number, number] });
      case "lookup": return this.lookup(own, request as { stream: string; token: number });
      case "patch": return this.patch(own, request as PatchRequest);
      default: return this.stored(own, name, request);
    }
  }

  /** A view that the page holds; of several, the one that was computed last. */
  private async stored(session: Session, name: string, request: object): Promise<BinaryFrame> {
    const found = session.readings?.filter((each) => each.view === name && sameRequest(each.request, request)).at(-1);
    const block = found && this.blocks.get(`view/${found.key}`);
    if (block) return readFrame(await decompress(block), name);
    throw absent(ABSENT[name] ?? `this of the view ${name}`, (HOW[name] ?? lookAt)(session, name));
  }

  /** The strongest links of each query. `layers` is half open here. */
  private async lines(session: Session, query: LinesQuery, signal?: AbortSignal): Promise<BinaryFrame> {
    const map = mapOf(session, query.map);
    const members: [number, number][] = [];
    for (let layer = query.layers[0]; layer < query.layers[1]; layer++) for (const head of query.heads) members.push([layer, head]);
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
    const shares = new Float64Array(rows);
    const mix = separate ? null : Array.from({ length: rows }, () => new Float64Array(types.length));
    for (const [m, [number, head]] of members.entries()) {
      const layer = await this.layer(session, query.map, number);
      for (let r = 0; r < rows; r++) {
        const values = await this.probs(session, layer, query.map, number, head, query.rows[0] + r, signal);
        if (!mix) list(m * rows + r, values);
        else if (query.mix === "max") for (let key = 0; key < values.length; key++) mix[r][key] = Math.max(mix[r][key], values[key]);
        else {
          const share = query.mix === "written" ? layer.written[head * layer.queries + query.rows[0] + r] : query.weights?.[m % query.heads.length] ?? 1;
          shares[r] += share;
          for (let key = 0; key < values.length; key++) mix[r][key] += share * values[key];
        }
      }
    }
    mix?.forEach((values, r) => list(r, query.mix === "max" ? values : values.map((x) => x / (shares[r] || 1))));
    return frameOf("lines", { members: separate ? members : [] }, { keys, probs, other }, { keys: [maps, rows, count] });
  }

  private async tile(session: Session, query: TileQuery, signal?: AbortSignal): Promise<BinaryFrame> {
    const layer = await this.layer(session, query.map, query.layer);
    const side = TILE << query.level;
    const extent = (length: number, index: number) => Math.min(TILE, (length - index * side + (1 << query.level) - 1) >> query.level);
    const height = extent(layer.queries, query.row);
    const width = extent(layer.keys, query.column);
    if (!(height > 0 && width > 0)) throw new UserError(`There is no tile (${query.row}, ${query.column}) at level ${query.level}.`, "request");
    const pixels = new Float32Array(height * width);
    for (let row = query.row * side, end = Math.min(row + side, layer.queries); row < end; row++) {
      const at = ((row - query.row * side) >> query.level) * width;
      const values = await this.probs(session, layer, query.map, query.layer, query.head, row, signal);
      maxPoolInto(pixels.subarray(at, at + width), values, query.column * side, query.level);
    }
    const { values, scale } = quantize(pixels, query.companding);
    return frameOf("tile", { scale }, { tile: values }, { tile: [height, width] });
  }

  private async row(session: Session, { map, layer, head, query }: RowRequest): Promise<BinaryFrame> {
    const exact = scores(await this.layer(session, map, layer), head, query);
    return frameOf("row", {}, { scores: exact, probs: softmax(exact) }, {});
  }

  private async neuron(session: Session, { map, layer, head, query, keys }: RowRequest & { keys: [number, number] }): Promise<BinaryFrame> {
    const data = await this.layer(session, map, layer);
    const { width } = data;
    const exact = scores(data, head, query);
    const probs = softmax(exact);
    const group = kvHead(data, head);
    const of = (all: Floats) => all.slice((group * data.keys + keys[0]) * width, (group * data.keys + keys[1]) * width);
    const from = (head * data.queries + query) * width;
    const bias = biasOf(data, head, query);
    const arrays = { scores: exact, probs, q: data.q.slice(from, from + width), k: of(data.k), v: of(data.v), z: weightedValues(data, head, probs), ...(bias && { bias }) };
    return frameOf("neuron", { keys, scale: data.scale, score_cap: data.scoreCap, kv_head: group }, arrays, {});
  }

  async write(request: GenerationRequest, onLine: (line: TraceLine) => void): Promise<void> {
    const { trace, steps, ready, node } = await this.storedTrace();
    if ("w" in request || !same(request.options, trace.options)) throw await this.cannotGenerate();
    onLine({ trace });
    for (const step of steps) onLine({ step });
    onLine({ ready: ready ?? { answers: [{ node, score: 0 }], ended: [], seconds: 0, count: steps.reduce((sum, step) => sum + step.nodes.length, 0) } });
  }

  async stop(): Promise<void> {}

  private async distribution(node: number): Promise<BinaryFrame> {
    const block = this.blocks.get(`distribution/${node}`);
    if (!block) throw await this.cannotGenerate();
    return readFrame(await decompress(block), "distribution");
  }

  /** The session over what was written, where the node is on its path. */
  async attend(_: string, node: number): Promise<Session> {
    const block = this.holder.getElementById("written");
    if (!block || !onPath(await this.storedTrace(), node)) throw await this.cannotGenerate();
    return (this.written ??= described(block));
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

  private async lookup(session: Session, { stream, token }: { stream: string; token: number }): Promise<BinaryFrame> {
    const block = this.holder.getElementById("lookups");
    const stored = block ? (JSON.parse(new TextDecoder().decode(await decompress(block))) as StoredLookups) : {};
    const lookup = stored[stream]?.find(({ id }) => id === session.streams[stream][token].id);
    if (lookup) return frameOf("lookup", { ...lookup }, {}, {});
    throw new UserError(`This page holds no look-up of this token. ${lookAt(session, "head")}`, "absent");
  }

  /** One component of a sweep that the page holds. */
  private async patch(session: Session, { components, ...options }: PatchRequest): Promise<BinaryFrame> {
    const [component] = components;
    for (const { request, key } of session.readings?.filter((each) => each.view === "sweep") ?? []) {
      if (!sameRequest(request, options)) continue;
      const sweep = readFrame(await decompress(this.blocks.get(`view/${key}`)!), "sweep").header as unknown as Sweep;
      const row = sweep.components.findIndex((each) => each.includes(component));
      const classes = row >= 0 && components.length === 1 ? changesOf(sweep, component) : null;
      if (!classes) continue;
      const column = sweep.components[row].indexOf(component);
      return frameOf("patch", { metric: sweep.metric, before: sweep.before, after: sweep.values[row][column], normalised: sweep.normalised?.[row][column] ?? null, classes, at: sweep.at }, {}, {});
    }
    throw absent("what this part does to the prediction", lookAt(session, "patch"));
  }

  embeddings(session: Session, stream: string): EmbeddingSource {
    const id = this.holder.getElementById("embedding") ? "embedding" : `${session.generated ? "written/" : ""}embedding/${stream}`;
    const frame = async (name: string) => {
      const block = this.blocks.get(`${id}/${name}`);
      const kind = name === "pca" ? "places" : name.startsWith("neighbours/") ? "neighbours" : "projection";
      return block ? readFrame(await decompress(block), kind) : null;
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
    return described(block);
  }

  private async frame(session: Session, kind: string, map: string, layer: number): Promise<BinaryFrame> {
    const block = this.blocks.get(`${session.generated ? "written/" : ""}${kind}/${map}/${layer}`);
    if (block) return readFrame(await decompress(block), kind);
    const data = session.exact_layers?.[map] ?? [];
    const what = data.length ? `only of ${data.length === 1 ? "layer" : "layers"} ${data.join(", ")}` : "of no layer";
    const target = [...data, layer].sort((a, b) => a - b).join(",");
    throw new UserError(`Layer ${layer} is not in this page: it holds exact numbers ${what}. To add it: ${session.look} --html page.html --layers ${target}`, "absent");
  }

  private layer(session: Session, map: string, number: number): Promise<Layer> {
    const key = `${session.id}/${map}/${number}`;
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
  private async probs(session: Session, layer: Layer, map: string, number: number, head: number, row: number, signal?: AbortSignal): Promise<Floats> {
    const first = row - (row % STRIPE);
    const key = `${session.id}/${map}/${number}/${head}/${first}`;
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

interface RowRequest {
  map: string;
  layer: number;
  head: number;
  query: number;
}

/** Does a stored view answer this request? Fields that it does not name do not matter. */
const sameRequest = (stored: Record<string, unknown>, request: object): boolean =>
  Object.entries(request).every(([name, value]) => JSON.stringify(stored[name] ?? null) === JSON.stringify(value ?? null));

/** A frame that is computed here. */
const frameOf = (kind: string, header: Record<string, unknown>, arrays: Record<string, FrameArray>, shapes: Record<string, number[]>): BinaryFrame => ({ kind, header, arrays, shapes });

const absent = (what: string, how: string) => new UserError(`This saved page does not hold ${what}: it has no model to compute with. ${how}`, "absent");
/** What a saved page does not hold, in the words of a reader of the view. */
const ABSENT: Record<string, string> = {
  lens: "what the model would answer after each layer",
  attribution: "why the model gives this answer",
  sweep: "what each part does to the prediction",
  route: "the route of this token through the layers",
  similarity: "this similarity",
  difference: "this comparison",
  contexts: "this search of the corpus",
  weight: "the numbers of this weight",
  quantisation: "these weights before and after rounding",
  masks: "these masks",
  without: "the text without this part",
};
const lookAt = ({ look }: Session, view: string) => `To see it: ${look} --view ${view}`;
/** How to see a view that a page lacks, where it is not by `look --view`. */
const HOW: Record<string, (session: Session, name: string) => string> = {
  sweep: (session) => lookAt(session, "patch"),
  weight: (session) => lookAt(session, "architecture"),
  difference: (session) => `${lookAt(session, "difference")} --against int8`,
  similarity: ({ look }) => `To see it: ${look.replace("glassformer look", "glassformer similar")}`,
  contexts: ({ look }) => `To search: ${look} --corpus INDEX --view contexts`,
};

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
  const { q, k, v, bias, written } = frame.arrays as Record<string, Floats>;
  const { heads, kv_heads: kvHeads, head_width: width } = map;
  const { layer, scale, score_cap: scoreCap } = frame.header as { layer: number; scale: number; score_cap: number | null };
  return { heads, kvHeads, queries: q.length / heads / width, keys: k.length / kvHeads / width, width, scale, scoreCap, q, k, v, bias, written, ...maskOf(map, layer) };
}

const described = async (block: Element): Promise<Session> => JSON.parse(new TextDecoder().decode(await decompress(block)));

/** base64(deflate(bytes)) → bytes */
export async function decompress(block: Element): Promise<ArrayBuffer> {
  const text = atob((block.textContent ?? "").trim());
  const bytes = Uint8Array.from(text, (character) => character.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).arrayBuffer();
}
