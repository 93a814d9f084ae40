/**
 * Sampling filters in the browser: the distribution after temperature, top-k and top-p, recomputed as a slider moves.
 *
 *     log-probs ─> / temperature ─> the k likeliest ─> the fewest that reach p ─> shares of what is left
 *
 * The same order and the same rules for equals as the filters that draw (generation/filters.py). Temperature changes no
 * order, so the tokens are sorted once, however often a slider moves.
 */

import type { Distribution } from "../../core/types";

export interface Sampling {
  /** 0 = greedy: the likeliest token alone. */
  temperature: number;
  /** 0 = all. */
  topK: number;
  /** 1 = all. */
  topP: number;
}

/** What could follow, sorted: the likeliest first, of equals the one with the larger id, as in a rising stable sort read backwards. */
export interface Sorted {
  /** Tokens; behind them bins of tokens that are not listed. */
  ids: Uint32Array;
  /** Logits, up to a number that is the same for all: of each token, then of each token in a bin. */
  values: Float64Array;
  /** How many tokens a value stands for. */
  counts: Uint32Array;
  /** Of each place of `ids`, where it stood in the distribution as it came. */
  order: Uint32Array;
}

export interface Shaped {
  /** What one token gets, at each place of the sorted; 0 where it is cut. */
  probs: Float64Array;
  /** How many tokens are left. */
  allowed: number;
  /** Of what is left, in bits. */
  entropy: number;
}

export function sorted({ ids, logprobs, ruled, rest_logprobs, rest_counts }: Distribution): Sorted {
  const filtered = ruled ?? logprobs;
  const order = Uint32Array.from(ids, (_, at) => at).sort((a, b) => filtered[b] - filtered[a] || ids[b] - ids[a]);
  const bins = Array.from(rest_counts, (_, bin) => bin).filter((bin) => rest_counts[bin] > 0).sort((a, b) => rest_logprobs[b] - rest_logprobs[a]);
  const size = order.length + bins.length;
  const result = { ids: order.map((at) => ids[at]), values: new Float64Array(size), counts: new Uint32Array(size).fill(1), order };
  order.forEach((from, at) => (result.values[at] = filtered[from]));
  bins.forEach((bin, at) => {
    result.values[order.length + at] = rest_logprobs[bin];
    result.counts[order.length + at] = rest_counts[bin];
  });
  return result;
}

/** What temperature, top-k and top-p leave. */
export function shaped({ ids, values, counts }: Sorted, { temperature, topK, topP }: Sampling): Shaped {
  const probs = new Float64Array(values.length);
  let end = values.length;
  while (end > 0 && values[end - 1] === -Infinity) end--;
  if (end === 0) return { probs, allowed: 0, entropy: 0 };
  if (temperature === 0) {
    probs[greedy(ids, values)] = 1;
    return { probs, allowed: 1, entropy: 0 };
  }
  if (topK > 0) end = among(values, counts, end, topK);

  const weights = new Float64Array(end); // of one token
  let total = 0;
  for (let at = 0; at < end; at++) total += counts[at] * (weights[at] = Math.exp((values[at] - values[0]) / temperature));
  const left = counts.slice(0, end);
  if (topP < 1) {
    let below = 0;
    for (let at = end - 1; at >= 0; at--) {
      const share = weights[at] / total;
      const fits = share > 0 ? Math.floor((1 - topP - below) / share + EPSILON) : left[at];
      const out = Math.min(fits, at === 0 ? left[at] - 1 : left[at]);
      below += out * share;
      left[at] -= out;
      if (left[at] > 0) break;
      end = at;
    }
    total = 0;
    for (let at = 0; at < end; at++) total += left[at] * weights[at];
  }
  let [allowed, entropy] = [0, 0];
  for (let at = 0; at < end; at++) {
    const p = weights[at] / total;
    probs[at] = (p * left[at]) / counts[at]; // of a bin that is cut in the middle, what its tokens get on average
    allowed += left[at];
    if (p > 0) entropy -= left[at] * p * Math.log2(p);
  }
  return { probs, allowed, entropy: Math.max(entropy, 0) };
}

/** Sums of shares are right to so much. */
const EPSILON = 1e-9;

/** Where the k likeliest end, and all that are as likely as the last of them. */
function among(values: Float64Array, counts: Uint32Array, end: number, k: number): number {
  let cumulative = 0;
  for (let at = 0; at < end; at++) {
    cumulative += counts[at];
    if (cumulative < k) continue;
    while (at + 1 < end && values[at + 1] === values[at]) at++;
    return at + 1;
  }
  return end;
}

/** Where the likeliest token is; of equals the one with the smallest id. */
function greedy(ids: Uint32Array, values: Float64Array): number {
  let best = 0;
  for (let at = 1; at < ids.length && values[at] === values[0]; at++) if (ids[at] < ids[best]) best = at;
  return best;
}

/** 2 to the entropy: as hard as a choice among this many equally likely tokens. */
export const choices = (entropy: number): number => 2 ** entropy;
