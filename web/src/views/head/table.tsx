/** Data table of the attention links. */

import { count } from "../../core/format";
import { DataTable } from "../../ui/data-table";
import { captionOf, tableOf } from "./layout";
import type { HeadController } from "./head-controller";

/** Rows on screen; a file has all. */
const MOST = 200;

export function Table({ controller }: { controller: HeadController }) {
  const rows = tableOf(controller);
  const more = rows.length - 1 > MOST ? `: the first ${count(MOST)} of ${count(rows.length - 1)} rows; an export as CSV has all` : "";
  return <DataTable caption={captionOf(controller)[0] + more} rows={rows.slice(0, MOST + 1)} />;
}
