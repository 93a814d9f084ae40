/** State of the embeddings view: the map, the places on screen, what is pinned and selected; projections under way. */

import { batch, computed, effect, type ReadonlySignal, type Signal, signal } from "@preact/signals";
import { type Classes, type EmbeddingMap, type EmbeddingSource, normalised, pointName, type Places } from "../../core/embedding";
import { type EmbeddingState, METHOD_NAMES } from "../../core/embedding-state";
import { mapOf } from "../../core/url-state";
import type { Progress, ViewProps } from "../../core/types";

/** Up to this many points times levels, a projection is computed for all levels at once. */
const AT_ONCE = 3000;
const NONE: Classes = { names: ["all"], of: [] };

export class EmbeddingController {
  readonly map: Signal<EmbeddingMap | null> = signal(null);
  readonly problem: Signal<string | null> = signal(null);
  /** Of a projection under way. */
  readonly progress: Signal<Progress | null> = signal(null);
  readonly hovered: Signal<number> = signal(-1);
  readonly selection: Signal<number[]> = signal([]);
  readonly lassoing: Signal<boolean> = signal(false);
  readonly playing: Signal<boolean> = signal(false);
  readonly tabled: Signal<boolean> = signal(false);
  /** Classes that are hidden, by number. */
  readonly hidden: Signal<ReadonlySet<number>> = signal(new Set());
  readonly neighbours: Signal<{ point: number; list: [number, number][]; problem: string | null } | null> = signal(null);
  /** What is on screen: places within ±1; null while there are none. */
  readonly places: Signal<Places | null> = signal(null);
  readonly state: ReadonlySignal<EmbeddingState>;
  readonly level: ReadonlySignal<number>;
  readonly classes: ReadonlySignal<Classes>;
  readonly by: ReadonlySignal<string>;

  private readonly projections = new Map<string, Places>();
  private readonly source: EmbeddingSource;
  private running = new AbortController();
  private asking = new AbortController();
  private readonly ends: (() => void)[] = [];

  constructor(readonly props: ViewProps) {
    const { session, state } = props;
    this.source = props.transport.embeddings(session, mapOf(session, state.peek().map).queries);
    this.state = computed(() => state.value.embedding);
    this.level = computed(() => Math.min(this.state.value.level ?? Infinity, (this.map.value?.levels.length ?? 1) - 1));
    this.by = computed(() => {
      const names = Object.keys(this.map.value?.classes ?? {});
      return names.includes(this.state.value.by) || this.state.value.by === "none" ? this.state.value.by : (names[0] ?? "none");
    });
    this.classes = computed(() => this.map.value?.classes[this.by.value] ?? { ...NONE, of: new Array(this.map.value?.points ?? 0).fill(0) });
    this.ends.push(effect(() => void this.show()), effect(() => void this.findNeighbours()), effect(() => {
      void this.by.value;
      this.hidden.value = new Set();
    }));
    void this.load();
  }

  get pinned(): number | null {
    const point = this.state.value.point;
    return point !== null && point < (this.map.value?.points ?? 0) ? point : null;
  }

  set(change: Partial<EmbeddingState>): void {
    this.props.set({ embedding: { ...this.props.state.peek().embedding, ...change } });
  }

  pin(point: number | null): void {
    this.set({ point });
    if (point !== null && point >= 0) this.props.say(this.sentence(point));
  }

  select(points: number[]): void {
    this.selection.value = points;
    this.props.say(points.length ? `${points.length} of ${this.map.peek()!.points} points are selected.` : "Nothing is selected.");
  }

  setLevel(level: number): void {
    const map = this.map.peek();
    if (!map || level < 0 || level >= map.levels.length) return;
    this.set({ level: level === map.levels.length - 1 ? null : level });
    this.props.say(map.levels[level]);
  }

  /** The projections that can be chosen: in a file, those that it holds. */
  available(method: EmbeddingState["method"]): boolean {
    const map = this.map.value;
    if (method === "pca" || !map || !this.source.stored) return true;
    return this.source.stored(map).some((name) => name.startsWith(`${method}/`));
  }

  /** Can perplexity and neighbours be chosen? A file holds one projection. */
  get adjustable(): boolean {
    return this.source.stored === null;
  }

  cancel(): void {
    this.running.abort();
    this.progress.value = null;
    this.set({ method: "pca" });
    this.props.say("The projection was cancelled.");
  }

  /** A point in words. */
  sentence(point: number): string {
    const map = this.map.peek()!;
    const { names, of } = this.classes.peek();
    const group = this.by.peek() === "none" ? "" : `, ${names[of[point]]}`;
    if (map.kind === "tokens") return `${pointName(map, point)}: ${map.texts[point]}`;
    return `point ${point} of ${map.points}${group}: ${map.texts[point]}`;
  }

  close(): void {
    this.running.abort();
    this.asking.abort();
    for (const end of this.ends) end();
  }

  private async load(): Promise<void> {
    try {
      const map = await this.source.map(this.running.signal);
      batch(() => (this.map.value = map));
      this.props.say(`${map.title}: a map of ${map.points} points`);
      // of a corpus: the tab of the browser would name its first text alone
      if (map.kind !== "tokens") document.title = `${map.title} · ${this.props.session.model.name} · Embeddings`;
    } catch (error) {
      this.fail(error);
    }
  }

  /** Put the places of the state on screen; a projection that is not there yet is computed. */
  private async show(): Promise<void> {
    const map = this.map.value;
    const level = this.level.value;
    const { method, perplexity, neighbours } = this.state.value;
    if (!map) return;
    const key = (at: number) => `${method}/${at}/${perplexity}/${neighbours}`;
    const there = method === "pca" ? map.pca[level] : this.projections.get(key(level));
    this.running.abort();
    if (there) {
      batch(() => {
        this.progress.value = null;
        this.problem.value = null;
        this.places.value = normalised(there);
      });
      return;
    }
    const { signal } = (this.running = new AbortController());
    const stored = this.source.stored?.(map);
    const all = !stored && map.points * map.levels.length <= AT_ONCE ? map.levels.map((_, at) => at).filter((at) => map.explained[at][0] > 0) : [level];
    this.progress.value = { done: 0, of: 0 };
    try {
      const places = await this.source.project({ method, levels: all.includes(level) ? all : [level], perplexity, neighbours, min_dist: 0.1, seed: 0 }, (at) => {
        if (!signal.aborted) this.progress.value = at;
      }, signal);
      if (signal.aborted) return;
      places.forEach((each, at) => this.projections.set(key(all.includes(level) ? all[at] : level), each));
      batch(() => {
        this.progress.value = null;
        this.problem.value = null;
        this.places.value = normalised(this.projections.get(key(level))!);
      });
      this.props.say(`${METHOD_NAMES[method]} of ${map.levels[level]} is on screen.`);
    } catch (error) {
      if (!signal.aborted) this.fail(error);
    }
  }

  private async findNeighbours(): Promise<void> {
    const point = this.pinned;
    const level = this.level.value;
    this.asking.abort();
    if (point === null) {
      this.neighbours.value = null;
      return;
    }
    const { signal } = (this.asking = new AbortController());
    try {
      const list = await this.source.neighbours(point, level, signal);
      if (!signal.aborted) this.neighbours.value = { point, list, problem: null };
    } catch (error) {
      if (!signal.aborted) this.neighbours.value = { point, list: [], problem: error instanceof Error ? error.message : String(error) };
    }
  }

  private fail(error: unknown): void {
    if (error instanceof DOMException && error.name === "AbortError") return;
    batch(() => {
      this.progress.value = null;
      this.problem.value = error instanceof Error ? error.message : String(error);
    });
    this.props.say(this.problem.value!);
  }
}
