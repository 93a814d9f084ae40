/** What the page and whoever answers it (the local server, or the data inside a standalone page) agree on. */

import type { ReadonlySignal } from "@preact/signals";

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
  /** The whole session as one HTML file; absent in a page that is one already. */
  page?(session: Session): Promise<Blob>;
}

export type ViewName = "model" | "head" | "matrix" | "neuron";

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
}

/** What every view gets. */
export interface ViewProps {
  transport: Transport;
  session: Session;
  state: ReadonlySignal<State>;
  /** Change some of the state; the address follows. */
  set(change: Partial<State>): void;
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

/** What is on screen, as files. */
export interface Exports {
  /** For file names: "head-layer4-head11". */
  name: string;
  /** Drawn at twice the size. */
  png(): Promise<Blob>;
  /** Vector lines and text; heat maps as an embedded image. */
  svg(): string;
  /** Rows for CSV and the data table; the first holds the column names. */
  table(): (string | number)[][];
}
