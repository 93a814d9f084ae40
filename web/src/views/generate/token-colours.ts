/** Colours of the tokens: by log-probability, or by attention. */

import { percent } from "../../core/format";
import { shade } from "../../core/palette";

/** Hues of the two things that shades tell. */
const [LOGPROB_HUE, ATTENTION_HUE] = [58, 215];
/** From here on a word is as surprising as colours can say. */
const LEAST = Math.log(0.001);

/** How surprising a token is, from 0 (certain) to 1 (a chance of 0.1% or less), in even steps of its log-probability. */
export const surprise = (logprob: number): number => Math.min(Math.max(logprob / LEAST, 0), 1);

export const logprobColour = (logprob: number, dark: boolean): string => shade(surprise(logprob), LOGPROB_HUE, dark);

/** Shares from none to the largest there is; by its root, for most words get little. */
export const attentionColour = (share: number, largest: number, dark: boolean): string => shade(Math.sqrt(share / Math.max(largest, 1e-9)), ATTENTION_HUE, dark);

/** Marks of the legend. */
export const MARKS: readonly number[] = [1, 0.3, 0.1, 0.03, 0.01, 0.001];

export const markText = (p: number): string => (p === MARKS.at(-1) ? `≤ ${percent(p)}` : `${100 * p}%`);
