/** Logit lens and attribution: requests, results, and their part of the URL; see explorer/readings.py. */

import type { BinaryFrame } from "./binary-frame";

/** An output by name or number; null = the model's own. */
export type Choice = string | number | null;

export interface LensRequest {
  target: Choice;
  /** The first column, and how many; null = all from there. */
  first: number;
  count: number | null;
}

export interface AttributionRequest {
  target: Choice;
  /** The token where the output is, by number, or a word. */
  at: Choice;
  against: Choice;
  /** Gradients; by default as many as it takes to add up to within 1%; 0 = what is exact alone. */
  steps?: number;
}

/** The logit lens: rows (the embedding, and each layer) × columns, those that were asked for; `cellAt` says where a cell is. */
export interface Lens {
  kind: "vocabulary" | "labels" | "positions";
  /** What the columns are: the tokens of a stream, the text as a whole, or start and end of a span. */
  columns: "tokens" | "text" | "span";
  /** Of all columns, also of those that were not asked for. */
  names: string[];
  /** The first column that is here. */
  first: number;
  stream: string;
  causal: boolean;
  normalised: boolean;
  choices: number;
  /** A sentence, where the likeliest label is hardly better than chance. */
  doubt: string;
  rows: string[];
  /** Names of the outputs that occur. */
  outputs: Map<number, string>;
  /** How many outputs of each cell are here. */
  top: number;
  ids: Uint32Array;
  logprobs: Float32Array;
  logits?: Float32Array;
  entropy: Float32Array;
  kl: Float32Array;
  targets: Uint32Array;
  ranks: Uint32Array;
  target_logprobs: Float32Array;
  /** Length of each token's vector in the stream. [rows · tokens] */
  norms: Float32Array;
}

export type PartKind = "embedding" | "head" | "cross head" | "attention bias" | "feed-forward" | "convolution" | "biases";

/** What a part of the network added to the logit. */
export interface Part {
  kind: PartKind;
  value: number;
  layer: number | null;
  head: number | null;
}

export interface Attribution {
  target: { name: string; against: string | null; title: string; stream: string; position: number | null; score: number; probability: number; likely: [string, number][]; doubt: string; follows: boolean };
  parts: Part[];
  remainder: number;
  baseline: string;
  baseline_score: number;
  /** How the shares were computed. */
  method: string;
  steps: number;
  /** Texts with replaced words that a more exact method takes; 0 = more gradients. */
  texts: number;
  /** What a more exact answer is computed from. */
  more: string;
  /** How the words were computed, and whether they add up. */
  how: string;
  /** Null where they add up to nothing. */
  gap: number | null;
  /** The gap is so large that the shares name and colour no word. */
  rough: boolean;
  /** Which word and which part speak for it, in a sentence. */
  finding: string;
  notes: string[];
  seconds: number;
  /** By stream, a number for each token; shares are empty where no gradients were asked for. */
  shares: Record<string, Float32Array>;
  gradient: Record<string, Float32Array>;
  /** By attention map: [layers · heads · keys]. */
  heads: Record<string, Float32Array>;
  /** [rows · tokens] */
  norms: Float32Array;
}

/** Columns that are here. */
export const columnsOf = (lens: Lens): number => lens.targets.length;

/** Where the numbers of a cell are; its column counted from that of the text. */
export const cellAt = (lens: Lens, row: number, column: number): number => row * columnsOf(lens) + column - lens.first;

/** The columns of a lens that a request asks for; of a saved page, which has the whole. */
export function partOf(lens: Lens, { first, count }: LensRequest): Lens {
  const width = columnsOf(lens), taken = Math.min(count ?? width, width - first);
  if (lens.columns !== "tokens" || lens.first > first || taken === width) return lens;
  const cut = <T extends Uint32Array | Float32Array>(all: T, each = 1): T => {
    const row = width * each, from = (first - lens.first) * each;
    return all.filter((_, at) => at % row >= from && at % row < from + taken * each) as T;
  };
  return {
    ...lens, first, ids: cut(lens.ids, lens.top), logprobs: cut(lens.logprobs, lens.top), logits: lens.logits && cut(lens.logits, lens.top),
    entropy: cut(lens.entropy), kl: cut(lens.kl), targets: cut(lens.targets), ranks: cut(lens.ranks), target_logprobs: cut(lens.target_logprobs),
  };
}

export const lensOf = ({ header, arrays, shapes }: BinaryFrame): Lens => ({
  ...(header as unknown as Omit<Lens, "outputs">),
  outputs: new Map(header.outputs as [number, string][]),
  top: shapes.ids[2],
  ...(arrays as unknown as Pick<Lens, "ids" | "logprobs" | "logits" | "entropy" | "kl" | "targets" | "ranks" | "target_logprobs" | "norms">),
});

export function attributionOf({ header, arrays }: BinaryFrame): Attribution {
  const under = (prefix: string) =>
    Object.fromEntries(Object.entries(arrays).filter(([name]) => name.startsWith(prefix)).map(([name, values]) => [name.slice(prefix.length), values as Float32Array]));
  return { ...(header as unknown as Attribution), shares: under("shares/"), gradient: under("gradient/"), heads: under("heads/"), norms: arrays.norms as Float32Array };
}

/** A reading that a standalone page holds. */
export interface StoredReading {
  view: string;
  request: Record<string, unknown>;
  key: string;
}

export const MEASURES = ["probability", "rank", "kl", "entropy"] as const;
export type Measure = (typeof MEASURES)[number];
const METHODS = ["shares", "gradient"] as const;
export type Method = (typeof METHODS)[number];

/** Their part of the state. */
export interface ReadingState {
  /** What shades the lens, the pinned cell, and the output that is followed. */
  measure: Measure;
  cell: [row: number, column: number] | null;
  follow: Choice;
  /** What is attributed, and by which method the words are coloured. */
  target: string;
  at: string;
  against: string;
  method: Method;
  /** The head whose share of each word is shown. */
  head: [map: string, layer: number, head: number] | null;
}

export const initialReading = (): ReadingState => ({ measure: "probability", cell: null, follow: null, target: "", at: "", against: "", method: "shares", head: null });

const numberOr = (text: string): Choice => (/^\d{1,9}$/.test(text) ? Number(text) : text || null);

/** The request of an attribution, from what is in the fields; a number of a token is a number. */
export const requestOf = ({ target, at, against }: ReadingState): AttributionRequest => ({ target: target || null, at: /^-?\d{1,6}$/.test(at) ? Number(at) : at || null, against: against || null });

export function formatReading(state: ReadingState): [string, string][] {
  const initial = initialReading();
  const pairs: [string, string][] = (["measure", "target", "at", "against", "method"] as const).filter((name) => state[name] !== initial[name]).map((name) => [`r.${name}`, state[name]]);
  if (state.cell) pairs.push(["r.cell", state.cell.join(".")]);
  if (state.follow !== null) pairs.push(["r.follow", String(state.follow)]);
  if (state.head) pairs.push(["r.head", state.head.join(".")]);
  return pairs;
}

/** Parse the pairs of a link, with a notice for each that is not possible. */
export function readReading(pairs: URLSearchParams, notices: string[]): ReadingState {
  const state = initialReading();
  const one = <T extends string>(name: string, allowed: readonly T[], otherwise: T): T => {
    const value = pairs.get(name);
    if (value === null || allowed.includes(value as T)) return (value as T) ?? otherwise;
    notices.push(`this link asks for ${name.slice(2)} “${value}”, which is not here: showing ${otherwise}`);
    return otherwise;
  };
  state.measure = one("r.measure", MEASURES, state.measure);
  state.method = one("r.method", METHODS, state.method);
  for (const name of ["target", "at", "against"] as const) state[name] = pairs.get(`r.${name}`) ?? "";
  const cell = /^(\d{1,4})\.(\d{1,5})$/.exec(pairs.get("r.cell") ?? "");
  if (cell) state.cell = [Number(cell[1]), Number(cell[2])];
  state.follow = numberOr(pairs.get("r.follow") ?? "");
  const head = /^(.+)\.(\d{1,4})\.(\d{1,4})$/.exec(pairs.get("r.head") ?? "");
  if (head) state.head = [head[1], Number(head[2]), Number(head[3])];
  return state;
}
