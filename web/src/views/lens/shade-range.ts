/** The range of probabilities that the shades of a lens span. */

import { percent } from "../../core/format";
import type { Lens } from "../../core/readings";

/** The least width of the range of shades of labels: what differs by less than this is not drawn as different. */
const LEAST_RANGE = 0.005;

/** The probabilities of the palest and of the strongest shade: 0 and 1, or, where the grid has less than half of that, those it has. */
export function shadeRange(lens: Lens, followed: boolean): [low: number, high: number] {
  const labels = lens.columns === "text";
  const all = labels ? lens.logprobs : followed ? lens.target_logprobs : lens.logprobs.filter((_, at) => at % lens.top === 0);
  let [low, high] = [1, 0];
  for (const each of all) [low, high] = [Math.min(low, Math.exp(each)), Math.max(high, Math.exp(each))];
  if (!labels) low = 0;
  if (all.length === 0 || high - low >= 0.5) return [0, 1];
  if (!labels) return [0, Number(high.toPrecision(1)) >= high ? Number(high.toPrecision(1)) : high];
  const middle = (low + high) / 2, half = Math.max(high - low, LEAST_RANGE) / 2;
  return [Math.max(0, Math.floor(1000 * (middle - half) + 1e-3) / 1000), Math.min(1, Math.ceil(1000 * (middle + half) - 1e-3) / 1000)];
}

/** The ends of a range of shades in words; with a decimal, where it is narrow. */
export const rangeWords = ([low, high]: [number, number]): string[] => [low, high].map((end) => (high - low < 0.1 && low > 0 ? `${(100 * end).toFixed(1)}%` : percent(end)));
