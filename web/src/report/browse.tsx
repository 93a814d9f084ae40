/** A table to search in: filtered by text, sorted, grouped by a column; charts show the rows that are selected.
 *
 *     address ──> state ──> rows on screen          fields, headings, boxes ──> state ──> address, charts
 *
 * A bundle of its own: few pages have such a table.
 */

import "./browse.css";
import { setFragment } from "../core/browser";
import { element, fill } from "./dom";
import { number } from "./scales";
import { Heading, Row, SHORT, numberOf, scaleOf, sorted, textOf } from "./table";
import type { Sorting } from "./table";
import type { Picked, SeriesData, TableData } from "./types";

const ROWS = 200;
/** Rows that are selected at first: a chart of more is no longer read at a glance. */
const FIRST = 5;
/** Lines that can be told apart at all; of more the first are drawn. */
const DRAWN = 24;

export interface Browsing {
  sort: Sorting | null;
  find: string;
  /** The column by which rows are grouped. */
  by: number | null;
  /** Names of rows, each in the place that gives it a colour; null: a place that is free again. */
  picked: Picked;
}

// ---------------------------------------------------------------------------------------------- the state in the address

/** The state that an address names; of a column or a row that is not there, nothing. */
export function readState(fragment: string, headings: string[], names: Set<string>, first: Picked): Browsing {
  const pairs = new URLSearchParams(fragment);
  const column = (name: string) => (pairs.has(name) && headings.includes(pairs.get(name)!) ? headings.indexOf(pairs.get(name)!) : null);
  const sort = column("sort"), pick = pairs.get("pick");
  const picked = pick === null ? first : pick.split("//").map((name) => (names.has(name) ? name : null));
  return { sort: sort === null ? null : { column: sort, down: pairs.has("down") }, find: pairs.get("find") ?? "", by: column("by"), picked };
}

/** The same as a fragment; what is as at first is left out. */
export function writtenState({ sort, find, by, picked }: Browsing, headings: string[], first: Picked): string {
  const pairs = new URLSearchParams();
  if (sort) pairs.set("sort", headings[sort.column]);
  if (sort?.down) pairs.set("down", "1");
  if (find) pairs.set("find", find);
  if (by !== null) pairs.set("by", headings[by]);
  if (picked.join("//") !== first.join("//")) pairs.set("pick", picked.map((name) => name ?? "").join("//"));
  return pairs.toString();
}

// ---------------------------------------------------------------------------------------------- which rows, in which order

/** Which rows have all words; of `rate=1e-4` those whose column of this name has this value. */
export function matching(table: TableData, find: string): (i: number) => boolean {
  const words = find.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return () => true;
  const headings = table.headings.map((heading) => heading.toLowerCase());
  const tests = words.map((word) => {
    const [name, value] = word.split(/=(.*)/s);
    const columns = value === undefined ? [] : headings.flatMap((heading, i) => (heading.endsWith(name) ? [i] : []));
    if (columns.length > 0) return (cells: string[]) => columns.some((column) => cells[column] === value);
    return (cells: string[]) => cells.some((cell) => cell.includes(word));
  });
  return (i) => {
    const cells = table.rows[i].map((cell) => textOf(cell).toLowerCase());
    return tests.every((test) => test(cells));
  };
}

/** Rows in groups of one value of a column, these in the order of their values. */
export function grouped(table: TableData, order: number[], by: number | null): { value: string; rows: number[] }[] {
  if (by === null) return [{ value: "", rows: order }];
  const groups = new Map<string, number[]>();
  for (const i of order) {
    const value = textOf(table.rows[i][by] ?? "");
    groups.set(value, [...(groups.get(value) ?? []), i]);
  }
  const values = [...groups.keys()];
  return sorted(values.map((value) => [value]), { column: 0, down: false }).map((i) => ({ value: values[i], rows: groups.get(values[i])! }));
}

/** What a group is, and what its rows have of the measure. */
export function groupTitle(table: TableData, by: number, value: string, rows: number[]): string {
  const values = rows.map((i) => numberOf(table.rows[i][table.browse!.measure])).filter((x) => !Number.isNaN(x));
  const count = `${rows.length.toLocaleString("en")} ${rows.length === 1 ? "row" : "rows"}`;
  const title = `${table.headings[by]} ${value || "–"} · ${count}`;
  if (values.length === 0) return title;
  const mean = values.reduce((sum, x) => sum + x, 0) / values.length, [low, high] = [Math.min(...values), Math.max(...values)];
  const range = values.length > 1 ? `mean ${number(mean)}, from ${number(low)} to ${number(high)}` : number(mean);
  return `${title} · ${table.headings[table.browse!.measure]}: ${range}`;
}

/** With a row selected or not any more; it takes the first place that is free. */
export function toggled(picked: Picked, name: string): Picked {
  if (picked.includes(name)) return picked.map((each) => (each === name ? null : each)).slice(0, picked.findLastIndex((each) => each && each !== name) + 1);
  const free = picked.indexOf(null);
  return free < 0 ? [...picked, name] : picked.with(free, name);
}

// ---------------------------------------------------------------------------------------------------------------- the page

/** The address of the page of rows: each part of a name by itself, as a name may be a path. */
const addressOf = (address: string, names: string[]): string => address + names.map((name) => name.split("/").map(encodeURIComponent).join("/")).join("//");

/** The charts of the rows that are selected, and below them the table. */
export function drawBrowser(table: TableData, charts: SeriesData[]): Element[] {
  const place = element(<div class="series" />), draw = globalThis.glassformerSeries;
  const names = new Set(charts.flatMap(({ lines }) => lines.map(({ group }) => group)));
  let stop = () => {};
  document.addEventListener("gone", () => stop(), { once: true });
  const card = tableCard(table, names, (picked) => {
    const chosen = new Set(picked);
    const of = <T extends { group: string }>(all: T[]) => all.filter(({ group }) => chosen.has(group));
    const shown = charts.map((chart) => ({ ...chart, lines: of(chart.lines), saved: chart.saved && of(chart.saved) })).filter(({ lines }) => lines.length > 0);
    stop();
    place.replaceChildren();
    stop = draw && shown.length > 0 ? draw(place, shown, picked) : () => {};
    if (names.size > 0 && shown.length === 0) fill(place, <p class="remark empty">Select rows below to see their curves.</p>);
  });
  return [place, element(<div class="cards">{card as never}</div>)];
}

/** The table as a card; `drawable`: rows that charts can show, `show` shows those that are selected. */
function tableCard(table: TableData, drawable: Set<string>, show: (picked: Picked) => void): Element {
  const { address } = table.browse!;
  const names = table.rows.map((row) => textOf(row[0])), scales = table.headings.map((_, column) => scaleOf(table, column));
  const first: Picked = names.filter((name) => drawable.has(name)).slice(0, FIRST);
  const read = () => readState(location.hash.slice(1), table.headings, drawable, first);
  const made = new Map<number, Element>();
  let state = read(), limit = ROWS, order: number[] = [], drawn = "";

  const find = element<HTMLInputElement>(<input type="search" placeholder="Find in all columns, or training.seed=1" aria-label="Find rows" onInput={() => change({ find: find.value })} />);
  const by = element<HTMLSelectElement>(
    <select aria-label="Group by" onChange={() => change({ by: by.value === "" ? null : Number(by.value) })}>
      <option value="">nothing</option>
      {table.headings.map((heading, i) => i > 0 && <option value={String(i)}>{heading}</option>)}
    </select>,
  );
  const count = element(<output />), selection = element(<div class="selection" />);
  const headings = table.headings.map((_, column) => element(<Heading table={table} column={column} sort={sort} />));
  const body = element(<tbody />);
  const more = element(<button class="more" onClick={() => ((limit += ROWS), draw())} />);

  function rowOf(i: number): Element {
    const known = made.get(i);
    if (known) return known;
    const name = names[i], row = element(<Row table={table} i={i} scales={scales} signed={false} />), heading = row.querySelector("th")!;
    table.rows[i].forEach((cell, column) => {
      if (column === 0 || typeof cell === "object") return;
      const place = row.children[column] as HTMLElement;
      place.classList.add("is-one-line");
      fill(place, cell); // in one piece, which has no place to break at
      if (cell.length > SHORT) place.title = cell;
    });
    if (address) fill(heading, <a href={addressOf(address, [name])}>{name}</a>);
    const box = <input type="checkbox" aria-label={`Draw ${name}`} onChange={() => change({ picked: toggled(state.picked, name) })} />;
    row.prepend(element(<td class="pick">{drawable.has(name) && box}</td>));
    made.set(i, row);
    return row;
  }

  function draw(): void {
    const fits = matching(table, state.find);
    const groups = grouped(table, sorted(table.rows, state.sort).filter(fits), state.by);
    order = groups.flatMap(({ rows }) => rows);
    let room = limit;
    const shown: Element[] = [];
    for (const { value, rows } of groups) {
      if (room <= 0) break;
      if (state.by !== null) shown.push(element(<tr class="group"><th scope="rowgroup" colSpan={table.headings.length + 1}><span>{groupTitle(table, state.by, value, rows)}</span></th></tr>));
      for (const i of rows.slice(0, room)) {
        const row = rowOf(i) as HTMLElement, box = row.querySelector<HTMLInputElement>(".pick input"), slot = state.picked.indexOf(names[i]);
        if (box) box.checked = slot >= 0;
        if (slot >= 0) row.dataset.colour = String(slot % 8);
        else delete row.dataset.colour;
        shown.push(row);
      }
      room -= rows.length;
    }
    const focused = document.activeElement;
    body.replaceChildren(...(shown.length ? shown : [element(<tr><td class="is-text" colSpan={table.headings.length + 1}>No row has this.</td></tr>)]));
    if (focused instanceof HTMLElement && body.contains(focused)) focused.focus({ preventScroll: true });
    headings.forEach((heading, column) => {
      if (state.sort?.column === column) heading.setAttribute("aria-sort", state.sort.down ? "descending" : "ascending");
      else heading.removeAttribute("aria-sort");
    });
    const [all, some] = [table.rows.length, order.length].map((n) => n.toLocaleString("en"));
    const noun = table.rows.length === 1 ? "row" : "rows";
    count.textContent = some === all ? `${all} ${noun}` : `${some} of ${all} ${noun}`;
    more.hidden = order.length <= limit;
    if (!more.hidden) more.textContent = `Show ${Math.min(ROWS, order.length - limit).toLocaleString("en")} more of ${some}`;
    if (find.value !== state.find) find.value = state.find;
    by.value = state.by === null ? "" : String(state.by);
    select();
  }

  /** What can be done with the rows that are selected; and their curves. */
  function select(): void {
    const picked = state.picked.filter((name) => name !== null);
    const written = JSON.stringify(state.picked);
    if (written === drawn) return;
    drawn = written;
    const lines = picked.length > DRAWN ? `, the first ${DRAWN} drawn` : "";
    fill(
      selection,
      picked.length > 0 && (
        <>
          <span>{picked.length.toLocaleString("en")} selected{lines}</span>
          {address && picked.length > 1 && <a href={addressOf(address, picked)}>Compare</a>}
          <button onClick={() => change({ picked: [] })}>Clear</button>
        </>
      ),
    );
    let left = DRAWN;
    show(state.picked.map((name) => (name !== null && left-- > 0 ? name : null)));
  }

  function change(part: Partial<Browsing>): void {
    state = { ...state, ...part };
    if (!("picked" in part)) limit = ROWS;
    setFragment("replaceState", writtenState(state, table.headings, first));
    draw();
  }

  function sort(column: number): void {
    // Numbers from the largest first, then from the smallest, then as they came.
    const before = state.sort;
    if (before?.column !== column) change({ sort: { column, down: table.rows.some((row) => !Number.isNaN(numberOf(row[column]))) } });
    else change({ sort: before.down ? { column, down: false } : null });
  }

  const save = globalThis.glassformerSaves!(table.caption, () => ({ ...table, rows: order.map((i) => table.rows[i]) })) as never;
  const follow = () => ((state = read()), draw());
  addEventListener("hashchange", follow);
  document.addEventListener("gone", () => removeEventListener("hashchange", follow), { once: true });
  draw();
  return element(
    <section class="card whole browse">
      <div class="card-head"><h2>{table.caption}</h2>{save}</div>
      <div class="browse-bar">
        {find as never}
        <label>Group by {by as never}</label>
        {count as never}
        {selection as never}
      </div>
      {table.note && <p class="remark">{table.note}</p>}
      <div class="sheet tall" tabindex={0} role="group" aria-label={table.caption}>
        <table>
          <thead><tr><td class="pick"><span class="unseen">drawn</span></td>{headings as never}</tr></thead>
          {body as never}
        </table>
      </div>
      {more as never}
    </section>,
  );
}

globalThis.glassformerBrowser = drawBrowser;
