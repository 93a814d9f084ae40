/** Attention masks: causal, and sliding window. */

import type { AttentionMap } from "./types";

/** Attention mask of a layer: `causal` hides later keys, `window` those that many tokens away or more. */
export interface Mask {
  causal: boolean;
  window: number | null;
}

export const maskOf = (map: AttentionMap, layer: number): Mask => ({ causal: map.causal, window: map.windows[layer] ?? null });

/**
 * Range of the keys visible to a query, half open: the last query is at the position of the last key.
 *
 *     causal        window = 2, causal        window = 2
 *     1 . . .       1 . . .                   1 1 . .
 *     1 1 . .       1 1 . .                   1 1 1 .
 *     1 1 1 .       . 1 1 .                   . 1 1 1
 *     1 1 1 1       . . 1 1                   . . 1 1
 */
export function visibleKeys(mask: Mask, queries: number, keys: number, query: number): [first: number, end: number] {
  const position = query + keys - queries;
  const reach = mask.window ?? Infinity;
  const end = mask.causal ? position + 1 : Math.min(position + reach, keys);
  return [Math.min(Math.max(position - reach + 1, 0), keys), Math.min(Math.max(end, 0), keys)];
}
