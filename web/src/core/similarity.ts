/** Similarity of two texts as a sum over pairs of tokens: its frame, and its part of the state. */

import type { BinaryFrame } from "./binary-frame";
import type { Pairs } from "./url-state";
import type { Token } from "./types";

/** The cells [first, second] sum to the similarity. */
export interface Similarity {
  measure: "cosine" | "dot";
  similarity: number;
  tokens: [Token[], Token[]];
  notes: string[];
  cells: Float64Array;
}

/** Are whole words shown? Which row and column are pinned; null = none. */
export interface SimilarityState {
  words: boolean;
  row: number | null;
  column: number | null;
}

export const initialSimilarity = (): SimilarityState => ({ words: true, row: null, column: null });

export const similarityOf = ({ header, arrays }: BinaryFrame): Similarity => ({
  ...(header as unknown as Omit<Similarity, "cells">),
  cells: arrays.cells as Float64Array,
});

/** The same with the tokens of a word put together: their cells are summed. */
export function byWords(of: Similarity): Similarity {
  const [first, second] = of.tokens.map(wordOf);
  const width = second.words.length;
  const cells = new Float64Array(first.words.length * width);
  const columns = of.tokens[1].length;
  of.cells.forEach((cell, at) => (cells[first.at[Math.floor(at / columns)] * width + second.at[at % columns]] += cell));
  return { ...of, tokens: [first.words, second.words], cells };
}

/** The words of tokens, and the word that each token belongs to. */
function wordOf(tokens: readonly Token[]): { words: Token[]; at: number[] } {
  const words: Token[] = [];
  const at = tokens.map((token) => {
    const last = words.at(-1);
    if (token.continues && last) words[words.length - 1] = { ...last, text: last.text + token.text };
    else words.push(token);
    return words.length - 1;
  });
  return { words, at };
}

/** What each token of the first text, and of the second, has of the similarity. */
export function sharesOf({ tokens: [first, second], cells }: Similarity): [Float64Array, Float64Array] {
  const shares: [Float64Array, Float64Array] = [new Float64Array(first.length), new Float64Array(second.length)];
  cells.forEach((cell, at) => {
    shares[0][Math.floor(at / second.length)] += cell;
    shares[1][at % second.length] += cell;
  });
  return shares;
}

export const largestOf = (values: Float64Array): number => values.reduce((most, x) => Math.max(most, Math.abs(x)), 0);

export function similarityPairs({ words, row, column }: SimilarityState): [string, string][] {
  const pairs: [string, string][] = words ? [] : [["pieces", "1"]];
  if (row !== null) pairs.push(["sr", String(row)]);
  if (column !== null) pairs.push(["sc", String(column)]);
  return pairs;
}

export const readSimilarity = (pairs: Pairs): SimilarityState => ({ words: pairs.get("pieces") !== "1", row: whole(pairs.get("sr")), column: whole(pairs.get("sc")) });

/** A whole number of a link; null = none. */
export const whole = (text: string | null): number | null => (text !== null && /^\d{1,6}$/.test(text) ? Number(text) : null);
