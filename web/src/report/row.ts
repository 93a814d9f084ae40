/** A row of the browser of rows, with all that it may have. */

import type { RowData } from "./types";

export interface Row extends Omit<Required<RowData>, "correct" | "loss" | "whole"> {
  correct: boolean | null;
  loss: number | null;
  whole: number | null;
  /** Of the predicted class. */
  confidence: number | null;
  /** What one searches. */
  sought: string;
}

/** The names of the inputs of rows, and the input of a row by its name. */
export const textNames = (rows: Row[]): string[] => [...new Set(rows.flatMap((row) => row.texts.map(([name]) => name)))];
export const textOf = (row: Row, name: string): string => row.texts.find(([each]) => each === name)?.[1] ?? "";
