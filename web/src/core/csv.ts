/** CSV and JSON export of tables; the first row holds the column names. */

type Cell = string | number;

/** Where a spreadsheet may begin a cell, also where ; or a tab separates them, and what begins a formula there, in full width as well. */
const FORMULA = /(^|[;\t\r\n])(?=['" ]*[=+\-@\uff1d\uff0b\uff0d\uff20])|^(?=[\t\r])/g;

/** Comma-separated values, RFC 4180. What a spreadsheet would take for a formula gets an apostrophe in front. */
export function csv(rows: Cell[][]): string {
  return rows.map((row) => `${row.map(field).join(",")}\r\n`).join("");
}

/** Names of columns, no two the same: the second `f1` is `f1 (2)`. */
export function distinct(names: string[]): string[] {
  const known = new Set<string>();
  return names.map((name) => {
    let own = name;
    for (let n = 2; known.has(own); n++) own = `${name} (${n})`;
    known.add(own);
    return own;
  });
}

function field(cell: Cell): string {
  if (typeof cell === "number") return String(cell);
  const safe = cell.replace(FORMULA, "$1'");
  return /[",\r\n]/.test(safe) ? `"${safe.replace(/"/g, '""')}"` : safe;
}

/** One object a row, by the columns' names. */
export function records([names, ...rows]: Cell[][]): Record<string, Cell>[] {
  return rows.map((row) => Object.fromEntries(row.map((cell, column) => [names[column], cell])));
}
