/** Turns units into the changes of one write of tables: the last operation on a key counts. */
import { PAGE_BYTES } from '../bytes/index.ts';
import { bytesOfLatin1, latin1Of, pageKey, prefixEnd } from './overlay-layer.ts';
import { type Change, FAMILIES, type Family, type TableReader } from './tables.ts';
import type { WriteBatchVisitor } from './write-batch.ts';

export class TableChanges implements WriteBatchVisitor {
  readonly #below: TableReader;
  readonly #changed = new Map<Family, Map<string, Uint8Array | undefined>>();

  constructor(below: TableReader) {
    this.#below = below;
  }

  put(family: Family, key: Uint8Array, value: Uint8Array): void {
    this.#of(family).set(latin1Of(key), value);
  }

  delete(family: Family, key: Uint8Array): void {
    this.#of(family).set(latin1Of(key), undefined);
  }

  clear(family: Family, prefix: Uint8Array): void {
    const changed = this.#of(family);
    const start = latin1Of(prefix);
    for (const key of changed.keys()) if (key.startsWith(start)) changed.delete(key);
    for (const [key] of this.#below.range(family, prefix, prefixEnd(prefix))) changed.set(latin1Of(key), undefined);
  }

  patch(family: Family, id: Uint8Array, page: number, offset: number, bytes: Uint8Array): void {
    const changed = this.#of(family);
    const bytesOfKey = pageKey(id, page);
    const key = latin1Of(bytesOfKey);
    const before = changed.has(key) ? changed.get(key) : this.#below.get(family, bytesOfKey);
    const now = new Uint8Array(PAGE_BYTES);
    if (before !== undefined) now.set(before);
    now.set(bytes, offset);
    changed.set(key, now);
  }

  #of(family: Family): Map<string, Uint8Array | undefined> {
    let changed = this.#changed.get(family);
    if (changed === undefined) {
      changed = new Map<string, Uint8Array | undefined>();
      this.#changed.set(family, changed);
    }
    return changed;
  }

  take(): Change[] {
    return FAMILIES.flatMap((family) =>
      [...this.#of(family)].map(([key, value]) => ({ family, key: bytesOfLatin1(key), value })),
    );
  }
}
