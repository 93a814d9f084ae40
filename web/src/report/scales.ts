/** Axes: their ranges and ticks, and numbers as they are written there. */

import type { IntervalCell, LineData, Value } from "./types";

export const finite = (y: Value | undefined): y is number => typeof y === "number" && Number.isFinite(y);

/** A number in four digits, as the tables of training curves have it. */
export function number(x: Value | undefined): string {
  if (!finite(x)) return x === null || x === undefined ? "–" : String(x);
  if (x === 0) return "0";
  const size = Math.abs(x);
  if (size >= 1e7 || size < 1e-3) return String(Number(x.toPrecision(3)).toExponential()).replace("e+", "e");
  return size >= 1000 ? Math.round(x).toLocaleString("en") : String(Number(x.toPrecision(4)));
}

/** A number and its interval, with as many decimals each: 0.4880 [0.4319, 0.5367]. */
export function withInterval(x: Value | undefined, low: Value | undefined, high: Value | undefined): string {
  if (!finite(low) || !finite(high)) return number(x);
  const sizes = [x, low, high].map((each) => (finite(each) ? Math.abs(each) : 0));
  const most = Math.max(...sizes);
  const even = most < 1000 && sizes.every((size) => size === 0 || size >= 1e-3);
  const room = Math.min(4, 3 - Math.floor(Math.log10(most || 1)));
  const decimals = Math.max(...[x, low, high].filter(finite).map((each) => decimalsOf(each, room)));
  const written = (each: Value | undefined) => (even && finite(each) ? each.toFixed(decimals) : number(each));
  return `${written(x)} [${written(low)}, ${written(high)}]`;
}

/** The decimals that a number has of so many at most, without zeros at the end. */
const decimalsOf = (x: number, most: number): number => String(Number(x.toFixed(most))).split(".")[1]?.length ?? 0;

/** About `count` round numbers between two; on a logarithmic scale 1, 2, 5 of each power of ten, or the powers alone. */
export function ticks(low: number, high: number, count: number, log = false): number[] {
  if (!(high > low)) return [low];
  if (log && low > 0 && high / low > 10) {
    const found = [];
    const digits = high / low < 1000 ? [1, 2, 5] : [1];
    for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power++)
      for (const digit of digits) found.push(Number((digit * 10 ** power).toPrecision(12)));
    return found.filter((x) => x >= low && x <= high);
  }
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5, 10].find((x) => x * power >= rough * 0.999) ?? 10);
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i <= high / step + 1e-9; i++) found.push(Number((step * i).toPrecision(12)));
  return found;
}

/** Which of sorted values have room for their labels: the first, the last, and between them those not too near to others. */
export function withRoom(values: number[], placeOf: (x: number) => number, room: number): number[] {
  const last = values.at(-1);
  if (last === undefined) return [];
  return values.slice(1).reduce((kept, x) => {
    const before = placeOf(x) - placeOf(kept.at(-1)!) >= room, after = x === last || placeOf(last) - placeOf(x) >= room;
    return before && after ? [...kept, x] : kept;
  }, values.slice(0, 1));
}

/** The first place in sorted numbers that is at least x. */
export function place(sorted: ArrayLike<number>, x: number): number {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] < x) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The place of the number nearest to x. */
export function nearest(sorted: ArrayLike<number>, x: number): number {
  const after = place(sorted, x);
  return after > 0 && (after === sorted.length || x - sorted[after - 1] < sorted[after] - x) ? after - 1 : after;
}

/** The range of a y axis for what is shown from one x to another: of faint lines, without the outermost hundredth. */
export function extent(lines: LineData[], from: number, to: number, log: boolean): [number, number] {
  let [low, high] = [Infinity, -Infinity];
  for (const line of lines) {
    const [begin, end] = [Math.max(place(line.x, from) - 1, 0), place(line.x, to) + 1];
    const values = [line.y, line.low ?? [], line.high ?? []]
      .flatMap((all) => all.slice(begin, end))
      .filter((y): y is number => finite(y) && (!log || y > 0))
      .sort((a, b) => a - b);
    if (values.length === 0) continue;
    const outer = line.markers || line.low ? 0 : Math.floor(values.length / 100);
    low = Math.min(low, values[line.faint ? outer : 0]);
    high = Math.max(high, values[values.length - 1 - (line.faint ? outer : 0)]);
  }
  if (low > high) return [log ? 0.1 : 0, 1];
  return padded(lines.some(({ bars }) => bars) && !log ? Math.min(low, 0) : low, high, log);
}

/** A range with a margin; from zero, where it comes near. */
export function padded(low: number, high: number, log = false): [number, number] {
  if (log) return low === high ? [low / 2, high * 2] : [low * (low / high) ** 0.05, high * (high / low) ** 0.05];
  const room = (high - low) * 0.06 || Math.abs(high) * 0.1 || 1;
  const begin = low >= 0 && low < room ? low : low - room;
  return [begin, topOf(low, high, high + room, begin)];
}

/** The end of an axis: of shares, which never exceed 1, hardly beyond it. */
const topOf = (low: number, high: number, end: number, begin: number): number => (low >= 0 && high <= 1 && end > 1 ? Math.min(end, 1 + 0.04 * (1 - begin)) : end);

/** The range of bars: all values and intervals, of differences with zero. */
export function intervalRange(cells: IntervalCell[]): [number, number] {
  const ends = cells.flatMap((cell) => [cell.low, cell.value, cell.high]).filter(finite);
  if (cells.some((cell) => cell.signed)) ends.push(0);
  if (ends.length === 0) return [0, 1];
  const [low, high] = [Math.min(...ends), Math.max(...ends)];
  const room = (high - low) * 0.04 || Math.abs(high) * 0.05 || 0.5;
  return [low - room, cells.some((cell) => cell.signed) ? high + room : topOf(low, high, high + room, low - room)];
}

/** Whether a difference is more than chance would give: its interval leaves out zero. */
export const significant = (cell: IntervalCell): boolean =>
  cell.signed && finite(cell.low) && finite(cell.high) && (cell.low > 0 || cell.high < 0);
