/** Searches of an indexed corpus: what is asked, what comes back, and their part of the state. */

import { whole } from "./similarity";
import type { Pairs } from "./url-state";

/** What the index of a corpus holds. */
export interface CorpusFacts {
  source: string;
  rows: number;
  tokens: number;
  /** Whose states it has; 0 = the embeddings. */
  layers: number[];
  /** Whose outputs it has: layer and head. */
  heads: [number, number][];
  /** Layers whose neurons have their top activations in it. */
  neurons: number[];
  neuron_width: number;
}

export type SearchBy = "layer" | "head" | "neuron";

export interface ContextsQuery {
  by: SearchBy;
  layer: number;
  /** Of a head or a neuron. */
  number: number | null;
  /** Of a layer or a head: the token that is searched by. */
  token: number | null;
  /** The head whose attention the matches get: "4.9" */
  head: string;
  count: number;
}

/** A token of the corpus in its context. */
export interface Match {
  /** Cosine, or the activation of the neuron. */
  score: number;
  row: number;
  position: number;
  /** The characters of each token. */
  texts: string[];
  /** Which tokens are special, and which continue a word. */
  special: number[];
  continues: number[];
  attention: number[] | null;
}

export interface Contexts {
  matches: Match[];
  /** Text and how many matches: of the matched tokens, of those after them, of those they attend to most. */
  counts: Partial<Record<"token" | "next" | "attended", [string, number][]>>;
}

/** What is searched by; the layer of a search by layer or neuron, null = the one nearest to the head in focus. */
export interface SearchState {
  by: SearchBy;
  layer: number | null;
  neuron: number;
}

const BY: readonly SearchBy[] = ["layer", "head", "neuron"];

export const initialSearch = (): SearchState => ({ by: "layer", layer: null, neuron: 0 });

export function searchPairs({ by, layer, neuron }: SearchState): [string, string][] {
  const pairs: [string, string][] = by === "layer" ? [] : [["by", by]];
  if (layer !== null) pairs.push(["cl", String(layer)]);
  if (neuron) pairs.push(["cn", String(neuron)]);
  return pairs;
}

export const readSearch = (pairs: Pairs): SearchState => ({
  by: BY.find((by) => by === pairs.get("by")) ?? "layer",
  layer: whole(pairs.get("cl")),
  neuron: whole(pairs.get("cn")) ?? 0,
});

/** The parameters of a query in an address. */
export const parametersOf = (query: ContextsQuery): Record<string, string> =>
  Object.fromEntries(Object.entries(query).filter(([, value]) => value !== null).map(([name, value]) => [name, String(value)]).sort());

export const sameQuery = (a: ContextsQuery, b: ContextsQuery): boolean => JSON.stringify(parametersOf(a)) === JSON.stringify(parametersOf(b));
