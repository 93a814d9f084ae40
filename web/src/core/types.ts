/** What the page and whoever answers it (the local server, or the data inside a standalone page) agree on. */

import type { ReadonlySignal } from "@preact/signals";
import type { Options, WritingState } from "./recipe";

/** A piece of text as the model sees it. */
export interface Token {
  /** What people read: the characters it stands for; a special token's own name. */
  text: string;
  /** As the vocabulary spells it: `##ana`, `Ġflies`. */
  piece: string;
  id: number;
  /** Which text it comes from; null where the tokenizer added it. */
  segment: number | null;
  special: boolean;
  /** It goes on in the word that the token before it began. */
  continues: boolean;
}

/** One family of attention in the network: `self`, or `encoder`, `decoder` and `cross`. */
export interface AttentionMap {
  name: string;
  /** For people: "self-attention", "cross-attention: target to source". */
  title: string;
  layers: number;
  heads: number;
  /** How many heads have keys and values of their own; fewer than `heads` where they are shared. */
  kv_heads: number;
  head_width: number;
  /** Names of sides: whose tokens look, and whose are looked at. */
  queries: string;
  keys: string;
  causal: boolean;
  /** How far each layer sees, in tokens; null = as far as there are tokens. */
  windows: (number | null)[];
  rotary: boolean;
  biased: boolean;
}

/** One pass of one model over one text, or two. */
export interface Session {
  id: string;
  model: {
    name: string;
    family: string;
    task: string;
    /** A short hash of the weights' names, shapes and bytes, or of the revision. */
    revision: string;
    dtype: string;
    parameters: number;
    max_tokens: number | null;
    /** What the first text names the file of; null where it is a text. */
    opens: "picture" | "sound" | null;
    /** Has it a head that writes? And does it answer what it reads (an encoder-decoder), instead of going on with it? */
    writes: boolean;
    answers: boolean;
  };
  texts: string[];
  text_hash: string;
  /** What each text field is called: ["text", "second text"], ["source", "target"], ["picture", "text"]. */
  fields: string[];
  sides: Record<string, Token[]>;
  maps: AttentionMap[];
  /** What Python keeps of the pass, in bytes. */
  nbytes: number;
  /** How long the pass took. */
  seconds: number;
  /** The command that makes this page again. */
  command: string;
  /** In a standalone page: the layers whose exact numbers it holds, by map, and how to get the others. */
  held?: Record<string, number[]>;
  /** In a standalone page: the state it opens with, as a fragment without "#". */
  start?: string;
  /** Of a pass over what was written: up to which node, and where the first written token stands. */
  written?: { w: string; node: number; side: string; begun: number };
}

/** One layer of a map: every head as a thumbnail of at most 64 × 64, pooled by maximum. */
export interface Overview {
  map: string;
  layer: number;
  heads: number;
  height: number;
  width: number;
  /** One byte a pixel, heads one after another: probability = byte / 255 · scale[head]. */
  thumbnails: Uint8Array;
  scale: Float32Array;
  /** How many query and key tokens a pixel stands for. */
  bins: [number, number];
  /** Fewer rows used than there are: a sample. */
  rows_used: number;
  rows_total: number;
  stats: Record<string, Float32Array>;
  /** One sentence a head: "mostly the previous token, 78%". */
  summaries: string[];
}

export type Mix = "each" | "mean" | "max";

export interface LinesQuery {
  map: string;
  /** First and last layer, both included. */
  layers: [number, number];
  heads: number[];
  mix: Mix;
  /** Query tokens, half open. */
  rows: [number, number];
  /** How many keys a query. */
  count: number;
  /** Types of the keys that may be shown: "special", "0", "1"; undefined = all. */
  keys?: string[];
}

/** The strongest links of each query. Entry (m, r, i) is at (m · rows + r) · count + i. */
export interface Lines {
  query: LinesQuery;
  /** What each of the maps shown is; empty when they are mixed into one. */
  members: [layer: number, head: number][];
  maps: number;
  count: number;
  keys: Uint32Array;
  probs: Float32Array;
  /** What the links not listed add up to. [maps · rows] */
  other: Float32Array;
}

export type Companding = "linear" | "sqrt";

export interface TileQuery {
  map: string;
  layer: number;
  head: number;
  /** A pixel stands for 2^level × 2^level cells, by maximum. */
  level: number;
  row: number;
  column: number;
  companding: Companding;
}

export interface Tile {
  query: TileQuery;
  height: number;
  width: number;
  /** linear: probability = byte / 255 · scale; sqrt: (byte / 255)² · scale */
  values: Uint8Array;
  scale: number;
}

/** One query's scores and probabilities over all keys, exact. Hidden keys have the score -Infinity. */
export interface Row {
  map: string;
  layer: number;
  head: number;
  query: number;
  scores: Float32Array | Float64Array;
  probs: Float32Array | Float64Array;
}

/** Everything that makes one query's row: exact. */
export interface Neuron extends Row {
  /** Key tokens for which `k` and `v` are here, half open. */
  keys: [number, number];
  scale: number;
  kv_head: number;
  /** [E] */
  q: Float32Array | Float64Array;
  /** [keys, E] */
  k: Float32Array | Float64Array;
  v: Float32Array | Float64Array;
  /** [E]: the probabilities' mean of all values. */
  z: Float32Array | Float64Array;
  /** [S], where the map is biased. */
  bias?: Float32Array | Float64Array;
}

/** What is written behind one prompt: a tree of tokens, node 0 being the prompt. */
export interface Writing {
  id: string;
  prompt: string;
  /** As they hold, defaults filled in. */
  options: Options;
  /** On which side of an attended session the written tokens stand, and how many tokens stand there before the first. */
  side: string;
  begun: number;
  before: Token[];
  vocabulary: number;
  max_tokens: number | null;
}

/** A written token. */
export interface TreeNode {
  id: number;
  /** 0 = the prompt. */
  parent: number;
  /** Counted from 1. */
  depth: number;
  token: number;
  /** The characters that it completes behind its path. */
  text: string;
  piece: string;
  special: boolean;
  /** As the model has it; and as it was chosen from, -Infinity where the method would never have chosen it. */
  logprob: number;
  filtered_logprob: number;
  /** The sum of log-probabilities from the prompt to here. */
  total: number;
  /** Among the vocabulary, 1 = the likeliest. */
  rank: number;
  chosen: "method" | "hand";
}

/** A token that could have followed. */
export interface Candidate {
  token: number;
  text: string;
  piece: string;
  logprob: number;
  /** -Infinity = cut by the options. */
  filtered_logprob: number;
}

/** What could follow a node. */
export interface Choice {
  at: number;
  /** In nats, of the model's own distribution. */
  entropy: number;
  kept: number;
  /** The likeliest first. */
  top: Candidate[];
}

/** A path from the prompt to a node, and how good the method holds it. */
export interface Place {
  node: number;
  score: number;
  reason?: string;
  returned?: boolean;
  text?: string;
}

/** One step of the model. */
export interface WritingStep {
  nodes: TreeNode[];
  choices: Choice[];
  live: Place[];
  ended: Place[];
}

export interface WritingReady {
  answers: Place[];
  ended: Place[];
  seconds: number;
  count: number;
}

/** A line of a writing as it comes. */
export type WritingLine = { writing: Writing } | { step: WritingStep } | { ready: WritingReady };

/** JSON has no infinity: a log-probability or a score that is null there is that of what cannot be. */
export const unsaid = (name: string, value: unknown): unknown => (value === null && /logprob$|^(score|total)$/.test(name) ? -Infinity : value);

/** Begin to write behind a prompt (null: the one that the page was opened with), or behind a node, with these tokens first. */
export type WritingOrder = { prompt: string | null; options: Options } | { w: string; node: number; tokens: number[] };

/** Every token that could follow a node, the likeliest first; those that are not listed are in bins. */
export interface Distribution {
  node: number;
  ids: Uint32Array;
  logprobs: Float32Array | Float64Array;
  /** The same after rules (bans, penalties, forced tokens), where there are some; not normalised. */
  ruled?: Float32Array | Float64Array;
  rest_logprobs: Float32Array | Float64Array;
  rest_counts: Uint32Array;
  vocabulary: number;
  /** Texts of the first of them. */
  tokens: [text: string, piece: string][];
}

/** How far a pass has come: blocks done, of how many. */
export interface Progress {
  done: number;
  of: number;
}

/** Something a person can do something about; shown as it stands. */
export class Refusal extends Error {
  constructor(
    message: string,
    /** What kind it is: "token" (open the printed address), "gone" (run the text again), "unreachable", "absent" (not in this file), "request". */
    readonly kind: "token" | "gone" | "unreachable" | "absent" | "request",
  ) {
    super(message);
  }
}

/** Who answers: the local server, or the data inside this page. All may reject with a Refusal. */
export interface Transport {
  readonly host: "server" | "page";
  /** Run the model on texts, or wait for the text that the page was opened for. */
  run(texts: string[] | null, progress: (at: Progress) => void, signal?: AbortSignal): Promise<Session>;
  overview(session: Session, map: string, layer: number, exact: boolean, signal?: AbortSignal): Promise<Overview>;
  lines(session: Session, query: LinesQuery, signal?: AbortSignal): Promise<Lines>;
  tile(session: Session, query: TileQuery, signal?: AbortSignal): Promise<Tile>;
  row(session: Session, map: string, layer: number, head: number, query: number, signal?: AbortSignal): Promise<Row>;
  neuron(session: Session, map: string, layer: number, head: number, query: number, keys: [number, number], signal?: AbortSignal): Promise<Neuron>;
  /** Write, or write on; what comes is heard line by line. */
  write(order: WritingOrder, heard: (line: WritingLine) => void, signal?: AbortSignal): Promise<void>;
  /** End a writing after its step. */
  stop(w: string): Promise<void>;
  distribution(w: string, node: number, signal?: AbortSignal): Promise<Distribution>;
  /** A pass over the prompt and what was written up to a node. */
  attend(w: string, node: number, progress: (at: Progress) => void, signal?: AbortSignal): Promise<Session>;
  /** The whole session, and a writing, as one HTML file; absent in a page that is one already. */
  page?(session: Session, written?: Written): Promise<Blob>;
}

export type ViewName = "model" | "head" | "matrix" | "neuron" | "generate";

/** What is on screen; the same object is the URL's fragment. */
export interface State {
  view: ViewName;
  map: string;
  /** First and last layer, both included; most views show the first. */
  layers: [number, number];
  /** The heads that the head view draws; the first is the one in focus everywhere else. */
  heads: number[];
  mix: Mix;
  /** The pinned query and key tokens. */
  query: number | null;
  key: number | null;
  /** Pair filter: types of the tokens that look and of those looked at, "" = any. */
  from: string;
  to: string;
  /** Are special tokens shown? */
  special: boolean;
  sort: string;
  companding: Companding;
  /** What is written, and which place of it is looked at. */
  writing: WritingState;
}

/** What every view gets. */
export interface ViewProps {
  transport: Transport;
  session: Session;
  state: ReadonlySignal<State>;
  /** Change some of the state; the address follows. */
  set(change: Partial<State>): void;
  /** Look at another pass, such as one over what was written. */
  adopt(session: Session, change: Partial<State>): void;
  /** Is the page dark? */
  dark: ReadonlySignal<boolean>;
  /** Overviews that have arrived, by `${map}/${layer}`. */
  overviews: ReadonlySignal<ReadonlyMap<string, Overview>>;
  /** A sentence for the live region and the status line. */
  say(sentence: string): void;
  /** Something went wrong that the person should see. */
  refuse(error: unknown): void;
  /** A view says how to export what it shows; called by the export menu. */
  exports(make: Exports | null): void;
}

/** A writing, and the node that ends the text of it on screen. */
export interface Written {
  w: string;
  node: number;
}

/** What is on screen, as files. */
export interface Exports {
  /** For file names: "head-layer4-head11". */
  readonly name: string;
  /** What was written, for a page that is saved; only the generation view has it. */
  readonly written?: Written;
  /** Drawn at twice the size. */
  png(): Promise<Blob>;
  /** Vector lines and text; heat maps as an embedded image. */
  svg(): string;
  /** Rows for CSV and the data table; the first holds the column names. */
  table(): (string | number)[][];
}
