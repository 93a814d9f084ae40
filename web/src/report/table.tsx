/** A table: sorted by any column; numbers with intervals are bars on one scale. */

import { Command } from "../ui/command";
import { element } from "./dom";
import { finite, intervalRange, number, significant, ticks } from "./scales";
import type { Cell, IntervalCell, TableData } from "./types";

const MANY_ROWS = 200;
const TALL_ROWS = 30;
const LONG = 2_000;
/** Characters of a text up to which a narrow column of a phone holds it in few lines. */
export const SHORT = 40;
const TICKS = 4;
/** Characters of a word that is never broken: its column is as wide. */
const WORD = 24;
/** The longest interval is to take this share of a scale, for which baselines far away are left out of it. */
const VISIBLE = 0.06;

export interface Sorting {
  column: number;
  down: boolean;
}

/** The number that a cell is: of "1,240", "12.5%", "1:02:03", "0.91 ± 0.02"; NaN for a text. */
export function numberOf(cell: Cell): number {
  if (typeof cell !== "string") return finite(cell.value) ? cell.value : NaN;
  const clock = /^(\d+):(\d\d)(?::(\d\d))?$/.exec(cell);
  if (clock) return clock.slice(1).filter(Boolean).reduce((sum, part) => 60 * sum + Number(part), 0);
  const found = /^\s*([-+−]?\d[\d,]*(?:\.\d+)?(?:e[-+−]?\d+)?)(?=$|[\s%,;:×±[(])/i.exec(cell);
  return found ? Number(found[1].replace(/,/g, "").replace(/−/g, "-")) : NaN;
}

export const textOf = (cell: Cell): string => (typeof cell === "string" ? cell : cell.text);

/** The rows by number in the order of a column: numbers as such, and after them texts; empty cells are last. */
export function sorted(rows: Cell[][], sorting: Sorting | null): number[] {
  const order = rows.map((_, i) => i);
  if (sorting === null) return order;
  const { column, down } = sorting;
  const keys = rows.map((row) => numberOf(row[column] ?? ""));
  const rank = (i: number) => (!Number.isNaN(keys[i]) ? 0 : textOf(rows[i][column] ?? "") !== "" ? 1 : 2);
  const collator = new Intl.Collator("en", { numeric: true });
  return order.sort((a, b) => {
    const ranks = rank(a) - rank(b);
    if (ranks !== 0) return ranks;
    const difference = rank(a) === 0 ? keys[a] - keys[b] : collator.compare(textOf(rows[a][column]), textOf(rows[b][column]));
    return (down ? -difference : difference) || a - b;
  });
}

interface Scale {
  low: number;
  high: number;
  signed: boolean;
  reference: number | null;
  /** Bars from zero, whose numbers are in words next to them: without an axis. */
  fromZero: boolean;
  /** The longest of its texts, whose width all have, so that bars and axis begin and end at the same place. */
  longest: string;
}

/** The scale of a column of bars; null: a column of texts. Where amounts and differences are mixed, amounts are drawn. */
export function scaleOf(table: TableData, column: number): Scale | null {
  const cells = table.rows.map((row) => row[column]).filter((cell): cell is IntervalCell => typeof cell === "object");
  if (cells.some((cell) => cell.from_zero)) return { low: 0, high: largest(table), signed: false, reference: null, fromZero: true, longest: longest(amountsOf(table)) };
  const amounts = cells.filter((cell) => !cell.signed);
  const drawn = amounts.length > 0 ? amounts : cells;
  if (!drawn.some((cell) => finite(cell.value) && (finite(cell.low) || finite(cell.high)))) return null;
  const [low, high] = rangeOf(table, column, drawn);
  const reference = table.reference === null ? undefined : table.rows[table.reference]?.[column];
  const signed = amounts.length === 0;
  const marked = signed ? 0 : typeof reference === "object" && finite(reference.value) ? reference.value : null;
  return { low, high, signed, reference: marked, fromZero: false, longest: longest(cells) };
}

/** The range of a column, without baselines so far away that no interval could be seen. */
function rangeOf(table: TableData, column: number, drawn: IntervalCell[]): [number, number] {
  const [low, high] = intervalRange(drawn);
  const visible = drawn.some((cell) => finite(cell.low) && finite(cell.high) && cell.high - cell.low >= VISIBLE * (high - low));
  const baselines = table.baselines.map((i) => table.rows[i][column]).filter((cell): cell is IntervalCell => drawn.includes(cell as IntervalCell) && finite((cell as IntervalCell).value));
  if (visible || baselines.length === 0 || drawn.length < 3) return [low, high];
  const others = drawn.filter((cell) => !baselines.includes(cell)), home = others.length ? intervalRange(others) : [0, 0];
  const away = ({ value }: IntervalCell) => Math.abs((value as number) - (home[0] + home[1]) / 2);
  const furthest = baselines.reduce((most, cell) => (away(cell) > away(most) ? cell : most));
  return rangeOf(table, column, drawn.filter((cell) => cell !== furthest));
}

/** Its digits are all as wide, and a plus is the widest sign. */
const longest = (cells: IntervalCell[]): string => cells.reduce((most, { text }) => (text.length > most.length ? text.replace(/(?<!\d)[-−]/g, "+") : most), "");

/** All bars from zero, which have one scale. */
const amountsOf = (table: TableData): IntervalCell[] => table.rows.flat().filter((cell): cell is IntervalCell => typeof cell === "object" && Boolean(cell.from_zero));

const largest = (table: TableData): number => amountsOf(table).reduce((most, { value }) => (finite(value) ? Math.max(most, value) : most), 0) || 1;

const wide = (scale: Scale, length: number): string => `${((100 * length) / (scale.high - scale.low)).toFixed(2)}%`;
const across = (scale: Scale, x: number): string => wide(scale, x - scale.low);

/** Whether a value is so far away that its scale leaves it out. */
const beyond = ({ value }: IntervalCell, { low, high }: Scale): boolean => finite(value) && (value < low || value > high);

/** Whether an arrow stands for a bar of a table. */
export const hasArrows = (table: TableData): boolean => table.headings.some((_, column) => {
  const scale = scaleOf(table, column);
  return scale !== null && table.rows.some((row) => typeof row[column] === "object" && (row[column] as IntervalCell).signed === scale.signed && beyond(row[column] as IntervalCell, scale));
});

function Bar({ cell, scale }: { cell: IntervalCell; scale: Scale }) {
  if (!finite(cell.value)) return <svg aria-hidden="true" />;
  if (scale.fromZero) return <svg aria-hidden="true"><rect class="amount" y="20%" height="60%" width={across(scale, cell.value)} rx="2" /></svg>;
  const box = cell.box?.every(finite) ? cell.box.map((x) => x as number) : null;
  if (beyond(cell, scale)) return <svg aria-hidden="true"><text class="beyond" x={cell.value < scale.low ? "0" : "100%"} y="50%">{cell.value < scale.low ? "◂" : "▸"}</text></svg>;
  const whole = finite(cell.low) && finite(cell.high); // one end that is not finite leaves out both
  const [start, end] = (whole ? [cell.low, cell.high] : [cell.value, cell.value]).map((x) => across(scale, x as number));
  return (
    <svg aria-hidden="true">
      {ticks(scale.low, scale.high, TICKS).map((x) => (
        <line class="grid" x1={across(scale, x)} x2={across(scale, x)} y1="0" y2="100%" />
      ))}
      {scale.reference !== null && (
        <line class="reference" x1={across(scale, scale.reference)} x2={across(scale, scale.reference)} y1="0" y2="100%" />
      )}
      <line class="range" x1={start} x2={end} y1="50%" y2="50%" />
      {box && <rect class="box" x={across(scale, box[0])} width={wide(scale, box[1] - box[0])} y="22%" height="56%" rx="2" />}
      {box ? (
        <line class="median" x1={across(scale, cell.value)} x2={across(scale, cell.value)} y1="22%" y2="78%" />
      ) : (
        <circle class="mean" cx={across(scale, cell.value)} cy="50%" r="4.5" />
      )}
    </svg>
  );
}

function Interval({ cell, scale }: { cell: IntervalCell; scale: Scale | null }) {
  // On a phone the ends of an interval are on a line of their own, and stay together.
  const [, value, ends] = /^([^[]*)(\[[^[]*\])$/.exec(cell.text) ?? ["", cell.text, ""];
  const text = <>{value}{ends && <span class="ends">{ends}</span>}</>;
  const written = significant(cell) ? <b>{text}</b> : text;
  if (scale === null || cell.signed !== scale.signed) return <td>{written}</td>;
  return (
    <td class="interval">
      <div>
        <Bar cell={cell} scale={scale} />
        <span class="written" data-longest={scale.longest}>{written}</span>
      </div>
    </td>
  );
}

/** The axis below a column of bars, over the width of the bars alone. */
function Axis({ scale }: { scale: Scale }) {
  return (
    <td class="interval">
      <div>
        <svg>
          {ticks(scale.low, scale.high, TICKS).map((x) => (
            <text x={across(scale, x)} y="12">
              {number(x)}
            </text>
          ))}
        </svg>
        <span class="written" data-longest={scale.longest} />
      </div>
    </td>
  );
}

/** A text of which the beginning is shown, and all of it on request. */
export function Long({ text }: { text: string }) {
  if (text.length <= LONG) return <>{text}</>;
  const shown = element(<span>{text.slice(0, LONG)}… </span>);
  const more = <button class="more" onClick={() => shown.replaceChildren(text)}>Show all {text.length.toLocaleString("en")} characters</button>;
  shown.append(element(more));
  return shown as never;
}

/** A text cut where it may be broken: long words between the parts of a name. */
export function partsOf(text: string): string[] {
  const cut = "\uffff"; // which no text has
  return text.replace(new RegExp(`\\S{${WORD + 1},}`, "g"), (word) => word.replace(/(?<=[_.:/,])(?=\p{L})/gu, cut)).split(cut);
}

/** A text of a cell. */
function Words({ text }: { text: string }) {
  if (text.length > LONG) return <Long text={text} />;
  return <>{partsOf(text).flatMap((part, i) => (i > 0 ? [<wbr />, part] : [part]))}</>;
}

/** What a text needs of its column: room for several lines, or to be broken within words. */
function shapeOf(text: string): string {
  const unbroken = text.split(/[\s_.:/-]+/).some((word) => word.length > WORD);
  return `${text.length > SHORT ? " is-long" : ""}${unbroken ? " is-unbroken" : ""}`;
}

/** The colour behind a cell, from -1 to 1; a table without negative ones has one hue. */
function shade(table: TableData, row: number, column: number, signed: boolean): { background: string } | undefined {
  const value = table.shades?.[row]?.[column - 1];
  if (!finite(value) || Math.abs(value) < 0.01) return undefined;
  const hue = !signed ? "share" : value > 0 ? "above" : "below";
  return { background: `rgb(var(--${hue}) / ${(Math.min(1, Math.abs(value)) * 0.6).toFixed(2)})` };
}

/** The heading of a column, by which rows are sorted. */
export function Heading({ table, column, sort }: { table: TableData; column: number; sort: (column: number) => void }) {
  const shown = table.headings[column] || <span class="unseen">name</span>;
  return (
    <th scope="col" class={column === 0 || table.words.includes(column) ? "is-text" : undefined}>
      {table.rows.length > 1 ? (
        <button onClick={() => sort(column)} title="Sort by this column">
          {shown}
        </button>
      ) : (
        <span class="fixed">{shown}</span>
      )}
    </th>
  );
}

/** The heading of a row, which chooses rows in the browser of the page. */
function Chooser({ table, text }: { table: TableData; text: string }) {
  const values = { ...(table.chooses === "true" ? { predicted: "" } : {}), [table.chooses!]: text };
  return <button class="choose" onClick={() => document.dispatchEvent(new CustomEvent("choose", { detail: values }))}>{text}</button>;
}

export function Row({ table, i, scales, signed }: { table: TableData; i: number; scales: (Scale | null)[]; signed: boolean }) {
  const cellOf = (cell: Cell, column: number) => {
    if (typeof cell === "object" && column > 0) return <Interval cell={cell} scale={scales[column]} />;
    const text = <Words text={textOf(cell)} />, long = shapeOf(textOf(cell));
    if (column === 0) return <th scope="row" class={long || undefined}>{table.chooses && globalThis.glassformerRows ? <Chooser table={table} text={textOf(cell)} /> : text}</th>;
    const command = column === table.headings.length - 1 && table.commands?.[i];
    return (
      <td class={table.words.includes(column) ? `is-text${long}` : undefined} style={shade(table, i, column, signed)}>
        {text}
        {command && <Command line={command} />}
      </td>
    );
  };
  return <tr class={table.baselines.includes(i) ? "baseline" : undefined}>{table.rows[i].map(cellOf)}</tr>;
}

/** The rows of a table under their headings; `ordered` is told their order. */
export function Grid({ table, label, ordered }: { table: TableData; label: string; ordered?: (order: number[]) => void }) {
  const scales = table.headings.map((_, column) => scaleOf(table, column));
  const signed = (table.shades ?? []).some((row) => row.some((x) => finite(x) && x < 0));
  const made = new Map<number, Element>();
  let sorting: Sorting | null = null;
  let all = table.rows.length <= MANY_ROWS;

  const headings = table.headings.map((_, column) => element(<Heading table={table} column={column} sort={sort} />));
  const body = element(<tbody />);
  const more = element(
    <button class="more" onClick={showAll}>
      Show all {table.rows.length.toLocaleString("en")} rows
    </button>,
  );

  function draw(): void {
    const order = sorted(table.rows, sorting);
    ordered?.(order);
    for (const i of all ? order : order.slice(0, MANY_ROWS)) {
      if (!made.has(i)) made.set(i, element(<Row table={table} i={i} scales={scales} signed={signed} />));
    }
    body.replaceChildren(...(all ? order : order.slice(0, MANY_ROWS)).map((i) => made.get(i) as Element));
    headings.forEach((heading, column) => {
      if (sorting?.column === column) heading.setAttribute("aria-sort", sorting.down ? "descending" : "ascending");
      else heading.removeAttribute("aria-sort");
    });
  }

  function sort(column: number): void {
    // Numbers from the largest first, then from the smallest, then as they came.
    if (sorting?.column !== column) sorting = { column, down: table.rows.some((row) => !Number.isNaN(numberOf(row[column]))) };
    else sorting = sorting.down ? { column, down: false } : null;
    draw();
  }

  function showAll(): void {
    all = true;
    more.remove();
    draw();
  }

  draw();
  return (
    <>
      <div class={`sheet${table.rows.length > TALL_ROWS ? " tall" : ""}`} tabindex={0} role="group" aria-label={label}>
        <table class={table.commands ? "steps" : undefined}>
          <thead>
            <tr>{headings as never}</tr>
          </thead>
          {body as never}
          {scales.some((scale) => scale && !scale.fromZero) && (
            <tfoot aria-hidden="true">
              <tr>{scales.map((scale) => (scale === null || scale.fromZero ? <td /> : <Axis scale={scale} />))}</tr>
            </tfoot>
          )}
        </table>
      </div>
      {!all && (more as never)}
    </>
  );
}

/** Whether a table has bars, which makes it a picture too. */
export const hasBars = (table: TableData): boolean => table.headings.some((_, column) => scaleOf(table, column) !== null);

/** A table as a card, folded where it is said to be. */
export function TableCard({ table, whole, hint = "" }: { table: TableData; whole: boolean; hint?: string }) {
  const heading = table.caption && <h2>{table.caption}</h2>;
  const note = table.note && <p class="remark">{table.note}</p>;
  const name = table.caption || document.title || "table";
  let order: number[] = [];
  const grid = <Grid table={table} label={name} ordered={(rows) => (order = rows)} />;
  const save = globalThis.glassformerSaves!(name, () => ({ ...table, rows: order.map((i) => table.rows[i]), commands: table.commands && order.map((i) => table.commands![i]) })) as never;
  return (
    <section class={`card${whole ? " whole" : ""}`}>
      {table.folded ? (
        <details>
          <summary>{heading || "Table"}</summary>
          <div class="card-head">{save}</div>
          {note}
          {grid}
        </details>
      ) : (
        <>
          <div class="card-head">{heading}{save}</div>
          {note}
          {grid}
          {hint && <p class="remark">{hint}</p>}
        </>
      )}
    </section>
  );
}
