/**
 * A set of page numbers, one bit for each; iterates in ascending order.
 * Executor thread: plain data of one owner. `?? 0`: a page without a word is not in the set.
 */
export class PageSet {
  #words = new Uint32Array(0);
  /** All words before this one are 0. */
  #firstWord = 0;
  #size = 0;

  get size(): number {
    return this.#size;
  }

  add(page: number): void {
    const at = page >>> 5;
    if (at >= this.#words.length) {
      const larger = new Uint32Array(Math.max(this.#words.length * 2, at + 1, 32));
      larger.set(this.#words);
      this.#words = larger;
    }
    const bit = 1 << (page & 31);
    if (at < this.#firstWord) this.#firstWord = at;
    const word = this.#words[at] ?? 0;
    if ((word & bit) !== 0) return;
    this.#words[at] = word | bit;
    this.#size++;
  }

  has(page: number): boolean {
    return ((this.#words[page >>> 5] ?? 0) & (1 << (page & 31))) !== 0;
  }

  /** Removes up to `count` pages, and returns them. */
  take(count: number): number[] {
    const taken: number[] = [];
    for (let at = this.#firstWord; at < this.#words.length && taken.length < count; at++) {
      let rest = this.#words[at] ?? 0;
      for (; rest !== 0 && taken.length < count; rest &= rest - 1)
        taken.push(at * 32 + (31 - Math.clz32(rest & -rest)));
      this.#words[at] = rest;
      this.#firstWord = at;
    }
    this.#size -= taken.length;
    return taken;
  }

  clear(): void {
    this.#firstWord = 0;
    this.#words = new Uint32Array(0);
    this.#size = 0;
  }

  *[Symbol.iterator](): Generator<number> {
    for (const [at, word] of this.#words.entries()) {
      for (let rest = word; rest !== 0; rest &= rest - 1) yield at * 32 + (31 - Math.clz32(rest & -rest));
    }
  }
}
