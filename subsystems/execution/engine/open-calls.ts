import { at, numberAt } from '../../../kernel/index.ts';
import type { OpenCallsEntry } from '../../ic/index.ts';
/** Executor thread: a part of one canister's state, touched while its message runs and when it is loaded. */
/**
 * The most calls of a canister that may wait for a response of the same callee: the replica's queue between two
 * canisters.
 */
export const OPEN_CALLS_PER_CALLEE_MAX = 500;
/** The most calls that may wait at all callees together: each holds a callback, a call context and a message. */
export const OPEN_CALLS_MAX = 50_000;

/**
 * Open calls of a canister, counted by callee. A callee with open calls has a slot, a small number that travels with
 * the callbacks, so that a response is counted without the callee's name. A new callee gets the lowest free slot: the
 * slots depend on nothing but which calls are open, so that they can be loaded.
 */
export class OpenCalls {
  /** Number of open calls by slot; slot 0 stands for "none". */
  readonly #counts: number[] = [0];
  readonly #callees: string[] = [''];
  /** One bit for each slot: in use. Slot 0 always is. */
  readonly #used: number[] = [1];
  /** All words before this one are full. */
  #firstWord = 0;
  readonly #slots = new Map<string, number>();
  #total = 0;
  /** Changes since `mark`, in order; undefined: `mark` was never called. */
  #changes: { readonly key: string; readonly slot: number; readonly by: 1 | -1 }[] | undefined;

  get total(): number {
    return this.#total;
  }

  /** Counts one more; returns the callee's slot, or 0 if a limit is reached. */
  raise(callee: Uint8Array): number {
    if (this.#total >= OPEN_CALLS_MAX) return 0;
    const key = keyOf(callee);
    const slot = this.#slots.get(key) ?? this.#addSlot(key);
    const count = numberAt(this.#counts, slot, 'slot');
    if (count >= OPEN_CALLS_PER_CALLEE_MAX) return 0;
    this.#counts[slot] = count + 1;
    this.#total++;
    this.#changes?.push({ key, slot, by: 1 });
    return slot;
  }

  /** Counts one less; slots that are not in use (their calls were forgotten) are left alone. */
  lower(slot: number): void {
    const count = this.#counts[slot] ?? 0;
    if (count === 0) return;
    this.#total--;
    this.#counts[slot] = count - 1;
    this.#changes?.push({ key: at(this.#callees, slot, 'callee'), slot, by: -1 });
    if (count > 1) return;
    this.#slots.delete(at(this.#callees, slot, 'callee'));
    const word = slot >>> 5;
    this.#used[word] = numberAt(this.#used, word, 'word of slots') & ~(1 << (slot & 31));
    if (word < this.#firstWord) this.#firstWord = word;
  }

  /** Takes over the counts of a canister whose state has been loaded. Calls in slot 0 are not counted. */
  load(entries: Iterable<OpenCallsEntry>): void {
    this.clear();
    for (const { callee, slot, count } of entries) {
      if (slot === 0 || count === 0) continue;
      if (slot > OPEN_CALLS_MAX) throw new RangeError(`no open calls are counted in slot ${slot}`);
      for (let k = this.#counts.length; k <= slot; k++) {
        this.#counts[k] = 0;
        this.#callees[k] = '';
      }
      this.#take(slot, keyOf(callee));
      this.#counts[slot] = count;
      this.#total += count;
    }
  }

  /** Returns the entries that `load` takes. */
  entries(): OpenCallsEntry[] {
    const entries: OpenCallsEntry[] = [];
    for (const [callee, slot] of this.#slots) {
      const count = numberAt(this.#counts, slot, 'slot');
      if (count > 0) entries.push({ callee: calleeOf(callee), slot, count });
    }
    return entries;
  }

  /** Marks a message's start: `entriesAtMark` returns the entries as of now. */
  mark(): void {
    if (this.#changes === undefined) this.#changes = [];
    else if (this.#changes.length > 0) this.#changes.length = 0;
  }

  /** Returns what `entries` would have returned at the last `mark`. */
  entriesAtMark(): OpenCallsEntry[] {
    const counts = new Map<string, { readonly slot: number; count: number }>();
    for (const [key, slot] of this.#slots) counts.set(key, { slot, count: numberAt(this.#counts, slot, 'slot') });
    for (const { key, slot, by } of this.#changes?.toReversed() ?? []) {
      const entry = counts.get(key);
      if (entry?.slot === slot) entry.count -= by;
      // Another callee had the slot by then.
      else counts.set(key, { slot, count: -by });
    }
    return [...counts]
      .filter(([, { count }]) => count > 0)
      .map(([key, { slot, count }]) => ({ callee: calleeOf(key), slot, count }));
  }

  /** Forgets all of them: no response to them will come. */
  clear(): void {
    this.#counts.length = 1;
    this.#callees.length = 1;
    this.#used.length = 1;
    this.#used[0] = 1;
    this.#firstWord = 0;
    this.#slots.clear();
    this.#total = 0;
    if (this.#changes !== undefined) this.#changes.length = 0;
  }

  #addSlot(key: string): number {
    while (this.#used[this.#firstWord] === -1) this.#firstWord++;
    const word = this.#firstWord;
    const free = ~(this.#used[word] ?? 0);
    // Index of the lowest set bit of `free`.
    const slot = word * 32 + 31 - Math.clz32(free & -free);
    this.#take(slot, key);
    this.#counts[slot] = 0;
    return slot;
  }

  #take(slot: number, key: string): void {
    const word = slot >>> 5;
    for (let k = this.#used.length; k <= word; k++) this.#used[k] = 0;
    this.#used[word] = numberAt(this.#used, word, 'word of slots') | (1 << (slot & 31));
    this.#callees[slot] = key;
    this.#slots.set(key, slot);
  }
}

function calleeOf(key: string): Uint8Array {
  return new Uint8Array(Buffer.from(key, 'latin1'));
}

function keyOf(callee: Uint8Array): string {
  return Buffer.from(callee.buffer, callee.byteOffset, callee.length).toString('latin1');
}
