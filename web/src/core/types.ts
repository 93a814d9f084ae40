/** Types shared by the page and its server (or the data inside a standalone page); see explorer/describe.py. */

import type { ReadonlySignal, Signal } from "@preact/signals";
import type { Options, GenerationState } from "./generation-options";
import type { BinaryFrame } from "./binary-frame";
import type { Off, PatchState } from "./patching";
import type { CorpusFacts, SearchState } from "./contexts";
import type { SimilarityState } from "./similarity";
import type { EmbeddingSource } from "./embedding";
import type { EmbeddingState } from "./embedding-state";
import type { ReadingState, StoredReading } from "./readings";
import type { Transcript } from "./transcript";

/** A token of the input. */
export interface Token {
  /** Display text: the characters it stands for; a special token's own name. */
  text: string;
  /** Vocabulary entry: `##ana`, `Ġflies`. */
  piece: string;
  id: number;
  /** Index of its text; null where the tokenizer added it. */
  segment: number | null;
  special: boolean;
  /** Continues the word that the token before it began. */
  continues: boolean;
  /** Its characters in that text, as code points, half open; null where it is of none. */
  span: [number, number] | null;
}

/** An attention map, one family of attention layers: `self`, or `encoder`, `decoder` and `cross`. */
export interface AttentionMap {
  name: string;
  /** Display title: "self-attention", "cross-attention: target to source". */
  title: string;
  layers: number;
  heads: number;
  /** Number of key/value heads; fewer than `heads` in grouped-query attention. */
  kv_heads: number;
  head_width: number;
  /** Names of the token streams of the queries and of the keys. */
  queries: string;
  keys: string;
  causal: boolean;
  /** Sliding window of each layer, in tokens; null = unlimited. */
  windows: (number | null)[];
  /** Base of each layer's rotary positions; null = it has none. */
  rotary_bases: (number | null)[];
  biased: boolean;
  /** The path of each layer's attention in the network: "blocks.3.attn". */
  paths: string[];
}

/** A style, the name of an element or "", and words. */
export type Run = [style: "" | "b" | "em" | "code" | "pre", words: string];

/** A step of a lesson, and the address of what is shown next to it. */
export interface TourStep {
  title: string;
  text: Run[];
  address: string;
  /** A name, what stands next to it, and a share that is drawn as a bar. */
  items: [name: string, words: string, share: number | null][];
  /** Without choices it asks for the number. */
  question: { ask: Run[]; choices: string[]; answer: string; number: number | null; within: number; reveal: Run[] } | null;
  code: { place: string; source: string } | null;
  /** The request of what can be left out. */
  without: { components: string[]; stream: string; token: number } | null;
  /** The same in words. */
  left_out: string;
}

/** What a session opens with. */
export interface Opening {
  view: ViewName;
  /** What heads do in this text, the most telling first; empty where nothing stands out. */
  findings: Finding[];
  /** Whether a text has too few tokens for findings. */
  short: boolean;
  /** What its head says, and the likeliest of what it could say; null of a model without one. */
  answer: { sentence: string; choices: AnswerChoice[] } | null;
}

/** An output of the head: its name and probability, and how it is asked for: its label or token, and at which token. */
export interface AnswerChoice {
  name: string;
  share: number;
  target: string;
  at: number | null;
}

/** What a head does in this text: a link between two words, or a pattern. */
export interface Finding {
  map: string;
  layer: number;
  head: number;
  /** In words, with its share of the attention; and the same for a button. */
  sentence: string;
  short: string;
  /** The tokens of a link; null of a pattern. */
  query: number | null;
  key: number | null;
}

/** An inspection session: one forward pass of one model over one text, or two. */
export interface Session {
  id: string;
  model: {
    name: string;
    family: string;
    task: string;
    /** A short hash of the weights' names, shapes and bytes, or of the revision. */
    revision: string;
    dtype: string;
    /** What its weights are stored as, where these are levels: int8 or int4. */
    levels: string | null;
    parameters: number;
    max_tokens: number | null;
    /** The kind of file that the first text names; null where it is a text. */
    modality: "picture" | "sound" | null;
    /** Has it a language modelling head? Is it an encoder-decoder, which answers its input instead of continuing it? */
    can_generate: boolean;
    can_transcribe: boolean;
    /** What it predicts, and a patch may change: a class of a text, something at each token; null = nothing. */
    predicts: "text" | "token" | null;
    /** Does it make vectors of texts that are compared? */
    can_compare: boolean;
    /** The token that stands for a hidden one; null where the model knows none. */
    mask_token: string | null;
    corpus: CorpusFacts | null;
    /** The name of the model, or the precision, that it is compared with. */
    against: string | null;
    /** That the model can be compared with itself in. */
    precisions: string[];
    /** Can its head read every layer: logit lens and attribution? */
    reads: boolean;
    is_encoder_decoder: boolean;
  };
  /** The views that the model has. */
  views: ViewName[];
  /** Sentences about how to read a view. */
  how_to_read: Record<string, string>;
  /** Words that not everyone knows, each with what it means. */
  glossary: Record<string, string>;
  /** Of those of plug-ins, which are drawn as reports, the words of their tabs. */
  reports: Record<string, { title: string; sentence: string }>;
  texts: string[];
  text_hash: string;
  /** Labels of the text fields: ["text", "second text"], ["source", "target"], ["picture", "text"]. */
  fields: string[];
  streams: Record<string, Token[]>;
  maps: AttentionMap[];
  opening: Opening;
  /** The streams whose tokens are looked up in one table. */
  lookups: string[];
  /** RAM that the session takes in Python, in bytes. */
  nbytes: number;
  /** Duration of the forward pass. */
  seconds: number;
  /** The command, or the call of a notebook, that makes this page. */
  command: string;
  /** The command that looks at these texts, to which options can be appended. */
  look: string;
  /** In a standalone page: attention map → layers whose exact numbers it holds. */
  exact_layers?: Record<string, number[]>;
  /** In a standalone page: the views that took time and that it holds. */
  readings?: StoredReading[];
  /** In a standalone page: the views of which it holds nothing. */
  absent?: ViewName[];
  /** In a standalone page: the initial state, as a URL fragment without "#". */
  start?: string;
  /** Of a session over generated text: its trace, last node, token stream, and number of tokens before the first generated one. */
  generated?: { w: string; node: number; stream: string; prefix_length: number };
  /** Of a session over a part of a recording and what was heard there: the number of its window. */
  heard?: { window: number };
}

/** Overview of one layer: every head as a thumbnail of at most 64 × 64, max-pooled. */
export interface Overview {
  map: string;
  layer: number;
  heads: number;
  height: number;
  width: number;
  /** One byte a pixel, heads one after another: probability = byte / 255 · scale[head]. */
  thumbnails: Uint8Array;
  scale: Float32Array;
  /** Query and key tokens per pixel. */
  bins: [number, number];
  /** Fewer rows used than total: a sample. */
  rows_used: number;
  rows_total: number;
  stats: Record<string, Float32Array>;
  /** One sentence a head: "mostly the previous token, 78%". */
  summaries: string[];
  /** What each head does, and its metric; and of each such name what the metric is. */
  kinds: [name: string, value: number][];
  metrics: Record<string, string>;
}

/** Each head by itself, or all as one: see `mixed` in inspect/head.py. */
export type Mix = "each" | "mean" | "max" | "weights" | "written";

export interface LinesQuery {
  map: string;
  /** First and last layer, both included. */
  layers: [number, number];
  heads: number[];
  mix: Mix;
  /** Of each head, for the mix "weights" alone. */
  weights?: number[];
  /** Query tokens, half open. */
  rows: [number, number];
  /** How many keys a query. */
  count: number;
  /** Types of the keys that may be shown: "special", "0", "1"; undefined = all. */
  keys?: string[];
}

/** Top-k attention links of each query. Entry (m, r, i) is at (m · rows + r) · count + i. */
export interface Lines {
  query: LinesQuery;
  /** Layer and head of each map; empty when they are combined into one. */
  members: [layer: number, head: number][];
  maps: number;
  count: number;
  keys: Uint32Array;
  probs: Float32Array;
  /** Total probability of the links that are not listed. [maps · rows] */
  other: Float32Array;
}

export type Companding = "linear" | "sqrt";

export interface TileQuery {
  map: string;
  layer: number;
  head: number;
  /** Zoom level: a pixel is the maximum of 2^level × 2^level cells. */
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

/** One query's exact scores and probabilities over all keys. Masked keys have the score -Infinity. */
export interface Row {
  map: string;
  layer: number;
  head: number;
  query: number;
  scores: Float32Array | Float64Array;
  probs: Float32Array | Float64Array;
}

/** All numbers of the computation of one query's row, exact. */
export interface Neuron extends Row {
  /** Range of the keys for which `k` and `v` are here, half open. */
  keys: [number, number];
  scale: number;
  /** Soft cap of q · k · scale; null = none. */
  score_cap: number | null;
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

/** Generation trace of one prompt: a tree of tokens; node 0 is the prompt. */
export interface GenerationTrace {
  id: string;
  prompt: string;
  /** Generation options, defaults filled in. */
  options: Options;
  /** Token stream of the generated tokens in a session, and the number of tokens before the first of them. */
  stream: string;
  prefix_length: number;
  prefix: Token[];
  vocabulary: number;
  max_tokens: number | null;
}

/** A generated token, a node of the tree. */
export interface TreeNode {
  id: number;
  /** 0 = the prompt. */
  parent: number;
  /** Counted from 1. */
  depth: number;
  token: number;
  /** The characters that it completes after its path. */
  text: string;
  piece: string;
  special: boolean;
  /** Log-probability of the model; and after logits processors and sampling filters, -Infinity where it was removed. */
  logprob: number;
  filtered_logprob: number;
  /** The sum of log-probabilities from the prompt to here. */
  total: number;
  /** Rank in the vocabulary; 1 = most probable. */
  rank: number;
  chosen: "method" | "hand";
}

/** A candidate for the next token. */
export interface Candidate {
  token: number;
  text: string;
  piece: string;
  logprob: number;
  /** -Infinity = removed by the options. */
  filtered_logprob: number;
}

/** The next-token distribution at a node, in brief. */
export interface Choice {
  at: number;
  /** Entropy of the model's own distribution, in bits. */
  entropy: number;
  remaining: number;
  /** Most probable first. */
  top: Candidate[];
}

/** The end of a path from the prompt, with its score. */
export interface Leaf {
  node: number;
  score: number;
  reason?: string;
  returned?: boolean;
  text?: string;
}

/** One decoding step. */
export interface TraceStep {
  nodes: TreeNode[];
  choices: Choice[];
  live: Leaf[];
  ended: Leaf[];
}

export interface TraceResult {
  answers: Leaf[];
  ended: Leaf[];
  seconds: number;
  count: number;
}

/** A line of the stream of a generation. */
export type TraceLine = { trace: GenerationTrace } | { step: TraceStep } | { ready: TraceResult };

/** JSON reviver: JSON has no infinity, so a log-probability or a score of null is -Infinity. */
export const nullToMinusInfinity = (name: string, value: unknown): unknown => (value === null && /logprob$|^(score|total)$/.test(name) ? -Infinity : value);

/** Generate from a prompt (null: the one that the page was opened with), or branch from a node, with forced tokens first. */
export type GenerationRequest = { prompt: string | null; options: Options } | { w: string; node: number; tokens: number[] };

/** Next-token distribution at a node, most probable first; tokens that are not listed are in a histogram. */
export interface Distribution {
  node: number;
  ids: Uint32Array;
  logprobs: Float32Array | Float64Array;
  /** Log-probabilities after logits processors (bans, penalties, forced tokens), where there are any; not normalised. */
  ruled?: Float32Array | Float64Array;
  rest_logprobs: Float32Array | Float64Array;
  rest_counts: Uint32Array;
  vocabulary: number;
  /** Texts of the first tokens. */
  tokens: [text: string, piece: string][];
}

/** Progress of a forward pass: blocks done, and in total. */
export interface Progress {
  done: number;
  of: number;
}

/** An error that the user can act on; its message is shown as it is. */
export class UserError extends Error {
  constructor(
    message: string,
    /** Error kind: "token" (open the printed address), "gone" (run the text again), "unreachable", "absent" (not in this file), "request". */
    readonly kind: "token" | "gone" | "unreachable" | "absent" | "request",
  ) {
    super(message);
  }
}

/** Handles the errors of a view that draws what is not here as nothing: it says why in its own place. */
export const errorHandler = (absent: Signal<string | null>, refuse: (error: unknown) => void) => (error: unknown): void => {
  absent.value = saidInPlace(error, refuse);
};

/** What a view says of an error in its own place. What concerns the whole page, its banner says too, with what helps. */
export function saidInPlace(error: unknown, refuse: (error: unknown) => void): string {
  if (!(error instanceof UserError && ["request", "absent"].includes(error.kind))) refuse(error);
  return error instanceof Error ? error.message : String(error);
}

export interface ViewOptions {
  progress?: (at: Progress) => void;
  signal?: AbortSignal;
}

/** Data source of the page: the local server, or the data inside a standalone page. All calls may reject with a UserError. */
export interface Transport {
  readonly host: "server" | "page";
  /** Run the model on texts, or wait for the text that the page was opened for. */
  run(texts: string[] | null, progress: (at: Progress) => void, signal?: AbortSignal): Promise<Session>;
  /** A view of a session, by its name in explorer/registry.py, as a frame; progress of one that takes time. */
  view(name: string, session: Session | null, request: object, options?: ViewOptions): Promise<BinaryFrame>;
  /** Generate, or branch; calls back with each line. */
  write(request: GenerationRequest, onLine: (line: TraceLine) => void, signal?: AbortSignal): Promise<void>;
  /** Stop a generation after its current step. */
  stop(w: string): Promise<void>;
  /** A session over the prompt and the generated text up to a node. */
  attend(w: string, node: number, progress: (at: Progress) => void, signal?: AbortSignal): Promise<Session>;
  /** Transcribe the recording that the page was opened with, or wait for that; progress is in seconds. */
  transcribe(session: Session, progress: (at: Progress) => void, signal?: AbortSignal): Promise<Transcript>;
  /** The recording, to be played. */
  recording(): Promise<Blob>;
  /** A session over a window of the recording, and what was heard there. */
  listen(window: number, progress: (at: Progress) => void, signal?: AbortSignal): Promise<Session>;
  /** The map of embeddings: of the texts that the page was opened with, or else of the tokens of a stream. */
  embeddings(session: Session, stream: string): EmbeddingSource;
  /** The session, and a generation trace, as one HTML file, of a view alone where one is named, or the transcript; absent in a page that is one already. */
  page?(session: Session, location?: PageLocation, view?: string): Promise<Blob>;
}

/** As in explorer/registry.py; which there are, a session says. */
export type ViewName = string;

/** View state; serialised as the URL fragment. */
/** A row of data that a link leads from. */
export interface RowLabel {
  /** Its file and line. */
  row: string;
  /** Its true label, and the class that was predicted; empty where it has none, or the text is changed. */
  true: string;
  said: string;
  /** A sentence, where the predictions of the model are hardly better than chance. */
  doubt: string;
  /** The text is not that of the row any more. */
  changed: boolean;
  /** The address of the page with the row. */
  back: string;
}

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
  /** Pair filter: token types of the queries and of the keys, "" = any. */
  from: string;
  to: string;
  /** Are special tokens shown? */
  special: boolean;
  sort: string;
  companding: Companding;
  /** Generation options, branch, and selected step. */
  generation: GenerationState;
  /** The sweep of the patch view; and heads that are switched off. */
  patch: PatchState;
  off: Off;
  /** The lens and the attribution: what is followed, pinned and explained. */
  reading: ReadingState;
  /** The word that is chosen in a transcript, and the alignment head on screen: 0 = the mean of all. */
  sound: { word: number | null; head: number };
  similarity: SimilarityState;
  search: SearchState;
  embedding: EmbeddingState;
  /** Why the head on screen is there: "strongest", its share of the output is the largest, or "chosen" in Attribution; of a token "strongest.5". */
  cause: string;
  /** Of which row of data the text is, if of one. */
  row: RowLabel | null;
  /** The step of the tour that is on screen, counted from 1; null = none. */
  tour: number | null;
  /** What controls of views choose, by name, where that is not the default; see `useChoice`. */
  chosen: Record<string, string>;
}

/** Props of every view. */
export interface ViewProps {
  transport: Transport;
  session: Session;
  state: ReadonlySignal<State>;
  /** Change some of the state; the URL follows. */
  set(change: Partial<State>): void;
  /** Show another session, such as one over generated text. */
  adopt(session: Session, change: Partial<State>): void;
  /** Is the page dark? */
  dark: ReadonlySignal<boolean>;
  /** Overviews that have arrived, by `${map}/${layer}`. */
  overviews: ReadonlySignal<ReadonlyMap<string, Overview>>;
  /** A sentence for the live region and the status line. */
  say(sentence: string): void;
  /** Show an error to the user. */
  refuse(error: unknown): void;
  /** Register how to export what the view shows, for the share menu. */
  exports(make: Exports | null): void;
}

/** A generation trace, and the last node of its text on screen. */
export interface TraceLocation {
  w: string;
  node: number;
}

/** What a page that is saved holds besides its session, or instead of it. */
export type PageLocation = TraceLocation | "transcript";

/** Export of a view as files. */
export interface Exports {
  /** For file names: "head-layer4-head11". */
  readonly name: string;
  /** What to save with the page, or in its place: a generated text, or a transcript. */
  readonly location?: PageLocation;
  /** What the picture shows, in a sentence; without it, what the head in focus does. */
  finding?(): string;
  /** Drawn at twice the size. */
  png(): Promise<Blob>;
  /** Vector lines and text; heat maps as an embedded image. */
  svg(): string;
  /** Rows for CSV and the data table; the first holds the column names. */
  table(): (string | number)[][];
}
