/** Number formatting. */

const MINUS = "\u2212";

/** A number with this many significant digits and a real minus sign: 0.4107, −12.30, 3.2e−7. */
export function number(x: number, digits = 4): string {
  if (Number.isNaN(x)) return "not a number";
  if (!Number.isFinite(x)) return x > 0 ? "∞" : `${MINUS}∞`;
  if (x === 0) return "0";
  const size = Math.abs(x);
  const text = size >= 1e-4 && size < 1e6 ? plain(x, digits) : x.toExponential(digits - 1);
  return text.replace(/-/g, MINUS);
}

function plain(x: number, digits: number): string {
  const before = Math.floor(Math.log10(Math.abs(Number(x.toPrecision(digits))))) + 1;
  return x.toFixed(Math.max(digits - before, 0));
}

/** A share as a percentage: 41%, 4.1%, 0.04%; below 100% it is 99.6% or >99.9%, but for what is all within 1e-6. */
export function percent(p: number): string {
  const x = 100 * p;
  if (x === 0) return "0%";
  if (x < 0.01) return "<0.01%";
  if (x >= 99.5 && p < 1 - 1e-6) return x < 99.95 ? `${x.toFixed(1)}%` : ">99.9%";
  return `${x >= 9.95 ? x.toFixed(0) : x.toFixed(x >= 0.095 ? 1 : 2)}%`;
}

/** A message as a sentence; a path or a name that it begins with, such as `runs/mood:`, stays as it is. */
export const sentence = (text: string): string => `${/^\S*(?:[/\\._]|:\s)/.test(text) ? text : capital(text)}${/[.!?…]$/.test(text) ? "" : "."}`;

/** A whole number with commas between thousands: 22,713,216. */
export function count(n: number): string {
  return String(Math.round(n)).replace(/\B(?=(\d{3})+$)/g, ",");
}

/** "1 head", "2 heads". */
export function plural(n: number, one: string, many = `${one}s`): string {
  return `${count(n)} ${n === 1 ? one : many}`;
}

/** The place of values[index] among all, the largest first; equals share the better place. Counted from 1. */
export function rank(values: ArrayLike<number>, index: number): number {
  let position = 1;
  for (let i = 0; i < values.length; i++) if (values[i] > values[index]) position++;
  return position;
}

export const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

/** Is a sentence longer than the three lines that a phone shows of it? */
export const foldable = (text: string): boolean => text.length > 120;

/** A size of memory: 812 B, 3.4 MB. */
export function bytes(n: number): string {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  for (; n >= 1000 && unit < units.length - 1; unit++) n /= 1000;
  return `${unit === 0 || n >= 100 ? n.toFixed(0) : n.toFixed(1)} ${units[unit]}`;
}

/** A token for the eye: without the space before it, white space as a sign, and never empty. */
export function visible(text: string): string {
  const shown = text.trim() || text.replace(/\n/g, "↵").replace(/\t/g, "⇥").replace(/\s/g, "␣");
  return shown === "" ? "∅" : shown;
}

/** About how long something takes: 40 s, 3 min. */
export const duration = (seconds: number): string => (seconds <= 90 ? `${Math.ceil(seconds)} s` : `${Math.ceil(seconds / 60)} min`);

/** 1:02:03.4; of short recordings 2:03.40 */
export function clock(seconds: number, digits = 2): string {
  const whole = Math.max(seconds, 0);
  const hours = Math.floor(whole / 3600);
  const minutes = Math.floor(whole / 60) % 60;
  const rest = (whole % 60).toFixed(digits).padStart(digits ? digits + 3 : 2, "0");
  return hours ? `${hours}:${String(minutes).padStart(2, "0")}:${rest}` : `${minutes}:${rest}`;
}

/** The numbers of a model: "float32"; of weights that are levels "int8 weights, float32". */
export const precision = ({ dtype, levels }: { dtype: string; levels: string | null }): string => (levels ? `${levels} weights, ${dtype}` : dtype);
