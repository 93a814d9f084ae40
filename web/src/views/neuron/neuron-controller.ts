/** Controller of the neuron view: the numbers of one query that have been loaded, and the keys on screen. */

import { batch, computed, type ReadonlySignal, signal } from "@preact/signals";
import { type Floats, topKeys } from "../../core/attention";
import { LRUCache } from "../../core/lru-cache";
import { type Mask, maskOf, visibleKeys } from "../../core/mask";
import { mapOf } from "../../core/url-state";
import { type AttentionMap, type Neuron, errorHandler, type Token, type ViewProps } from "../../core/types";
import { RequestPool } from "../matrix/request-pool";
import { around, keysThatFit, runs } from "./arithmetic";
import * as views from "../../core/views";

export type Order = "position" | "probability";

/** Keys on screen at a time. */
const PAGE = 32;
const NARROW_PAGE = 8;
/** Bytes an answer may have. */
const BUDGET = 60_000;

interface RowPosition {
  layer: number;
  head: number;
  query: number;
}

/** A query's row, which comes whole, and the keys and values that have come. */
export interface Numbers {
  row: Neuron;
  k: Map<number, Floats>;
  v: Map<number, Floats>;
}

export class NeuronController {
  readonly map: AttentionMap;
  readonly queries: Token[];
  readonly keys: Token[];
  readonly order = signal<Order>("position");
  /** The first key on screen, or the first rank; null until the row says where to look. */
  readonly start = signal<number | null>(null);
  readonly narrow = signal(false);
  /** Are the values of every key wanted, to check z? */
  readonly all = signal(false);
  /** The dimension under the pointer, in every strip at once. */
  readonly dimension = signal<number | null>(null);
  readonly absent = signal<string | null>(null);
  readonly at: ReadonlySignal<RowPosition>;
  readonly numbers: ReadonlySignal<Numbers | null>;
  /** The keys on screen, in their order. */
  readonly page: ReadonlySignal<number[]>;
  /** Keys in one answer at most. */
  readonly fit: number;
  readonly #version = signal(0);
  /** The pinned key that was last brought on screen: turning the pages leaves it behind. */
  #scrolledTo: number | null = null;
  readonly #cache = new LRUCache<Numbers>(16);
  readonly #pool: RequestPool<RowPosition & { keys: [number, number] }, Neuron>;

  constructor(readonly props: ViewProps, map: string) {
    const { session, state, transport } = props;
    this.map = mapOf(session, map);
    this.queries = session.streams[this.map.queries];
    this.keys = session.streams[this.map.keys];
    const { layers: [layer], heads: [head] } = state.peek();
    const told = session.opening.findings.find((finding) => finding.map === this.map.name && finding.layer === layer && finding.head === head);
    const first = told?.query ?? Math.max(0, this.queries.findIndex((token) => !token.special));
    this.at = computed(() => ({ layer: state.value.layers[0], head: state.value.heads[0], query: state.value.query ?? first }));
    this.fit = keysThatFit(this.map, this.keys.length, session.model.dtype === "float64" ? 8 : 4, BUDGET);
    this.numbers = computed(() => {
      void this.#version.value;
      return this.#cache.get(name(this.at.value)) ?? null;
    });
    this.page = computed(() => this.#page());
    this.#pool = new RequestPool({
      key: ({ keys, ...at }) => `${name(at)}/${keys.join("-")}`,
      ask: ({ keys, ...at }, abort) => views.neuron(transport, session, this.map.name, at.layer, at.head, at.query, keys, abort),
      cached: 1, // what has come is taken apart at once
      parallel: 4,
      arrived: (_, answer) => this.#take(answer),
      handleError: errorHandler(this.absent, props.refuse),
    });
  }

  /** What the layer on screen hides. */
  get mask(): Mask {
    return maskOf(this.map, this.at.peek().layer);
  }

  /** How many keys are on screen at a time. */
  get count(): number {
    return Math.min(this.keys.length, this.fit, this.narrow.value ? NARROW_PAGE : PAGE);
  }

  /** A row comes with every answer: this many keys more cost no more than another one. */
  get gap(): number {
    return Math.floor(((this.map.biased ? 3 : 2) * this.keys.length) / (2 * this.map.head_width));
  }

  /** Do all keys fit on the screen? */
  get whole(): boolean {
    return this.count >= this.keys.length;
  }

  #page(): number[] {
    const { count } = this;
    const numbers = this.numbers.value;
    const start = this.whole ? 0 : this.start.value;
    if (this.order.value === "probability" && numbers) {
      const from = Math.min(start ?? 0, this.keys.length - count);
      return ranked(numbers.row.probs).slice(from, from + count);
    }
    const from = Math.min(start ?? around(this.props.state.value.key ?? this.at.value.query, this.keys.length, count), this.keys.length - count);
    return Array.from({ length: count }, (_, i) => from + i);
  }

  /** Bring what matters on screen: a newly pinned key, else the strongest one; nothing moves while it is there already. */
  settle(): void {
    const numbers = this.numbers.value;
    const { key } = this.props.state.value;
    if (!numbers || this.whole) return;
    const page = this.page.peek();
    const pinned = key !== null && key !== this.#scrolledTo && !page.includes(key);
    this.#scrolledTo = key;
    if (this.order.peek() === "probability") {
      if (pinned) this.start.value = around(ranked(numbers.row.probs).indexOf(key), this.keys.length, this.count);
      return;
    }
    const [from, to] = visibleKeys(this.mask, this.queries.length, this.keys.length, this.at.peek().query);
    const lost = !page.some((at) => at >= from && at < to);
    if (this.start.peek() === null || lost || pinned)
      this.start.value = around(key ?? topKeys(numbers.row.probs, 1).keys[0] ?? 0, this.keys.length, this.count);
  }

  sort(order: Order): void {
    this.order.value = order;
    this.start.value = order === "probability" ? 0 : null;
    this.settle();
  }

  turn(pages: number): void {
    const { count } = this;
    this.start.value = Math.max(0, Math.min(this.keys.length - count, (this.start.value ?? 0) + pages * count));
  }

  /** Ask for what is on screen and has not come. */
  want(): void {
    const at = this.at.value;
    const numbers = this.numbers.value;
    const page = this.page.value;
    // Where one answer holds all keys, what is on screen is not asked for first.
    const wanted = this.keys.length <= this.fit ? this.keys.map((_, key) => key) : page;
    const missing = wanted.filter((key) => !numbers?.k.has(key));
    if (this.all.value && numbers)
      for (let key = 0; key < this.keys.length; key++) if (numbers.row.probs[key] > 0 && !numbers.k.has(key) && !wanted.includes(key)) missing.push(key);
    this.#pool.want(runs(missing, this.fit, this.gap).map((keys) => ({ ...at, keys })));
  }

  close(): void {
    this.#pool.close();
  }

  #take(answer: Neuron): void {
    const at = name(answer);
    const width = this.map.head_width;
    const cached = this.#cache.get(at) ?? { row: answer, k: new Map<number, Floats>(), v: new Map<number, Floats>() };
    for (let i = 0; i < answer.keys[1] - answer.keys[0]; i++) {
      cached.k.set(answer.keys[0] + i, answer.k.subarray(i * width, (i + 1) * width));
      cached.v.set(answer.keys[0] + i, answer.v.subarray(i * width, (i + 1) * width));
    }
    this.#cache.set(at, { ...cached }); // a new object: what was made from the old one is made again
    batch(() => { // the keys that it brings on screen are drawn with it, not after it
      this.#version.value++;
      this.settle();
    });
  }
}

const name = ({ layer, head, query }: RowPosition) => `${layer}/${head}/${query}`;

/** All keys, the one with the largest probability first; among equals the earlier. */
export function ranked(probs: Floats): number[] {
  return Array.from(probs, (_, key) => key).sort((a, b) => probs[b] - probs[a] || a - b);
}
