/**
 * What units have changed and the tables do not have yet: entries by key, and whole pages that patches were applied to.
 * A page of a layer is made of the page below it, once; then patches cost a copy of the bytes that changed.
 */
import { numberAt } from '../../kernel/index.ts';
import { ENTRY_OVERHEAD_BYTES, LayerTable } from './layer-table.ts';
import type { Family } from './tables.ts';
import { ID_BYTES } from './write-batch.ts';
import { PAGE_BYTES } from '../bytes/index.ts';

/** The page families: their entries are pages, by canister. */
export type PageFamily = 'heap' | 'stable';

/** One canister's pages in a layer. */
export interface LayerPages {
  /** Nothing below this layer counts. */
  isCleared: boolean;
  readonly pages: Map<number, Uint8Array>;
}

export class OverlayLayer {
  readonly pages: Readonly<Record<PageFamily, Map<string, LayerPages>>> = { heap: new Map(), stable: new Map() };
  readonly tables = new Map<Family, LayerTable>();
  #pageBytes = 0;

  /** About what it holds in memory. */
  get bytes(): number {
    let bytes = this.#pageBytes;
    for (const table of this.tables.values()) bytes += table.bytes;
    return bytes;
  }

  pagesOf(family: PageFamily, id: string): LayerPages {
    const known = this.pages[family].get(id);
    if (known !== undefined) return known;
    const fresh = { isCleared: false, pages: new Map<number, Uint8Array>() };
    this.pages[family].set(id, fresh);
    this.#pageBytes += ENTRY_OVERHEAD_BYTES;
    return fresh;
  }

  addPage(pages: LayerPages, number: number, page: Uint8Array): void {
    pages.pages.set(number, page);
    this.#pageBytes += PAGE_BYTES + ENTRY_OVERHEAD_BYTES;
  }

  clearPages(family: PageFamily, id: string): void {
    const pages = this.pagesOf(family, id);
    this.#pageBytes -= pages.pages.size * (PAGE_BYTES + ENTRY_OVERHEAD_BYTES);
    pages.pages.clear();
    pages.isCleared = true;
  }

  tableOf(family: Family): LayerTable {
    let table = this.tables.get(family);
    if (table === undefined) this.tables.set(family, (table = new LayerTable(family)));
    return table;
  }
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
