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
  pageOver,
  prefixEnd,
} from './overlay-layer.ts';
import type { PageRuns } from './page-runs.ts';
import { damagedPage, StateReader } from './state-reader.ts';
import type { Change, Family, Tables, WriteOut } from './tables.ts';
import { applyWriteBatch, type WriteBatchVisitor } from './write-batch.ts';
import { PAGE_BYTES } from '../bytes/index.ts';

/** Changes that go to the tables in one write: about a megabyte of pages, and of anything else. */
export const SLICE_CHANGES = 256;
export const SLICE_BYTES = 2 ** 20;
const PAGES_READ_AT_ONCE = 64;

interface OverlayOptions {
  /** Called when some megabytes of what the tables gave are not needed any more. */
  readonly garbage?: (() => void) | undefined;
  /** Missing: the tables are synced in between instead, and whoever commits waits for that. */
  readonly writeOut?: WriteOut | undefined;
  /**
   * Bytes that are written between two syncs or while something is written out: a single sync of a whole layer would
   * take the time of all of it, and nothing is committed meanwhile.
   */
  readonly unsyncedBytesMax?: number;
}

const UNSYNCED_BYTES_MAX = 4 * 2 ** 20;
/** Share of `unsyncedBytesMax` that the last write of a layer may sync by itself. */
const LAST_SYNC_SHARE = 1 / 4;

export class Overlay extends StateReader {
  readonly #tables: Tables;
  readonly #writeOut: WriteOut | undefined;
  readonly #unsyncedBytesMax: number;
  #active = new OverlayLayer();
  #frozen: OverlayLayer | undefined;
  #folding: Iterator<Change | undefined> | undefined;
  /** Bytes of the layer being folded that are neither synced nor written out. */
  #unsyncedBytes = 0;
  #isWritingOut = false;
  /** All changes of the layer being folded were read. */
  #isRead = false;
  #failure: Error | undefined;
  readonly #visitor: WriteBatchVisitor;
  // The canister patched last: its pages are looked up once.
  #patchedId = '';
  #patchedFamily: Family = 'heap';
  #patched: LayerPages | undefined;

  constructor(tables: Tables, options: OverlayOptions = {}) {
    super(tables, options.garbage);
    this.#tables = tables;
    this.#writeOut = options.writeOut;
    this.#unsyncedBytesMax = options.unsyncedBytesMax ?? UNSYNCED_BYTES_MAX;
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

  protected override layers(): readonly OverlayLayer[] {
    return this.#frozen === undefined ? [this.#active] : [this.#active, this.#frozen];
  }

  // ---- to the tables

  /** Closes the upper layer; it is to be folded before the next one is frozen. */
  freeze(): void {
    assert(this.#frozen === undefined, 'the layer frozen before is not folded yet');
    this.#frozen = this.#active;
    this.#active = new OverlayLayer();
    this.#folding = changesOf(this.#frozen, this.#tables);
    this.#isRead = false;
    this.#unsyncedBytes = 0;
    this.#patched = undefined;
  }

  /** True while the next slice waits for what is written out: `foldSlice` writes nothing then, unless it must. */
  get isWaitingForDisk(): boolean {
    const isFull = this.#unsyncedBytes >= this.#unsyncedBytesMax || this.#isRead;
    return this.#frozen !== undefined && this.#isWritingOut && isFull && this.#failure === undefined;
  }

  /**
   * Writes one slice of the frozen layer; `last` is written with the last one, synced. Returns true if nothing of the
   * layer is left. If `mustWrite`, it waits for nothing that is written out, and syncs instead. An error that it throws
   * is thrown again at each later call: the layer is not in the tables.
   */
  foldSlice(last: Change, mustWrite = false): boolean {
    if (this.#failure !== undefined) throw this.#failure;
    if (!mustWrite && this.isWaitingForDisk) return false;
    try {
      return this.#foldNext(last, mustWrite || this.#writeOut === undefined);
    } catch (error) {
      this.#fail(error);
      throw error;
    }
  }

  #fail(error: unknown): void {
    this.#failure ??= error instanceof Error ? error : new Error(messageOf(error));
  }

  #foldNext(last: Change, mustWrite: boolean): boolean {
    if (this.#folding === undefined) return true;
    const { changes, bytes } = this.#nextSlice(this.#folding);
    this.#unsyncedBytes += bytes;
    if (this.#isRead && (mustWrite || this.#isAlmostSynced)) {
      changes.push(last);
      this.#tables.write(changes, { isSynced: true });
      this.#frozen = undefined;
      this.#folding = undefined;
      return true;
    }
    const isDue = this.#isRead || this.#unsyncedBytes >= this.#unsyncedBytesMax;
    const isSynced = isDue && mustWrite && (this.#writeOut === undefined || this.#isWritingOut);
    if (changes.length > 0) this.#tables.write(changes, { isSynced });
    if (isSynced) this.#unsyncedBytes = 0;
    else if (isDue) this.#beginWriteOut();
    return false;
  }

  /** Returns the next changes of the frozen layer; none if all of it was read. */
  #nextSlice(folding: Iterator<Change | undefined>): { readonly changes: Change[]; readonly bytes: number } {
    const changes: Change[] = [];
    let bytes = 0;
    while (!this.#isRead && changes.length < SLICE_CHANGES && bytes < SLICE_BYTES) {
      const next = folding.next();
      this.#isRead = next.done === true;
      if (next.done === true) break;
      // Much was read.
      if (next.value === undefined && changes.length > 0) break;
      if (next.value === undefined) continue;
      changes.push(next.value);
      bytes += next.value.key.length + (next.value.value?.length ?? 0);
    }
    return { changes, bytes };
  }

  /** True if a sync has little to write. */
  get #isAlmostSynced(): boolean {
    return !this.#isWritingOut && this.#unsyncedBytes <= this.#unsyncedBytesMax * LAST_SYNC_SHARE;
  }

  #beginWriteOut(): void {
    if (this.#writeOut === undefined || this.#isWritingOut) return;
    this.#isWritingOut = true;
    this.#unsyncedBytes = 0;
    const ended = (): void => {
      this.#isWritingOut = false;
    };
    this.#writeOut().then(ended, (error: unknown) => {
      ended();
      this.#fail(error);
    });
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
