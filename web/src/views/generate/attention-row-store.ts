/** Attention of the selected step: a session over the text on screen, and one row of its attention. */

import { computed, type ReadonlySignal, type Signal, signal } from "@preact/signals";
import type { Floats } from "../../core/attention";
import { LRUCache } from "../../core/lru-cache";
import { type AttentionMap, UserError, type Session, type Token } from "../../core/types";
import { RequestPool } from "../matrix/request-pool";
import type { GenerationStore } from "./generation-store";
import * as views from "../../core/views";

interface RowRequest {
  session: Session;
  map: AttentionMap;
  layer: number;
  /** null = the mean of all heads. */
  head: number | null;
  row: number;
}

/** Maximum number of keys in one response; the others get next to no attention. */
const MAX_KEYS = 256;

export class AttentionRowStore {
  /** The session over the text on screen; null until it has been loaded. */
  readonly session: ReadonlySignal<Session | null>;
  /** Attention probability of each key; null until loaded. */
  readonly probs: ReadonlySignal<Floats | null>;
  /** Progress message of the forward pass; null when none is running. */
  readonly progress: Signal<string | null> = signal(null);
  private sessions = new LRUCache<Session>(4);
  private readonly rows: RequestPool<RowRequest, Floats>;
  private abortController = new AbortController();

  constructor(private readonly store: GenerationStore) {
    this.session = computed(() => {
      void store.version.value;
      const leaf = store.path.value.at(-1);
      return leaf ? (this.sessions.get(this.key(leaf.id)) ?? null) : null;
    });
    this.rows = new RequestPool({
      key: ({ session, map, layer, head, row }) => `${session.id}/${map.name}/${layer}/${head}/${row}`,
      ask: (request, abort) => this.fetchRow(request, abort),
      cached: 64,
      parallel: 2,
      arrived: () => store.version.value++,
      handleError: (error) => {
        if (!(error instanceof UserError && error.kind === "gone")) return store.handleError(error);
        this.sessions = new LRUCache(4); // it is run again when it is wanted next, which is now
        store.version.value++;
      },
    });
    this.probs = computed(() => {
      void store.version.value;
      const request = this.request.value;
      return request ? (this.rows.get(request) ?? null) : null;
    });
  }

  get enabled(): boolean {
    return this.store.props.state.value.generation.shades !== "chance";
  }

  /** The attention maps whose queries are the generated tokens. */
  readonly maps: ReadonlySignal<AttentionMap[]> = computed(() => {
    const trace = this.store.trace.value;
    return this.store.session.maps.filter((map) => map.queries === trace?.stream);
  });

  /** The one chosen; where none is, that of what the model read. */
  readonly map: ReadonlySignal<AttentionMap | null> = computed(() => {
    const name = this.store.props.state.value.map;
    const maps = this.maps.value;
    return maps.find((map) => map.name === name) ?? maps.find((map) => map.keys !== map.queries) ?? maps[0] ?? null;
  });

  /** The row in which the step looked at was chosen: that of the token before it. */
  readonly row: ReadonlySignal<number | null> = computed(() => {
    const [trace, step] = [this.store.trace.value, this.store.step.value];
    return trace && step > 0 ? trace.prefix_length + step - 2 : null;
  });

  /** Tokens of which the map has keys. */
  readonly keys: ReadonlySignal<Token[]> = computed(() => {
    const map = this.map.value;
    return (map && (this.session.value ?? this.store.session).streams[map.keys]) ?? [];
  });

  private readonly request: ReadonlySignal<RowRequest | null> = computed(() => {
    const [session, map, fetchRow] = [this.session.value, this.map.value, this.row.value];
    const { layers, heads, generation: trace } = this.store.props.state.value;
    if (!session || !map || fetchRow === null || fetchRow < 0 || !this.enabled) return null;
    const clamp = (at: number, size: number) => Math.min(at, size - 1);
    return { session, map, layer: clamp(layers[0], map.layers), head: trace.shades === "mean" ? null : clamp(heads[0], map.heads), row: fetchRow };
  });

  /** Ask for what the screen shows: first the pass, then its row. */
  load(): void {
    const { trace, busy, path } = this.store;
    const leaf = path.value.at(-1);
    this.rows.want(this.request.value ? [this.request.value] : []);
    if (this.enabled && trace.value && leaf && !busy.value && !this.session.value && this.progress.peek() === null) void this.pass();
  }

  /** The pass over the text on screen, run where it has not been. */
  async pass(): Promise<Session | null> {
    const [trace, leaf] = [this.store.trace.peek(), this.store.path.peek().at(-1)];
    if (!trace || !leaf) return null;
    const cached = this.sessions.get(this.key(leaf.id));
    if (cached) return cached;
    this.abortController.abort();
    const { signal } = (this.abortController = new AbortController());
    this.progress.value = "Running the model over this text";
    try {
      const session = await this.store.props.transport.attend(trace.id, leaf.id, ({ done, of }) => (this.progress.value = `Running the model over this text: block ${done} of ${of}`), signal);
      if (signal.aborted) return null;
      this.sessions.set(this.key(leaf.id), session);
      return session;
    } catch (error) {
      if (!signal.aborted) this.refused(error);
      return null;
    } finally {
      if (!signal.aborted) {
        this.progress.value = null;
        this.store.version.value++;
      }
    }
  }

  /** Nothing of the text before is of use for the next. */
  reset(): void {
    this.close();
    this.progress.value = null;
  }

  close(): void {
    this.abortController.abort();
    this.rows.close();
  }

  /** Words go back to telling how likely they were. */
  private refused(error: unknown): void {
    this.store.updateState({ shades: "chance" });
    this.store.handleError(error);
  }

  private key(leaf: number): string {
    return `${this.store.trace.value?.id}/${leaf}`;
  }

  private async fetchRow({ session, map, layer, head, row }: RowRequest, abort: AbortSignal): Promise<Floats> {
    const { transport } = this.store.props;
    if (head !== null) return (await views.row(transport, session, map.name, layer, head, row, abort)).probs;
    const keys = session.streams[map.keys].length;
    const heads = Array.from({ length: map.heads }, (_, at) => at);
    const lines = await views.lines(transport, session, { map: map.name, layers: [layer, layer], heads, mix: "mean", rows: [row, row + 1], count: Math.min(MAX_KEYS, keys) }, abort);
    const shares = new Float32Array(keys);
    lines.keys.forEach((key, at) => (shares[key] = lines.probs[at]));
    return shares;
  }
}
