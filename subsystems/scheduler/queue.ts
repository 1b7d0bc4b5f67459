/**
 * First in, first out, in constant time: taking moves nothing, and the taken part is cut off now and then.
 * Main thread: plain data.
 */
export class Queue<T> {
  #items: (T | undefined)[] = [];
  #first = 0;

  get length(): number {
    return this.#items.length - this.#first;
  }

  push(item: T): void {
    this.#items.push(item);
  }

  peek(): T | undefined {
    return this.#items[this.#first];
  }

  shift(): T | undefined {
    if (this.#first === this.#items.length) return undefined;
    const item = this.#items[this.#first];
    this.#items[this.#first++] = undefined;
    if (this.#first > 64 && this.#first * 2 > this.#items.length) {
      this.#items = this.#items.slice(this.#first);
      this.#first = 0;
    }
    return item;
  }

  /** Looks through all of them. */
  some(isWanted: (item: T) => boolean): boolean {
    return this.#items.some((item, at) => at >= this.#first && item !== undefined && isWanted(item));
  }

  /** Takes the first that is wanted out of the middle, in linear time. */
  takeFirst(isWanted: (item: T) => boolean): T | undefined {
    const place = this.#items.findIndex((item, at) => at >= this.#first && item !== undefined && isWanted(item));
    return place < 0 ? undefined : this.#items.splice(place, 1)[0];
  }

  /** Puts items ahead of all others, in their order. */
  putAhead(items: readonly T[]): void {
    this.#items = [...items, ...this.#items.slice(this.#first)];
    this.#first = 0;
  }

  /** Takes everything. */
  takeAll(): T[] {
    const all = this.#items.slice(this.#first) as T[];
    this.#items = [];
    this.#first = 0;
    return all;
  }
}
