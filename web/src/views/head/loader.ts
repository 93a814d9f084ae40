/** Fetches links in chunks of queries: those on screen first, and none twice. */

import { type ReadonlySignal, type Signal, signal } from "@preact/signals";
import type { LinesQuery, Session, Transport } from "../../core/types";
import type { Chunks } from "./links";

/** What is asked for, whichever the queries. */
export type Asked = Omit<LinesQuery, "rows">;

/** At most so many rows of maps in one answer. */
const ROWS = 4096;
/** Chunks kept. */
const KEPT = 64;
/** Scrolling rests this long, in ms, before anything is fetched. */
const REST = 40;

export interface Loaded {
  asked: Asked;
  chunks: Chunks;
}

export class Loader {
  readonly loaded: ReadonlySignal<Loaded | null>;
  /** Is something on its way for what is on screen? */
  readonly busy: Signal<boolean> = signal(false);
  private readonly current: Signal<Loaded | null> = signal(null);
  private key = "";
  private fetching: { key: string; begin: number; control: AbortController } | null = null;
  private wanted: number[] = [];
  private timer = 0;

  constructor(
    private readonly transport: Transport,
    private readonly session: Session,
    private readonly failed: (error: unknown) => void,
  ) {
    this.loaded = this.current;
  }

  /** How many queries a chunk holds, so that an answer of all maps stays small. */
  static size(asked: Asked): number {
    const maps = (asked.layers[1] - asked.layers[0] + 1) * Math.max(asked.heads.length, 1);
    let rows = 64;
    while (rows > 1 && rows * maps > ROWS) rows /= 2;
    return rows;
  }

  /** These are the queries on screen, the most important first; `total`: how many there are. */
  want(asked: Asked, queries: number[], total: number): void {
    const size = Loader.size(asked);
    const key = JSON.stringify(asked);
    const fresh = key !== this.key;
    this.key = key;
    const have = this.held(key);
    this.wanted = [...new Set(queries.map((query) => query - (query % size)))].filter((begin) => !have?.has(begin));
    if (this.fetching && (this.fetching.key !== key || !this.wanted.includes(this.fetching.begin))) {
      this.fetching.control.abort();
      this.fetching = null;
    }
    this.busy.value = this.wanted.length > 0;
    clearTimeout(this.timer);
    if (!this.fetching && this.wanted.length) this.timer = window.setTimeout(() => void this.next(asked, key, size, total), fresh ? 0 : REST);
  }

  stop(): void {
    clearTimeout(this.timer);
    this.fetching?.control.abort();
    this.fetching = null;
  }

  private held(key: string): Chunks | null {
    const loaded = this.current.peek();
    return loaded && JSON.stringify(loaded.asked) === key ? loaded.chunks : null;
  }

  private async next(asked: Asked, key: string, size: number, total: number): Promise<void> {
    for (let begin = this.wanted[0]; begin !== undefined; begin = this.wanted[0]) {
      const control = new AbortController();
      this.fetching = { key, begin, control };
      try {
        const lines = await this.transport.lines(this.session, { ...asked, rows: [begin, Math.min(begin + size, total)] }, control.signal);
        if (control.signal.aborted) return;
        const chunks = new Map(this.held(key) ?? []).set(begin, lines);
        if (chunks.size > KEPT) chunks.delete(chunks.keys().next().value as number);
        this.wanted = this.wanted.filter((other) => other !== begin);
        this.current.value = { asked, chunks };
      } catch (error) {
        if (control.signal.aborted) return;
        this.wanted = [];
        this.current.value = null;
        this.failed(error);
      }
      this.fetching = null;
    }
    this.busy.value = false;
  }
}
