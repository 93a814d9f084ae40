/** Who may look at whom. */

import type { AttentionMap } from "./types";

/** What a layer hides: what comes later, and what is `window` tokens away or more. */
export interface Mask {
  causal: boolean;
  window: number | null;
}

export const maskOf = (map: AttentionMap, layer: number): Mask => ({ causal: map.causal, window: map.windows[layer] ?? null });

/**
 * The keys that a query may look at, half open: the last query stands at the last key.
 *
 *     causal        window = 2, causal        window = 2
 *     1 . . .       1 . . .                   1 1 . .
 *     1 1 . .       1 1 . .                   1 1 1 .
 *     1 1 1 .       . 1 1 .                   . 1 1 1
 *     1 1 1 1       . . 1 1                   . . 1 1
 */
export function seen(mask: Mask, queries: number, keys: number, query: number): [first: number, end: number] {
  const place = query + keys - queries;
  const reach = mask.window ?? Infinity;
  const end = mask.causal ? place + 1 : Math.min(place + reach, keys);
  return [Math.min(Math.max(place - reach + 1, 0), keys), Math.min(Math.max(end, 0), keys)];
}
