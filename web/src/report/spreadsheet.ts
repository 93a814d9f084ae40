/** A table as the rows of a file for a spreadsheet. */

import { numberOf, textOf } from "./table";
import type { Cell, TableData } from "./types";

/** A cell of a column of numbers for a spreadsheet: no thousands separators, a time in seconds, and nothing where there is no number. */
function plainCell(text: string): string | number {
  if (["–", "null", "NaN"].includes(text)) return "";
  if (/^\d+:\d\d(:\d\d)?$/.test(text) || /^[-+−]?\d[\d,]*(\.\d+)?(e[-+−]?\d+)?$/i.test(text)) return numberOf(text);
  return /^\d/.test(text) ? text.replace(/(\d),(?=\d{3}(?!\d))/g, "$1") : text;
}

const isTime = (cell: Cell): boolean => typeof cell === "string" && /^\d+:\d\d(:\d\d)?$/.test(cell);

/** The rows of a table for a spreadsheet: a number with an interval is three columns, a count with its share two. */
export function plainRows(table: TableData): (string | number)[][] {
  const wide = table.headings.map((_, column) => table.rows.some((row) => typeof row[column] === "object"));
  const amount = table.headings.map((_, column) => table.rows.some((row) => typeof row[column] === "object" && row[column].from_zero));
  const share = (cell: Cell) => [plainCell(textOf(cell).split(" · ")[0]), typeof cell === "object" && typeof cell.value === "number" ? cell.value : ""];
  const ends = (cell: Cell) => (typeof cell === "object" ? [cell.value, cell.low, cell.high].map((x) => (typeof x === "number" ? x : "")) : [plainCell(cell), "", ""]);
  const isNumber = (column: number) => !table.words.includes(column);
  const timed = table.headings.map((_, column) => {
    const cells = table.rows.map((row) => row[column]).filter((cell) => cell !== "–");
    return isNumber(column) && cells.length > 0 && cells.every(isTime);
  });
  const { commands } = table;
  const written = (row: Cell[], cell: Cell, column: number) => {
    if (isNumber(column)) return plainCell(textOf(cell));
    if (column > 0 && textOf(cell) === "–") return "";
    return column === 0 && row.some((each, i) => isNumber(i) && isTime(each) && !timed[i]) ? `${textOf(cell)} in seconds` : textOf(cell);
  };
  const plain = (row: Cell[], i: number) => [...row.flatMap((cell, column) => (amount[column] ? share(cell) : wide[column] ? ends(cell) : [written(row, cell, column)])), ...(commands ? [commands[i]] : [])];
  const headings = table.headings.map((name, column) => `${name || "name"}${timed[column] ? " in seconds" : ""}`).flatMap((name, column) => (amount[column] ? [name, `${name} share`] : wide[column] ? [name, `${name} low`, `${name} high`] : [name]));
  return [[...headings, ...(commands ? ["command"] : [])], ...table.rows.map(plain)];
}
