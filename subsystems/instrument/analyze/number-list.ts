/** Growing lists of numbers, one for a whole module: no array and no object per function, block or call. */
export class Uint32List {
  values = new Uint32Array(1024);
  length = 0;

  push(value: number): void {
    if (this.length === this.values.length) {
      const grown = new Uint32Array(this.length * 2);
      grown.set(this.values);
      this.values = grown;
    }
    this.values[this.length++] = value;
  }

  /** Returns the number at the index. Uses `?? 0` for the reason given in block-pass.ts. */
  at(index: number): number {
    return this.values[index] ?? 0;
  }
}
