/** Answers from documents, and why: what retrieval/page.py sends. */

import type { BinaryFrame } from "../../core/binary-frame";
import type { Similarity } from "../../core/similarity";
import type { Token, Transport } from "../../core/types";

export const SEARCH_METHODS = ["fusion", "bm25", "dense"] as const;
export type Method = (typeof SEARCH_METHODS)[number];

export interface StoreFacts {
  name: string;
  document_count: number;
  passage_count: number;
  /** Names of models; "" = there is none. */
  model: string;
  reader: string;
  reranker: string;
  /** Folders, and files, that a search can be limited to. */
  folders: string[];
  /** Names of metadata. */
  metadata: string[];
  version: string;
}

export interface WordScore {
  word: string;
  term: string;
  passages: number;
  idf: number;
  count: number;
  score: number;
  places: [start: number, stop: number][];
}

export interface Passage {
  id: number;
  score: number;
  scores: Record<string, number>;
  ranks: Record<string, number>;
  words: WordScore[];
  file: string;
  also: string[];
  /** Of the passage in its document, where that has several, and neither lines nor pages; else 0. */
  number: number;
  title: string;
  text: string;
  start: number;
  stop: number;
  line: number;
  page: number;
  headings: string[];
}

/** How likely the answer begins, or ends, with a word. */
export interface Boundary {
  text: string;
  start: number;
  stop: number;
  begins: number;
  ends: number;
}

export interface Answer {
  question: string;
  answer: string;
  passage: number | null;
  start: number;
  stop: number;
  score: number | null;
  others: { text: string; passage: number | null; score: number }[];
  sentences: { text: string; passage: number | null }[];
  boundaries: Boundary[][];
  matches: Passage[];
  method: string;
  /** Those that ran meanwhile took no time of their own. */
  stages: { name: string; milliseconds: number; results: number; meanwhile: boolean }[];
  notes: string[];
}

/** A passage in its file, and its tokens against those of the question. */
export interface Context {
  before: Passage[];
  after: Passage[];
  tokens: [Token[], Token[]];
  score: number;
  cells: Float32Array;
}

export interface Asked {
  question: string;
  method: Method | null;
  /** Candidates that are ranked again token by token; 0 = none. */
  late: number;
  /** Folder or file; "" = all. */
  folder: string;
  /** Names of metadata, each once, with their values; "" = any. */
  where: [name: string, value: string][];
  /** Maximal marginal relevance, 0 to 1. */
  diversity: number;
}

/** Passages of an answer. */
const TOP = 6;

/** A note with the options of the library, `reader= MODEL`, as they are typed. */
export const asTyped = (note: string): string => note.replace(/\b([a-z_]+)= /g, (_, name: string) => `--${name.replaceAll("_", "-")} `);

const header = <T>({ header }: BinaryFrame): T => header as unknown as T;

export const describe = async (transport: Transport): Promise<StoreFacts> => header(await transport.view("store", null, {}));

export const ask = async (transport: Transport, { question, method, late, folder, where, diversity }: Asked, signal: AbortSignal): Promise<Answer> => {
  const filters = where.filter(([, value]) => value);
  const options = { method, top: TOP, late_interaction: late, folder: folder || null, where: filters.length ? Object.fromEntries(filters) : null, diversity };
  return header(await transport.view("ask", null, { question, ...options }, { signal }));
};

export async function context(transport: Transport, question: string, id: number, signal: AbortSignal): Promise<Context> {
  const frame = await transport.view("passage", null, { question, id }, { signal });
  return { ...header<Context>(frame), cells: frame.arrays.cells as Float32Array };
}

/** `notes/tower.md:12`, `report.pdf, page 3`. */
export const passagePlace = ({ file, line, page, number }: Passage): string =>
  page ? `${file}, page ${page}` : line ? `${file}:${line}` : number ? `${file}, passage ${number}` : file;

/** A mark of a text: its characters, as Python counts them. */
export interface Mark<T> {
  start: number;
  stop: number;
  value: T;
}

/** A text in parts, each within the same marks. */
export function partsOf<T>(text: string, marks: readonly Mark<T>[]): { text: string; values: T[] }[] {
  const characters = [...text]; // a character beyond the BMP is one, as in Python
  const ends = [...new Set([0, characters.length, ...marks.flatMap(({ start, stop }) => [start, stop])])].filter((at) => at >= 0 && at <= characters.length).sort((a, b) => a - b);
  return ends.slice(1).map((stop, at) => ({
    text: characters.slice(ends[at], stop).join(""),
    values: marks.filter((mark) => mark.start <= ends[at] && stop <= mark.stop).map(({ value }) => value),
  }));
}

const NEAREST = 16;

/** The tokens of a passage that are most like one of the question, in their order, as rows; those of the question as columns. */
export function nearestTokens({ tokens: [question, passage], cells, score }: Context): Similarity {
  const best = passage.map((_, j) => Math.max(...question.map((_, i) => cells[i * passage.length + j])));
  const rows = [...best.keys()].sort((a, b) => best[b] - best[a]).slice(0, NEAREST).sort((a, b) => a - b);
  const chosen = Float64Array.from(rows.flatMap((j) => question.map((_, i) => cells[i * passage.length + j])));
  return { measure: "cosine", similarity: score, tokens: [rows.map((j) => passage[j]), question], notes: [], cells: chosen };
}

/** For each token of the question the nearest of the passage, and their cosine. */
export const tokenPairs = ({ tokens: [question, passage], cells }: Context): [Token, Token, number][] =>
  question.map((token, i) => {
    const row = cells.subarray(i * passage.length, (i + 1) * passage.length);
    const most = row.indexOf(Math.max(...row));
    return [token, passage[most], row[most]];
  });

/** A sentence of Markdown without the stars of emphasis and the marks of code: "**Select** runs" → "Select runs". */
export const unmarked = (text: string): string => text.replace(/(?<![\w*`])(\*\*|\*|`)(?=\S)(.+?)(?<=\S)\1(?![\w*`])/g, "$2");
