/**
 * Changes of units that the tables do not have yet. Units that are committed are applied to the upper layer; when it
 * has become large it is frozen and brought into the tables (fold.ts), while a new upper layer takes what comes.
 *
 * Keys are Latin-1 strings of their bytes, which sort like the bytes. A layer may know only some bytes of a page: the
 * others come from the layer or the tables beneath, when they are needed.
 */
import { setImmediate } from 'node:timers/promises';
import { applyWriteBatch, type Family, PAGE_BYTES, type WriteBatchVisitor } from '../api/storage.ts';

/** Bytes of the id that a key of these families begins with: entries of one actor are found without the others'. */
const GROUP_BYTES = 10;
const GROUPED: ReadonlySet<Family> = new Set(['heap', 'stable', 'log', 'blob']);
/** About what an entry costs besides its bytes. */
const ENTRY_OVERHEAD_BYTES = 100;
const ALL = '';
/** Bytes that are applied in one turn of the event loop: some milliseconds. */
export const SLICE_BYTES: number = 2 ** 20;

/** A page of which some bytes are known. */
export class Page {
  readonly bytes = new Uint8Array(PAGE_BYTES);
  /** Starts and ends of known bytes, in turn, ascending, apart from each other. */
  #runs: number[] = [];
  /** True if a reader counts on the page as it is: a change is then made to a copy. */
  isShared = false;

  /** Returns a page with all bytes known. */
  static whole(bytes?: Uint8Array): Page {
    const page = new Page();
    if (bytes !== undefined) page.bytes.set(bytes);
    page.#runs = [0, PAGE_BYTES];
    return page;
  }

  get isWhole(): boolean {
    return this.#runs[0] === 0 && this.#runs[1] === PAGE_BYTES;
  }

  put(offset: number, bytes: Uint8Array): void {
    this.bytes.set(bytes, offset);
    let [start, end] = [offset, offset + bytes.length];
    const runs = this.#runs;
    let from = 0;
    while (from < runs.length && (runs[from + 1] ?? 0) < start) from += 2;
    let to = from;
    for (; to < runs.length && (runs[to] ?? 0) <= end; to += 2) {
      start = Math.min(start, runs[to] ?? 0);
      end = Math.max(end, runs[to + 1] ?? 0);
    }
    runs.splice(from, to - from, start, end);
  }

  copy(): Page {
    const page = new Page();
    page.bytes.set(this.bytes);
    page.#runs = [...this.#runs];
    return page;
  }

  /** The whole page, with what it lacks from below; undefined: zeros. */
  bytesOver(below: Uint8Array | undefined): Uint8Array {
    const bytes = new Uint8Array(PAGE_BYTES);
    if (below !== undefined) bytes.set(below);
    this.copyTo(bytes);
    return bytes;
  }

  /** Copies the known bytes to a page. */
  copyTo(bytes: Uint8Array): void {
    for (let at = 0; at < this.#runs.length; at += 2) {
      const start = this.#runs[at] ?? 0;
      bytes.set(this.bytes.subarray(start, this.#runs[at + 1]), start);
    }
  }
}

/** Content of a key; undefined: none. Bytes are never changed, pages are. */
export type Content = Uint8Array | Page | undefined;

interface Group {
  /** Prefixes of keys: nothing below the layer counts whose key begins with one of them. */
  readonly cleared: Set<string>;
  /** Entries that were set since. */
  readonly entries: Map<string, Content>;
}

interface Table {
  readonly groups: Map<string, Group>;
  /** Clears that reach beyond a group. */
  readonly wide: Set<string>;
}

export class Layer {
  readonly #tables = new Map<Family, Table>();
  /** About what it holds in memory. */
  bytes = 0;

  /**
   * Applies the operations of a unit from byte `from` on, until `bytesMax` bytes of them are applied or some more;
   * returns where the next one begins. Keeps views of the unit. Throws ServerError `state-corrupt` when it is
   * malformed.
   */
  apply(unit: Uint8Array, from = 0, bytesMax = Infinity): number {
    const next = applyWriteBatch(unit, this.#visitor, from, bytesMax);
    this.bytes += next - from;
    return next;
  }

  /** Tells whether the layer has something of that family. */
  touches(family: Family): boolean {
    return this.#tables.has(family);
  }

  /** Applies many units in slices: the event loop has a turn before each. */
  async applyInTurns(units: readonly Uint8Array[]): Promise<void> {
    let left = 0;
    for (const unit of units) {
      for (let at = 0; at < unit.length;) {
        if (left <= 0) {
          await setImmediate();
          left = SLICE_BYTES;
        }
        const next = this.apply(unit, at, left);
        left -= next - at;
        at = next;
      }
    }
  }

  readonly #visitor: WriteBatchVisitor = {
    put: (family, key, value) => this.#set(family, key, value),
    delete: (family, key) => this.#set(family, key, undefined),
    clear: (family, prefix) => this.#clear(family, textOf(prefix)),
    patch: (family, id, page, offset, bytes) => this.#patch(family, id, page, offset, bytes),
  };

  #set(family: Family, key: Uint8Array, value: Uint8Array | undefined): void {
    const text = textOf(key);
    this.#groupOf(family, text).entries.set(text, value);
    this.bytes += ENTRY_OVERHEAD_BYTES;
  }

  #patch(family: Family, id: Uint8Array, number: number, offset: number, bytes: Uint8Array): void {
    const key =
      textOf(id) + String.fromCharCode(number >>> 24, (number >>> 16) & 255, (number >>> 8) & 255, number & 255);
    const group = this.#groupOf(family, key);
    if (bytes.length === PAGE_BYTES) {
      group.entries.set(key, bytes);
      this.bytes += ENTRY_OVERHEAD_BYTES;
      return;
    }
    let page = group.entries.get(key);
    if (!(page instanceof Page)) {
      const isKnown = page !== undefined || group.entries.has(key) || this.#isCleared(family, group, key);
      page = isKnown ? Page.whole(page) : new Page();
      group.entries.set(key, page);
      this.bytes += PAGE_BYTES + ENTRY_OVERHEAD_BYTES;
    } else if (page.isShared) group.entries.set(key, (page = page.copy()));
    page.put(offset, bytes);
  }

  #clear(family: Family, prefix: string): void {
    const table = this.#tableOf(family);
    const isWide = GROUPED.has(family) && prefix.length < GROUP_BYTES;
    if (isWide) table.wide.add(prefix);
    else this.#groupOf(family, prefix).cleared.add(prefix);
    for (const { entries } of groupsUnder(family, table, prefix)) {
      for (const key of entries.keys()) if (key.startsWith(prefix)) entries.delete(key);
    }
  }

  #isCleared(family: Family, group: Group, key: string): boolean {
    return beginsWithOne(key, group.cleared) || beginsWithOne(key, this.#tableOf(family).wide);
  }

  #tableOf(family: Family): Table {
    let table = this.#tables.get(family);
    if (table === undefined) this.#tables.set(family, (table = { groups: new Map(), wide: new Set() }));
    return table;
  }

  #groupOf(family: Family, key: string): Group {
    const { groups } = this.#tableOf(family);
    const name = GROUPED.has(family) ? key.slice(0, GROUP_BYTES) : ALL;
    let group = groups.get(name);
    if (group === undefined) groups.set(name, (group = { cleared: new Set(), entries: new Map() }));
    return group;
  }

  /** Yields all prefixes that were cleared, each before anything under it was set again. */
  *cleared(): Generator<readonly [family: Family, prefix: string]> {
    for (const [family, { groups, wide }] of this.#tables) {
      for (const prefix of wide) yield [family, prefix];
      for (const { cleared } of groups.values()) for (const prefix of cleared) yield [family, prefix];
    }
  }

  *entries(): Generator<readonly [family: Family, key: string, content: Content]> {
    for (const [family, { groups }] of this.#tables) {
      for (const { entries } of groups.values()) for (const [key, content] of entries) yield [family, key, content];
    }
  }

  /** Lays what it says of keys that begin with `prefix` over what those below have said. */
  layOver(said: LayeredEntries, family: Family, prefix: string): void {
    const table = this.#tables.get(family);
    if (table === undefined) return;
    const groups = groupsUnder(family, table, prefix);
    for (const cleared of [table.wide, ...groups.map((group) => group.cleared)]) {
      for (const gone of cleared) if (gone.startsWith(prefix) || prefix.startsWith(gone)) said.clear(gone);
    }
    for (const { entries } of groups) {
      for (const [key, content] of entries) if (key.startsWith(prefix)) said.set(key, content);
    }
  }

  /** Lays this layer's content of one key over `said`. */
  layOverOne(said: LayeredEntries, family: Family, key: string): void {
    const table = this.#tables.get(family);
    if (table === undefined) return;
    const group = table.groups.get(GROUPED.has(family) ? key.slice(0, GROUP_BYTES) : ALL);
    if (beginsWithOne(key, table.wide) || beginsWithOne(key, group?.cleared ?? NONE)) said.clear(key);
    if (group?.entries.has(key) === true) said.set(key, group.entries.get(key));
  }
}

/**
 * The layers' knowledge of one page, the oldest first. Nothing is copied before the bytes are wanted: there may be
 * thousands of pages.
 */
class Laid {
  readonly #pages: Page[];
  readonly #below: Uint8Array | undefined;
  /** True if nothing of the tables counts. */
  readonly isWhole: boolean;

  constructor(page: Page, isWhole: boolean, below: Uint8Array | undefined) {
    this.#pages = [page];
    this.isWhole = isWhole;
    this.#below = below;
  }

  add(page: Page): void {
    this.#pages.push(page);
  }

  bytesOver(stored: Uint8Array | undefined): Uint8Array {
    const bytes = new Uint8Array(PAGE_BYTES);
    const below = this.isWhole ? this.#below : stored;
    if (below !== undefined) bytes.set(below);
    for (const page of this.#pages) page.copyTo(bytes);
    return bytes;
  }
}

/** The layers' content of some keys, the oldest laid down first. It does not change when the layers do. */
export class LayeredEntries {
  readonly #entries = new Map<string, Uint8Array | Laid | undefined>();
  readonly #hidden: string[] = [];

  clear(prefix: string): void {
    this.#hidden.push(prefix);
    for (const key of this.#entries.keys()) if (key.startsWith(prefix)) this.#entries.delete(key);
  }

  set(key: string, content: Content): void {
    if (!(content instanceof Page)) {
      this.#entries.set(key, content);
      return;
    }
    content.isShared = true;
    const below = this.#entries.get(key);
    if (below instanceof Laid) below.add(content);
    else this.#entries.set(key, new Laid(content, this.#entries.has(key) || this.hides(key), below));
  }

  /** Returns the keys in the order of their bytes. */
  sortedKeys(): readonly string[] {
    return [...this.#entries.keys()].toSorted();
  }

  /** Returns the content of that key, where the tables have `stored`. */
  over(key: string, stored: Uint8Array | undefined): Uint8Array | undefined {
    const content = this.#entries.get(key);
    if (content === undefined) return this.#entries.has(key) || this.hides(key) ? undefined : stored;
    return content instanceof Laid ? content.bytesOver(stored) : content;
  }

  /** Returns true if the tables' content of that key counts. */
  needs(key: string): boolean {
    if (!this.#entries.has(key)) return !this.hides(key);
    const content = this.#entries.get(key);
    return content instanceof Laid && !content.isWhole;
  }

  /** Returns true if nothing of the tables counts for that key, whatever the layers have for it. */
  hides(key: string): boolean {
    return beginsWithOne(key, this.#hidden);
  }
}

/** The narrowest group, or all of them. */
function groupsUnder(family: Family, { groups }: Table, prefix: string): readonly Group[] {
  if (GROUPED.has(family) && prefix.length < GROUP_BYTES) return [...groups.values()];
  const group = groups.get(GROUPED.has(family) ? prefix.slice(0, GROUP_BYTES) : ALL);
  return group === undefined ? [] : [group];
}

const NONE: ReadonlySet<string> = new Set();

function beginsWithOne(key: string, prefixes: Iterable<string>): boolean {
  for (const prefix of prefixes) if (key.startsWith(prefix)) return true;
  return false;
}

export function textOf(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('latin1');
}

export function bytesOf(text: string): Buffer {
  return Buffer.from(text, 'latin1');
}
