import { assert } from '../../kernel/index.ts';
import { FAMILIES, type Change, type Entry, type Family, type TableReader, type Tables } from './tables.ts';

/** Tables in memory: for tests and the simulator. Nothing outlives them, so `isSynced` has no meaning. */
export class MemoryTables implements Tables {
  readonly #families: Record<Family, SortedEntries>;
  #isClosed = false;

  constructor(families: Record<Family, SortedEntries> = byFamily(() => new SortedEntries())) {
    this.#families = families;
  }

  /** Returns tables with a copy of everything that a reader has. */
  static copyOf(reader: TableReader): MemoryTables {
    return new MemoryTables(
      byFamily((family) => new SortedEntries([...reader.range(family, new Uint8Array(0), undefined)])),
    );
  }

  get(family: Family, key: Uint8Array): Uint8Array | undefined {
    return this.#entries(family).get(key);
  }

  getMany(family: Family, keys: readonly Uint8Array[]): (Uint8Array | undefined)[] {
    const entries = this.#entries(family);
    return keys.map((key) => entries.get(key));
  }

  *range(family: Family, from: Uint8Array, to: Uint8Array | undefined): Iterable<Entry> {
    yield* this.#entries(family).range(from, to);
  }

  write(changes: readonly Change[], _options: { readonly isSynced: boolean }): void {
    this.#checkOpen();
    for (const { family, key, value } of changes) this.#families[family].set(key, value);
  }

  snapshot(): TableReader & Disposable {
    const taken = new MemoryTables(byFamily((family) => this.#entries(family).share()));
    return {
      get: (family, key) => taken.get(family, key),
      getMany: (family, keys) => taken.getMany(family, keys),
      range: (family, from, to) => taken.range(family, from, to),
      [Symbol.dispose]: () => void taken.close(),
    };
  }

  get bytes(): number {
    return FAMILIES.reduce((bytes, family) => bytes + this.#families[family].bytes, 0);
  }

  close(): Promise<void> {
    this.#isClosed = true;
    return Promise.resolve();
  }

  #entries(family: Family): SortedEntries {
    this.#checkOpen();
    return this.#families[family];
  }

  #checkOpen(): void {
    assert(!this.#isClosed, 'the tables are closed');
  }
}

/**
 * Entries in the order of their keys' bytes. An entry is replaced, never changed; the array is copied when it is
 * shared.
 */
class SortedEntries {
  #entries: Entry[];
  #isShared = false;
  /** Bytes of keys and values. */
  bytes: number;

  constructor(entries: Entry[] = []) {
    this.#entries = entries;
    this.bytes = entries.reduce((bytes, entry) => bytes + sizeOf(entry), 0);
  }

  get(key: Uint8Array): Uint8Array | undefined {
    const found = this.#entries[this.#indexOf(key)];
    return found && Buffer.compare(found[0], key) === 0 ? found[1].slice() : undefined;
  }

  set(key: Uint8Array, value: Uint8Array | undefined): void {
    if (this.#isShared) {
      this.#entries = [...this.#entries];
      this.#isShared = false;
    }
    const index = this.#indexOf(key);
    const found = this.#entries[index];
    const replaced = found && Buffer.compare(found[0], key) === 0 ? [found] : [];
    const added: readonly Entry[] = value === undefined ? [] : [[new Uint8Array(key), new Uint8Array(value)]];
    this.#entries.splice(index, replaced.length, ...added);
    for (const entry of replaced) this.bytes -= sizeOf(entry);
    for (const entry of added) this.bytes += sizeOf(entry);
  }

  /** Yields the entries as they are when the first one is asked for. */
  *range(from: Uint8Array, to: Uint8Array | undefined): Iterable<Entry> {
    const end = to === undefined ? this.#entries.length : this.#indexOf(to);
    for (const [key, value] of this.#entries.slice(this.#indexOf(from), end)) yield [key.slice(), value.slice()];
  }

  /** Returns the same entries, whatever is set afterwards. */
  share(): SortedEntries {
    const shared = new SortedEntries(this.#entries);
    shared.#isShared = true;
    this.#isShared = true;
    return shared;
  }

  /** Returns the index of the key, or the one that it would have. */
  #indexOf(key: Uint8Array): number {
    let low = 0;
    let high = this.#entries.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      const entry = this.#entries[middle];
      if (entry !== undefined && Buffer.compare(entry[0], key) < 0) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

function byFamily(entriesOf: (family: Family) => SortedEntries): Record<Family, SortedEntries> {
  return Object.fromEntries(FAMILIES.map((family) => [family, entriesOf(family)])) as Record<Family, SortedEntries>;
}

function sizeOf([key, value]: Entry): number {
  return key.length + value.length;
}
