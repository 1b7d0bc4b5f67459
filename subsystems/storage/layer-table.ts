import type { Family } from './tables.ts';
import { ID_BYTES } from './write-batch.ts';

/** About what an entry costs besides its bytes. */
export const ENTRY_OVERHEAD_BYTES = 100;

/** Keys of these families begin with an id. */
const GROUPED: ReadonlySet<Family> = new Set(['log', 'blob']);

interface Group {
  /** Prefixes of keys: nothing below the layer counts whose key begins with one of them. */
  readonly cleared: Set<string>;
  readonly entries: Map<string, Uint8Array | undefined>;
}

/**
 * One family's entries in a layer; undefined: deleted. Keys are Latin-1 strings of their bytes, which sort like the
 * bytes. Where keys begin with an id they are in groups by it: what one canister has is found and cleared without the
 * others'.
 */
export class LayerTable {
  readonly #groupLength: number;
  readonly #groups = new Map<string, Group>();
  /** Clears that reach beyond a group. */
  readonly #wide = new Set<string>();
  /** About what it holds in memory. */
  bytes = 0;

  constructor(family: Family) {
    this.#groupLength = GROUPED.has(family) ? ID_BYTES : 0;
  }

  set(key: string, value: Uint8Array | undefined): void {
    const { entries } = this.#groupOf(key);
    const before = entries.get(key);
    if (before !== undefined || entries.has(key)) this.bytes -= sizeOf(before);
    entries.set(key, value);
    this.bytes += sizeOf(value);
  }

  clear(prefix: string): void {
    const isWide = prefix.length < this.#groupLength;
    if (isWide) this.#wide.add(prefix);
    else this.#groupOf(prefix).cleared.add(prefix);
    for (const { cleared, entries } of this.#groupsUnder(prefix)) {
      if (isWide) for (const narrower of cleared) if (narrower.startsWith(prefix)) cleared.delete(narrower);
      for (const [key, value] of entries) {
        if (!key.startsWith(prefix)) continue;
        entries.delete(key);
        this.bytes -= sizeOf(value);
      }
    }
  }

  /** Returns true if the layer says what is under a key; then `get` has it. */
  decides(key: string): boolean {
    const group = this.#groups.get(this.#nameOf(key));
    if (group?.entries.has(key) === true) return true;
    for (const cleared of [this.#wide, group?.cleared ?? NONE]) {
      for (const prefix of cleared) if (key.startsWith(prefix)) return true;
    }
    return false;
  }

  get(key: string): Uint8Array | undefined {
    return this.#groups.get(this.#nameOf(key))?.entries.get(key);
  }

  /** Puts what it says of keys that begin with `prefix` over what is below. */
  layOver(found: Map<string, Uint8Array>, prefix: string): void {
    const groups = this.#groupsUnder(prefix);
    for (const cleared of [this.#wide, ...groups.map((group) => group.cleared)]) {
      for (const gone of cleared) {
        if (!gone.startsWith(prefix) && !prefix.startsWith(gone)) continue;
        for (const key of found.keys()) if (key.startsWith(gone)) found.delete(key);
      }
    }
    for (const { entries } of groups) {
      for (const [key, value] of entries) {
        if (!key.startsWith(prefix)) continue;
        if (value === undefined) found.delete(key);
        else found.set(key, value);
      }
    }
  }

  /** Returns true if nothing below the layer counts whose key begins with `prefix`. */
  hides(prefix: string): boolean {
    const group = prefix.length < this.#groupLength ? undefined : this.#groups.get(this.#nameOf(prefix));
    for (const cleared of [this.#wide, group?.cleared ?? NONE]) {
      for (const gone of cleared) if (prefix.startsWith(gone)) return true;
    }
    return false;
  }

  /**
   * Returns true if some entries below the layer whose key begins with `prefix` may not count, because they were
   * cleared or deleted.
   */
  thins(prefix: string): boolean {
    for (const { cleared, entries } of this.#groupsUnder(prefix)) {
      for (const gone of cleared) if (gone.startsWith(prefix)) return true;
      for (const [key, value] of entries) if (value === undefined && key.startsWith(prefix)) return true;
    }
    for (const gone of this.#wide) if (gone.startsWith(prefix)) return true;
    return false;
  }

  /** Yields all prefixes that were cleared, each before any entry under it was set again. */
  *cleared(): Generator<string> {
    yield* this.#wide;
    for (const { cleared } of this.#groups.values()) yield* cleared;
  }

  *entries(): Generator<[key: string, value: Uint8Array | undefined]> {
    for (const { entries } of this.#groups.values()) yield* entries;
  }

  #nameOf(key: string): string {
    return key.slice(0, this.#groupLength);
  }

  #groupOf(key: string): Group {
    const name = this.#nameOf(key);
    let group = this.#groups.get(name);
    if (group === undefined) this.#groups.set(name, (group = { cleared: new Set(), entries: new Map() }));
    return group;
  }

  #groupsUnder(prefix: string): Group[] {
    if (prefix.length < this.#groupLength) return [...this.#groups.values()];
    const group = this.#groups.get(this.#nameOf(prefix));
    return group === undefined ? [] : [group];
  }
}

const NONE: ReadonlySet<string> = new Set();

function sizeOf(value: Uint8Array | undefined): number {
  return (value?.length ?? 0) + ENTRY_OVERHEAD_BYTES;
}
