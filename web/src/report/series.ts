/** Charts of series with uPlot: a bundle of its own, so that a page without such charts carries none of it.
 *
 *     state ──draw──> every chart          pointer, keys, buttons ──> state
 *
 * Charts over the same amount share their range: what one is zoomed to or points at, all are.
 */

import "./series.css";
import uPlot from "uplot";
import { extent, finite, nearest, number, place, ticks, withInterval, withRoom } from "./scales";
import { write, written } from "./address";
import { type Shape, dashOf, markOf, paintShapes, spread, svgOf } from "./series-drawing";
import type { SavedModel, LineData, MarksData, Picked, SeriesData, Value } from "./types";

const COLOURS = 8;
const TICKS = { rows: 5, columns: 7 };
const MARGIN = 1.02; // an axis from zero ends a little after the last step, for its dot
const MEASURED = 40; // places of an axis that has the measured ones
const VALUES = 60; // rows of the table of values
const MARK = 4; // radius of a point
const NAMED = { width: 640, lines: 16, letters: 22, near: 0.6 }; // of a chart whose lines have their names at their ends
const FONT = 11.5;
const TICK_ROOM = 34;
const CLICK = 4; // pixels: who moves further drags
const BARS = uPlot.paths.bars!({ size: [0.9, Infinity], align: 1 });

interface State {
  from: number;
  to: number;
  whole: [number, number];
  at: number | null;
  hidden: Set<string>;
  /** Of charts whose scale was switched, by title: is it logarithmic? */
  logs: Map<string, boolean>;
}

/** States of charts by their titles, which charts of newer numbers take over. */
const states = new Map<string, State>();

function element<K extends keyof HTMLElementTagNameMap>(name: K, attributes: Record<string, string> = {}, ...inside: (Node | string)[]): HTMLElementTagNameMap[K] {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...inside);
  return made;
}

/** What a switch of the legend hides: a group in all charts, or one line of one. */
const switchOf = (chart: SeriesData, line: LineData): string => JSON.stringify(line.group ? [line.group] : [chart.title, line.name]);

/** The number of the look of each line: one for each group; else one for each line, a faint one as the line over it. */
export function coloursOf(chart: SeriesData, groups: Picked): number[] {
  let own = 0;
  return chart.lines.map((line) => {
    if (line.group) return groups.indexOf(line.group);
    return line.faint ? own : own++;
  });
}

/** The beginning of a name for which there is room at the end of its line; the legend has all of it. */
const short = (name: string): string => (name.length <= NAMED.letters ? name : `${name.slice(0, NAMED.letters - 1)}…`);

/** The x values that one can point at in a chart: those of its longest line that is shown. */
export const placesOf = (lines: LineData[]): number[] => lines.reduce<number[]>((longest, { x }) => (x.length > longest.length ? x : longest), []);

/** The range of x over all charts; of whole numbers from zero. */
export function wholeRange(charts: SeriesData[]): [number, number] {
  const ends = ({ x, bars }: LineData) => [x[0], x[x.length - 1], ...(bars && x.length > 1 ? [2 * x[x.length - 1] - x[x.length - 2]] : [])];
  const all = charts.flatMap((chart) => chart.lines.filter(({ x }) => x.length).flatMap(ends));
  const [low, high] = [Math.min(...all), Math.max(...all)];
  if (all.length === 0) return [0, 1];
  if (charts[0].log_x) return low === high ? [low / 2, high * 2] : [low * (low / high) ** 0.04, high * (high / low) ** 0.04];
  if (low >= 0) return [0, high * MARGIN || 1];
  return low === high ? [low - 1, high + 1] : [low, high];
}

class Chart {
  readonly figure = element("figure");
  private readonly plot = element("div", { class: "series-plot" });
  private readonly readouts = new Map<LineData, { item: HTMLElement; value: HTMLElement; button: HTMLElement; swatch: HTMLElement }>();
  private drawn: uPlot | null = null;
  private readonly resized = new ResizeObserver(() => {
    if (this.plot.clientWidth === 0 || (this.drawn && this.drawn.width === this.plot.clientWidth && this.drawn.height === this.plot.clientHeight)) return;
    this.build();
    this.point();
  });
  private log: boolean;
  private readonly colours: number[];

  constructor(readonly data: SeriesData, groups: Picked, private readonly state: State, private readonly link: Link) {
    this.log = state.logs.get(data.title) ?? data.log_y;
    this.colours = coloursOf(data, groups);
    this.figure.className = `card${data.wide ? " whole" : ""}`;
    this.figure.dataset.chart = data.title;
    this.figure.append(this.head(), this.legend(), this.plot, ...this.foot());
    this.listen();
  }

  get shown(): LineData[] {
    return this.data.lines.filter((line) => !this.state.hidden.has(switchOf(this.data, line)));
  }

  /** Whether all is above zero, so that there is a logarithm. */
  private get positive(): boolean {
    const values = this.data.lines.flatMap(({ y }) => y).filter(finite);
    return values.some((y) => y > 0) && values.every((y) => y >= 0);
  }

  private head(): HTMLElement {
    const head = element("figcaption", { class: "series-head" }, element("h2", {}, this.data.title));
    if (this.positive) {
      const button = element("button", { "aria-pressed": String(this.log), "aria-label": `${this.data.title}: log scale` }, "log scale");
      button.addEventListener("click", () => {
        this.state.logs.set(this.data.title, (this.log = !this.log));
        button.setAttribute("aria-pressed", String(this.log));
        this.build();
        this.point();
      });
      head.append(button);
    }
    head.append(globalThis.glassformerSaves!(this.data.title, () => this.sheet(), () => this.vector()));
    return head;
  }

  private legend(): HTMLElement {
    const list = element("ul", { class: "series-legend" });
    const several = new Set(this.data.lines.map(({ group }) => group)).size > 1;
    this.data.lines.forEach((line, i) => {
      const look = line.bars ? "bars" : line.faint ? "faint" : line.markers ? "markers" : line.dashed ? "dashed" : "line";
      const swatch = element("span", { class: "swatch" });
      if (["markers", "line", "dashed"].includes(look)) swatch.innerHTML = this.sample(line, i);
      const value = element("b");
      const button = element("button", { "aria-pressed": "true", title: "Show or hide it" }, swatch, element("span", {}, line.name), value);
      const item = element("li", { "data-colour": String(this.colours[i] % COLOURS), "data-look": look }, button);
      button.addEventListener("click", () => this.link.toggle(switchOf(this.data, line)));
      item.hidden = several && line.faint; // it is hidden with the line over it
      this.readouts.set(line, { item, value, button, swatch });
      list.append(item);
    });
    const marks = this.data.marks.filter(({ at }) => at.length > 0);
    const names = new Map(marks.map(({ name, alert }) => [name, alert ? "alert" : "tick"]));
    if (this.data.lines.some(({ best }) => best !== null)) names.set("best", "best");
    for (const [name, look] of names)
      list.append(element("li", { "data-look": look }, element("span", { class: "mark-name" }, element("span", { class: "swatch" }), name)));
    return list;
  }

  private *foot(): Generator<HTMLElement> {
    if (this.data.note) yield element("p", { class: "series-note" }, this.data.note);
    const values = element("details", { class: "values" }, element("summary", {}, `Values of ${this.data.title}`));
    values.addEventListener("toggle", () => {
      if (values.open && values.childElementCount === 1) values.append(this.values());
    });
    yield values;
  }

  /** The same as a table, of many values some. */
  private values(): HTMLElement {
    const lines = this.data.lines.filter(({ faint }) => !faint);
    const kept = new Set(lines.filter(({ markers, x }) => markers && x.length <= VALUES).flatMap(({ x }) => x));
    const all = [...new Set(lines.flatMap(({ x }) => x))].sort((a, b) => a - b);
    const every = Math.max(1, Math.ceil(all.length / VALUES));
    const steps = all.filter((x, i) => i % every === 0 || i === all.length - 1 || kept.has(x));
    const cell = (line: LineData, x: number) => {
      const i = nearest(line.x, x);
      return line.x[i] === x ? number(line.y[i]) : "";
    };
    const row = (x: number) => element("tr", {}, element("th", { scope: "row" }, number(x)), ...lines.map((line) => element("td", {}, cell(line, x))));
    const head = [this.data.x_label, ...lines.map(({ name }) => name)].map((name) => element("th", { scope: "col" }, name));
    const table = element("table", {}, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...steps.map(row)));
    const label = `Values of ${this.data.title}`;
    return element("div", { class: `sheet${steps.length > 12 ? " tall" : ""}`, tabindex: "0", role: "group", "aria-label": label }, table);
  }

  /** A colour of the page as the canvas knows it. */
  private colour(name: string): string {
    const probe = this.figure.querySelector<HTMLElement>("h2") as HTMLElement;
    probe.style.color = `var(${name})`;
    const found = getComputedStyle(probe).color;
    probe.style.color = "";
    return found;
  }

  private lineColour(line: LineData): string {
    const item = this.readouts.get(line)!.item;
    item.style.color = "var(--c)";
    const found = getComputedStyle(item).color;
    item.style.color = "";
    return found;
  }

  /** How a line looks, for the legend. */
  private sample(line: LineData, i: number): string {
    const dash = dashOf(this.colours[i], line.dashed, COLOURS).join(" ");
    const mark = line.markers ? `<path d="${markOf(this.colours[i], 11, 6, 3.6)}" fill="currentColor"/>` : "";
    return `<svg width="22" height="12"><path d="M0 6H22" fill="none" stroke="currentColor" stroke-width="2" stroke-dasharray="${dash}"/>${mark}</svg>`;
  }

  /** What is on screen, for a spreadsheet: the lines that are shown, from one end of the axis to the other. */
  private sheet(): (string | number)[][] {
    const { from, to } = this.state, lines = this.shown;
    const steps = [...new Set(lines.flatMap(({ x }) => x))].filter((x) => x >= from && x <= to).sort((a, b) => a - b);
    const nameOf = ({ name, faint }: LineData) => (faint && lines.some((line) => line.name === name && !line.faint) ? `${name}, not smoothed` : name);
    const wide = (line: LineData, { low, high } = line, name = nameOf(line)) => (low && high ? [name, `${name} low`, `${name} high`] : [name]);
    const cells = ({ x, y, low, high }: LineData, at: number) => {
      const i = nearest(x, at), there = x[i] === at;
      return (low && high ? [y, low, high] : [y]).map((values) => (there ? values[i] ?? "" : ""));
    };
    return [[this.data.x_label || "x", ...lines.flatMap((line) => wide(line))], ...steps.map((at) => [at, ...lines.flatMap((line) => cells(line, at))])];
  }

  /** Where a point of the data is in the chart, in pixels. */
  private at(u: uPlot, x: number, y: number): [number, number] {
    const { left, top } = this.area(u);
    return [left + u.valToPos(x, "x"), top + u.valToPos(y, "y")];
  }

  private area(u: uPlot): { left: number; top: number; right: number; bottom: number } {
    const { left, top, width, height } = u.bbox;
    return { left: left / devicePixelRatio, top: top / devicePixelRatio, right: (left + width) / devicePixelRatio, bottom: (top + height) / devicePixelRatio };
  }

  /** Whether lines have their names at their ends: a few of measured points, in a chart with room. */
  private get named(): boolean {
    const own = this.data.lines.filter(({ faint, markers, dashed }) => !faint && (markers || dashed));
    return this.plot.clientWidth >= NAMED.width && own.length === this.data.lines.length && own.length > 1 && own.length <= NAMED.lines;
  }

  /** Marks, the best points, and the names of lines: what is over the lines of uPlot. */
  private over(u: uPlot): Shape[] {
    const { from, to } = this.state, area = this.area(u), shapes: Shape[] = [];
    const reached = (line: LineData, i: number) => line.x[i] >= from && line.x[i] <= to && finite(line.y[i]) && (!this.log || (line.y[i] as number) > 0);
    for (const line of this.shown) {
      const look = this.colours[this.data.lines.indexOf(line)], colour = this.lineColour(line);
      if (!line.bars && (line.markers || line.x.length === 1))
        line.x.forEach((x, i) => reached(line, i) && shapes.push({ d: markOf(look, ...this.at(u, x, line.y[i] as number), MARK), fill: colour, stroke: this.colour("--panel"), width: 1 }));
      const best = line.best === null ? -1 : nearest(line.x, line.best);
      if (best >= 0 && reached(line, best)) shapes.push({ d: markOf(0, ...this.at(u, line.best!, line.y[best] as number), 6.5), stroke: this.colour("--ink"), width: 2 });
    }
    if (!this.named) return shapes;
    // A line from the middle of the chart to its name would be taken for one of values.
    const near = (line: LineData, i: number) => i >= 0 && this.at(u, line.x[i], line.y[i] as number)[0] > area.left + NAMED.near * (area.right - area.left);
    const ended = this.shown.map((line) => ({ line, i: line.x.findLastIndex((_, i) => reached(line, i)) })).filter(({ line, i }) => near(line, i));
    const ends = ended.map(({ line, i }) => this.at(u, line.x[i], line.y[i] as number));
    spread(ends.map(([, y]) => y), area.top, area.bottom).forEach((y, i) => {
      const { line } = ended[i], colour = this.lineColour(line), [x, end] = ends[i];
      shapes.push({ d: `M${x + MARK + 1} ${end}L${area.right + 4} ${y}H${area.right + 10}`, stroke: colour, opacity: 0.5 });
      shapes.push({ text: short(line.name), x: area.right + 13, y, colour });
    });
    return shapes;
  }

  /** What is on the canvas, as elements of an SVG. */
  private vector(): string {
    const u = this.drawn!, area = this.area(u), { from, to } = this.state, shapes: Shape[] = [], { top, bottom, left, right } = area;
    const [soft, grid] = [this.colour("--ink-3"), this.colour("--line")];
    for (const [axis, x] of [[u.axes[0], true], [u.axes[1], false]] as const) {
      const { min, max } = u.scales[x ? "x" : "y"], splits = (axis.splits as (u: uPlot, axis: number, low: number, high: number) => number[])(u, x ? 0 : 1, min!, max!);
      for (const value of splits) {
        const place = x ? left + u.valToPos(value, "x") : top + u.valToPos(value, "y");
        shapes.push({ d: x ? `M${place} ${top}V${bottom}` : `M${left} ${place}H${right}`, stroke: grid });
        shapes.push({ text: number(value), colour: soft, ...(x ? { x: place, y: bottom + 13, anchor: "middle" } : { x: left - 6, y: place, anchor: "end" }) });
      }
      const label = x ? this.data.x_label : this.data.y_label;
      if (label) shapes.push({ text: label, colour: soft, anchor: "middle", ...(x ? { x: (left + right) / 2, y: bottom + 34 } : { x: 11, y: (top + bottom) / 2, upwards: true }) });
    }
    for (const { at, alert, group } of this.data.marks)
      if (!this.state.hidden.has(JSON.stringify([group])))
        for (const value of at.filter((each) => each >= from && each <= to))
          shapes.push({ d: `M${left + u.valToPos(value, "x")} ${alert ? top : bottom - 8}V${bottom}`, stroke: this.colour(alert ? "--bad" : "--edge"), width: 2, dash: alert ? [2, 3] : [] });
    for (const line of this.shown) {
      const colour = this.lineColour(line), [begin, end] = [Math.max(place(line.x, from) - 1, 0), place(line.x, to) + 1];
      const points = (values: Value[] | null) => line.x.slice(begin, end).flatMap((x, i): [number, number][] => {
        const y = values?.[begin + i];
        return finite(y) && (!this.log || y > 0) ? [this.at(u, x, y)] : [];
      });
      const own = points(line.y), wide = line.bars && own.length > 1 ? own[1][0] - own[0][0] : 0;
      if (line.low && line.high) {
        const band = [...points(line.high), ...points(line.low).reverse()];
        if (band.length) shapes.push({ d: `M${band.join("L")}z`, fill: colour, opacity: 0.14 });
      }
      if (line.bars) for (const [x, y] of own) shapes.push({ d: `M${x} ${bottom}V${y}h${0.9 * wide}V${bottom}z`, fill: colour });
      else if (own.length) shapes.push({ d: `M${own.join("L")}`, stroke: colour, width: line.faint ? 1 : 2, opacity: line.faint ? 0.35 : 1, dash: this.dash(line) });
    }
    return svgOf([...shapes, ...this.over(u)], FONT);
  }

  private dash(line: LineData): number[] {
    return line.faint ? [] : dashOf(this.colours[this.data.lines.indexOf(line)], line.dashed, COLOURS);
  }

  /** Columns on common x values, as uPlot wants them: each line, and below and above it its band. */
  private columns(): uPlot.AlignedData {
    const known = (values: ArrayLike<unknown>) => Array.from(values as ArrayLike<number>, (y) => (finite(y) && (!this.log || y > 0) ? y : null));
    const tables = this.data.lines.flatMap(({ x, y, low, high }) => [y, ...(low && high ? [low, high] : [])].map((column) => [x, known(column)]));
    return (tables.length ? uPlot.join(tables as unknown as uPlot.AlignedData[]) : [[]]) as uPlot.AlignedData;
  }

  /** uPlot's description of the lines. */
  private series(): { series: uPlot.Series[]; bands: uPlot.Band[] } {
    const series: uPlot.Series[] = [{}];
    const bands: uPlot.Band[] = [];
    const visible = new Set(this.shown);
    for (const line of this.data.lines) {
      const colour = this.lineColour(line);
      series.push({
        show: visible.has(line), spanGaps: true, stroke: colour, alpha: line.faint ? 0.35 : 1, width: line.faint ? 1 : 2,
        dash: this.dash(line), points: { show: false },
        ...(line.bars ? { paths: BARS, fill: colour } : {}),
      });
      if (!(line.low && line.high)) continue;
      for (let i = 0; i < 2; i++) series.push({ show: visible.has(line), spanGaps: true, width: 0, points: { show: false } });
      bands.push({ series: [series.length - 1, series.length - 2], fill: colour.replace(/^rgb\((.*)\)$/, "rgba($1, 0.14)") });
    }
    return { series, bands };
  }

  private get font(): string {
    return `${FONT}px ${getComputedStyle(this.plot).fontFamily}`;
  }

  private axis(log: boolean, count: number, whole: boolean, label: string, own: number[] = []): uPlot.Axis {
    const style = this.font;
    return {
      stroke: this.colour("--ink-3"), font: style, labelFont: style, label: label || undefined, labelSize: label ? 22 : 0,
      grid: { stroke: this.colour("--line"), width: 1 }, ticks: { show: false },
      splits: (u, __, low, high) => (own.length ? withRoom(own.filter((x) => x >= low && x <= high), (x) => u.valToPos(x, "x"), TICK_ROOM) : ticks(low, high, count, log).filter((x) => !whole || Number.isInteger(x))),
      values: (_, splits) => splits.map(number), filter: (_, splits) => splits,
    };
  }

  /** Draw it from the beginning: for another scale, another theme. */
  build(): void {
    this.drawn?.destroy();
    const { state, data } = this;
    const whole = !data.log_x && data.lines.every(({ x }) => x.every(Number.isInteger));
    const columns = Math.max(2, Math.min(TICKS.columns, Math.floor(this.plot.clientWidth / 80)));
    // Of measured points, such as with 8, 16 and 32 labels, the axis has their numbers.
    const measured = data.lines.every(({ markers, dashed }) => markers || dashed);
    const places = [...new Set(data.lines.flatMap(({ x }) => x))].sort((a, b) => a - b), own = measured && places.length > 1 && places.length <= MEASURED ? places : [];
    const names = this.named ? Math.max(...data.lines.map(({ name }) => this.widthOf(short(name)))) + 16 : 14;
    this.drawn = new uPlot(
      {
        width: this.plot.clientWidth, height: this.plot.clientHeight, legend: { show: false }, padding: [8, names, 0, 0],
        scales: {
          x: { time: false, distr: data.log_x ? 3 : 1, range: () => [state.from, state.to] },
          y: { distr: this.log ? 3 : 1, range: () => extent(this.shown, state.from, state.to, this.log) },
        },
        axes: [
          { ...this.axis(data.log_x, columns, whole, data.x_label, own), size: 24 },
          { ...this.axis(this.log, TICKS.rows, false, data.y_label), size: 52 },
        ],
        ...this.series(),
        cursor: {
          y: false, drag: { x: true, y: false, setScale: false },
          bind: { dblclick: () => () => (this.link.zoom(...state.whole), null) },
        },
        hooks: {
          drawAxes: [(u) => this.data.marks.forEach((marks) => this.drawMarks(u, marks))],
          draw: [(u) => this.drawOver(u)],
          ready: [() => this.point()],
          setCursor: [(u) => this.pointed(u)],
          setSelect: [(u) => this.selected(u)],
        },
      },
      this.columns(),
      this.plot,
    );
  }

  private drawMarks(u: uPlot, { at, alert, group }: MarksData): void {
    if (group && this.state.hidden.has(JSON.stringify([group]))) return;
    const { ctx, bbox } = u;
    const ratio = devicePixelRatio;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    ctx.beginPath();
    ctx.strokeStyle = this.colour(alert ? "--bad" : "--edge");
    ctx.lineWidth = 2 * Math.round(ratio); // and at whole pixels: not blurred
    if (alert) ctx.setLineDash([2 * ratio, 3 * ratio]);
    for (const x of at) {
      const left = Math.round(u.valToPos(x, "x", true));
      ctx.moveTo(left, alert ? bbox.top : bbox.top + bbox.height - 8 * ratio);
      ctx.lineTo(left, bbox.top + bbox.height);
    }
    ctx.stroke();
    ctx.restore();
  }

  private drawOver(u: uPlot): void {
    u.ctx.save();
    u.ctx.scale(devicePixelRatio, devicePixelRatio);
    paintShapes(u.ctx, this.over(u), this.font);
    u.ctx.restore();
  }

  private widthOf(text: string): number {
    const pen = new OffscreenCanvas(1, 1).getContext("2d")!;
    pen.font = this.font;
    return pen.measureText(text).width;
  }

  private pointed(u: uPlot): void {
    const left = u.cursor.left ?? -1;
    const places = placesOf(this.shown);
    this.link.point(left < 0 || places.length === 0 ? null : places[nearest(places, u.posToVal(left, "x"))]);
  }

  private selected(u: uPlot): void {
    const { left, width } = u.select;
    if (width < 6) return;
    u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    this.link.zoom(u.posToVal(left, "x"), u.posToVal(left + width, "x"));
  }

  /** The lines that are shown, and the range, after a change of either. */
  update(): void {
    const visible = new Set(this.shown);
    for (const [line, { item, button }] of this.readouts) {
      button.setAttribute("aria-pressed", String(visible.has(line)));
      item.toggleAttribute("data-off", !visible.has(line));
    }
    if (!this.drawn) return;
    let index = 1;
    for (const line of this.data.lines) {
      const columns = line.low && line.high ? 3 : 1;
      for (let i = 0; i < columns; i++) this.drawn.setSeries(index++, { show: visible.has(line) }, false);
    }
    this.drawn.setScale("x", { min: this.state.from, max: this.state.to });
    this.point();
  }

  /** The numbers at the x that is pointed at, or the last ones. */
  point(): void {
    const { at, from, to } = this.state;
    const spoken = [];
    for (const [line, { value }] of this.readouts) {
      const i = at === null ? line.x.length - 1 : nearest(line.x, at);
      const away = at !== null && line.markers && line.x[i] !== at ? ` (${this.data.x_label || "x"} ${number(line.x[i])})` : "";
      const written = line.x.length ? withInterval(line.y[i], line.low?.[i], line.high?.[i]) + away : "–";
      value.textContent = line.bars && at === null ? "" : written; // the last of bars is no result
      if (this.shown.includes(line)) spoken.push(`${line.name} ${written}`);
    }
    const last = this.state.whole[1];
    this.plot.setAttribute("aria-valuenow", String(at ?? last));
    this.plot.setAttribute("aria-valuetext", `${this.data.x_label} ${at === null ? "at the end" : number(at)}: ${spoken.join(", ")}`);
    if (!this.drawn?.status) return; // it has no places yet, and calls this when it has
    const left = at === null || at < from || at > to ? -10 : this.drawn.valToPos(at, "x");
    this.drawn.setCursor({ left, top: left < 0 ? -10 : 0 }, false);
  }

  private listen(): void {
    const { plot, data, state, link } = this;
    const spoken = data.lines.filter(({ faint, y }) => !faint && y.length).map(({ name, y }) => `${name}: from ${number(y[0])} to ${number(y[y.length - 1])}`);
    const role = {
      role: "slider", tabindex: "0", "aria-label": `${data.title}: ${data.x_label}`, "aria-valuemin": String(state.whole[0]),
      "aria-valuemax": String(state.whole[1]), "aria-description": `${data.title} over ${data.x_label}. ${spoken.join("; ")}`,
    };
    for (const [name, value] of Object.entries(role)) plot.setAttribute(name, value);
    let begun = 0;
    plot.addEventListener("pointerdown", ({ clientX }) => (begun = clientX));
    plot.addEventListener("click", ({ clientX }) => Math.abs(clientX - begun) < CLICK && state.at !== null && link.tell(state.at));
    plot.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const places = placesOf(this.shown);
      if (event.key === "Enter") return link.tell(state.at ?? places.at(-1) ?? state.whole[1]);
      const here = nearest(places, state.at ?? state.whole[1]), far = Math.max(Math.round(places.length / 20), 1);
      const moves: Record<string, number> = { ArrowLeft: here - 1, ArrowDown: here - 1, ArrowRight: here + 1, ArrowUp: here + 1, PageUp: here + far, PageDown: here - far, Home: 0, End: places.length - 1 };
      const zooms: Record<string, number> = { "+": 0.5, "=": 0.5, "-": 2, Escape: 0 };
      if (event.key in moves && places.length) link.moveTo(places[Math.min(Math.max(moves[event.key], 0), places.length - 1)]);
      else if (event.key in zooms) link.closer(zooms[event.key]);
      else return;
      event.preventDefault();
    });
    this.resized.observe(plot);
  }

  stop(): void {
    this.resized.disconnect();
    this.drawn?.destroy();
    this.drawn = null;
  }
}

/** Charts over one amount: their common state, and the bar of what changes it. */
class Link {
  readonly bar = element("div", { class: "series-bar" });
  readonly charts: Chart[];
  private readonly state: State;
  private readonly output = element("output");
  private readonly told = element("p", { class: "series-told", role: "status" });
  private readonly saved: SavedModel[];
  private readonly zooms: HTMLButtonElement[];
  private readonly switches = new Map<string, HTMLElement>();

  constructor(private readonly data: SeriesData[], wanted?: Picked) {
    const whole = wholeRange(data);
    this.saved = data.flatMap(({ saved }) => saved ?? []);
    const key = data.map(({ title }) => title).join("\n"), before = states.get(key);
    const zoomed = before && (before.from > before.whole[0] || before.to < before.whole[1]) && before.to <= whole[1];
    const [from, to] = zoomed ? [before.from, before.to] : whole;
    this.state = { from, to, whole, at: null, hidden: before?.hidden ?? new Set(), logs: before?.logs ?? new Map() };
    states.set(key, this.state);
    const groups = wanted ?? [...new Set(data.flatMap(({ lines }) => lines.map(({ group }) => group)))].filter(Boolean);
    this.charts = data.map((chart) => new Chart(chart, groups, this.state, this));
    this.zooms = [["Zoom in", 0.5], ["Zoom out", 2], ["Whole range", 0]].map(([name, factor]) => {
      const button = element("button", {}, String(name));
      button.addEventListener("click", () => this.closer(Number(factor)));
      return button;
    });
    if (!wanted && groups.length > 1 && data.length > 1) this.bar.append(this.groupSwitches(groups));
    this.bar.append(element("span", { class: "hint" }, `Drag to zoom in; arrow keys move along a chart${this.saved.length ? "; click a step for its rows" : ""}.`), element("span", { class: "grow" }), this.output, ...this.zooms, this.told);
    this.update();
    const step = this.saved.length ? written("step") : null;
    if (step !== null && Number.isFinite(Number(step))) this.tell(Number(step), false);
  }

  private groupSwitches(groups: Picked): HTMLElement {
    const all = element("div", { class: "series-legend", role: "group", "aria-label": "Shown" });
    groups.forEach((group, i) => {
      if (group === null) return;
      const button = element("button", { "aria-pressed": "true", "data-colour": String(i % COLOURS) }, element("span", { class: "swatch" }), element("span", {}, group));
      button.addEventListener("click", () => this.toggle(JSON.stringify([group])));
      this.switches.set(JSON.stringify([group]), button);
      all.append(button);
    });
    return all;
  }

  toggle(name: string): void {
    if (!this.state.hidden.delete(name)) this.state.hidden.add(name);
    this.update();
  }

  private update(): void {
    const { from, to, whole, hidden } = this.state;
    for (const button of this.zooms.slice(1)) button.disabled = from === whole[0] && to === whole[1];
    for (const [name, button] of this.switches) button.setAttribute("aria-pressed", String(!hidden.has(name)));
    for (const chart of this.charts) chart.update();
    this.point(this.state.at);
  }

  point(at: number | null): void {
    this.state.at = at;
    for (const chart of this.charts) chart.point();
    const alerts = this.data.flatMap(({ marks }) => marks).filter((marks) => marks.alert && at !== null && marks.at.includes(at));
    const names = [...new Set(alerts.map(({ name }) => `, ${name}`))].join("");
    this.output.textContent = at === null ? "" : `${this.data[0].x_label} ${number(at)}${names}`;
  }

  /** Say which model was kept of an x, with the way to its rows; the address has the x. */
  tell(x: number, chosen = true): void {
    if (!this.saved.length) return;
    const shown = this.saved.filter(({ group }) => !this.state.hidden.has(JSON.stringify([group])));
    const at = globalThis.glassformerSteps!(this.told, shown, x, this.state.to - this.state.from, this.data[0].x_label);
    if (chosen) write({ step: String(at), part: "" }); // a reload leads to what was chosen last
    this.moveTo(at);
  }

  /** Point at an x, in view. */
  moveTo(at: number): void {
    const { from, to } = this.state;
    if (at < from || at > to) this.zoom(at - (to - from) / 2, at + (to - from) / 2);
    this.point(at);
  }

  /** Zoom to a range, within the whole one, not closer than a few steps. */
  zoom(from: number, to: number): void {
    const [low, high] = this.state.whole;
    const least = Math.min(placesOf(this.data.flatMap(({ lines }) => lines)).every(Number.isInteger) ? 4 : (high - low) / 1e4, high - low);
    const width = Math.min(Math.max(to - from, least), high - low);
    this.state.from = Math.min(Math.max(from, low), high - width);
    this.state.to = this.state.from + width;
    this.update();
  }

  /** Closer by a factor below 1, around what is pointed at; 0 = the whole range. */
  closer(factor: number): void {
    const { at, from, to, whole } = this.state;
    if (factor === 0) return this.zoom(...whole);
    const middle = at !== null && at >= from && at <= to ? at : (from + to) / 2;
    this.zoom(middle - (middle - from) * factor, middle + (to - middle) * factor);
  }
}

/** Charts in an element, those over the same amount with a bar above them; `groups`: in the order of their colours. Returns what ends them. */
export function drawSeries(into: HTMLElement, charts: SeriesData[], groups?: Picked): () => void {
  const links = new Map<string, SeriesData[]>();
  for (const chart of charts) {
    const key = JSON.stringify([chart.x_label, chart.log_x]);
    links.set(key, [...(links.get(key) ?? []), chart]);
  }
  const made = [...links.values()].map((together) => new Link(together, groups));
  for (const { bar, charts: drawn } of made) {
    const [shown, folded] = [false, true].map((wanted) => drawn.filter(({ data }) => data.folded === wanted).map(({ figure }) => figure));
    into.append(bar, element("div", { class: "cards" }, ...shown));
    if (!folded.length) continue;
    const words = `${folded.length} more ${folded.length === 1 ? "chart" : "charts"}`;
    into.append(element("details", { class: "folded" }, element("summary", {}, words), element("div", { class: "cards" }, ...folded)));
  }
  const redraw = () => made.forEach(({ charts: drawn }) => drawn.forEach((chart) => { chart.build(); chart.point(); }));
  const scheme = matchMedia("(prefers-color-scheme: dark)"), theme = new MutationObserver(redraw);
  scheme.addEventListener("change", redraw);
  theme.observe(document.documentElement, { attributeFilter: ["data-theme"] });
  const stop = () => {
    document.removeEventListener("gone", stop);
    scheme.removeEventListener("change", redraw);
    theme.disconnect();
    made.forEach(({ charts: drawn }) => drawn.forEach((chart) => chart.stop()));
  };
  document.addEventListener("gone", stop);
  return stop;
}

globalThis.glassformerSeries = drawSeries;
