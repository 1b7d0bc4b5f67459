/**
 * Finds names of a type's fields or tags by their bytes: a small open-addressed hash table, so that looking up a key
 * makes no string. The hash is the one that Candid uses for names, but of the label: `_123_` is a label like any other.
 *
 * `?? 0` and `?? -1`: used for every byte of a key, in loops that end with the key; slots are masked to the table.
 */
export class KeyTable {
  /** Bytes of each label, in the order given. */
  readonly keys: readonly Uint8Array[];
  readonly #slots: Int32Array;
  readonly #mask: number;

  constructor(labels: readonly string[]) {
    this.keys = labels.map((label) => new Uint8Array(Buffer.from(label, 'utf8')));
    let size = 4;
    while (size < labels.length * 2) size *= 2;
    this.#mask = size - 1;
    this.#slots = new Int32Array(size).fill(-1);
    for (const [index, key] of this.keys.entries()) {
      let slot = hashBytes(key, 0, key.length) & this.#mask;
      while (this.#slots[slot] !== -1) slot = (slot + 1) & this.#mask;
      this.#slots[slot] = index;
    }
  }

  /** Returns the index of the label whose bytes are `bytes[start, end)`, or −1. */
  find(bytes: Uint8Array, start: number, end: number): number {
    let slot = hashBytes(bytes, start, end) & this.#mask;
    for (;;) {
      const index = this.#slots[slot] ?? -1;
      if (index === -1) return -1;
      const key = this.keys[index];
      if (key !== undefined && key.length === end - start && startsWith(bytes, start, key)) return index;
      slot = (slot + 1) & this.#mask;
    }
  }
}

function hashBytes(bytes: Uint8Array, start: number, end: number): number {
  let hash = 0;
  for (let at = start; at < end; at++) hash = (Math.imul(hash, 223) + (bytes[at] ?? 0)) | 0;
  // The low bits of that hash are weak for names with the same ending.
  return hash ^ (hash >>> 15);
}

/** Returns true if `bytes` contains `key` at `start`. */
export function startsWith(bytes: Uint8Array, start: number, key: Uint8Array): boolean {
  for (let index = 0; index < key.length; index++) {
    if (bytes[start + index] !== key[index]) return false;
  }
  return true;
}
