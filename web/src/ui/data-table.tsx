/** The data table of a view: the numbers of its picture, for everyone. */

import type { ComponentChildren } from "preact";
import { number, percent, visible } from "../core/format";
import "./data-table.css";

export type Cell = string | number;

interface Props {
  caption: ComponentChildren;
  /** The names of the columns, then the rows, as they are exported. */
  rows: Cell[][];
  /** The column that names each row. */
  heading?: number;
  /** How a cell is written; else numbers with four digits, and tokens with their spaces visible. */
  show?(cell: Cell, column: string): string;
  /** Is this the row of what is pinned? */
  current?(row: Cell[]): boolean;
}

/** Columns of shares, which are written in percent; where one points, the number is whole. */
const SHARES = ["probability", "share"];

export const written = (cell: Cell): string => (cell === "" ? "" : typeof cell === "string" ? visible(cell) : Number.isInteger(cell) ? String(cell).replace("-", "−") : number(cell));

export function DataTable({ caption, rows: [names, ...rows], heading, show = written, current }: Props) {
  const share = (cell: Cell | undefined, at: number): cell is number => show === written && typeof cell === "number" && SHARES.includes(String(names[at]));
  const side = (cell: Cell | undefined) => (typeof cell === "number" ? "figure" : undefined);
  return (
    <div class="data-table" tabIndex={0} role="region" aria-label="data table">
      <table>
        <caption>{caption}</caption>
        <thead><tr>{names.map((name, at) => <th scope="col" key={at} class={side(rows[0]?.[at])}>{visible(String(name))}</th>)}</tr></thead>
        <tbody>
          {rows.map((row, index) => (
            <tr key={index} data-on={current?.(row) ? "" : undefined}>
              {row.map((cell, at) => (at === heading
                ? <th key={at} scope="row" class={side(cell)}>{show(cell, String(names[at]))}</th>
                : share(cell, at) ? <td key={at} class="figure" title={number(cell)}>{percent(cell)}</td>
                : <td key={at} class={side(cell)}>{show(cell, String(names[at]))}</td>))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
