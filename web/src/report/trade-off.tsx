/** A bundle of its own, which only pages with a trade-off carry.
 *
 * A trade-off: points between two amounts of which one costs the other, with those that no other beats.
 */

import { element } from "./dom";
import { finite, number, padded, ticks, withRoom } from "./scales";
import "./trade-off.css";
import type { AxisData, DrawTradeOff, IntervalCell, PointData, TableData, TradeOffData } from "./types";

const ROWS = 5;
const COLUMNS = 6;
const SIZE = 1000;
const GAP_OF_TICKS = 0.14; // of the width, on a phone too
const GAP_ON_PHONES = 0.11;
const COLOURS = 8; // of the style sheet, as for lines
const RADIUS = { least: 5, most: 13 };

/** The points that no other is better than in both amounts, by x; none where an axis has no better end. */
export function front(data: TradeOffData): PointData[] {
  const { x, y } = data;
  if (x.more === null || y.more === null) return [];
  const good = (cell: IntervalCell, axis: AxisData) => (axis.more ? 1 : -1) * (cell.value as number);
  const drawn = data.points.filter((point) => finite(point.x.value) && finite(point.y.value));
  const beats = (a: PointData, b: PointData) =>
    good(a.x, x) >= good(b.x, x) && good(a.y, y) >= good(b.y, y) && (good(a.x, x) > good(b.x, x) || good(a.y, y) > good(b.y, y));
  return drawn
    .filter((point) => !drawn.some((other) => beats(other, point)))
    .sort((a, b) => (a.x.value as number) - (b.x.value as number));
}

interface Scale {
  ticks: number[];
  share: (x: number) => number;
}

/** The scale of an axis over all values and intervals, from 0 to 1. */
export function scaleOf(cells: IntervalCell[], axis: AxisData, count: number): Scale {
  const ends = cells.flatMap((cell) => [cell.low, cell.value, cell.high]).filter((x): x is number => finite(x) && (!axis.log || x > 0));
  const [low, high] = ends.length ? padded(Math.min(...ends), Math.max(...ends), axis.log) : [axis.log ? 0.1 : 0, 1];
  const scale = axis.log ? Math.log : (x: number) => x;
  const share = (x: number) => (scale(x) - scale(low)) / (scale(high) - scale(low));
  const wanted = [...(axis.ticks ?? [])].sort((a, b) => a - b);
  const fit = withRoom(wanted, share, GAP_OF_TICKS), all = fit.length === wanted.length;
  // Of many whole numbers, some; of many others, round ones.
  return { ticks: wanted.length > 0 && (all || wanted.every(Number.isInteger)) ? fit : ticks(low, high, count, axis.log), share };
}

export const axisName = (axis: AxisData): string =>
  `${axis.label}${axis.unit && `, ${axis.unit}`}${axis.more === null ? "" : axis.more ? " · more is better" : " · less is better"}`;

/** The beginning of a text for which a picture has room; the table has all of it. */
const short = (text: string, most: number): string => (text.length <= most ? text : `${text.slice(0, most - 1)}…`);

/** A place on the picture, as its style has it. */
const along = (share: number): string => `${(100 * share).toFixed(2)}%`;

/** The table that says the same. */
export function tableOf(data: TradeOffData): TableData {
  return {
    caption: data.title, headings: ["", axisName(data.x), axisName(data.y)], words: [0], shades: null, reference: null,
    rows: data.points.map((point) => [point.name, point.x, point.y]), folded: false, note: "",
    baselines: data.points.flatMap((point, i) => (point.baseline ? [i] : [])),
  };
}

const draw: DrawTradeOff = (data, Grid) => {
  const x = scaleOf(data.points.map((point) => point.x), data.x, COLUMNS);
  const y = scaleOf(data.points.map((point) => point.y), data.y, ROWS);
  const down = (value: number) => 1 - y.share(value);
  const roomy = withRoom(x.ticks, x.share, GAP_ON_PHONES);
  const drawn = data.points.filter(
    (point) => finite(point.x.value) && finite(point.y.value) && (!data.x.log || point.x.value > 0) && (!data.y.log || point.y.value > 0),
  );
  const largest = Math.max(...drawn.map((point) => point.size ?? 0));
  const radius = (point: PointData) =>
    point.size === null || !(largest > 0) ? 6 : RADIUS.least + (RADIUS.most - RADIUS.least) * Math.sqrt(point.size / largest);
  const best = front(data).filter((point) => drawn.includes(point));
  const path = best.map((point) => `${(SIZE * x.share(point.x.value as number)).toFixed(1)} ${(SIZE * down(point.y.value as number)).toFixed(1)}`);
  const spoken = drawn.map((point) => `${point.name}: ${data.x.label} ${point.x.text}, ${data.y.label} ${point.y.text}`).join("; ");
  const shown = data.groups.map((name, i) => ({ name, i })).filter(({ i }) => drawn.some((point) => point.group === i));
  const plot = element(
    <div class="trade-off-plot" role="img" aria-label={`${data.title}. ${spoken}`}>
      <svg aria-hidden="true">
        <g class="y">
          {y.ticks.map((tick) => (
            <>
              <line class="grid" x1="0" x2="100%" y1={along(down(tick))} y2={along(down(tick))} />
              <text x="-8" y={along(down(tick))}>
                {number(tick)}
              </text>
            </>
          ))}
        </g>
        <g class="x">
          {x.ticks.map((tick) => (
            <>
              <line class="grid" x1={along(x.share(tick))} x2={along(x.share(tick))} y1="0" y2="100%" />
              <text x={along(x.share(tick))} y="100%" dy="18" class={roomy.includes(tick) ? undefined : "spare"}>
                {number(tick)}
              </text>
            </>
          ))}
        </g>
        <text class="axis-label upwards" x="0" dx="-52" y="0" dy="-18">
          ↑ {short(axisName(data.y), 70)}
        </text>
        <text class="axis-label" x="50%" y="100%" dy="38">
          {short(axisName(data.x), 70)}
        </text>
        <svg class="lines" viewBox={`0 0 ${SIZE} ${SIZE}`} preserveAspectRatio="none" width="100%" height="100%">
          {best.length > 1 && <path class="front" d={`M${path.join("L")}`} />}
        </svg>
        {drawn.map((point) => (
          <Mark point={point} x={x.share} down={down} radius={radius(point)} best={best.includes(point)} />
        ))}
      </svg>
    </div>,
  );
  new ResizeObserver(() => place(plot)).observe(plot);
  return (
    <figure class="card trade-off">
      <figcaption class="card-head">
        <h2>{data.title}</h2>
        {globalThis.glassformerSaves!(data.title, () => tableOf(data)) as never}
      </figcaption>
      {shown.length > 0 && (
        <ul class="trade-off-groups">
          {shown.map(({ name, i }) => (
            <li data-colour={i % COLOURS}>
              <span class="swatch" />
              {name}
            </li>
          ))}
        </ul>
      )}
      {plot as never}
      {best.length > 1 && <p class="remark">The dashed line joins the points that no other beats in both.</p>}
      <details class="values">
        <summary>Values of {data.title}</summary>
        <Grid table={tableOf(data)} label={`Values of ${data.title}`} />
      </details>
    </figure>
  );
};

globalThis.glassformerTradeOff = draw;

const GAP = 4; // pixels between two names: closer together they read as one word
const SIDES: [side: number, up: number][] = [[1, 1], [-1, 1], [1, -1], [-1, -1], [1, 0], [-1, 0]];
// Where there is no room next to a dot, its name is lines above or below it, at the end of a line that leads there.
const FURTHER: [side: number, up: number][] = [2, 3, 4, 5, 6].flatMap((lines) => [[1, lines], [-1, lines], [1, -lines], [-1, -lines]] as [number, number][]);
const LINE = 15;

/** Put each name where it covers no dot and no other name, as near to its dot as there is room; else leave it out. */
function place(plot: Element): void {
  const frame = plot.getBoundingClientRect();
  const taken = [...plot.querySelectorAll("circle")].map((dot) => dot.getBoundingClientRect());
  // Names of the front come first: where there is no room for all, the others are left to the table.
  for (const name of [...plot.querySelectorAll(".name[data-best]"), ...plot.querySelectorAll(".name:not([data-best])")]) {
    const dot = name.parentElement?.querySelector("circle") as SVGCircleElement;
    const leader = name.parentElement?.querySelector(".leader") as SVGLineElement;
    const radius = Number(dot.getAttribute("r"));
    const at = ([side, up]: [number, number]): boolean => {
      const near = Math.abs(up) < 2;
      name.setAttribute("text-anchor", side > 0 ? "start" : "end");
      name.setAttribute("dx", String(side * (up === 0 ? radius + 4 : near ? radius + 1 : radius)));
      name.setAttribute("dy", String(4 - up * (near ? (radius + 4) * 1.4 : LINE) - (near ? 0 : Math.sign(up) * radius)));
      const box = name.getBoundingClientRect();
      const inside = box.left >= frame.left && box.right <= frame.right && box.top >= frame.top - 14 && box.bottom <= frame.bottom;
      return inside && !taken.some((other) => box.left < other.right + GAP && other.left < box.right + GAP && box.top < other.bottom && other.top < box.bottom);
    };
    const place = [...SIDES, ...FURTHER].find(at);
    name.toggleAttribute("data-left-out", !place);
    leader.toggleAttribute("data-left-out", !place || Math.abs(place[1]) < 2);
    if (!place) continue;
    const [box, center] = [name.getBoundingClientRect(), dot.getBoundingClientRect()];
    taken.push(box);
    const ends = { x1: (center.left + center.right) / 2, y1: (center.top + center.bottom) / 2, x2: place[0] > 0 ? box.left - 1 : box.right + 1, y2: (box.top + box.bottom) / 2 };
    for (const [end, value] of Object.entries(ends)) leader.setAttribute(end, (value - (end[0] === "x" ? frame.left : frame.top)).toFixed(1));
  }
}

interface MarkProps {
  point: PointData;
  x: (value: number) => number;
  down: (value: number) => number;
  radius: number;
  best: boolean;
}

function Mark({ point, x, down, radius, best }: MarkProps) {
  const [across, below] = [x(point.x.value as number), down(point.y.value as number)];
  const inside = (share: number) => along(Math.min(Math.max(Number.isFinite(share) ? share : 0, 0), 1));
  return (
    <g class={point.baseline ? "baseline" : undefined} data-colour={point.group === null ? undefined : point.group % COLOURS}>
      {finite(point.x.low) && finite(point.x.high) && (
        <line class="range" x1={inside(x(point.x.low))} x2={inside(x(point.x.high))} y1={along(below)} y2={along(below)} />
      )}
      {finite(point.y.low) && finite(point.y.high) && (
        <line class="range" x1={along(across)} x2={along(across)} y1={inside(down(point.y.low))} y2={inside(down(point.y.high))} />
      )}
      <line class="leader" data-left-out />
      <circle cx={along(across)} cy={along(below)} r={radius}>
        <title>{`${point.name}: ${point.x.text}, ${point.y.text}`}</title>
      </circle>
      <text class="name" data-best={best} x={along(across)} y={along(below)}>
        {short(point.mark, 32)}
      </text>
    </g>
  );
}
