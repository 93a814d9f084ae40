/** What the shades of the words mean. */

import { percent } from "../../core/format";
import { shade } from "../../core/palette";

/** Hues of the two things that shades tell. */
const [CHANCE, GAZE] = [58, 215];
/** From here on a word is as surprising as colours can say. */
const LEAST = Math.log(0.001);

/** How surprising a token is, from 0 (certain) to 1 (a chance of 0.1% or less), in even steps of its log-probability. */
export const surprise = (logprob: number): number => Math.min(Math.max(logprob / LEAST, 0), 1);

export const chanceColour = (logprob: number, dark: boolean): string => shade(surprise(logprob), CHANCE, dark);

/** Shares from none to the largest there is; by its root, for most words get little. */
export const gazeColour = (share: number, most: number, dark: boolean): string => shade(Math.sqrt(share / Math.max(most, 1e-9)), GAZE, dark);

/** Marks of the legend. */
export const MARKS: readonly number[] = [1, 0.3, 0.1, 0.03, 0.01, 0.001];

export const markText = (p: number): string => (p === MARKS.at(-1) ? `≤ ${percent(p)}` : `${100 * p}%`);
