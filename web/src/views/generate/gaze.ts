/** Where the step looked at looked: a pass over the text on screen, and one row of its attention. */

import { computed, type ReadonlySignal, type Signal, signal } from "@preact/signals";
import type { Floats } from "../../core/attention";
import { Kept } from "../../core/kept";
import { type AttentionMap, Refusal, type Session, type Token } from "../../core/types";
import { Pool } from "../matrix/pool";
import type { Scribe } from "./scribe";

interface Asked {
  session: Session;
  map: AttentionMap;
  layer: number;
  /** null = the mean of all heads. */
  head: number | null;
  row: number;
}

/** Keys that one answer may name; to the others goes next to nothing. */
const MOST = 256;

export class Gaze {
  /** The pass over the text on screen; null until it has come, or where nothing asks for it. */
  readonly session: ReadonlySignal<Session | null>;
  /** Of each key its share; null until it has come. */
  readonly shares: ReadonlySignal<Floats | null>;
  /** How far the pass is, in blocks. */
  readonly running: Signal<string | null> = signal(null);
  private passes = new Kept<Session>(4);
  private readonly rows: Pool<Asked, Floats>;
  private asking = new AbortController();

  constructor(private readonly scribe: Scribe) {
    this.session = computed(() => {
      void scribe.news.value;
      const leaf = scribe.path.value.at(-1);
      return leaf ? (this.passes.get(this.key(leaf.id)) ?? null) : null;
    });
    this.rows = new Pool({
      key: ({ session, map, layer, head, row }) => `${session.id}/${map.name}/${layer}/${head}/${row}`,
      ask: (asked, abort) => this.row(asked, abort),
      kept: 64,
      parallel: 2,
      arrived: () => scribe.news.value++,
      refused: (error) => {
        if (!(error instanceof Refusal && error.kind === "gone")) return scribe.refused(error);
        this.passes = new Kept(4); // it is run again when it is wanted next, which is now
        scribe.news.value++;
      },
    });
    this.shares = computed(() => {
      void scribe.news.value;
      const asked = this.asked.value;
      return asked ? (this.rows.get(asked) ?? null) : null;
    });
  }

  get on(): boolean {
    return this.scribe.props.state.value.writing.shades !== "chance";
  }

  /** The maps in which written tokens look. */
  readonly maps: ReadonlySignal<AttentionMap[]> = computed(() => {
    const writing = this.scribe.writing.value;
    return this.scribe.session.maps.filter((map) => map.queries === writing?.side);
  });

  /** The one chosen; where none is, that of what the model read. */
  readonly map: ReadonlySignal<AttentionMap | null> = computed(() => {
    const name = this.scribe.props.state.value.map;
    const maps = this.maps.value;
    return maps.find((map) => map.name === name) ?? maps.find((map) => map.keys !== map.queries) ?? maps[0] ?? null;
  });

  /** The row in which the step looked at was chosen: that of the token before it. */
  readonly place: ReadonlySignal<number | null> = computed(() => {
    const [writing, step] = [this.scribe.writing.value, this.scribe.step.value];
    return writing && step > 0 ? writing.begun + step - 2 : null;
  });

  /** Tokens of which the map has keys. */
  readonly keys: ReadonlySignal<Token[]> = computed(() => {
    const map = this.map.value;
    return (map && (this.session.value ?? this.scribe.session).sides[map.keys]) ?? [];
  });

  private readonly asked: ReadonlySignal<Asked | null> = computed(() => {
    const [session, map, row] = [this.session.value, this.map.value, this.place.value];
    const { layers, heads, writing } = this.scribe.props.state.value;
    if (!session || !map || row === null || row < 0 || !this.on) return null;
    const within = (at: number, size: number) => Math.min(at, size - 1);
    return { session, map, layer: within(layers[0], map.layers), head: writing.shades === "mean" ? null : within(heads[0], map.heads), row };
  });

  /** Ask for what the screen shows: first the pass, then its row. */
  want(): void {
    const { writing, busy, path } = this.scribe;
    const leaf = path.value.at(-1);
    this.rows.want(this.asked.value ? [this.asked.value] : []);
    if (this.on && writing.value && leaf && !busy.value && !this.session.value && this.running.peek() === null) void this.pass();
  }

  /** The pass over the text on screen, run where it has not been. */
  async pass(): Promise<Session | null> {
    const [writing, leaf] = [this.scribe.writing.peek(), this.scribe.path.peek().at(-1)];
    if (!writing || !leaf) return null;
    const kept = this.passes.get(this.key(leaf.id));
    if (kept) return kept;
    this.asking.abort();
    const { signal } = (this.asking = new AbortController());
    this.running.value = "Running the model over this text";
    try {
      const session = await this.scribe.props.transport.attend(writing.id, leaf.id, ({ done, of }) => (this.running.value = `Running the model over this text: block ${done} of ${of}`), signal);
      if (signal.aborted) return null;
      this.passes.set(this.key(leaf.id), session);
      return session;
    } catch (error) {
      if (!signal.aborted) this.refused(error);
      return null;
    } finally {
      if (!signal.aborted) {
        this.running.value = null;
        this.scribe.news.value++;
      }
    }
  }

  /** Nothing of the text before is of use for the next. */
  forget(): void {
    this.close();
    this.running.value = null;
  }

  close(): void {
    this.asking.abort();
    this.rows.close();
  }

  /** Words go back to telling how likely they were. */
  private refused(error: unknown): void {
    this.scribe.note({ shades: "chance" });
    this.scribe.refused(error);
  }

  private key(leaf: number): string {
    return `${this.scribe.writing.value?.id}/${leaf}`;
  }

  private async row({ session, map, layer, head, row }: Asked, abort: AbortSignal): Promise<Floats> {
    const { transport } = this.scribe.props;
    if (head !== null) return (await transport.row(session, map.name, layer, head, row, abort)).probs;
    const keys = session.sides[map.keys].length;
    const heads = Array.from({ length: map.heads }, (_, at) => at);
    const lines = await transport.lines(session, { map: map.name, layers: [layer, layer], heads, mix: "mean", rows: [row, row + 1], count: Math.min(MOST, keys) }, abort);
    const shares = new Float32Array(keys);
    lines.keys.forEach((key, at) => (shares[key] = lines.probs[at]));
    return shares;
  }
}
