/**
 * Reads the state: the tables, with the layers above them that have what the tables lack. Nothing here changes
 * anything, and a caller without layers reads the tables by the same code.
 */
import { ServerError } from '../../kernel/index.ts';
import { NO_BYTES, PAGE_BYTES } from '../bytes/index.ts';
import type { PackedRecords, StoredCanister, StoredMemory } from './index.ts';
import { memoryId, META, metaKey, type MetaLetter } from './keyspace.ts';
import type { LayerTable } from './layer-table.ts';
import {
  bytesOfLatin1,
  latin1Of,
  type LayerPages,
  type OverlayLayer,
  type PageFamily,
  pageNumberOf,
  pageOver,
  prefixEnd,
} from './overlay-layer.ts';
import { RecordPacker } from './record-packer.ts';
import type { KeyPage } from './storage-wire.ts';
import { CHUNK_PAGES, PageCollector, type StoredPages } from './stored-pages.ts';
import type { Entry, Family, TableReader } from './tables.ts';

/**
 * Keys that one answer has at most, and bytes that are read for it: a few milliseconds, in which nothing is
 * committed.
 */
const KEYS_AT_ONCE = 1024;
const KEYS_BYTES_READ = 2 ** 20;

export class StateReader {
  readonly #tables: TableReader;
  readonly #garbage: (() => void) | undefined;

  /** `garbage` is called when some megabytes of what the tables gave are not needed any more. */
  constructor(tables: TableReader, garbage?: () => void) {
    this.#tables = tables;
    this.#garbage = garbage;
  }

  /** Returns the layers above the tables, the newest first. */
  protected layers(): readonly OverlayLayer[] {
    return [];
  }

  get(family: Family, key: Uint8Array): Uint8Array | undefined {
    const text = latin1Of(key);
    for (const { tables } of this.layers()) {
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
    return this.layers()
      .toReversed()
      .map(({ tables }) => tables.get(family))
      .filter((table) => table !== undefined);
  }

  canister(id: Uint8Array): StoredCanister {
    return endOf(this.readingCanister(id));
  }

  /**
   * Reads a canister that no executor has, a slice at a time, since it may have gigabytes. Commits may come between.
   */
  *readingCanister(id: Uint8Array): Generator<undefined, StoredCanister> {
    const meta = (letter: MetaLetter): Uint8Array | undefined => this.get('meta', metaKey(letter, id));
    const copy = meta(META.copy)?.[0] ?? 0;
    const rest = {
      copy,
      globals: meta(META.globals),
      certifiedData: meta(META.certifiedData),
      checkpoint: meta(META.checkpoint),
      records: this.values('log', id),
    };
    return { memory: yield* this.readingMemory(memoryId(id, copy)), ...rest };
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
    for (const layer of this.layers().toReversed()) {
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
}

/** Does at once what is done a slice at a time, and returns what comes of it. */
function endOf<T>(slices: Generator<undefined, T>): T {
  for (;;) {
    const slice = slices.next();
    if (slice.done === true) return slice.value;
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

/** Returns the error for a page of the tables that has another length than a page. */
export function damagedPage(family: Family, key: Uint8Array, length: number): ServerError {
  return new ServerError(
    'unavailable',
    'state-corrupt',
    `the page ${family}/${Buffer.from(key).toString('hex')} has ${length} bytes instead of ${PAGE_BYTES}`,
  );
}
