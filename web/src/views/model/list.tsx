/** Heads sorted by a statistic, each with its name and value. */

import { HeadCell } from "../../ui/head-cell";
import { moveFocus } from "../../ui/roving-tabindex";
import { ORDERS, STATS, statText } from "../../ui/head-stats";
import type { HeadsProps } from "./grid";
import { stat } from "./heads";

export function HeadList({ heads, sort, ...rest }: HeadsProps & { sort: string }) {
  const shown = STATS.find((each) => each.name === sort)!;
  const order = ORDERS.find((each) => each.name === sort)!;
  return (
    <div class="head-list" role="listbox" aria-multiselectable="true" aria-label={`Heads in order: ${order.words}`} onKeyDown={moveFocus}>
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
