/** Loader of attention links in chunks of queries: those on screen first, and none twice. */

import { type ReadonlySignal, type Signal, signal } from "@preact/signals";
import type { LinesQuery, Session, Transport } from "../../core/types";
import type { Chunks } from "./links";
import * as views from "../../core/views";

/** What is asked for, whichever the queries. */
export type LinesRequest = Omit<LinesQuery, "rows">;

/** At most this many rows of maps in one answer. */
const ROWS = 4096;
/** Chunks kept. */
const CACHE_SIZE = 64;
/** Scrolling rests this long, in ms, before anything is fetched. */
const REST = 40;

export interface Loaded {
  request: LinesRequest;
  chunks: Chunks;
}

export class Loader {
  readonly loaded: ReadonlySignal<Loaded | null>;
  /** Is something on its way for what is on screen? */
  readonly busy: Signal<boolean> = signal(false);
  private readonly current: Signal<Loaded | null> = signal(null);
  private key = "";
  private fetching: { key: string; begin: number; control: AbortController } | null = null;
  private missing: number[] = [];
  private timer = 0;

  constructor(
    private readonly transport: Transport,
    private readonly session: Session,
    private readonly failed: (error: unknown) => void,
  ) {
    this.loaded = this.current;
  }

  /** How many queries a chunk holds, so that an answer of all maps stays small. */
  static size(request: LinesRequest): number {
    const maps = (request.layers[1] - request.layers[0] + 1) * Math.max(request.heads.length, 1);
    let rows = 64;
    while (rows > 1 && rows * maps > ROWS) rows /= 2;
    return rows;
  }

  /** These are the queries on screen, the most important first; `total`: how many there are. */
  want(request: LinesRequest, queries: number[], total: number): void {
    const size = Loader.size(request);
    const key = JSON.stringify(request);
    const fresh = key !== this.key;
    this.key = key;
    const have = this.cached(key);
    this.missing = [...new Set(queries.map((query) => query - (query % size)))].filter((begin) => !have?.has(begin));
    if (this.fetching && (this.fetching.key !== key || !this.missing.includes(this.fetching.begin))) {
      this.fetching.control.abort();
      this.fetching = null;
    }
    this.busy.value = this.missing.length > 0;
    clearTimeout(this.timer);
    if (!this.fetching && this.missing.length) this.timer = window.setTimeout(() => void this.next(request, key, size, total), fresh ? 0 : REST);
  }

  stop(): void {
    clearTimeout(this.timer);
    this.fetching?.control.abort();
    this.fetching = null;
  }

  private cached(key: string): Chunks | null {
    const loaded = this.current.peek();
    return loaded && JSON.stringify(loaded.request) === key ? loaded.chunks : null;
  }

  private async next(request: LinesRequest, key: string, size: number, total: number): Promise<void> {
    for (let begin = this.missing[0]; begin !== undefined; begin = this.missing[0]) {
      const control = new AbortController();
      this.fetching = { key, begin, control };
      try {
        const lines = await views.lines(this.transport, this.session, { ...request, rows: [begin, Math.min(begin + size, total)] }, control.signal);
        if (control.signal.aborted) return;
        const chunks = new Map(this.cached(key) ?? []).set(begin, lines);
        if (chunks.size > CACHE_SIZE) chunks.delete(chunks.keys().next().value as number);
        this.missing = this.missing.filter((other) => other !== begin);
        this.current.value = { request, chunks };
      } catch (error) {
        if (control.signal.aborted) return;
        this.missing = [];
        this.current.value = null;
        this.failed(error);
      }
      this.fetching = null;
    }
    this.busy.value = false;
  }
}
