/**
 * The memories of a sleeping canister as its executor keeps them: the heap as differences from a template, stable memory as it is.
 * Executor thread. Plain data, never changed.
 */
import { readPageEntries } from '../../bytes/index.ts';
import type { StoredMemory } from '../../storage/index.ts';
import type { HeapTemplate } from './heap-template.ts';

/** Page entries (bytes/page-patch.ts), as they came. */
export type PackedPages = readonly { readonly entries: number; readonly bytes: Uint8Array }[];

/** In place of `StoredMemory`. */
export interface PackedMemory {
  readonly isPacked: true;
  /** Undefined: it has no code. */
  readonly heap: PackedHeap | undefined;
  readonly stable: PackedPages;
}

export interface PackedHeap {
  readonly template: HeapTemplate;
  /** In what the heap differs from it. */
  readonly changes: PackedPages;
}

export function isPacked(memory: StoredMemory | PackedMemory): memory is PackedMemory {
  return 'isPacked' in memory;
}

/** Tells each run of packed pages, in order. */
export function readPacked(
  packed: PackedPages,
  visit: (page: number, offset: number, bytes: Uint8Array) => void,
): void {
  for (const { entries, bytes } of packed) {
    if (readPageEntries(bytes, 0, entries, visit) < 0) throw new Error('packed pages are cut off');
  }
}

/** How many entries there are: a page has one, or none. */
export function pagesOf(packed: PackedPages): number {
  return packed.reduce((sum, { entries }) => sum + entries, 0);
}
