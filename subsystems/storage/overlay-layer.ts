/**
 * Changes of units that the tables do not have yet: entries by key, and of pages the bytes that were changed. A page
 * with many changes is made whole from the page below it, once; then patches cost a copy of the bytes that changed.
 */
import { numberAt } from '../../kernel/index.ts';
import { ENTRY_OVERHEAD_BYTES, LayerTable } from './layer-table.ts';
import type { Family } from './tables.ts';
import { ID_BYTES } from './write-batch.ts';
import { PageRuns, RunArena } from './page-runs.ts';
import { copyBytes, PAGE_BYTES } from '../bytes/index.ts';

/** The page families: their entries are pages, by canister. */
export type PageFamily = 'heap' | 'stable';

/** A layer's part of a page: all of it, or what has changed over the page below. */
type LayerPage = Uint8Array | PageRuns;

/** One canister's pages in a layer. */
export interface LayerPages {
  /** True if nothing below this layer counts: then all pages are whole. */
  isCleared: boolean;
  readonly pages: Map<number, LayerPage>;
}

/** About what the runs of a page cost besides the arena. */
const RUNS_OVERHEAD_BYTES = 180;

export class OverlayLayer {
  readonly pages: Readonly<Record<PageFamily, Map<string, LayerPages>>> = { heap: new Map(), stable: new Map() };
  readonly tables = new Map<Family, LayerTable>();
  readonly #arena = new RunArena();
  #pageBytes = 0;

  /** Pages that it has something of. */
  pageCount = 0;

  /** About what it holds in memory. */
  get bytes(): number {
    let bytes = this.#pageBytes + this.#arena.bytes;
    for (const table of this.tables.values()) bytes += table.bytes;
    return bytes;
  }

  pagesOf(family: PageFamily, id: string): LayerPages {
    const known = this.pages[family].get(id);
    if (known !== undefined) return known;
    const fresh = { isCleared: false, pages: new Map<number, LayerPage>() };
    this.pages[family].set(id, fresh);
    this.#pageBytes += ENTRY_OVERHEAD_BYTES;
    return fresh;
  }

  /** Changes bytes of a page. False: the page has to be whole for that, see `addPage`. */
  patch({ isCleared, pages }: LayerPages, number: number, offset: number, bytes: Uint8Array): boolean {
    const known = pages.get(number);
    if (known instanceof Uint8Array) {
      copyBytes(bytes, 0, known, offset, bytes.length);
      return true;
    }
    if (isCleared) return false;
    const runs = known ?? new PageRuns();
    if (!runs.add(offset, bytes, this.#arena)) return false;
    if (known === undefined) {
      pages.set(number, runs);
      this.pageCount++;
      this.#pageBytes += RUNS_OVERHEAD_BYTES;
    }
    return true;
  }

  /** Has the layer keep a page whole. The array is the layer's then. */
  addPage({ pages }: LayerPages, number: number, page: Uint8Array): void {
    const known = pages.get(number);
    if (known === undefined) this.pageCount++;
    this.#pageBytes += WHOLE_BYTES - (known === undefined ? 0 : sizeOf(known));
    pages.set(number, page);
  }

  clearPages(family: PageFamily, id: string): void {
    const pages = this.pagesOf(family, id);
    for (const page of pages.pages.values()) this.#pageBytes -= sizeOf(page);
    this.pageCount -= pages.pages.size;
    pages.pages.clear();
    pages.isCleared = true;
  }

  tableOf(family: Family): LayerTable {
    let table = this.tables.get(family);
    if (table === undefined) this.tables.set(family, (table = new LayerTable(family)));
    return table;
  }
}

const WHOLE_BYTES = PAGE_BYTES + ENTRY_OVERHEAD_BYTES;

/**
 * Returns the bytes that are free again when a page goes. The arena keeps the piece with its runs until the layer
 * goes.
 */
function sizeOf(page: LayerPage): number {
  return page instanceof Uint8Array ? WHOLE_BYTES : RUNS_OVERHEAD_BYTES;
}

/**
 * Returns a page as these layers, oldest first, make it of the one that is stored below them, or undefined if no
 * layer and no table has it. A page that one of them has whole comes out as it is there, so it is to be copied before
 * it is changed.
 */
export function pageOver(
  layers: readonly LayerPages[],
  number: number,
  stored: Uint8Array | undefined,
): Uint8Array | undefined {
  let content = stored;
  for (const { pages } of layers) {
    const page = pages.get(number);
    if (page === undefined) continue;
    if (page instanceof Uint8Array) {
      content = page;
    } else {
      content = content === undefined ? new Uint8Array(PAGE_BYTES) : new Uint8Array(content);
      page.putOn(content);
    }
  }
  return content;
}

export function isPageFamily(family: Family): family is PageFamily {
  return family === 'heap' || family === 'stable';
}

export function latin1Of(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('latin1');
}

export function bytesOfLatin1(text: string): Uint8Array {
  return new Uint8Array(Buffer.from(text, 'latin1'));
}

/** The key of a page in its family: id · big-endian number. */
export function pageKey(id: Uint8Array, number: number): Uint8Array {
  const key = new Uint8Array(ID_BYTES + 4);
  key.set(id);
  new DataView(key.buffer).setUint32(ID_BYTES, number);
  return key;
}

export function pageNumberOf(key: Uint8Array): number {
  return new DataView(key.buffer, key.byteOffset).getUint32(ID_BYTES);
}

/** The first key after all that begin with `prefix`; undefined: there is none. */
export function prefixEnd(prefix: Uint8Array): Uint8Array | undefined {
  // A Buffer's slice would be a view.
  const end = new Uint8Array(prefix);
  for (let at = end.length - 1; at >= 0; at--) {
    if (end[at] !== 0xff) {
      end[at] = numberAt(end, at, 'byte of a prefix') + 1;
      return end.slice(0, at + 1);
    }
  }
  return undefined;
}
