/** Data table of heads × statistics, sortable by any column. */

import { useState } from "preact/hooks";
import { number, percent } from "../../core/format";
import type { HeadActions } from "../../ui/head-cell";
import { type Stat, STATS } from "../../ui/head-stats";
import { type Head, stat, summary } from "./heads";

/** "at": the order of depth. */
interface Sorting {
  column: string;
  ascending: boolean;
}

/** A number without its unit, which the column's name says. */
function cell(each: Stat, head: Head): string {
  if (!head.overview) return "";
  const value = stat(head, each.name);
  if (Number.isNaN(value)) return "–"; // queries and keys of two sides: no token is the next one
  return each.share ? percent(value) : number(value, 2);
}

export function HeadTable({ heads, actions }: { heads: Head[]; actions: HeadActions }) {
  const [{ column, ascending }, setSorting] = useState<Sorting>({ column: "at", ascending: true });
  const value = (head: Head) => (column === "at" ? heads.indexOf(head) : stat(head, column));
  const rows = heads.map((head) => ({ head, value: value(head) })).sort((a, b) => (ascending ? a.value - b.value : b.value - a.value));
  const by = (name: string) => setSorting({ column: name, ascending: name === column ? !ascending : name === "at" });
  const heading = (name: string, words: string) => (
    <th scope="col" key={name} aria-sort={column !== name ? "none" : ascending ? "ascending" : "descending"}>
      <button onClick={() => by(name)}>{words}<span aria-hidden="true">{column !== name ? "" : ascending ? " ↑" : " ↓"}</span></button>
    </th>
  );
  return (
    <div class="table-frame" tabIndex={0} role="region" aria-label="Heads and their statistics">
      <table>
        <thead>
          <tr>
            {heading("at", "layer · head")}
            {STATS.map((each) => heading(each.name, each.column))}
            <th scope="col">in words</th>
          </tr>
        </thead>
        <tbody>
          {rows.map(({ head }) => (
            <tr key={`${head.layer}.${head.head}`} onPointerEnter={() => actions.point?.(head.layer, head.head)}>
              <th scope="row"><button class="link" onFocus={() => actions.point?.(head.layer, head.head)} onClick={() => actions.open(head.layer, head.head)}>{head.layer} · {head.head}</button></th>
              {STATS.map((each) => <td key={each.name}>{cell(each, head)}</td>)}
              <td class="words">{summary(head)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
