/** A stack of pairs of offsets, one pair a field; a record takes a frame of it for as long as it is read. */
export class SpanStack {
  values = new Int32Array(256);
  top = 0;

  /** A frame of `count` pairs, all −1; left by setting `top` to what is returned. */
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
