/** The lens that is read or there, the cell pointed at or pinned, and sentences about it. */

import { computed, type Signal, signal } from "@preact/signals";
import { number, percent, visible } from "../../core/format";
import { cellAt, columnsOf, type Lens, type LensRequest, type ReadingState } from "../../core/readings";
import { type Progress, saidInPlace, type Session, type State, type ViewProps } from "../../core/types";
import { mapOf } from "../../core/url-state";
import * as views from "../../core/views";
import { shadeRange } from "./shade-range";

export type Cell = [row: number, column: number];

/** Columns of the grid that are on screen at a time; of a longer text no others are computed. */
export const PAGE = 64;

/**
 * What is asked of a long text: a page of its columns.
 *
 * @param from Its first column, as far as there are so many after it. Without it: the page with the pinned cell, with the output that Attribution explains, or with the pinned token; else the first, or the last of a model that writes on.
 */
export function requestOf({ reading, query, map }: State, session: Session, from?: number): LensRequest {
  const stream = Object.keys(session.streams).at(-1)!; // the only one, or the target: the head reads it
  const tokens = session.streams[stream].length;
  if (tokens <= PAGE) return { target: reading.follow, first: 0, count: null };
  const pinned = mapOf(session, map).queries === stream ? query : null;
  const writes = session.maps.some((each) => each.causal && each.queries === stream && each.keys === stream);
  const wanted = reading.cell?.[1] ?? (/^\d+$/.test(reading.at) ? Number(reading.at) : pinned) ?? (writes ? tokens - 1 : 0);
  const first = from ?? PAGE * Math.floor(wanted / PAGE);
  return { target: reading.follow, first: Math.max(0, Math.min(first, tokens - PAGE)), count: PAGE };
}

export class LensController {
  readonly lens: Signal<Lens | null> = signal(null);
  readonly progress: Signal<Progress | null> = signal(null);
  readonly problem: Signal<string | null> = signal(null);
  readonly pointed: Signal<Cell | null> = signal(null);
  readonly state = computed(() => this.props.state.value.reading);
  readonly pinned = computed<Cell | null>(() => {
    const [cell, lens] = [this.state.value.cell, this.lens.value];
    return cell && lens && cell[0] < lens.rows.length && this.shows(lens, cell[1]) ? cell : null;
  });
  readonly cell = computed(() => this.pointed.value ?? this.pinned.value);
  /** The probabilities of the palest and of the strongest shade. */
  readonly range = computed<[number, number]>(() => (this.lens.value ? shadeRange(this.lens.value, this.state.value.follow !== null) : [0, 1]));
  private running = new AbortController();

  constructor(readonly props: ViewProps) {}

  /** The columns of the grid: of a head with one output for the text, its labels. */
  columns(lens: Lens): number[] {
    const [first, count] = lens.columns === "text" ? [0, lens.choices] : [lens.first, columnsOf(lens)];
    return Array.from({ length: count }, (_, at) => first + at);
  }

  private shows(lens: Lens, column: number): boolean {
    return this.columns(lens).includes(column);
  }

  /** The column that is told about where no cell is pinned: of the token that is pinned in another view, or the last. */
  usual(lens: Lens): number {
    const { query, map, reading: { at } } = this.props.state.value;
    if (lens.columns === "text") return lens.targets[0]; // the label that is answered
    if (lens.columns === "tokens" && /^\d+$/.test(at) && this.shows(lens, Number(at))) return Number(at); // of the output that Attribution explains
    const here = lens.columns === "tokens" && query !== null && mapOf(this.props.session, map).queries === lens.stream && this.shows(lens, query);
    return here ? query : lens.first + columnsOf(lens) - 1;
  }

  set(change: Partial<ReadingState>): void {
    this.props.set({ reading: { ...this.state.peek(), ...change } });
  }

  /** Read the page from a column on; by default that on screen, or the one with the pinned cell. */
  async load(from?: number): Promise<void> {
    this.stop();
    const { signal } = (this.running = new AbortController());
    this.problem.value = null;
    this.progress.value = { done: 0, of: 0 };
    const { transport, session } = this.props;
    const here = this.state.peek().cell ? undefined : this.lens.peek()?.first;
    const request = requestOf(this.props.state.peek(), session, from ?? here);
    try {
      const lens = await views.lens(transport, session, request, (at) => !signal.aborted && (this.progress.value = at), signal);
      if (signal.aborted) return;
      this.pointed.value = null;
      this.lens.value = lens;
    } catch (error) {
      if (signal.aborted) return;
      this.problem.value = saidInPlace(error, this.props.refuse);
    } finally {
      if (!signal.aborted) this.progress.value = null;
    }
  }

  stop(): void {
    this.running.abort();
    this.progress.value = null;
  }

  /** Pin a cell, and follow its most likely output through all layers; what is pinned already is let go. */
  pin(cell: Cell | null): void {
    const lens = this.lens.peek();
    const same = cell && this.pinned.peek()?.join() === cell.join();
    if (!cell || same || !lens) return this.set({ cell: null, follow: null });
    const follow = lens.kind === "vocabulary" ? this.top(lens, cell)[0].id : this.state.peek().follow;
    this.set({ cell, follow });
  }

  /** The most likely outputs of a cell, the first the most likely. */
  top(lens: Lens, [row, column]: Cell): { id: number; text: string; logprob: number }[] {
    const first = cellAt(lens, row, lens.columns === "text" ? 0 : column) * lens.top;
    return Array.from({ length: lens.top }, (_, i) => {
      const id = lens.ids[first + i];
      return { id, text: lens.outputs.get(id) ?? String(id), logprob: lens.logprobs[first + i] };
    });
  }

  /** The label of a column of the grid, where its columns are labels: its probability in a row. */
  label(lens: Lens, [row, column]: Cell): { text: string; logprob: number; rank: number } {
    const all = this.top(lens, [row, 0]);
    const at = all.findIndex(({ id }) => id === column);
    return { text: lens.outputs.get(column) ?? String(column), logprob: at < 0 ? -Infinity : all[at].logprob, rank: at + 1 };
  }

  /** What a cell shows: its words, and a shade from 0 to 1. */
  shown(lens: Lens, cell: Cell): { text: string; share: number; value: string } {
    if (lens.columns === "text") {
      const { logprob } = this.label(lens, cell);
      return { text: lens.normalised ? percent(Math.exp(logprob)) : number(this.value(lens, cell), 3), share: this.shaded(Math.exp(logprob)), value: number(Math.exp(logprob)) };
    }
    const at = cellAt(lens, ...cell);
    const [best] = this.top(lens, cell);
    const { measure } = this.state.value;
    const p = Math.exp(this.state.value.follow === null ? best.logprob : lens.target_logprobs[at]);
    const [share, value] =
      measure === "probability" ? [this.shaded(p), percent(p)]
      : measure === "rank" ? [1 - Math.log(lens.ranks[at]) / Math.log(Math.max(lens.choices, 2)), `rank ${lens.ranks[at]}`]
      : measure === "kl" ? [1 - Math.min(1, lens.kl[at] / 15), `${number(lens.kl[at], 3)} bits`]
      : [1 - lens.entropy[at] / Math.log2(Math.max(lens.choices, 2)), `${number(lens.entropy[at], 3)} bits`];
    return { text: visible(best.text), share, value };
  }

  private shaded(share: number): number {
    const [low, high] = this.range.peek();
    return Math.min(1, Math.max(0, (share - low) / (high - low)));
  }

  /** The logit of a label, where probabilities mean nothing. */
  private value(lens: Lens, [row, column]: Cell): number {
    const at = this.top(lens, [row, 0]).findIndex(({ id }) => id === column);
    return lens.logits?.[row * lens.top + at] ?? NaN;
  }

  sentence(cell: Cell): string {
    const lens = this.lens.value!;
    const [row, column] = cell;
    if (lens.columns === "text") {
      const { text, logprob, rank } = this.label(lens, cell);
      return `${lens.rows[row]}: ${text} ${number(Math.exp(logprob))}, rank ${rank} of ${lens.choices}`;
    }
    const at = cellAt(lens, row, column);
    const [best] = this.top(lens, cell);
    return `${lens.rows[row]}, ${lens.causal ? "after" : "at"} ${visible(lens.names[column])}: ${visible(best.text)} ${number(Math.exp(best.logprob))}; ${visible(lens.outputs.get(lens.targets[column - lens.first]) ?? "")} has rank ${lens.ranks[at]} of ${lens.choices}`;
  }

  /** From which row on the most likely output is that of the end. */
  settled(lens: Lens, column: number): number {
    const best = (row: number) => lens.ids[cellAt(lens, row, column) * lens.top];
    let row = lens.rows.length - 1;
    while (row > 0 && best(row - 1) === best(lens.rows.length - 1)) row--;
    return row;
  }

  /** Of a reader of passages: the likeliest start and end after a layer, and the likeliest pair in order. */
  span(lens: Lens, row: number): { shares: Float32Array[]; best: number[]; answer: [from: number, to: number]; words: string } {
    const tokens = this.props.session.streams[lens.stream];
    const shares = [0, 1].map((column) => {
      const values = new Float32Array(tokens.length);
      for (const { id, logprob } of this.top(lens, [row, column])) values[id] = Math.exp(logprob);
      return values;
    });
    const best = shares.map((values) => values.indexOf(Math.max(...values)));
    let [answer, most, start]: [[number, number], number, number] = [[best[0], best[1]], -1, 0];
    for (let end = 0; end < tokens.length; end++) {
      if (shares[0][end] > shares[0][start]) start = end; // the likeliest start up to here
      if (shares[0][start] * shares[1][end] > most) [answer, most] = [[start, end], shares[0][start] * shares[1][end]];
    }
    const words = tokens.slice(answer[0], answer[1] + 1).map(({ text, piece, continues }) => `${continues ? "" : " "}${text || piece}`).join("").trim();
    return { shares, best, answer, words };
  }

  finding(lens: Lens = this.lens.peek()!): string {
    if (lens.columns === "span") {
      const { shares, best: [start, end], answer: [from, to], words } = this.span(lens, lens.rows.length - 1);
      const chances = `“${visible(words)}”: ${percent(shares[0][from])} that it starts there, ${percent(shares[1][to])} that it ends there`;
      const name = (at: number) => `“${visible(this.props.session.streams[lens.stream][at].text)}”`;
      return start <= end ? `The answer would be ${chances}.` : `The likeliest start, ${name(start)}, comes after the likeliest end, ${name(end)}. In order the answer would be ${chances}.`;
    }
    const column = lens.columns === "text" ? 0 : this.pinned.peek()?.[1] ?? this.usual(lens);
    const last = this.top(lens, [lens.rows.length - 1, column])[0];
    const where = lens.columns === "tokens" ? ` ${lens.causal ? "after" : "at"} “${visible(lens.names[column])}”` : "";
    return `From ${this.settled(lens, column) === 0 ? "the embedding" : lens.rows[this.settled(lens, column)]} on, the model would say “${visible(last.text)}”${where}: ${percent(Math.exp(last.logprob))} in the end.${lens.doubt && ` ${lens.doubt}`}`;
  }
}
