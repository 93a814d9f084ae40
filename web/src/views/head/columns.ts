/** Layout of a column of tokens: one below the other, with a gap between two texts. */

import type { Token } from "../../core/types";

export interface Column {
  /** The tokens that are shown, from top to bottom. */
  tokens: number[];
  /** At which place each token of the side is; −1 where it is not shown. */
  positions: Int32Array;
  /** The upper edge of each place. */
  tops: number[];
  rowHeight: number;
  height: number;
  /** Above which places a text begins, and the letter it goes by; none where there is one text. */
  marks: { top: number; letter: string }[];
}

/** How much of a row is left free before a text. */
const GAP = 0.9;

/** A side's tokens in a column; special tokens only if `special`. */
export function column(tokens: Token[], special: boolean, rowHeight: number): Column {
  const texts = new Set(tokens.map((token) => token.segment).filter((segment) => segment !== null));
  const result: Column = { tokens: [], positions: new Int32Array(tokens.length).fill(-1), tops: [], rowHeight, height: 0, marks: [] };
  let text: number | null = null;
  let y = 0;
  tokens.forEach((token, index) => {
    if (token.special && !special) return;
    // What the tokenizer adds before the first text is with it.
    const begins = text === null ? Math.min(...texts) : token.segment;
    if (texts.size > 1 && begins !== null && begins !== text) {
      result.marks.push({ top: y, letter: String.fromCharCode(65 + begins) });
      y += GAP * rowHeight;
      text = begins;
    }
    result.positions[index] = result.tokens.length;
    result.tokens.push(index);
    result.tops.push(y);
    y += rowHeight;
  });
  result.height = y;
  return result;
}

/** The middle of a token's row; null where it is not shown. */
export function middle(column: Column, token: number): number | null {
  const position = column.positions[token];
  return position === undefined || position < 0 ? null : column.tops[position] + column.rowHeight / 2;
}

/** The places that are, at least in part, between two heights; half open. */
export function between(column: Column, top: number, bottom: number): [first: number, end: number] {
  return [firstWhere(column, (at) => column.tops[at] + column.rowHeight > top), firstWhere(column, (at) => column.tops[at] >= bottom)];
}

/** The token at the place nearest to a height. */
export function nearest(column: Column, height: number): number | null {
  const position = Math.min(firstWhere(column, (at) => column.tops[at] + column.rowHeight > height), column.tokens.length - 1);
  return position < 0 ? null : column.tokens[position];
}

/** The first place for which `reached` holds; it holds for all that follow. */
function firstWhere(column: Column, reached: (position: number) => boolean): number {
  let low = 0;
  let high = column.tokens.length;
  while (low < high) {
    const mid = (low + high) >> 1;
    if (reached(mid)) high = mid;
    else low = mid + 1;
  }
  return low;
}
