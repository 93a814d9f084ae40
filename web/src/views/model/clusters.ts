/** Groups of heads whose maps look alike: average linkage of the cosine similarity of their thumbnails. */

import { pooled } from "../../core/heatmap";
import type { Overview } from "../../core/types";

/** Mean similarity of two groups, from which they are one. */
export const ALIKE = 0.8;

/** Heads up to which every pixel is compared; of more, the maxima of squares, so that a thousand heads take a fraction of a second. */
const MANY = 256;
const POOLED = 16;

interface Head {
  head: number;
  overview?: Overview | undefined;
}

/** A thumbnail as a vector of length 1: its own scale does not matter. */
function direction(overview: Overview, head: number, pool: boolean): Float32Array {
  const { height, width, thumbnails } = overview;
  const values = thumbnails.subarray(head * height * width, (head + 1) * height * width);
  const size = pool ? { height: Math.ceil(height / POOLED), width: Math.ceil(width / POOLED) } : { height: 1, width: 1 };
  const map = Float32Array.from(pooled({ values, height, width }, size).values);
  const length = Math.hypot(...map) || 1;
  return map.map((x) => x / length);
}

/** Similarity of every two heads, from 0 to 1. [n · n] */
export function similarities(heads: readonly Head[]): Float64Array {
  const n = heads.length;
  const all = heads.map(({ overview, head }) => direction(overview!, head, n > MANY));
  const result = new Float64Array(n * n);
  for (let a = 0; a < n; a++) {
    for (let b = 0; b <= a; b++) {
      let dot = 0;
      for (let i = 0; i < all[a].length; i++) dot += all[a][i] * all[b][i];
      result[a * n + b] = result[b * n + a] = dot;
    }
  }
  return result;
}

/**
 * Join the two groups with the largest mean similarity again and again, until it is less than `least`.
 *
 * A chain that goes from each group to its nearest ends in two that are nearest to each other. Those would be joined at
 * some time, whatever else is joined before: so their order does not matter, and all takes n² steps.
 *
 * @param similar [n · n]
 * @returns The members of each group, as numbers from 0. Source: Murtagh (1983), A survey of recent advances in
 *   hierarchical clustering algorithms.
 */
export function groups(similar: Float64Array, n: number, least: number): number[][] {
  const matrix = similar.slice();
  const members = new Map(Array.from({ length: n }, (_, at) => [at, [at]]));
  const done: number[][] = [];
  const chain: number[] = [];
  while (members.size) {
    if (!chain.length) chain.push(members.keys().next().value!);
    const last = chain[chain.length - 1];
    const before = chain[chain.length - 2];
    let nearest = before;
    for (const each of members.keys()) {
      if (each !== last && (nearest === undefined || matrix[last * n + each] > matrix[last * n + nearest])) nearest = each;
    }
    if (nearest !== undefined && nearest !== before) {
      chain.push(nearest);
      continue;
    }
    chain.splice(-2);
    const joined = members.get(last)!;
    if (nearest === undefined || matrix[last * n + nearest] < least) {
      // Nothing is nearer to either, and the mean of a joined group is never larger than of its nearer part.
      for (const each of nearest === undefined ? [last] : [last, nearest]) {
        done.push(members.get(each)!);
        members.delete(each);
      }
      continue;
    }
    const other = members.get(nearest)!;
    members.delete(nearest);
    for (const each of members.keys()) {
      const mean = (joined.length * matrix[last * n + each] + other.length * matrix[nearest * n + each]) / (joined.length + other.length);
      matrix[last * n + each] = matrix[each * n + last] = mean;
    }
    members.set(last, [...joined, ...other]);
  }
  return done;
}
