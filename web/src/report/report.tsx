/** A report: what was found in a sentence, charts, tables, texts, and remarks. */

import { foldable } from "../core/format";
import { go } from "./address";
import { element } from "./dom";
import { Grid, Long, TableCard, hasArrows, hasBars, scaleOf } from "./table";
import type { MatrixData, ReportData, SeriesData, TableData, PassagesData, TradeOffData } from "./types";

/** What a bundle of its own draws, which is on pages that use it. */
function drawing<Draw>(draw: Draw | undefined): Draw {
  if (!draw) throw new Error("The page lacks the program that draws one of its parts.");
  return draw;
}

function SeriesCharts({ charts }: { charts: SeriesData[] }) {
  const place = element(<div class="series" />);
  drawing(globalThis.glassformerSeries)(place, charts);
  return place as never;
}

const explained = (table: TableData): boolean => hasBars(table) && !table.note && !table.folded;

/** Tables under one heading, folded together. */
const Folder = ({ under, tables }: { under: string; tables: TableData[] }) => (
  <section class="card whole">
    <details>
      <summary><h2>{under} <span class="remark">{tables.length} tables</span></h2></summary>
      <div class="cards folds">{tables.map((table) => <TableCard table={table} whole />)}</div>
    </details>
  </section>
);

/** Folded tables: those under one heading together, in the place of the first. */
function Folded({ tables }: { tables: TableData[] }) {
  const alike = (under?: string) => tables.filter((table) => under && table.under === under);
  return <>{tables.map((table) => {
    const group = alike(table.under);
    if (group.length < 2) return <TableCard table={table} whole={!narrow(table, 1)} />;
    return group[0] === table && <Folder under={table.under!} tables={group} />;
  })}</>;
}

/** Tables as cards, those that are folded next to each other; below the first bars is what they mean. */
function Tables({ tables, hint = "" }: { tables: TableData[]; hint?: string }) {
  const first = tables.find(explained);
  const card = (table: TableData, i: number) => <TableCard table={table} whole={!narrow(table, i)} hint={table === first ? hint : ""} />;
  const begins = tables.flatMap(({ folded }, i) => (i === 0 || folded !== tables[i - 1].folded ? [i] : []));
  return <>{begins.map((from, at) => <div class={tables[from].folded ? "cards folds" : "cards"}>{tables[from].folded ? <Folded tables={tables.slice(from, begins[at + 1])} /> : tables.slice(from, begins[at + 1]).map((table, i) => card(table, from + i))}</div>)}</>;
}

/** What the bars of tables mean. */
export function barsHint(tables: TableData[]): string {
  const drawn = tables.filter((table) => hasBars(table) && !table.note); // a note says it for its own
  if (drawn.length === 0) return "";
  const scales = drawn.flatMap((table) => table.headings.map((_, column) => scaleOf(table, column)));
  const marked = drawn.find((table) => table.reference !== null && table.rows.length > 1);
  const dashed = marked ? `; the dashed line is the value of ${name(marked)}` : "";
  const differ = scales.some((scale) => scale?.signed)
    ? " Two rows differ where the interval of their difference excludes zero (bold), even if their own intervals overlap."
    : "";
  const arrows = drawn.some(hasArrows) ? " An arrow is a baseline beyond the scale." : "";
  return `A dot is the value, the line its interval${dashed}.${arrows}${differ}`;
}

function name(table: TableData): string {
  const cell = table.rows[table.reference ?? 0]?.[0] ?? "";
  return typeof cell === "string" ? cell : cell.text;
}

/** A part of a text; one that is marked says what it is where one points at it. */
const Part = ([text, note, strong]: PassagesData["texts"][number]["parts"][number]) => (note ? <mark title={note} data-strong={strong}>{text}</mark> : text);

/** Texts that systems wrote, next to each other; what they were made from is folded. */
function Passages({ passages }: { passages: PassagesData }) {
  const words = passages.source.split(/\s+/).filter(Boolean).length;
  return (
    <article class="card whole">
      <h2>{passages.title}</h2>
      {passages.source && (
        <details>
          <summary>
            the text, {words.toLocaleString("en")} {words === 1 ? "word" : "words"}
          </summary>
          <div class="text" dir="auto" tabindex={0} role="group" aria-label={`${passages.title}: the text`}>
            <Long text={passages.source} />
          </div>
        </details>
      )}
      <div class="side-by-side">
        {passages.texts.map((each) => (
          <section class={each.reference ? "reference" : undefined}>
            <h3>{each.name}</h3>
            <div class="text" dir="auto" tabindex={0} role="group" aria-label={each.name}>
              {each.parts.length ? each.parts.map(Part) : each.text ? <Long text={each.text} /> : "(nothing)"}
            </div>
          </section>
        ))}
      </div>
    </article>
  );
}

/** A narrow table can be next to another; a list, and the first table with bars, of the main amount, are as wide as the page. */
const narrow = (table: TableData, i: number): boolean => table.headings.length > 1 && table.headings.length <= 3 && !(i === 0 && hasBars(table));

/** Where a page goes on to the rows that a report is about: what was found in them leads there. */
const Onward = ({ to }: { to: ReportData }) => (
  <p class="onward"><button onClick={() => go(to.title)}>{to.finding || to.title} <span aria-hidden="true">↓</span></button></p>
);

/** What was found; on a phone a long one is folded. */
function Finding({ text }: { text: string }) {
  const place = element(
    <div class="finding foldable" data-folded={foldable(text)}>
      <p><Long text={text} /></p>
      {foldable(text) && <button class="quiet" aria-expanded="false" onClick={toggle}>more</button>}
    </div>,
  );
  function toggle({ currentTarget: button }: { currentTarget: HTMLButtonElement }) {
    const folded = place.toggleAttribute("data-folded");
    button.setAttribute("aria-expanded", String(!folded));
    button.textContent = folded ? "more" : "less";
  }
  return place as never;
}

export function Report({ report, titled, onward }: { report: ReportData; titled: boolean; onward?: ReportData }) {
  const series = report.charts.filter((chart): chart is SeriesData => chart.type === "series");
  const tradeOffs = report.charts.filter((chart): chart is TradeOffData => chart.type === "trade-off");
  const matrices = report.charts.filter((chart): chart is MatrixData => chart.type === "matrix");
  const { browser } = report;
  const searched = report.tables.find((table) => table.browse);
  const hint = barsHint(report.tables);
  // What chooses rows is next to them; what is folded comes after them.
  const beside = browser ? report.tables.filter(({ chooses }) => chooses) : [];
  const below = browser ? report.tables.filter(({ folded }) => folded) : [];
  const above = report.tables.filter((table) => table !== searched && !beside.includes(table) && !below.includes(table));
  const choosers = (matrices.length > 0 || beside.length > 0) && (
    <div class="cards">
      {matrices.map((chart) => drawing(globalThis.glassformerMatrix)(chart, browser !== null))}
      {beside.map((table) => <TableCard table={table} whole={false} />)}
    </div>
  );
  return (
    <article>
      {titled && report.title && <h2 class="part" id={`part-${report.title}`}>{report.title}</h2>}
      {report.finding && <Finding text={report.finding} />}
      {report.heading && <p class="heading"><Long text={report.heading} /></p>}
      {onward && <Onward to={onward} />}
      <div class={series.length > 0 && tradeOffs.length > 0 ? "two-columns" : undefined}>
        {series.length > 0 && !searched && <SeriesCharts charts={series} />}
        {tradeOffs.length > 0 && <div class="cards">{tradeOffs.map((chart) => drawing(globalThis.glassformerTradeOff)(chart, Grid))}</div>}
      </div>
      {searched && (drawing(globalThis.glassformerBrowser)(searched, series) as never)}
      {hint && !above.some(explained) && <p class="remark">{hint}</p>}
      <Tables tables={above} hint={hint} />
      {browser ? (
        <div class={`browsed${choosers && !matrices.some(({ names }) => names.length > 8) ? " side-column" : ""}`}>
          {choosers}
          {drawing(globalThis.glassformerRows)(browser)}
        </div>
      ) : (
        choosers
      )}
      <Tables tables={below} />
      {report.passages.length > 0 && (
        <div class="cards">
          {report.passages.map((passages) => (
            <Passages passages={passages} />
          ))}
        </div>
      )}
      {report.remarks.length > 0 && (
        <div class="remarks">
          {report.remarks.map((remark) => (
            <p class="remark"><Long text={remark} /></p>
          ))}
        </div>
      )}
    </article>
  );
}
