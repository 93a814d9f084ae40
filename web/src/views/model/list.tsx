/** Heads sorted by a statistic, each with its name and value; or by what they do. */

import { HeadCanvas } from "../../ui/head-canvas";
import { HeadCell } from "../../ui/head-cell";
import { moveFocus } from "../../ui/roving-tabindex";
import { ORDERS, STATS, statText } from "../../ui/head-stats";
import { ALIKE } from "../../core/clusters";
import { number, percent, plural } from "../../core/format";
import type { HeadsProps } from "./grid";
import { byKind, type Clusters, type Head, kindOf, stat, summary } from "./heads";
import type { Overview } from "../../core/types";

export function HeadList({ heads, sort, ...rest }: HeadsProps & { sort: string }) {
  const shown = STATS.find((each) => each.name === sort)!;
  const order = ORDERS.find((each) => each.name === sort)!;
  return (
    <div class="head-list" role="listbox" aria-multiselectable="true" aria-label={`Heads in order: ${order.words}`} onKeyDown={moveFocus}>
      <HeadCanvas overviewOf={overviewOf(heads)} />
      {heads.map((one) => (
        <figure key={`${one.layer}.${one.head}`} role="presentation">
          <HeadCell role="option" {...one} {...rest} />
          <figcaption role="presentation">
            <b>{one.layer}·{one.head}</b> <span>{one.overview ? statText(shown, stat(one, sort)) : ""}</span>
          </figcaption>
        </figure>
      ))}
    </div>
  );
}

/** The overview of a layer, from those that its heads carry. */
function overviewOf(heads: readonly Head[]): (layer: number) => Overview | undefined {
  const layers = new Map(heads.map(({ layer, overview }) => [layer, overview]));
  return (layer) => layers.get(layer);
}

interface Group {
  name: string;
  about: string;
  heads: Head[];
  /** Next to the name of each head. */
  values: string[];
}

/** Heads by what they do: a group of each kind, with the metric by which it is sorted. */
export function HeadKinds({ heads, ...rest }: HeadsProps) {
  const kinds = byKind(heads).map(([name, members]): Group => ({
    name, heads: members, about: members[0].overview?.metrics[name] ?? "",
    values: members.map((one) => percent(kindOf(one)?.[1] ?? 0)),
  }));
  return <HeadGroups label="Heads by what they do" groups={kinds} {...rest} />;
}

/** Heads in groups of similar maps, each named by its most typical head. */
export function HeadsAlike({ clusters: { groups, alone }, ...rest }: Omit<HeadsProps, "heads"> & { clusters: Clusters }) {
  const named = groups.map(({ heads: members, similar }): Group => ({
    name: `like ${members[0].layer}·${members[0].head}`, heads: members, about: summary(members[0]), values: similar.map((share) => number(share, 2)),
  }));
  if (alone.length) named.push({ name: "like no other", heads: alone, about: "", values: alone.map(() => "") });
  const of = plural(groups.reduce((total, group) => total + group.heads.length, alone.length), "head");
  return (
    <>
      <p class="hint">{of} in {plural(groups.length, "group")} of similar maps{alone.length ? `, and ${alone.length} like no other` : ""}. The number is the cosine similarity to the group's most typical head; groups are joined down to a mean of {ALIKE}.</p>
      <HeadGroups label="Heads by similar maps" groups={named} {...rest} />
    </>
  );
}

function HeadGroups({ label, groups, ...rest }: Omit<HeadsProps, "heads"> & { label: string; groups: Group[] }) {
  return (
    <div class="head-kinds" role="listbox" aria-multiselectable="true" aria-label={label} onKeyDown={moveFocus}>
      {groups.map(({ name, about, heads, values }) => (
        <div role="group" key={name} aria-label={`${name}: ${plural(heads.length, "head")}`}>
          <p role="presentation"><b>{name}</b> {plural(heads.length, "head")} <small>{about}</small></p>
          <div class="head-list" role="presentation">
            <HeadCanvas overviewOf={overviewOf(heads)} />
            {heads.map((one, at) => (
              <figure key={`${one.layer}.${one.head}`} role="presentation">
                <HeadCell role="option" {...one} {...rest} />
                <figcaption role="presentation"><b>{one.layer}·{one.head}</b> <span>{values[at]}</span></figcaption>
              </figure>
            ))}
          </div>
        </div>
      ))}
    </div>
  );
}
