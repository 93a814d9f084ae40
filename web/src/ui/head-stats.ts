/** Statistics of attention heads, and how they are named and formatted. */

import { number, percent } from "../core/format";
import { maskOf, visibleKeys } from "../core/mask";
import type { AttentionMap, Overview, Session } from "../core/types";

/** A statistic for people: its name in a table's head, the words in a sentence, and whether it is a share of the attention. */
export interface Stat {
  name: string;
  column: string;
  words: string;
  share: boolean;
}

export const STATS: readonly Stat[] = [
  { name: "previous", column: "previous token", words: "to the previous token", share: true },
  { name: "same", column: "same token", words: "to the token itself", share: true },
  { name: "next", column: "next token", words: "to the next token", share: true },
  { name: "first", column: "first token", words: "to the first token", share: true },
  { name: "special", column: "special tokens", words: "to special tokens", share: true },
  { name: "entropy_bits", column: "entropy (bits)", words: "entropy", share: false },
  { name: "distance", column: "distance (tokens)", words: "mean distance", share: false },
];

/** How heads may be put in order: the words on the control, and which end comes first. */
export const ORDERS: readonly { name: string; words: string; ascending: boolean }[] = [
  { name: "layer", words: "by layer", ascending: true },
  { name: "kind", words: "by what they do", ascending: true },
  { name: "alike", words: "by similar maps", ascending: true },
  { name: "entropy_bits", words: "sharpest first", ascending: true },
  { name: "previous", words: "previous token", ascending: false },
  { name: "first", words: "first token", ascending: false },
  { name: "special", words: "special tokens", ascending: false },
  { name: "distance", words: "farthest first", ascending: false },
];

export const headName = (layer: number, head: number) => `layer ${layer} · head ${head}`;

/** A statistic's value for people. */
export function statText(stat: Stat, value: number): string {
  if (Number.isNaN(value)) return "–";
  if (stat.share) return percent(value);
  return `${number(value, 2)} ${stat.name === "distance" ? "tokens" : "bits"}`;
}

/** The entropy, in bits, of a head that looks equally at all it may: the mean over its rows of log2 of the keys in sight. */
export function maxEntropy(map: AttentionMap, layer: number, session: Session): number {
  const queries = session.streams[map.queries].length;
  const keys = session.streams[map.keys].length;
  let bits = 0;
  for (let row = 0; row < queries; row++) {
    const [first, end] = visibleKeys(maskOf(map, layer), queries, keys, row);
    bits += Math.log2(Math.max(end - first, 1));
  }
  return bits / Math.max(queries, 1);
}

/** "sampled 1 of 16 rows", or null where every row was used. */
export function samplingNote(overview: Pick<Overview, "rows_used" | "rows_total">): string | null {
  const { rows_used, rows_total } = overview;
  return rows_used < rows_total ? `sampled 1 of ${Math.round(rows_total / rows_used)} rows` : null;
}

/** Of which layers a standalone page holds the exact numbers: "exact: all layers", "exact: layers 0 to 2, 4". */
export function exactLayers(map: AttentionMap, exactLayers: readonly number[]): string {
  if (exactLayers.length >= map.layers) return "exact: all layers";
  if (exactLayers.length === 0) return "exact: no layer";
  const runs: [number, number][] = [];
  for (const layer of [...exactLayers].sort((a, b) => a - b)) {
    const last = runs.at(-1);
    if (last && layer === last[1] + 1) last[1] = layer;
    else runs.push([layer, layer]);
  }
  return `exact: layer${exactLayers.length > 1 ? "s" : ""} ${runs.map(([a, b]) => (a === b ? a : `${a} to ${b}`)).join(", ")}`;
}
