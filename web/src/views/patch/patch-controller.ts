/** A sweep that runs or is there, the cell pointed at or pinned, and sentences about it. */

import { computed, type Signal, signal } from "@preact/signals";
import { number, visible } from "../../core/format";
import { changesOf, type ClassChange, optionsOf, type PatchState, type Sweep, type SweepRequest } from "../../core/patching";
import { type Progress, saidInPlace, type ViewProps } from "../../core/types";
import { mapOf } from "../../core/url-state";
import { shownOf } from "./geometry";
import * as views from "../../core/views";

/** Multiply-adds of a sweep that runs without being asked for: a few seconds of two cores. */
const AT_ONCE = 2e11;

export class PatchController {
  readonly sweep: Signal<Sweep | null> = signal(null);
  readonly progress: Signal<Progress | null> = signal(null);
  readonly problem: Signal<string | null> = signal(null);
  readonly pointed: Signal<[number, number] | null> = signal(null);
  /** Classes of the pinned cell; null while they are not known. */
  readonly changes: Signal<ClassChange[] | null> = signal(null);
  readonly cell = computed(() => this.pointed.value ?? this.pinned.value);
  readonly pinned = computed(() => {
    const [cell, sweep] = [this.state.value.cell, this.sweep.value];
    return cell && sweep && sweep.components[cell[0]]?.[cell[1]] ? cell : null;
  });
  readonly state = computed(() => this.props.state.value.patch);
  readonly request = computed<SweepRequest>(() => {
    const { patch, map } = this.props.state.value;
    return { ...optionsOf(patch, this.position), kind: patch.kind, map };
  });
  private running = new AbortController();

  constructor(readonly props: ViewProps) {}

  /** The pinned token, at which a model that predicts something at each token is read. */
  get position(): number | null {
    const { query, map } = this.props.state.value;
    const { predicts } = this.props.session.model;
    return predicts === "token" && mapOf(this.props.session, map).queries === this.stream ? query : null;
  }

  /** The stream whose tokens the prediction is read at. */
  get stream(): string {
    const names = Object.keys(this.props.session.streams);
    return names.includes("target") ? "target" : names[0];
  }

  get patches(): number {
    const map = mapOf(this.props.session, this.props.state.value.map);
    const tokens = this.props.session.streams[map.queries].length;
    const { kind } = this.state.value;
    return kind === "heads" ? map.layers * map.heads : (map.layers + (kind === "residual" ? 1 : 0)) * tokens;
  }

  /** Is the sweep small enough to run when its options change? */
  get light(): boolean {
    const { model, streams } = this.props.session;
    const tokens = Math.max(...Object.values(streams).map((tokens) => tokens.length));
    return this.props.transport.host === "page" || this.patches * tokens * model.parameters < AT_ONCE;
  }

  /** Whether something is missing without which there is nothing to run. */
  get incomplete(): string | null {
    return this.state.value.mode === "swap" && !this.state.value.other.trim() ? "Write the text whose activations are put in the place of this one's." : null;
  }

  set(change: Partial<PatchState>): void {
    this.props.set({ patch: { ...this.state.peek(), cell: null, ...change } });
  }

  /** Options have changed: run what is light; what is heavy waits for the button. */
  changed(): void {
    this.stop();
    this.pointed.value = null;
    this.problem.value = null;
    this.sweep.value = null;
    if (!this.incomplete && this.light) void this.run();
  }

  async run(): Promise<void> {
    const { signal } = (this.running = new AbortController());
    this.progress.value = { done: 0, of: this.patches };
    this.problem.value = null;
    try {
      const sweep = await views.sweep(this.props.transport, this.props.session, this.request.peek(), (at) => !signal.aborted && (this.progress.value = at), signal);
      if (signal.aborted) return;
      this.sweep.value = sweep;
      this.props.say(this.finding());
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

  pin(cell: [number, number] | null): void {
    const same = cell && this.pinned.value && cell.join() === this.pinned.value.join();
    const sweep = this.sweep.value, head = !same && cell && sweep?.component_kind === "heads";
    const shown = head ? { layers: [Number(sweep.rows[cell[0]]), Number(sweep.rows[cell[0]])] as [number, number], heads: [Number(sweep.columns[cell[1]])] } : {}; // in the views of one head too
    this.props.set({ patch: { ...this.state.peek(), cell: same ? null : cell }, ...shown });
  }

  /** The classes of the pinned cell: of the sweep, or of a pass of its own. */
  async explain(signal: AbortSignal): Promise<void> {
    const [sweep, cell] = [this.sweep.value, this.pinned.value];
    this.changes.value = null;
    const component = sweep && cell && sweep.components[cell[0]][cell[1]];
    if (!component) return;
    const known = changesOf(sweep, component);
    try {
      const { kind: _, map: __, ...options } = this.request.peek();
      const classes = known ?? (await views.patch(this.props.transport, this.props.session, { components: [component], ...options }, signal)).classes;
      if (!signal.aborted) this.changes.value = classes;
    } catch (error) {
      if (!signal.aborted) this.props.refuse(error);
    }
  }

  /** "layer 3, head 5", "layer 3, “king”". */
  name([row, column]: [number, number]): string {
    const sweep = this.sweep.value!;
    const layer = sweep.rows[row] === "out" ? "the output of the last layer" : `layer ${sweep.rows[row]}`;
    return sweep.component_kind === "heads" ? `${layer}, head ${sweep.columns[column]}` : `${layer}, “${visible(sweep.columns[column])}” (${column})`;
  }

  /** Value and meaning of a cell. */
  reading([row, column]: [number, number]): { shown: number; value: number; rank: number; of: number } {
    const sweep = this.sweep.value!;
    const { values, neutral } = shownOf(sweep);
    const size = (value: number | null) => (value === null ? -1 : Math.abs(value - neutral));
    const all = values.flat().filter((value) => value !== null);
    const own = values[row][column] ?? NaN;
    return { shown: own, value: sweep.values[row][column] ?? NaN, rank: 1 + all.filter((value) => size(value) > size(own)).length, of: all.length };
  }

  sentence(cell: [number, number]): string {
    const { shown, value, rank, of } = this.reading(cell);
    return `${this.name(cell)}: ${this.sweep.value!.normalised ? `${number(shown)} of the way from corrupt to clean` : `changes the ${this.sweep.value!.metric} by ${number(shown)}`}, to ${number(value)}, rank ${rank} of ${of}`;
  }

  /** The cells with the largest effects. */
  strongest(count = 5): [number, number][] {
    const sweep = this.sweep.value!;
    const { values, neutral } = shownOf(sweep);
    return values
      .flatMap((line, row) => line.map((value, column) => ({ cell: [row, column] as [number, number], size: value === null ? -1 : Math.abs(value - neutral) })))
      .filter(({ size }) => size >= 0)
      .sort((a, b) => b.size - a.size)
      .slice(0, count)
      .map(({ cell }) => cell);
  }

  finding(): string {
    const [first] = this.strongest(1);
    return `The largest effect: ${this.sentence(first)}.`;
  }
}
