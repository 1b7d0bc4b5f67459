/**
 * The tables with the newest units on top. Units are applied to the upper layer; when that has become large it is
 * frozen, and its entries go to the tables slice by slice, while a new upper layer takes what comes.
 *
 *     units ─► active ─(freeze)─► frozen ─(fold, slices)─► tables
 *     reads look through the three of them, in this order
 */
import { assert, messageOf, ServerError } from '../../kernel/index.ts';
import {
  bytesOfLatin1,
  isPageFamily,
  latin1Of,
  type LayerPages,
  OverlayLayer,
  type PageFamily,
  pageKey,
  pageNumberOf,
  pageOver,
  prefixEnd,
} from './overlay-layer.ts';
import type { PackedRecords, StoredMemory } from './index.ts';
import type { LayerTable } from './layer-table.ts';
import type { PageRuns } from './page-runs.ts';
import { RecordPacker } from './record-packer.ts';
import type { KeyPage } from './storage-wire.ts';
import type { Change, Entry, Family, Tables } from './tables.ts';
import { CHUNK_PAGES, PageCollector, type StoredPages } from './stored-pages.ts';
import { applyWriteBatch, type WriteBatchVisitor } from './write-batch.ts';
import { PAGE_BYTES, NO_BYTES } from '../bytes/index.ts';

/** Changes that go to the tables in one write: about a megabyte of pages, and of anything else. */
export const SLICE_CHANGES = 256;
export const SLICE_BYTES = 2 ** 20;
const PAGES_READ_AT_ONCE = 64;
/**
 * Bytes that are written between two syncs: a single sync of a whole layer would take the time of all of it, and
 * nothing is committed meanwhile.
 */
const UNSYNCED_BYTES_MAX = 4 * 2 ** 20;

/**
 * Keys that one answer has at most, and bytes that are read for it: a few milliseconds, in which nothing is
 * committed.
 */
const KEYS_AT_ONCE = 1024;
const KEYS_BYTES_READ = 2 ** 20;

export class Overlay {
  readonly #tables: Tables;
  #active = new OverlayLayer();
  #frozen: OverlayLayer | undefined;
  #folding: Iterator<Change | undefined> | undefined;
  /** Bytes of the layer being folded that are not synced. */
  #unsyncedBytes = 0;
  #failure: Error | undefined;
  readonly #visitor: WriteBatchVisitor;
  // The canister patched last: its pages are looked up once.
  #patchedId = '';
  #patchedFamily: Family = 'heap';
  #patched: LayerPages | undefined;

  readonly #garbage: () => void;

  /** `garbage` is called when some megabytes of what the tables gave are not needed any more. */
  constructor(tables: Tables, garbage: () => void = () => undefined) {
    this.#tables = tables;
    this.#garbage = garbage;
    this.#visitor = {
      put: (family, key, value) => {
        if (isPageFamily(family)) throw misplaced(family, key);
        this.#active.tableOf(family).set(latin1Of(key), new Uint8Array(value));
      },
      delete: (family, key) => {
        if (isPageFamily(family)) throw misplaced(family, key);
        this.#active.tableOf(family).set(latin1Of(key), undefined);
      },
      clear: (family, prefix) => {
        if (isPageFamily(family)) this.#active.clearPages(family, latin1Of(prefix));
        else this.#active.tableOf(family).clear(latin1Of(prefix));
      },
      patch: (family, id, page, offset, bytes) => {
        if (!isPageFamily(family)) throw misplaced(family, id);
        this.#patch(family, id, page, offset, bytes);
      },
    };
  }

  /** Bytes that the upper layer holds in memory. */
  get activeBytes(): number {
    return this.#active.bytes;
  }

  /** Pages that the upper layer has something of. */
  get activePages(): number {
    return this.#active.pageCount;
  }

  get isFolding(): boolean {
    return this.#frozen !== undefined;
  }

  /** Applies a unit or a part of it, see `applyWriteBatch`; may be applied again later, when a crash came between. */
  apply(unit: Uint8Array, from?: number, bytesMax?: number): number {
    const end = applyWriteBatch(unit, this.#visitor, from, bytesMax);
    this.#patched = undefined;
    return end;
  }

  #patch(family: PageFamily, id: Uint8Array, page: number, offset: number, bytes: Uint8Array): void {
    const key = latin1Of(id);
    if (this.#patched === undefined || this.#patchedId !== key || this.#patchedFamily !== family) {
      this.#patched = this.#active.pagesOf(family, key);
      this.#patchedId = key;
      this.#patchedFamily = family;
    }
    const pages = this.#patched;
    if (this.#active.patch(pages, page, offset, bytes)) return;
    const content = this.#wholePage(pages, family, id, page, bytes.length === PAGE_BYTES);
    content.set(bytes, offset);
    this.#active.addPage(pages, page, content);
  }

  /** A page as it is now, the caller's own; `isOverwritten`: its content does not matter. */
  #wholePage(
    pages: LayerPages,
    family: PageFamily,
    id: Uint8Array,
    number: number,
    isOverwritten: boolean,
  ): Uint8Array {
    if (isOverwritten || pages.isCleared) return new Uint8Array(PAGE_BYTES);
    const frozen = this.#frozen?.pages[family].get(latin1Of(id));
    const isStoredHidden = frozen?.isCleared === true || frozen?.pages.get(number) instanceof Uint8Array;
    const stored = isStoredHidden ? undefined : storedPage(this.#tables, family, pageKey(id, number));
    const content = pageOver(frozen === undefined ? [pages] : [frozen, pages], number, stored);
    return content === undefined ? new Uint8Array(PAGE_BYTES) : new Uint8Array(content);
  }

  // ---- reading

  get(family: Family, key: Uint8Array): Uint8Array | undefined {
    const text = latin1Of(key);
    for (const { tables } of this.#layers()) {
      const table = tables.get(family);
      if (table?.decides(text) === true) return table.get(text);
    }
    return this.#tables.get(family, key);
  }

  /** Entries whose key begins with `prefix`, in order. Not for pages. */
  range(family: Family, prefix: Uint8Array): Entry[] {
    return this.#found(family, prefix).map(([key, value]) => [bytesOfLatin1(key), value] as const);
  }

  /** Returns some of the keys from `from` on, in order: as many as are read in a short time. Not for pages. */
  keys(family: Family, from: Uint8Array): KeyPage {
    const found = new Map<string, Uint8Array>();
    let next: Uint8Array | undefined;
    let bytes = 0;
    for (const [key, value] of this.#tables.range(family, from, undefined)) {
      if (found.size === KEYS_AT_ONCE || bytes >= KEYS_BYTES_READ) {
        next = key;
        break;
      }
      found.set(latin1Of(key), NO_BYTES);
      // The tables read the values with the keys.
      bytes += key.length + value.length;
    }
    for (const layer of this.#tablesOf(family)) layer.layOver(found, '');
    const start = latin1Of(from);
    const end = next && latin1Of(next);
    const within = [...found.keys()].filter((key) => key >= start && (end === undefined || key < end));
    return { keys: within.sort().map(bytesOfLatin1), next };
  }

  /** The values of such entries, in order. There may be hundreds of thousands, nearly all of them in the tables. */
  values(family: Family, prefix: Uint8Array): PackedRecords {
    const packer = new RecordPacker();
    const start = latin1Of(prefix);
    const layers = this.#tablesOf(family);
    const isHidden = layers.some((layer) => layer.hides(start));
    if (!isHidden && layers.some((layer) => layer.thins(start))) {
      for (const [, value] of this.#found(family, prefix)) packer.add(value);
      return packer.take();
    }
    const upper = new Map<string, Uint8Array>();
    for (const layer of layers) layer.layOver(upper, start);
    const newer = sorted(upper);
    let at = 0;
    if (!isHidden) {
      let next = keyAt(newer, at);
      for (const [key, value] of this.#tables.range(family, prefix, prefixEnd(prefix))) {
        let order = next === undefined ? 1 : Buffer.compare(next, key);
        while (order < 0) {
          packer.add(newer[at]?.[1] ?? NO_BYTES);
          next = keyAt(newer, ++at);
          order = next === undefined ? 1 : Buffer.compare(next, key);
        }
        // Keys that both have are newer above, and come in the next round.
        if (order > 0) packer.add(value);
      }
    }
    for (; at < newer.length; at++) packer.add(newer[at]?.[1] ?? NO_BYTES);
    return packer.take();
  }

  #found(family: Family, prefix: Uint8Array): [key: string, value: Uint8Array][] {
    const found = new Map<string, Uint8Array>();
    for (const [key, value] of this.#tables.range(family, prefix, prefixEnd(prefix))) found.set(latin1Of(key), value);
    const start = latin1Of(prefix);
    for (const layer of this.#tablesOf(family)) layer.layOver(found, start);
    return sorted(found);
  }

  /** Oldest first. */
  #tablesOf(family: Family): LayerTable[] {
    return this.#layers()
      .toReversed()
      .map(({ tables }) => tables.get(family))
      .filter((table) => table !== undefined);
  }

  memoryOf(id: Uint8Array): StoredMemory {
    return endOf(this.readingMemory(id));
  }

  /**
   * Reads a memory a slice at a time; the caller ensures that nothing of that memory changes meanwhile. Layers may be
   * frozen and folded.
   */
  *readingMemory(id: Uint8Array): Generator<undefined, StoredMemory> {
    const heapLayers = this.#layersWith('heap', id);
    const stableLayers = this.#layersWith('stable', id);
    return {
      heap: yield* this.#readingPages('heap', id, heapLayers),
      stable: yield* this.#readingPages('stable', id, stableLayers),
    };
  }

  /** Oldest first. */
  #layersWith(family: PageFamily, id: Uint8Array): LayerPages[] {
    const idKey = latin1Of(id);
    const layers: LayerPages[] = [];
    for (const layer of this.#layers().toReversed()) {
      const own = layer.pages[family].get(idKey);
      if (own?.isCleared === true) layers.length = 0;
      if (own !== undefined) layers.push(own);
    }
    return layers;
  }

  *#readingPages(family: PageFamily, id: Uint8Array, layers: readonly LayerPages[]): Generator<undefined, StoredPages> {
    const isCleared = layers[0]?.isCleared === true;
    const numbers = Uint32Array.from(new Set(layers.flatMap(({ pages }) => [...pages.keys()]))).sort();
    const collector = new PageCollector(this.#garbage);
    let at = 0;
    const add = (number: number, stored: Uint8Array | undefined): void => {
      const content = pageOver(layers, number, stored);
      if (content !== undefined) collector.add(number, content);
    };
    for (let from = isCleared ? undefined : id; from !== undefined;) {
      let last: Uint8Array | undefined;
      let count = 0;
      for (const [key, value] of this.#tables.range(family, from, prefixEnd(id))) {
        if (value.length !== PAGE_BYTES || key.length !== id.length + 4) throw damagedPage(family, key, value.length);
        const stored = pageNumberOf(key);
        for (let number = numbers[at]; number !== undefined && number < stored; number = numbers[++at])
          add(number, undefined);
        if (numbers[at] === stored) at++;
        add(stored, value);
        if (++count < CHUNK_PAGES) continue;
        last = key;
        break;
      }
      from = last && Buffer.concat([last, Uint8Array.of(0)]);
      if (from !== undefined) yield;
    }
    for (let number = numbers[at]; number !== undefined; number = numbers[++at]) add(number, undefined);
    return collector.take();
  }

  #layers(): OverlayLayer[] {
    return this.#frozen === undefined ? [this.#active] : [this.#active, this.#frozen];
  }

  // ---- to the tables

  /** Closes the upper layer; it is to be folded before the next one is frozen. */
  freeze(): void {
    assert(this.#frozen === undefined, 'the layer frozen before is not folded yet');
    this.#frozen = this.#active;
    this.#active = new OverlayLayer();
    this.#folding = changesOf(this.#frozen, this.#tables);
    this.#unsyncedBytes = 0;
    this.#patched = undefined;
  }

  /**
   * Writes one slice of the frozen layer; `last` is written with the last one, synced. Returns true if nothing of the
   * layer is left. An error that it throws is thrown again at each later call: the layer is not in the tables.
   */
  foldSlice(last: Change): boolean {
    if (this.#failure !== undefined) throw this.#failure;
    try {
      return this.#foldNext(last);
    } catch (error) {
      this.#failure = error instanceof Error ? error : new Error(messageOf(error));
      throw error;
    }
  }

  #foldNext(last: Change): boolean {
    const folding = this.#folding;
    if (folding === undefined) return true;
    const changes: Change[] = [];
    let bytes = 0;
    while (changes.length < SLICE_CHANGES && bytes < SLICE_BYTES) {
      const next = folding.next();
      if (next.done === true) {
        changes.push(last);
        this.#tables.write(changes, { isSynced: true });
        this.#frozen = undefined;
        this.#folding = undefined;
        return true;
      }
      // Much was read.
      if (next.value === undefined && changes.length > 0) break;
      if (next.value === undefined) continue;
      changes.push(next.value);
      bytes += next.value.key.length + (next.value.value?.length ?? 0);
    }
    this.#unsyncedBytes += bytes;
    const isSynced = this.#unsyncedBytes >= UNSYNCED_BYTES_MAX;
    if (isSynced) this.#unsyncedBytes = 0;
    this.#tables.write(changes, { isSynced });
    return false;
  }
}

/** Does at once what is done a slice at a time, and returns what comes of it. */
export function endOf<T>(slices: Generator<undefined, T>): T {
  for (;;) {
    const slice = slices.next();
    if (slice.done === true) return slice.value;
  }
}

/**
 * Yields the changes that bring a layer into the tables, or undefined where so much was read that the slice is to
 * end.
 */
function* changesOf(layer: OverlayLayer, tables: Tables): Generator<Change | undefined> {
  for (const [family, table] of layer.tables) {
    for (const prefix of table.cleared()) yield* deletions(tables, family, bytesOfLatin1(prefix));
    for (const [key, value] of table.entries()) yield { family, key: bytesOfLatin1(key), value };
  }
  for (const family of ['heap', 'stable'] as const) {
    for (const [idKey, { isCleared, pages }] of layer.pages[family]) {
      const id = bytesOfLatin1(idKey);
      if (isCleared) yield* deletions(tables, family, id);
      for (const [number, page] of pages)
        if (page instanceof Uint8Array) yield { family, key: pageKey(id, number), value: page };
    }
    yield* patchedPages(layer.pages[family], tables, family);
  }
}

/**
 * Yields the pages of which the layer has only runs, over what the tables have: many pages at a time, because one
 * read of many is quicker.
 */
function* patchedPages(all: ReadonlyMap<string, LayerPages>, tables: Tables, family: PageFamily): Generator<Change> {
  let keys: Uint8Array[] = [];
  let runs: PageRuns[] = [];
  const take = (): Change[] => {
    const stored = tables.getMany(family, keys);
    const changes = keys.map((key, at) => {
      const value = checkedPage(family, key, stored[at]) ?? new Uint8Array(PAGE_BYTES);
      runs[at]?.putOn(value);
      return { family, key, value };
    });
    keys = [];
    runs = [];
    return changes;
  };
  for (const [idKey, { pages }] of all) {
    const id = bytesOfLatin1(idKey);
    for (const [number, page] of pages) {
      if (page instanceof Uint8Array) continue;
      keys.push(pageKey(id, number));
      runs.push(page);
      if (keys.length === PAGES_READ_AT_ONCE) yield* take();
    }
  }
  yield* take();
}

/**
 * Yields the deletions of all keys with a prefix. Keys are read first, a bounded number at a time: the tables change
 * while they are walked. The tables read the values with the keys; values of a snapshot have a megabyte each.
 */
function* deletions(tables: Tables, family: Family, prefix: Uint8Array): Generator<Change | undefined> {
  const end = prefixEnd(prefix);
  for (let from: Uint8Array | undefined = prefix; from !== undefined;) {
    const keys: Uint8Array[] = [];
    let last: Uint8Array | undefined;
    let bytes = 0;
    for (const [key, value] of tables.range(family, from, end)) {
      keys.push(key);
      bytes += value.length;
      if (keys.length < SLICE_CHANGES && bytes < SLICE_BYTES) continue;
      last = key;
      break;
    }
    for (const key of keys) yield { family, key, value: undefined };
    if (bytes >= SLICE_BYTES) yield undefined;
    from = last && Buffer.concat([last, Uint8Array.of(0)]);
  }
}

/** Entries by key; those that are in order already, as records of a log are, cost no more than a look. */
function sorted(found: ReadonlyMap<string, Uint8Array>): [key: string, value: Uint8Array][] {
  const entries = [...found];
  const isSorted = entries.every(([key], at) => at === 0 || (entries[at - 1]?.[0] ?? '') < key);
  return isSorted ? entries : entries.sort(([a], [b]) => (a < b ? -1 : 1));
}

function keyAt(entries: readonly [key: string, value: Uint8Array][], at: number): Uint8Array | undefined {
  const entry = entries[at];
  return entry && bytesOfLatin1(entry[0]);
}

function misplaced(family: Family, key: Uint8Array): ServerError {
  return new ServerError(
    'unavailable',
    'state-corrupt',
    `a unit of the step log changes ${family}/${Buffer.from(key).toString('hex')} in a way this family does not know`,
  );
}

function storedPage(tables: Tables, family: PageFamily, key: Uint8Array): Uint8Array | undefined {
  return checkedPage(family, key, tables.get(family, key));
}

function checkedPage(family: PageFamily, key: Uint8Array, page: Uint8Array | undefined): Uint8Array | undefined {
  if (page !== undefined && page.length !== PAGE_BYTES) throw damagedPage(family, key, page.length);
  return page;
}

function damagedPage(family: Family, key: Uint8Array, length: number): ServerError {
  return new ServerError(
    'unavailable',
    'state-corrupt',
    `the page ${family}/${Buffer.from(key).toString('hex')} has ${length} bytes instead of ${PAGE_BYTES}`,
  );
}
