/** Request pool: runs the requests that are needed now, caches their results, and aborts those no longer needed. */

import { LRUCache } from "../../core/lru-cache";

export interface PoolOptions<Query, Answer> {
  key(query: Query): string;
  ask(query: Query, signal: AbortSignal): Promise<Answer>;
  /** How many answers are kept; the one not looked at for longest goes first. */
  cached: number;
  /** How many questions are open at a time. */
  parallel: number;
  arrived(query: Query, answer: Answer): void;
  handleError(error: unknown): void;
}

export class RequestPool<Query, Answer> {
  readonly #kept: LRUCache<Answer>;
  #open = new Map<string, AbortController>();
  #waiting: Query[] = [];
  /** Refused once: not asked again until it was unwanted in between. */
  #refused = new Set<string>();

  constructor(readonly options: PoolOptions<Query, Answer>) {
    this.#kept = new LRUCache(options.cached);
  }

  get(query: Query): Answer | undefined {
    return this.#kept.get(this.options.key(query));
  }

  /** These are wanted now, the most urgent first, and no others. */
  want(queries: Query[]): void {
    const queue = new Map(queries.map((query) => [this.options.key(query), query]));
    for (const [key, abort] of this.#open)
      if (!queue.has(key)) {
        abort.abort();
        this.#open.delete(key);
      }
    for (const key of this.#refused) if (!queue.has(key)) this.#refused.delete(key);
    this.#waiting = [...queue].filter(([key]) => !this.#kept.get(key) && !this.#open.has(key) && !this.#refused.has(key)).map(([, query]) => query);
    this.#next();
  }

  /** Nothing is wanted any more. */
  close(): void {
    this.want([]);
  }

  #next(): void {
    while (this.#open.size < this.options.parallel && this.#waiting.length) {
      const query = this.#waiting.shift()!;
      void this.#ask(this.options.key(query), query);
    }
  }

  async #ask(key: string, query: Query): Promise<void> {
    const abort = new AbortController();
    this.#open.set(key, abort);
    try {
      const answer = await this.options.ask(query, abort.signal);
      if (abort.signal.aborted) return;
      this.#kept.set(key, answer);
      this.options.arrived(query, answer);
    } catch (error) {
      if (abort.signal.aborted) return;
      this.#refused.add(key);
      this.options.handleError(error);
    } finally {
      if (this.#open.get(key) === abort) this.#open.delete(key);
    }
    this.#next();
  }
}
