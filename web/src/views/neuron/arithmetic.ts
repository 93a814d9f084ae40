/**
 * Arithmetic of one query's attention, one function a step, in double precision.
 *
 *     q, k ──products──> q ∘ k ──sum──> q · k ── × scale, soft cap, + bias ──> score ──softmax──> p ── × v, summed over keys ──> z
 */

import type { Floats } from "../../core/attention";
import { type Mask, visibleKeys } from "../../core/mask";
import type { AttentionMap } from "../../core/types";

/** q ∘ k: each dimension's part of the dot product. [E] */
export function products(q: Floats, k: Floats): Float64Array {
  return Float64Array.from(q, (x, i) => x * k[i]);
}

export function sum(values: Iterable<number>): number {
  let total = 0;
  for (const value of values) total += value;
  return total;
}

/** What the softmax is made of: the largest score, and the sum of exp(score − largest) over the keys that may be seen. */
export function normaliser(scores: Floats): { largest: number; total: number; visible: number } {
  let largest = -Infinity;
  for (const score of scores) largest = Math.max(largest, score);
  let total = 0;
  let visible = 0;
  for (const score of scores) {
    if (score === -Infinity) continue;
    visible++;
    total += Math.exp(score - largest);
  }
  return { largest, total, visible };
}

/** Σ p v over the keys whose values are here, and how much of the probability they hold. */
export function weighted(probs: Floats, values: ReadonlyMap<number, Floats>, width: number): { z: Float64Array; share: number; complete: boolean } {
  const z = new Float64Array(width);
  let share = 0;
  let complete = true;
  for (let key = 0; key < probs.length; key++) {
    const p = probs[key];
    if (p === 0) continue;
    const v = values.get(key);
    if (!v) {
      complete = false;
      continue;
    }
    share += p;
    for (let i = 0; i < width; i++) z[i] += p * v[i];
  }
  return { z, share, complete };
}

/** The largest distance between two lists of numbers. */
export function maxDifference(a: Floats, b: Floats): number {
  let maxLength = 0;
  for (let i = 0; i < a.length; i++) maxLength = Math.max(maxLength, Math.abs(a[i] - b[i]));
  return maxLength;
}

/** The largest size among numbers. */
export function largest(values: Iterable<number>): number {
  let maxLength = 0;
  for (const value of values) maxLength = Math.max(maxLength, Math.abs(value));
  return maxLength;
}

/** How far a number computed here may be from one of `size` that the model computed in its own type. */
export function tolerance(dtype: string, size: number): number {
  if (dtype === "float64") return 1e-10;
  const relative = dtype === "bfloat16" ? 2 ** -6 : dtype === "float16" ? 2 ** -9 : 1e-5;
  return (dtype === "float32" ? 2e-5 : relative) + relative * size;
}

/** Whether a layer rotates its q and k by their positions. */
export function isRotated(map: Pick<AttentionMap, "rotary_bases">, layer: number): boolean {
  return (map.rotary_bases[layer] ?? null) !== null;
}

/** "1/√32" where the scale is that, else null. */
export function root(scale: number, width: number): string | null {
  return Math.abs(scale * Math.sqrt(width) - 1) < 1e-6 ? `1/√${width}` : null;
}

/** The heads that use a key/value head, first and last; null where each has its own. */
export function sharing(map: Pick<AttentionMap, "heads" | "kv_heads">, kvHead: number): [number, number] | null {
  const group = map.heads / map.kv_heads;
  return group === 1 ? null : [kvHead * group, (kvHead + 1) * group - 1];
}

/** Why a query may not look at a key; null where it may. */
export function whyHidden(mask: Mask, queries: number, keys: number, query: number, key: number): string | null {
  const [from, to] = visibleKeys(mask, queries, keys, query);
  if (key >= from && key < to) return null;
  return mask.causal && key >= to ? "comes later" : `outside the window of ${mask.window}`;
}

/** How many keys fit into one answer: q, k, v, z, and the row's scores, probabilities and bias. */
export function keysThatFit(map: Pick<AttentionMap, "head_width" | "biased">, keys: number, bytes: number, budget: number): number {
  const row = (map.biased ? 3 : 2) * keys + 2 * map.head_width;
  return Math.max(1, Math.floor((budget / bytes - row) / (2 * map.head_width)));
}

/** Keys as ranges, half open, of at most `most`; a gap of no more than `gap` keys is cheaper to fetch than a range more. */
export function runs(keys: readonly number[], maxLength: number, gap = 0): [number, number][] {
  const ranges: [number, number][] = [];
  for (const key of [...keys].sort((a, b) => a - b)) {
    const last = ranges.at(-1);
    if (last && key - last[1] <= gap && key - last[0] < maxLength) last[1] = key + 1;
    else ranges.push([key, key + 1]);
  }
  return ranges;
}

/** Where a window of `count` keys begins that has `key` in its middle, as far as the ends allow. */
export function around(key: number, keys: number, count: number): number {
  return Math.max(0, Math.min(keys - count, key - Math.floor(count / 2)));
}
