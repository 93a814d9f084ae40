/** A bundle of its own, which only pages with a matrix carry.
 *
 * A matrix of true and predicted classes: counts or shares in its cells, of which each chooses the rows of the browser of the page.
 *
 *     a cell ──"choose"──> rows.tsx ──"chosen"──> the cell is marked
 */

import { write, written } from "./address";
import { element } from "./dom";
import "./matrix.css";
import { percent } from "../core/format";
import type { Choice, DrawMatrix } from "./types";

const NAMED = 18; // characters of a name
const FEW = 8; // classes of a matrix that is next to the rows, not above them
const NUMBERED = 50; // classes whose cells have room for a number
const WIDTH = 480; // pixels of a matrix of few classes
const MARGINS = { left: 30, right: 42 };
const SIGHT = 560; // pixels of a matrix that are in sight at first
const PAIRS = 12;
const HINT = { rows: "its rows", words: "its words" };

type Shares = "" | "true" | "predicted";
const SHARES: [Shares, string][] = [["", "counts"], ["true", "% of true"], ["predicted", "% of predicted"]];

export interface Pair {
  row: number;
  column: number;
  count: number;
  /** Of the true class. */
  share: number;
}

const sum = (numbers: number[]): number => numbers.reduce((a, b) => a + b, 0);

/** Each cell with something in it, with its share of a row or of a column. */
export function cellsOf(counts: number[][], shares: Shares): Pair[] {
  const columns = shares === "predicted" ? counts.map((_, j) => sum(counts.map((row) => row[j]))) : [];
  return counts.flatMap((row, i) => {
    const whole = sum(row);
    return row.map((count, j) => ({ row: i, column: j, count, share: count / (columns.length ? columns[j] : whole) })).filter(({ count }) => count > 0);
  });
}

/** The pairs of classes that are confused most. */
export const confused = (cells: Pair[]): Pair[] =>
  cells.filter(({ row, column }) => row !== column).sort((a, b) => b.count - a.count || a.row - b.row || a.column - b.column).slice(0, PAIRS);

/** A few percent are visible. */
export const opacity = (share: number): string => (0.07 + 0.93 * share ** 0.7).toFixed(3);

export const numeral = ({ count, share }: Pair, shares: Shares): string =>
  shares ? percent(share) : count < 9999.5 ? count.toLocaleString("en") : `${Math.round(count / 1000)}k`;

/** Width and height of a cell: of few classes as there is room next to the rows; the matrix of many scrolls. */
function sizes(count: number, room: number): [side: number, high: number] {
  if (count <= FEW) return [Math.min(Math.max(room / count, 38), 58), 38];
  if (count <= 20) return [38, 32];
  return count <= NUMBERED ? [32, 24] : [15, 15];
}

const short = (name: string): string => (name.length <= NAMED ? name : `${name.slice(0, NAMED - 1)}…`);

const draw: DrawMatrix = (data, live) => {
  const { names, counts } = data;
  const pen = document.createElement("canvas").getContext("2d")!;
  pen.font = `12px ${getComputedStyle(document.documentElement).fontFamily}`; // of names, as in matrix.css
  const longest = Math.max(...names.map((name) => pen.measureText(short(name)).width));
  const [side, high] = sizes(names.length, WIDTH - longest - MARGINS.left - MARGINS.right);
  const level = names.length <= 20 && longest <= side - 4; // else names of columns are rotated by 45°
  const upright = names.length > NUMBERED; // narrow columns have their names one next to the other
  const [left, top] = [longest + MARGINS.left, level ? 46 : upright ? longest + 36 : longest * 0.72 + 36];
  const [wide, tall] = [names.length * side, names.length * high];
  const [width, height] = [left + wide + MARGINS.right + (level || upright ? 0 : longest * 0.5), top + tall + 8];
  const middle = (i: number) => top + (i + 0.5) * high;
  const totals = counts.map(sum);
  const most = confused(cellsOf(counts, "true"));
  const say = ({ row, column, count, share }: Pair) => `true ${names[row]}, predicted ${names[column]}: ${count.toLocaleString("en")} (${percent(share)} of the true ones)`;

  const cells = cellsOf(counts, "true").map((pair) => {
    const { row, column } = pair, [x, y] = [left + column * side, top + row * high];
    const number = element<SVGTextElement>(<text x={x + side / 2} y={middle(row)} />);
    const rect = element<SVGRectElement>(<rect x={x + 0.5} y={y + 0.5} width={side - 1} height={high - 1} rx={upright ? 1 : 3} />);
    const group = element<SVGGElement>(
      <g class={row === column ? "hit" : "miss"} data-cell={`${row},${column}`} role={live ? "button" : undefined} tabindex={live ? -1 : undefined} aria-label={live ? say(pair) : undefined}>
        {rect as never}
        {!upright && (number as never)}
        <title>{say(pair)}</title>
      </g>,
    );
    group.addEventListener("pointerenter", () => (output.textContent = say(pair)));
    group.addEventListener("focus", () => (output.textContent = say(pair)));
    if (live) group.addEventListener("click", () => choose(pair));
    return { ...pair, group, rect, number };
  });
  const output = element(<p class="remark readout" />);
  output.textContent = " ";
  const above = element<SVGGElement>(
    <g class="names">
      <rect class="cover" width={width} height={top - 1} />
      <text class="middle" x={left + Math.min(wide, SIGHT) / 2} y="14">predicted</text>
      {names.map((name, i) => {
        const x = left + (i + 0.5) * side;
        const place = level ? { x, y: top - 9, class: "middle" } : { transform: `translate(${upright ? x : x + 3} ${top - 8}) rotate(${upright ? -90 : -45})` };
        return <text {...place}>{short(name)}<title>{name}</title></text>;
      })}
      {level && <text x={left + wide + 10} y={top - 9}>all</text>}
    </g>,
  );
  const beside = element<SVGGElement>(
    <g class="names">
      <rect class="cover" width={left - 1} height={height} />
      <text class="middle" transform={`translate(12 ${top + Math.min(tall, SIGHT) / 2}) rotate(-90)`}>true</text>
      {names.map((name, i) => <text class="end" x={left - 8} y={middle(i)}>{short(name)}<title>{name}</title></text>)}
    </g>,
  );
  const corner = element<SVGRectElement>(<rect class="cover" width={left - 1} height={top - 1} />);
  const spoken = most.slice(0, 5).map(({ row, column, count }) => `${count.toLocaleString("en")} ${names[row]} predicted as ${names[column]}`).join("; ");
  const svg = element<SVGSVGElement>(
    <svg role={live ? "group" : "img"} aria-label={`${data.title} of ${names.length} classes. ${spoken}`} width={width} height={height}>
      <rect class="frame" x={left} y={top} width={wide} height={tall} rx="4" />
      {cells.map(({ group }) => group as never)}
      {totals.map((total, i) => <text class="total" x={left + wide + 10} y={middle(i)}>{total.toLocaleString("en")}</text>)}
      {above as never}
      {beside as never}
      {corner as never}
    </svg>,
  );
  if (live && cells.length > 0) {
    cells[0].group.setAttribute("tabindex", "0");
    svg.addEventListener("keydown", (event) => press(event));
  }
  // The names stay in sight while the matrix scrolls.
  const sheet = element(<div class="sheet" tabindex={0} role="group" aria-label={data.title}>{svg as never}</div>);
  const keepNames = () => {
    above.setAttribute("transform", `translate(0 ${sheet.scrollTop})`);
    beside.setAttribute("transform", `translate(${sheet.scrollLeft} 0)`);
    corner.setAttribute("transform", `translate(${sheet.scrollLeft} ${sheet.scrollTop})`);
  };
  sheet.addEventListener("scroll", keepNames);

  const chosen = ({ row, column }: Pair, choice: Choice | null) => choice?.true === names[row] && choice.predicted === names[column];
  let choice: Choice | null = null;

  /** Choose the rows of a pair; a second time, all. */
  function choose(pair: Pair): void {
    const values = chosen(pair, choice) ? { true: "", predicted: "" } : { true: names[pair.row], predicted: names[pair.column], answers: "" };
    document.dispatchEvent(new CustomEvent("choose", { detail: values }));
  }

  function press(event: KeyboardEvent): void {
    const from = cells.find(({ group }) => group === event.target);
    if (!from || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Enter" || event.key === " ") choose(from);
    else {
      const to = neighbour(cells, from, event.key);
      if (!to) return;
      from.group.setAttribute("tabindex", "-1");
      to.group.setAttribute("tabindex", "0");
      to.group.focus();
    }
    event.preventDefault();
  }

  const buttons = SHARES.map(([shares, words]) => element<HTMLButtonElement>(<button onClick={() => (write({ cells: shares }), number(shares))}>{words}</button>));

  /** Write and shade counts, or shares of what is true or predicted. */
  function number(shares: Shares): void {
    buttons.forEach((button, i) => button.setAttribute("aria-pressed", String(SHARES[i][0] === shares)));
    cellsOf(counts, shares).forEach((pair, i) => {
      cells[i].rect.setAttribute("fill-opacity", opacity(pair.share));
      cells[i].number.textContent = numeral(pair, shares);
    });
  }

  const pairs = most.map((pair) => {
    const parts = <><b>{pair.count.toLocaleString("en")}</b> {names[pair.row]} <span>predicted as</span> {names[pair.column]} <i>{percent(pair.share)}</i></>;
    return { ...pair, item: element(live ? <button onClick={() => choose(pair)}>{parts}</button> : <p>{parts}</p>) };
  });

  document.addEventListener("chosen", ({ detail }) => {
    choice = detail;
    for (const cell of cells) if (live) cell.group.setAttribute("aria-pressed", String(chosen(cell, choice)));
    for (const pair of pairs) if (live) pair.item.setAttribute("aria-pressed", String(chosen(pair, choice)));
  });
  const recall = () => number(SHARES.map(([shares]) => shares).find((shares) => shares === written("cells")) ?? "");
  addEventListener("hashchange", recall);
  recall();

  const figure = element(
    <figure class="card matrix">
      <figcaption class="card-head">
        <h2>{data.title}</h2>
        {globalThis.glassformerSaves!(data.title, () => [["true \\ predicted", ...names], ...counts.map((row, i) => [names[i], ...row])]) as never}
      </figcaption>
      <p class="remark">A row is a true class, a column a predicted one.{live && ` Choose a cell to see ${HINT[data.unit]}.`}</p>
      <div class="shares" role="group" aria-label="Numbers in the cells">{buttons as never}</div>
      {sheet as never}
      {output as never}
      {pairs.length > 0 && (
        <details open={names.length > FEW}>
          <summary>Confused most</summary>
          <ol class="pairs">{pairs.map(({ item }) => <li>{item as never}</li>)}</ol>
        </details>
      )}
    </figure>,
  );
  // A file has all of it, with the names where they are before it scrolls.
  figure.addEventListener("saving", () => [above, beside, corner].forEach((each) => each.removeAttribute("transform")));
  figure.addEventListener("saved", keepNames);
  return figure as never;
};

/** The next cell with something in it in the direction of an arrow key. */
export function neighbour<P extends Pair>(cells: P[], from: P, key: string): P | undefined {
  const step = ({ ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] } as Record<string, [number, number]>)[key];
  if (!step) return undefined;
  const ahead = cells.filter(({ row, column }) => (step[0] ? column === from.column && (row - from.row) * step[0] > 0 : row === from.row && (column - from.column) * step[1] > 0));
  const far = ({ row, column }: P) => Math.abs(row - from.row) + Math.abs(column - from.column);
  return ahead.sort((a, b) => far(a) - far(b))[0];
}

globalThis.glassformerMatrix = draw;
