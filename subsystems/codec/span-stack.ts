/** A stack of pairs of offsets, one pair for each field; a record occupies a frame of it while it is read. */
export class SpanStack {
  values = new Int32Array(256);
  top = 0;

  /** Pushes a frame of `count` pairs, all −1; to be left by setting `top` to the returned number. */
  push(count: number): number {
    const base = this.top;
    this.top = base + 2 * count;
    if (this.top > this.values.length) {
      const grown = new Int32Array(Math.max(this.top, this.values.length * 2));
      grown.set(this.values);
      this.values = grown;
    }
    if (count > 16) this.values.fill(-1, base, this.top);
    else for (let index = base; index < this.top; index++) this.values[index] = -1;
    return base;
  }
}
