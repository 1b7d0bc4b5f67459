/** Rows of a block: few enough that hardly any lie idle, enough that a block's own objects do not count. */
const BLOCK_ROWS = 256;

/** `width` numbers at `at` of a block that has many rows. */
interface NumberRow {
  readonly block: Float64Array;
  readonly at: number;
}

/**
 * Numbers of very many objects, a row for each: 8 bytes a number, where an object's field takes 24 as soon as it has
 * held anything but a small integer.
 */
export class NumberRows {
  readonly #width: number;
  readonly #free: NumberRow[] = [];

  constructor(width: number) {
    this.#width = width;
  }

  /** A row of zeros. */
  take(): NumberRow {
    if (this.#free.length === 0) {
      const block = new Float64Array(BLOCK_ROWS * this.#width);
      for (let row = BLOCK_ROWS - 1; row >= 0; row--) this.#free.push({ block, at: row * this.#width });
    }
    return this.#free.pop() ?? this.take();
  }

  /** Somebody else gets it: what goes on to use the numbers has them in the row that this returns. */
  free({ block, at }: NumberRow): NumberRow {
    const own = block.slice(at, at + this.#width);
    block.fill(0, at, at + this.#width);
    this.#free.push({ block, at });
    return { block: own, at: 0 };
  }
}
