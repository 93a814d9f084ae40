/** Attention links between query and key tokens, from the chunks of rows that have been loaded. */

import type { Lines } from "../../core/types";

export interface Link {
  query: number;
  key: number;
  /** Which of the maps shown it belongs to: an index into `Lines.members`, or 0 where they are mixed. */
  lane: number;
  prob: number;
}

/** What has come, by the first query of each answer. */
export type Chunks = ReadonlyMap<number, Lines>;

/** The answer that holds a query, and the query's row in it. */
export function rowOf(chunks: Chunks, query: number): [lines: Lines, row: number] | null {
  for (const lines of chunks.values()) {
    const [begin, end] = lines.query.rows;
    if (query >= begin && query < end) return [lines, query - begin];
  }
  return null;
}

/** The links of one query in one map, the strongest first; what the filter or a mask hides is not among them. */
export function linksOf(lines: Lines, row: number, lane: number): Link[] {
  const rows = lines.query.rows[1] - lines.query.rows[0];
  const start = (lane * rows + row) * lines.count;
  const links: Link[] = [];
  for (let at = start; at < start + lines.count && lines.probs[at] > 0; at++) {
    links.push({ query: lines.query.rows[0] + row, key: lines.keys[at], lane, prob: lines.probs[at] });
  }
  return links;
}

/** Links of several queries, the faintest first, as they are drawn. */
export interface VisibleLinks {
  links: Link[];
  /** How many are fainter than the threshold, or too many to draw, and the strongest of them. */
  hidden: number;
  strongest: number;
}

/** Those of the queries' links that are at least as strong as the threshold, and at most `limit` of them. */
export function visibleLinks(chunks: Chunks, queries: Iterable<number>, threshold: number, limit: number): VisibleLinks {
  const links: Link[] = [];
  let hidden = 0;
  let strongest = 0;
  for (const query of queries) {
    const [lines, row] = rowOf(chunks, query) ?? [];
    if (!lines || row === undefined) continue;
    for (let lane = 0; lane < lines.maps; lane++) {
      for (const link of linksOf(lines, row, lane)) {
        if (link.prob >= threshold) links.push(link);
        else {
          hidden++;
          strongest = Math.max(strongest, link.prob);
        }
      }
    }
  }
  links.sort((a, b) => a.prob - b.prob);
  const surplus = links.splice(0, Math.max(links.length - limit, 0));
  return { links, hidden: hidden + surplus.length, strongest: Math.max(strongest, surplus.at(-1)?.prob ?? 0) };
}

/** What the links of a query that are not listed add up to, as the mean over the maps shown. */
export function otherOf(chunks: Chunks, query: number): number {
  const [lines, row] = rowOf(chunks, query) ?? [];
  if (!lines || row === undefined) return 0;
  const rows = lines.query.rows[1] - lines.query.rows[0];
  let sum = 0;
  for (let lane = 0; lane < lines.maps; lane++) sum += lines.other[lane * rows + row];
  return sum / lines.maps;
}
