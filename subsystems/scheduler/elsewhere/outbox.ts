/** Messages for another server, in order, each of them until that server has it. Main thread; a map and a queue. */
import { Queue } from '../queue.ts';

interface Entry<T> {
  readonly key: string;
  readonly item: T;
}

export class Outbox<T> implements Iterable<Entry<T>> {
  readonly #entries = new Map<string, Entry<T>>();
  /** Entries in order; one that was taken since is passed over. */
  #unsent = new Queue<Entry<T>>();

  get size(): number {
    return this.#entries.size;
  }

  add(key: string, item: T): void {
    const entry = { key, item };
    this.#entries.set(key, entry);
    this.#unsent.push(entry);
  }

  /** The other server has it, or nobody needs it any more. Returns undefined if it is not here. */
  take(key: string): T | undefined {
    const entry = this.#entries.get(key);
    if (entry !== undefined) this.#entries.delete(key);
    return entry?.item;
  }

  find(key: string): T | undefined {
    return this.#entries.get(key)?.item;
  }

  /** The entries, from the oldest. */
  [Symbol.iterator](): Iterator<Entry<T>> {
    return this.#entries.values();
  }

  /** Returns the next one to be sent. */
  next(): T | undefined {
    for (let entry = this.#unsent.shift(); entry !== undefined; entry = this.#unsent.shift())
      if (this.#entries.get(entry.key) === entry) return entry.item;
    return undefined;
  }

  /** All are to be sent, from the oldest. */
  repeat(): void {
    this.#unsent = new Queue();
    for (const entry of this.#entries.values()) this.#unsent.push(entry);
  }
}
