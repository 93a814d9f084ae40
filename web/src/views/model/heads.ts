/** List of the heads of an attention map, sorted by a statistic. */

import type { AttentionMap, Overview } from "../../core/types";
import { ALIKE, groups, similarities } from "../../core/clusters";
import { overviewKey } from "../../core/store";
import { ORDERS } from "../../ui/head-stats";

export interface Head {
  layer: number;
  head: number;
  /** Its layer's overview, once that has come. */
  overview: Overview | undefined;
}

/** All heads, layer by layer. */
export function heads(map: AttentionMap, overviews: ReadonlyMap<string, Overview>): Head[] {
  return Array.from({ length: map.layers * map.heads }, (_, at) => {
    const layer = Math.floor(at / map.heads);
    return { layer, head: at % map.heads, overview: overviews.get(overviewKey(map.name, layer)) };
  });
}

/** Those that their layer has: others may have more. */
export const existing = (all: readonly Head[]): Head[] => all.filter(({ overview, head }) => !overview || head < overview.heads);

export const stat = ({ overview, head }: Head, name: string): number => overview?.stats[name]?.[head] ?? NaN;

export const summary = ({ overview, head }: Head): string => overview?.summaries[head] ?? "on its way";

/** What a head does, and its metric; null until its overview has come. */
export const kindOf = ({ overview, head }: Head): [name: string, value: number] | null => overview?.kinds[head] ?? null;

/** Heads by what they do: the rarest kind first, in each the clearest head. */
export function byKind(all: readonly Head[]): [kind: string, heads: Head[]][] {
  const kinds = new Map<string, Head[]>();
  for (const one of all) {
    const name = kindOf(one)?.[0] ?? "on its way";
    kinds.set(name, [...(kinds.get(name) ?? []), one]);
  }
  const value = (one: Head) => kindOf(one)?.[1] ?? 0;
  return [...kinds].map(([kind, heads]): [string, Head[]] => [kind, heads.sort((a, b) => value(b) - value(a))]).sort((a, b) => a[1].length - b[1].length);
}

/** Heads whose maps look alike: those that are nearest to all others of the group first. */
export interface Alike {
  heads: Head[];
  /** Similarity of each to the first. */
  similar: number[];
}

export interface Clusters {
  /** The largest first. */
  groups: Alike[];
  /** Heads that are like no other. */
  alone: Head[];
}

/** Heads by the similarity of their maps; null until all their overviews have come. */
export function byAlike(all: readonly Head[]): Clusters | null {
  if (!all.every(({ overview }) => overview)) return null;
  const n = all.length;
  const similar = similarities(all);
  const found = groups(similar, n, ALIKE);
  const typical = (members: number[]): Alike => {
    const sum = (a: number) => members.reduce((total, b) => total + similar[a * n + b], 0);
    const first = members.reduce((best, at) => (sum(at) > sum(best) ? at : best));
    const order = [...members].sort((a, b) => similar[first * n + b] - similar[first * n + a] || a - b);
    return { heads: order.map((at) => all[at]), similar: order.map((at) => similar[first * n + at]) };
  };
  const several = found.filter((members) => members.length > 1).map(typical);
  const alone = found.filter((members) => members.length === 1).map(([at]) => at).sort((a, b) => a - b);
  return { groups: several.sort((a, b) => b.heads.length - a.heads.length), alone: alone.map((at) => all[at]) };
}

/** Heads by a statistic; those not known yet come last, equals keep the order of depth. */
export function ordered(all: readonly Head[], sort: string): Head[] {
  if (sort === "kind") return byKind(all).flatMap(([, heads]) => heads);
  const sign = ORDERS.find((order) => order.name === sort)?.ascending ? 1 : -1;
  const index = (head: Head) => {
    const value = stat(head, sort);
    return Number.isNaN(value) ? Infinity : sign * value;
  };
  return [...all].sort((a, b) => (index(a) === index(b) ? 0 : index(a) - index(b)));
}
