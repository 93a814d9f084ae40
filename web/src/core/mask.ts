/** Who may look at whom. */

import type { AttentionMap } from "./types";

/**
 * The keys that a query may look at, half open: the last query stands at the last key.
 *
 *     causal        window = 2, causal        window = 2
 *     1 . . .       1 . . .                   1 1 . .
 *     1 1 . .       1 1 . .                   1 1 1 .
 *     1 1 1 .       . 1 1 .                   . 1 1 1
 *     1 1 1 1       . . 1 1                   . . 1 1
 */
export function seen(map: Pick<AttentionMap, "causal" | "window">, queries: number, keys: number, query: number): [first: number, end: number] {
  const place = query + keys - queries;
  const reach = map.window ?? Infinity;
  const end = map.causal ? place + 1 : Math.min(place + reach, keys);
  return [Math.min(Math.max(place - reach + 1, 0), keys), Math.min(Math.max(end, 0), keys)];
}
