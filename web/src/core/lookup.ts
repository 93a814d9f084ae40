/** Embedding look-up of a token: its row of the table, which is a one-hot row's product with it. */

import type { Session } from "./types";

export interface Lookup {
  /** Number of its row. */
  id: number;
  vocabulary: number;
  width: number;
  /** The first numbers of this row and of its neighbours, by number. */
  rows: Record<string, number[]>;
  /** Have look-up and product the same bits, in all columns? */
  equal: boolean;
  /** Do both give the table the same gradient, in all rows? */
  equal_gradients: boolean;
}

/** Look-ups stored in a page, by stream. */
export type StoredLookups = Record<string, Lookup[]>;

export const isLookedUp = (session: Session, stream: string): boolean => session.lookups.includes(stream);
