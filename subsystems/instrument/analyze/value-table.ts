/** Slots, a power of two; if a function has more different computations than half of that, the rest get new numbers. */
const SLOTS = 8192;
/** Limit on slots that a search looks at: hostile code chooses which computations collide. */
const SLOTS_SEARCHED_MAX = 32;

/**
 * Gives the same number to the same computation on the same values: `a[i]` and `a[i + 1]` get the same base even if a
 * compiler computed their addresses separately.
 */
export class ValueTable {
  readonly #opcode = new Uint16Array(SLOTS);
  readonly #left = new Int32Array(SLOTS);
  readonly #right = new Int32Array(SLOTS);
  readonly #value = new Int32Array(SLOTS);
  /** The function in which a slot was written, so that nothing has to be cleared. */
  readonly #stamp = new Uint32Array(SLOTS);
  #now = 0;
  #used = 0;

  begin(): void {
    this.#now++;
    this.#used = 0;
  }

  /**
   * Returns the value number of `opcode` on two numbers; `fresh` if the computation is new, or not found soon enough.
   */
  find(opcode: number, left: number, right: number, fresh: number): number {
    let slot = (Math.imul(left, 0x9e3779b1) ^ Math.imul(right, 0x85ebca6b) ^ Math.imul(opcode, 0xc2b2ae35)) >>> 0;
    let searched = SLOTS_SEARCHED_MAX;
    for (slot %= SLOTS; this.#stamp[slot] === this.#now; slot = (slot + 1) % SLOTS) {
      if (searched-- === 0) return fresh;
      if (this.#left[slot] === left && this.#right[slot] === right && this.#opcode[slot] === opcode)
        return this.#value[slot] ?? fresh;
    }
    if (this.#used >= SLOTS / 2) return fresh;
    this.#used++;
    this.#stamp[slot] = this.#now;
    this.#opcode[slot] = opcode;
    this.#left[slot] = left;
    this.#right[slot] = right;
    this.#value[slot] = fresh;
    return fresh;
  }
}
