/** What a page of reports holds as JSON: reports/page.py writes it. */

import type { VNode } from "preact";
import type { Row } from "./row";

/** A number; one that JSON does not know, as text: NaN, ∞. */
export type Value = number | string | null;

export interface IntervalCell {
  text: string;
  value: Value;
  low: Value;
  high: Value;
  signed: boolean;
  /** Ends of the middle half. */
  box?: [Value, Value];
  /** Drawn as a bar from zero. */
  from_zero?: true;
}

export type Cell = string | IntervalCell;

export interface TableData {
  caption: string;
  headings: string[];
  rows: Cell[][];
  /** Columns that hold words, by number; the others hold numbers. */
  words: number[];
  /** From -1 to 1, of the cells behind a row's heading. */
  shades: Value[][] | null;
  /** The row whose values are marked in the bars of the others. */
  reference: number | null;
  baselines: number[];
  folded: boolean;
  /** A heading, under which folded tables are folded together. */
  under?: string;
  /** A sentence below the caption. */
  note: string;
  /** A command for each row, below its last cell; "": none. */
  commands?: string[];
  /** What the headings of its rows choose in the browser of the page. */
  chooses?: "true" | "group" | "find";
  /** A table to search in, whose rows are groups of lines of the charts: the column of which groups have a mean, and the address of the pages of rows. */
  browse?: { measure: number; address: string };
}

/** Names of rows that are selected, each in the place of its colour; null: a place without one. */
export type Picked = (string | null)[];

export interface LineData {
  name: string;
  group: string;
  x: number[];
  y: Value[];
  low: Value[] | null;
  high: Value[] | null;
  faint: boolean;
  dashed: boolean;
  markers: boolean;
  bars: boolean;
  best: number | null;
}

export interface MarksData {
  name: string;
  group: string;
  at: number[];
  alert: boolean;
}

/** The model that was kept of a place on the x axis. */
export interface SavedModel {
  at: number;
  /** The path of the page with its rows, or "#TITLE" of a part of this one; empty: they were not evaluated. */
  rows: string;
  /** Places of which there is a training state and no rows. */
  states: number[];
  /** Places of training states that were removed later. */
  removed: number[];
  group: string;
}

export interface SeriesData {
  type: "series";
  title: string;
  x_label: string;
  y_label: string;
  log_x: boolean;
  log_y: boolean;
  wide: boolean;
  folded: boolean;
  note: string;
  lines: LineData[];
  marks: MarksData[];
  saved?: SavedModel[];
}

export interface AxisData {
  label: string;
  unit: string;
  log: boolean;
  /** Whether more is better; null: neither. */
  more: boolean | null;
  /** Values that are labelled where there is room for all. */
  ticks?: number[];
}

export interface PointData {
  name: string;
  x: IntervalCell;
  y: IntervalCell;
  size: number | null;
  baseline: boolean;
  /** The number of its group, whose colour it has. */
  group: number | null;
  /** Written next to its dot. */
  mark: string;
}

export interface TradeOffData {
  type: "trade-off";
  title: string;
  x: AxisData;
  y: AxisData;
  points: PointData[];
  groups: string[];
}

export interface MatrixData {
  type: "matrix";
  title: string;
  names: string[];
  /** Rows are true classes, columns predicted ones. */
  counts: number[][];
  unit: "rows" | "words";
}

/** A row; what it has not is left out. */
export interface RowData {
  index: number;
  where: string;
  texts?: [name: string, text: string][];
  /** Each with a tag, instead of texts. */
  words?: string[];
  true?: string[];
  predicted?: string[];
  correct?: boolean;
  loss?: number;
  scores?: [name: string, share: number][];
  /** Of each word; null: it was not evaluated. */
  losses?: (number | null)[];
  values?: [name: string, value: Value][];
  groups?: string[];
  /** Characters of its texts, where these are cut. */
  whole?: number;
  /** What the explorer opens with. */
  look?: string[];
  /** Address of its page in the explorer. */
  page?: string;
  /** By which a correction is known to be of this row; where there is none it cannot be corrected. */
  fingerprint?: string;
}

export interface BrowserData {
  kind: "classes" | "labels" | "number" | "tags" | "texts";
  names: string[];
  grouped_by: string;
  /** That opens the explorer on a row. */
  command: string;
  /** The address of the explorer, where it is served next to the page. */
  explorer: string;
  /** Rows that are shown until one asks for all. */
  first: number | null;
  /** The command that reads corrected labels, after which the path of the sheet comes. */
  review: string;
  /** A sentence, where the predictions are hardly better than chance. */
  doubt: string;
  rows: RowData[];
}

/** What is chosen of the rows of a page; empty: all. */
export interface Choice {
  order: string;
  true: string;
  predicted: string;
  answers: string;
  find: string;
  group: string;
  page: string;
  /** The index of a row that is to be in sight. */
  at: string;
}

export interface PassagesData {
  title: string;
  /** What the texts were made from, folded; empty: nothing. */
  source: string;
  /** parts: a text that has marks, cut where one begins or ends: [text], or [text, note, whether it is strong]. */
  texts: { name: string; text: string; parts: [text: string, note?: string, strong?: boolean][]; reference: boolean }[];
}

export interface ReportData {
  kind: string;
  title: string;
  heading: string;
  finding: string;
  charts: (SeriesData | TradeOffData | MatrixData)[];
  tables: TableData[];
  passages: PassagesData[];
  browser: BrowserData | null;
  remarks: string[];
}

export interface PageData {
  title: string;
  /** Whether the reports are the page, with a bar on top; else they are part of another. */
  page: boolean;
  reports: ReportData[];
}

/** The same as the file has it: the x of a line is the number of an axis, which lists its values, or has them as [[first, distance, how many]]. */
export interface PackedPage extends PageData {
  axes: (number[] | [[number, number, number]])[];
}

/** Draws charts of series into an element; a bundle of its own, which only pages with such charts carry. */
export type DrawSeries = (into: HTMLElement, charts: SeriesData[], groups?: Picked) => () => void;

/** Draws a table to search in, and above it the charts of the rows that are selected. */
export type DrawBrowser = (table: TableData, charts: SeriesData[]) => Element[];

/** Draws a trade-off, with the part that draws the same as a table; a bundle of its own too. */
export type DrawTradeOff = (data: TradeOffData, Grid: (properties: { table: TableData; label: string }) => VNode) => VNode;

/** Draws a matrix; live: its cells choose the rows of a browser. A bundle of its own. */
export type DrawMatrix = (data: MatrixData, live: boolean) => VNode;

/** Corrections of labels, for the browser of rows: a bundle of its own. */
export interface Review {
  /** What can be done with all of them. */
  bar: HTMLElement;
  /** The labels that are proposed. */
  list: HTMLElement;
  /** Opens the fields of a row. */
  button(row: Row, into: () => Element): HTMLElement | null;
}

/** Draws the browser of rows. A bundle of its own. */
export type DrawRows = (data: BrowserData) => VNode;

/** What a served page has for what looks for newer reports. */
export interface Live {
  place: HTMLElement;
  draw(page: PackedPage): void;
  /** The reports that the server has now; tag: those that are there, which are answered by 304. */
  ask(tag: string): Promise<Response>;
  /** Say something above the page, or nothing. */
  tell(...words: (string | Node)[]): void;
  /** Say that the server has ended. */
  lost(): void;
}

/** Draws reports into an element, in the place of what is there. */
export type DrawReport = (place: HTMLElement, page: PackedPage) => void;

/** The buttons that save a card as PNG, SVG and CSV; vector: what is on its canvas, as elements of an SVG in its pixels. */
export type MakeSaves = (title: string, rows: () => TableData | (string | number)[][], vector?: () => string) => HTMLElement;

declare global {
  var glassformerReport: DrawReport | undefined;
  var glassformerLive: ((live: Live, tag: string | null) => void) | undefined;
  var glassformerSaves: MakeSaves | undefined;
  var glassformerSeries: DrawSeries | undefined;
  var glassformerBrowser: DrawBrowser | undefined;
  var glassformerTradeOff: DrawTradeOff | undefined;
  var glassformerMatrix: DrawMatrix | undefined;
  var glassformerSteps: ((place: HTMLElement, saved: SavedModel[], x: number, range: number, label: string) => number) | undefined;
  var glassformerRows: DrawRows | undefined;
  var glassformerReview: ((data: BrowserData, rows: Row[]) => Review) | undefined;
  interface DocumentEventMap {
    /** What is drawn gives way to newer reports. */
    gone: Event;
    /** Rows are to be chosen. */
    choose: CustomEvent<Partial<Choice>>;
    /** Rows were chosen. */
    chosen: CustomEvent<Choice>;
  }
}
