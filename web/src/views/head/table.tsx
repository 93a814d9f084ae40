/** Data table of the attention links. */

import { count, number } from "../../core/format";
import { captionOf, tableOf } from "./layout";
import type { HeadController } from "./head-controller";

/** Rows on screen; a file has all. */
const MOST = 200;

export function Table({ controller }: { controller: HeadController }) {
  const [names, ...rows] = tableOf(controller);
  return (
    <div class="head-table" tabIndex={0} role="region" aria-label="Links as a table">
      <table>
        <caption>
          {captionOf(controller)[0]}{rows.length > MOST ? `: the first ${count(MOST)} of ${count(rows.length)} rows; an export as CSV has all` : ""}
        </caption>
        <thead><tr>{names.map((name) => <th key={name} scope="col">{name}</th>)}</tr></thead>
        <tbody>
          {rows.slice(0, MOST).map((row, index) => <tr key={index}>{row.map((cell, column) => <td key={column}>{column === 6 ? number(Number(cell)) : cell}</td>)}</tr>)}
        </tbody>
      </table>
    </div>
  );
}
