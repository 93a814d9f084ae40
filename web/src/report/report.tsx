/** A report: what was found in a sentence, charts, tables, texts, and remarks. */

import { element } from "./dom";
import { Grid, Long, TableCard, hasBars, scaleOf } from "./table";
import type { ReportData, SeriesData, TableData, PassagesData, TradeOffData } from "./types";

/** Charts of series, drawn by the bundle that has uPlot. */
function SeriesCharts({ charts }: { charts: SeriesData[] }) {
  const draw = globalThis.glassformerSeries;
  if (!draw) throw new Error("The page has charts of series and not the program that draws them.");
  const place = element(<div class="series" />);
  draw(place, charts);
  return place as never;
}

/** Trade-offs, drawn by the bundle that has them. */
function TradeOffs({ charts }: { charts: TradeOffData[] }) {
  const draw = globalThis.glassformerTradeOff;
  if (!draw) throw new Error("The page has a trade-off and not the program that draws it.");
  return <div class="cards">{charts.map((chart) => draw(chart, Grid))}</div>;
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
  return `A dot is the value, the line its interval${dashed}.${differ}`;
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

export function Report({ report, titled }: { report: ReportData; titled: boolean }) {
  const series = report.charts.filter((chart): chart is SeriesData => chart.type === "series");
  const tradeOffs = report.charts.filter((chart): chart is TradeOffData => chart.type === "trade-off");
  const hint = barsHint(report.tables);
  return (
    <article>
      {titled && report.title && <h2 class="finding">{report.title}</h2>}
      {report.finding && <p class="finding"><Long text={report.finding} /></p>}
      {report.heading && <p class="heading"><Long text={report.heading} /></p>}
      <div class={series.length > 0 && tradeOffs.length > 0 ? "two-columns" : undefined}>
        {series.length > 0 && <SeriesCharts charts={series} />}
        {tradeOffs.length > 0 && <TradeOffs charts={tradeOffs} />}
      </div>
      {hint && <p class="remark">{hint}</p>}
      {report.tables.length > 0 && (
        <div class="cards">
          {report.tables.map((table, i) => (
            <TableCard table={table} whole={!narrow(table, i)} />
          ))}
        </div>
      )}
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
