/**
 * Scaled dot-product attention in the browser: scores, softmax and outputs of a head, from q, k and v.
 *
 *     q · k · scale + bias ──hidden → −∞──> scores ──softmax──> probabilities ──Σ p v──> z
 *
 * Some models have a soft cap: cap · tanh(q · k · scale / cap) + bias. The same definitions as in Python. Sums are taken in double precision; a row is made when it is asked for, and a
 * map of T × S never exists as a whole.
 */

import { visibleKeys } from "./mask";
import type { Companding } from "./types";

export type Floats = Float32Array | Float64Array;

/** One layer of a map: the exact numbers that everything else follows from. */
export interface Layer {
  heads: number;
  /** Heads with keys and values of their own; each is shared by heads / kvHeads neighbours. */
  kvHeads: number;
  /** T, S and E. */
  queries: number;
  keys: number;
  width: number;
  scale: number;
  /** Soft cap of q · k · scale; null = none. */
  scoreCap: number | null;
  /** [heads, T, E] */
  q: Floats;
  /** [kvHeads, S, E] */
  k: Floats;
  v: Floats;
  /** Length of what each head writes at each query. [heads, T] */
  written: Floats;
  /** What a distance adds to the score: [heads, T + S − 1], from key − query = −(T − 1) on. */
  bias?: Floats;
  causal: boolean;
  window: number | null;
}

/** A product q · k, scaled, and softly capped where the model does that. */
export function scaled(product: number, scale: number, cap: number | null): number {
  return cap === null ? product * scale : cap * Math.tanh((product * scale) / cap);
}

/** Rows and columns of a tile. */
export const TILE = 256;

/** Whose keys and values a head uses. */
export function kvHead(layer: Layer, head: number): number {
  return Math.floor((head * layer.kvHeads) / layer.heads);
}

/** What a query's position adds to its scores; null where it adds nothing. [S] */
export function biasOf(layer: Layer, head: number, query: number): Floats | null {
  if (!layer.bias) return null;
  const start = head * (layer.queries + layer.keys - 1) + layer.queries - 1 - query;
  return layer.bias.subarray(start, start + layer.keys);
}

/** One query's scores over all keys, −∞ where it may not look. [S] */
export function scores(layer: Layer, head: number, query: number): Float64Array {
  const { width, scale, scoreCap, q, k } = layer;
  const result = new Float64Array(layer.keys).fill(-Infinity);
  const bias = biasOf(layer, head, query);
  const from = (head * layer.queries + query) * width;
  const group = kvHead(layer, head) * layer.keys;
  const [first, end] = visibleKeys(layer, layer.queries, layer.keys, query);
  for (let key = first; key < end; key++) {
    const to = (group + key) * width;
    let sum = 0;
    for (let i = 0; i < width; i++) sum += q[from + i] * k[to + i];
    result[key] = scaled(sum, scale, scoreCap) + (bias ? bias[key] : 0);
  }
  return result;
}

/** Scores as shares of one; all zero where nothing may be seen. */
export function softmax(scores: Float64Array): Float64Array {
  const probs = new Float64Array(scores.length);
  let top = -Infinity;
  for (const score of scores) if (score > top) top = score;
  if (top === -Infinity) return probs;
  let sum = 0;
  for (let i = 0; i < scores.length; i++) sum += probs[i] = Math.exp(scores[i] - top);
  for (let i = 0; i < probs.length; i++) probs[i] /= sum;
  return probs;
}

/** z: the values, each as much as its probability. [E] */
export function weightedValues(layer: Layer, head: number, probs: Floats): Float64Array {
  const z = new Float64Array(layer.width);
  const group = kvHead(layer, head) * layer.keys;
  for (let key = 0; key < layer.keys; key++) {
    const share = probs[key];
    if (share === 0) continue;
    const at = (group + key) * layer.width;
    for (let i = 0; i < z.length; i++) z[i] += share * layer.v[at + i];
  }
  return z;
}

/**
 * The `count` largest of a row, the largest first; among equals the earlier key. `allowed` says which keys count.
 *
 * `other` is what the keys not listed add up to, those that are not allowed among them.
 */
export function topKeys(values: Floats, count: number, allowed?: (key: number) => boolean): { keys: number[]; probs: number[]; other: number } {
  const keys: number[] = [];
  const probs: number[] = [];
  let total = 0;
  for (let key = 0; key < values.length; key++) {
    const value = values[key];
    total += value;
    if (value === 0 || (keys.length === count && !(value > probs[count - 1])) || (allowed && !allowed(key))) continue;
    let at = Math.min(keys.length, count - 1); // an insertion into a short sorted list
    for (; at > 0 && probs[at - 1] < value; at--) {
      probs[at] = probs[at - 1];
      keys[at] = keys[at - 1];
    }
    probs[at] = value;
    keys[at] = key;
  }
  const listed = probs.reduce((sum, value) => sum + value, 0);
  return { keys, probs, other: Math.max(total - listed, 0) };
}

/** Raise each pixel of a row of a tile to the largest of the 2^level cells of this row that it stands for. */
export function maxPoolInto(pixels: Float32Array, row: Floats, start: number, level: number): void {
  for (let key = start, end = Math.min(start + (pixels.length << level), row.length); key < end; key++) {
    const at = (key - start) >> level;
    if (row[key] > pixels[at]) pixels[at] = row[key];
  }
}

/** Probabilities as bytes, against their own maximum: p = byte / 255 · scale, or (byte / 255)² · scale. */
export function quantize(pixels: Float32Array, companding: Companding): { values: Uint8Array; scale: number } {
  let scale = 0;
  for (const p of pixels) if (p > scale) scale = p;
  const values = new Uint8Array(pixels.length);
  if (scale > 0) {
    for (let i = 0; i < pixels.length; i++) {
      const share = pixels[i] / scale;
      values[i] = Math.round(255 * (companding === "sqrt" ? Math.sqrt(share) : share));
    }
  }
  return { values, scale };
}
