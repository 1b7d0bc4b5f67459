/**
 * Memories of a sleeping canister as its executor keeps them: the heap as differences from a template, stable memory
 * unchanged.
 * Executor thread. Plain data, never changed.
 */
import { readPageEntries } from '../../bytes/index.ts';
import { release, type StoredMemory } from '../../storage/index.ts';
import type { HeapTemplate } from './heap-template.ts';

/** Page entries (bytes/page-patch.ts), in the order in which they came. */
export type PackedPages = readonly { readonly entries: number; readonly bytes: Uint8Array }[];

/** Stands in for `StoredMemory`. */
export interface PackedMemory {
  readonly isPacked: true;
  /** Undefined: the canister has no code. */
  readonly heap: PackedHeap | undefined;
  readonly stable: PackedPages;
}

export interface PackedHeap {
  readonly template: HeapTemplate;
  /** Differences of the heap from the template. */
  readonly changes: PackedPages;
}

export function isPacked(memory: StoredMemory | PackedMemory): memory is PackedMemory {
  return 'isPacked' in memory;
}

/** Calls `visit` for each run of packed pages, in order. */
export function readPacked(
  packed: PackedPages,
  visit: (page: number, offset: number, bytes: Uint8Array) => void,
): void {
  for (const { entries, bytes } of packed) {
    if (readPageEntries(bytes, 0, entries, visit) < 0) throw new Error('packed pages are cut off');
  }
}

/** Returns the number of entries: a page has one, or none. */
export function pagesOf(packed: PackedPages): number {
  return packed.reduce((sum, { entries }) => sum + entries, 0);
}

/** Gives the memory of packed pages back at once: nobody may read them afterwards. */
export function letGoOf(packed: PackedPages): void {
  for (const { bytes } of packed) release(bytes);
}
