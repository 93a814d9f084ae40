/** Least-recently-used cache with a budget of sizes. */
export class LRUCache<T> {
  private readonly entries = new Map<string, { value: T; size: number }>(); // a Map keeps the order of insertion
  private size = 0;

  constructor(private readonly budget: number) {}

  get(key: string): T | undefined {
    const entry = this.entries.get(key);
    if (!entry) return undefined;
    this.entries.delete(key);
    this.entries.set(key, entry);
    return entry.value;
  }

  /** Add an entry and evict the least recently used ones. An entry larger than the budget stays until the next one is added. */
  set(key: string, value: T, size = 1): void {
    this.size += size - (this.entries.get(key)?.size ?? 0);
    this.entries.delete(key);
    this.entries.set(key, { value, size });
    for (const [oldest, entry] of this.entries) {
      if (this.size <= this.budget || oldest === key) break;
      this.entries.delete(oldest);
      this.size -= entry.size;
    }
  }
}
