/** Messages for another server, in order, each of them until that server has it. Main thread; a map and a queue. */
import { Queue } from '../queue.ts';

export class Outbox<T> {
  readonly #items = new Map<string, T>();
  #unsent = new Queue<string>();

  get size(): number {
    return this.#items.size;
  }

  add(key: string, item: T): void {
    this.#items.set(key, item);
    this.#unsent.push(key);
  }

  /** The other server has it, or nobody needs it any more. Returns undefined if it is not here. */
  take(key: string): T | undefined {
    const item = this.#items.get(key);
    if (item !== undefined) this.#items.delete(key);
    return item;
  }

  /** Returns the next one to be sent. */
  next(): T | undefined {
    for (let key = this.#unsent.shift(); key !== undefined; key = this.#unsent.shift()) {
      const item = this.#items.get(key);
      if (item !== undefined) return item;
    }
    return undefined;
  }

  /** All are to be sent, from the oldest. */
  repeat(): void {
    this.#unsent = new Queue();
    for (const key of this.#items.keys()) this.#unsent.push(key);
  }
}
