/** The heads of an attention map, in every order that can be chosen. */

import type { AttentionMap, Overview } from "../../core/types";
import { ALIKE, groups, similarities } from "./clusters";
import { number, percent, plural } from "../../core/format";
import { overviewKey } from "../../core/store";
import { ORDERS, STATS, statText } from "../../ui/head-stats";

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

/** Heads that belong together. */
export interface Group {
  name: string;
  about: string;
  heads: Head[];
  /** Next to the name of each head. */
  values: string[];
}

/** All heads in the order that was chosen. */
export interface Arrangement {
  /** One after another. */
  heads: Head[];
  /** The words of the order. */
  words: string;
  /** Next to the name of each head; of an order by layer none. */
  values: string[];
  /** Where the order is one of groups. */
  groups: Group[] | null;
  /** What is to be known of it. */
  hint: string;
}

/** Heads in the order of a name of `ORDERS`: the only place that knows how. */
export function arranged(all: readonly Head[], sort: string): Arrangement {
  const heads = existing(all);
  const words = ORDERS.find((order) => order.name === sort)?.words ?? "";
  const inGroups = (groups: Group[], hint = ""): Arrangement => ({
    heads: groups.flatMap((group) => group.heads), values: groups.flatMap((group) => group.values), words, groups, hint,
  });
  if (sort === "layer") return { heads, words, values: [], groups: null, hint: "" };
  if (sort === "kind") return inGroups(byKind(heads));
  if (sort === "alike") {
    if (!heads.every(({ overview }) => overview)) return inGroups([], "The maps are compared when all have come.");
    const { groups, alone } = byAlike(heads);
    const named = groups.map(({ heads: members, similar }): Group => ({
      name: `like ${members[0].layer}·${members[0].head}`, heads: members, about: summary(members[0]), values: similar.map((share) => number(share, 2)),
    }));
    if (alone.length) named.push({ name: "like no other", heads: alone, about: "", values: alone.map(() => "") });
    return inGroups(named, `${plural(heads.length, "head")} in ${plural(groups.length, "group")} of similar maps${alone.length ? `, and ${alone.length} like no other` : ""}. The number is the cosine similarity to the group's most typical head; groups are joined down to a mean of ${ALIKE}.`);
  }
  const shown = STATS.find((each) => each.name === sort)!;
  const sorted = byStat(heads, sort);
  return { heads: sorted, words, values: sorted.map((one) => (one.overview ? statText(shown, stat(one, sort)) : "")), groups: null, hint: "" };
}

/** Heads by what they do: the rarest kind first, in each the clearest head; its value is the metric of the kind. */
function byKind(all: readonly Head[]): Group[] {
  const kinds = new Map<string, Head[]>();
  for (const one of all) {
    const name = kindOf(one)?.[0] ?? "on its way";
    kinds.set(name, [...(kinds.get(name) ?? []), one]);
  }
  const value = (one: Head) => kindOf(one)?.[1] ?? 0;
  return [...kinds].sort((a, b) => a[1].length - b[1].length).map(([name, members]): Group => {
    const heads = members.sort((a, b) => value(b) - value(a));
    return { name, about: heads[0].overview?.metrics[name] ?? "", heads, values: heads.map((one) => percent(value(one))) };
  });
}

/** Heads whose maps look alike: those that are nearest to all others of the group first. */
interface Alike {
  heads: Head[];
  /** Similarity of each to the first. */
  similar: number[];
}

/** Heads by the similarity of their maps, the largest group first; and those that are like no other. */
function byAlike(all: readonly Head[]): { groups: Alike[]; alone: Head[] } {
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
function byStat(all: readonly Head[], sort: string): Head[] {
  const sign = ORDERS.find((order) => order.name === sort)?.ascending ? 1 : -1;
  const index = (head: Head) => {
    const value = stat(head, sort);
    return Number.isNaN(value) ? Infinity : sign * value;
  };
  return [...all].sort((a, b) => (index(a) === index(b) ? 0 : index(a) - index(b)));
}
