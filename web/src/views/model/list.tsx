/** Heads sorted by a statistic, each with its name and value; or by what they do. */

import { HeadCanvas } from "../../ui/head-canvas";
import { HeadCell } from "../../ui/head-cell";
import { moveFocus } from "../../ui/roving-tabindex";
import { ORDERS, STATS, statText } from "../../ui/head-stats";
import { percent, plural } from "../../core/format";
import type { HeadsProps } from "./grid";
import { byKind, type Head, kindOf, stat } from "./heads";
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

/** Heads by what they do: a group of each kind, with the metric by which it is sorted. */
export function HeadKinds({ heads, ...rest }: HeadsProps) {
  return (
    <div class="head-kinds" role="listbox" aria-multiselectable="true" aria-label="Heads by what they do" onKeyDown={moveFocus}>
      {byKind(heads).map(([kind, members]) => {
        const metric = members[0].overview?.metrics[kind] ?? "";
        return (
          <div role="group" key={kind} aria-label={`${kind}: ${plural(members.length, "head")}`}>
            <p role="presentation"><b>{kind}</b> {plural(members.length, "head")} <small>{metric}</small></p>
            <div class="head-list" role="presentation">
              <HeadCanvas overviewOf={overviewOf(members)} />
              {members.map((one) => (
                <figure key={`${one.layer}.${one.head}`} role="presentation">
                  <HeadCell role="option" {...one} {...rest} />
                  <figcaption role="presentation"><b>{one.layer}·{one.head}</b> <span>{percent(kindOf(one)?.[1] ?? 0)}</span></figcaption>
                </figure>
              ))}
            </div>
          </div>
        );
      })}
    </div>
  );
}
