/**
 * What of a canister is to survive, told step by step in operations for storage.
 *
 * Two ways (design/durability.md). A small heap is kept by what each message changed of it. A large one by what the message
 * depended on, its record: after a crash the records since the last checkpoint are run again. Which of the two, is decided
 * after each step, by the heap's size. A canister becomes logged with a checkpoint that says what its memory does not:
 * `Standing`; from then on the pages that messages touch are remembered for the next checkpoint.
 */
import { deserialize, serialize } from 'node:v8';
import { ServerError } from '../../kernel/index.ts';
import type { MeteringPolicy } from '../metering/index.ts';
import { logKey, META, metaKey, PATCH_PAGES_MAX, WriteSet } from '../storage/index.ts';
import type { CanisterState } from './canister-state.ts';
import type { CanisterSettings, Task } from './index.ts';
import type { Instance } from './instance.ts';
import type { OpenCallsEntry } from './open-calls.ts';
import { PageSet } from './page-set.ts';
import { STABLE_GRANULE_BYTES, type StableMemory } from './stable-memory.ts';

/** A canister's way to be kept. */
export class KeptCanister {
  /** Heaps up to this are kept by what changed. */
  readonly snapshotBelowBytes: number;
  isLogged = false;
  /** Records since the last checkpoint. */
  records = 0;
  /** Instructions that running them again takes. */
  instructions = 0;
  /** As they were stored last. */
  globals: Uint8Array | undefined;
  /** Pages that are newer than the last checkpoint. */
  readonly heapPages = new PageSet();
  readonly stablePages = new PageSet();

  constructor(snapshotBelowBytes: number) {
    this.snapshotBelowBytes = snapshotBelowBytes;
  }
}

/** What a log begins with, besides memory, globals and certified data. */
export interface Standing {
  readonly policy: MeteringPolicy;
  readonly balance: bigint;
  readonly version: number;
  readonly timerNs: bigint;
  readonly instantMs: number;
  readonly settings: CanisterSettings;
  readonly heapBytes: number;
  readonly stablePages: number;
  readonly openCalls: readonly OpenCallsEntry[];
}

/** One record of a log. */
export type LogRecord =
  | { readonly kind: 'task'; readonly nowMs: number; readonly task: Task }
  | { readonly kind: 'configure'; readonly settings: CanisterSettings }
  /** What happened without a step that could be run again: cycles came in, an upgrade failed. */
  | { readonly kind: 'numbers'; readonly balance: bigint; readonly version: number; readonly timerNs: bigint };

/** Collects what the steps of one engine change. */
export class StateChanges {
  readonly #set = new WriteSet();

  /** What was collected since the last time; undefined: nothing. */
  take(): Uint8Array | undefined {
    return this.#set.length === 0 ? undefined : this.#set.take();
  }

  /** A message is about to be committed. */
  beforeCommit(canister: CanisterState, instance: Instance): void {
    const { kept, id } = canister;
    if (kept === undefined) return;
    if (kept.isLogged) {
      this.#markHeap(kept, instance);
      markStable(kept, canister.stable);
      return;
    }
    instance.deltas((pages, body) => this.#set.patch('heap', id, pages, body));
    this.stableDeltas(canister);
  }

  stableDeltas({ stable, id }: CanisterState): void {
    stable.deltas((granules, body) => this.#set.patch('stable', id, granules, body));
  }

  #markHeap(kept: KeptCanister, instance: Instance): void {
    for (const page of instance.dirtyPages()) kept.heapPages.add(page);
  }

  certifiedData({ id, kept, certifiedData }: CanisterState): void {
    if (kept === undefined || kept.isLogged) return;
    this.#set.put('meta', metaKey(META.certifiedData, id), certifiedData);
  }

  /** The globals, if a committed message has changed them. */
  globals({ id }: CanisterState, kept: KeptCanister, instance: Instance): void {
    const globals = instance.saveGlobals();
    if (kept.globals !== undefined && Buffer.compare(kept.globals, globals) === 0) return;
    kept.globals = globals;
    this.#set.put('meta', metaKey(META.globals, id), globals);
  }

  /** Of a canister whose code and heap are new; its stable memory too, if it is. */
  image(canister: CanisterState, kept: KeptCanister, isStableNew: boolean): void {
    const { id, installed, stable } = canister;
    const set = this.#set;
    set.clear('heap', id);
    installed?.instance.image((pages, body) => set.patch('heap', id, pages, body));
    if (isStableNew) {
      set.clear('stable', id);
      stable.image((granules, body) => set.patch('stable', id, granules, body));
      kept.stablePages.clear();
    } else if (kept.isLogged) {
      this.#stablePages(canister, kept);
    }
    kept.heapPages.clear();
    kept.globals = undefined;
    if (installed === undefined) set.delete('meta', metaKey(META.globals, id));
    else this.globals(canister, kept, installed.instance);
    set.put('meta', metaKey(META.certifiedData, id), canister.certifiedData);
    this.#endLog(canister, kept);
    this.chooseWay(canister, kept);
  }

  /** A canister that is kept by what changed, and has become too large for it, goes on with a log. */
  chooseWay(canister: CanisterState, kept: KeptCanister): void {
    const heapBytes = canister.installed?.instance.heapBytes ?? 0;
    if (kept.isLogged || heapBytes <= kept.snapshotBelowBytes) return;
    kept.isLogged = true;
    this.#beginLog(canister);
  }

  /** Brings what is stored of a logged canister up to date, and begins its log anew. */
  checkpoint(canister: CanisterState, kept: KeptCanister): void {
    if (!kept.isLogged) return;
    const { id, installed } = canister;
    if (installed !== undefined) {
      const heap = installed.instance.heap();
      this.#pages('heap', id, kept.heapPages, (page, into) => into.set(pageOf(heap, page)));
      kept.heapPages.clear();
      this.globals(canister, kept, installed.instance);
    }
    this.#stablePages(canister, kept);
    this.#set.put('meta', metaKey(META.certifiedData, id), canister.certifiedData);
    this.#endLog(canister, kept);
    this.chooseWay(canister, kept);
  }

  #endLog({ id }: CanisterState, kept: KeptCanister): void {
    if (!kept.isLogged) return;
    this.#set.clear('log', id);
    this.#set.delete('meta', metaKey(META.checkpoint, id));
    kept.isLogged = false;
    kept.records = 0;
    kept.instructions = 0;
  }

  #beginLog(canister: CanisterState): void {
    this.#set.put('meta', metaKey(META.checkpoint, canister.id), serialize(standingOf(canister)));
  }

  record({ id }: CanisterState, kept: KeptCanister, record: LogRecord): void {
    this.#set.put('log', logKey(id, kept.records++), serialize(record));
  }

  /** Numbers that no step explains. */
  numbers(canister: CanisterState): void {
    const { kept, account, version, timerNs } = canister;
    if (kept?.isLogged === true)
      this.record(canister, kept, { kind: 'numbers', balance: account.balance, version, timerNs });
  }

  #stablePages({ id, stable }: CanisterState, kept: KeptCanister): void {
    this.#pages('stable', id, kept.stablePages, (granule, into) =>
      stable.read(granule * STABLE_GRANULE_BYTES, into, 0, STABLE_GRANULE_BYTES),
    );
    kept.stablePages.clear();
  }

  #pages(
    family: 'heap' | 'stable',
    id: Uint8Array,
    pages: PageSet,
    read: (page: number, into: Uint8Array) => void,
  ): void {
    let body = new Uint8Array(0);
    let count = 0;
    const flush = (): void => {
      if (count > 0) this.#set.patch(family, id, count, body.subarray(0, count * WHOLE_PAGE_BYTES));
      count = 0;
    };
    for (const page of pages) {
      if (body.length === 0) body = new Uint8Array(PAGES_AT_ONCE * WHOLE_PAGE_BYTES);
      const at = count * WHOLE_PAGE_BYTES;
      const view = new DataView(body.buffer, at);
      view.setUint32(0, page, true);
      view.setUint16(4, 1, true);
      view.setUint16(6, 0, true);
      view.setUint16(8, STABLE_GRANULE_BYTES, true);
      read(page, body.subarray(at + 10, at + WHOLE_PAGE_BYTES));
      if (++count === PAGES_AT_ONCE) flush();
    }
    flush();
  }
}

/** An entry of a patch with one run, the page. */
const WHOLE_PAGE_BYTES = 10 + STABLE_GRANULE_BYTES;
const PAGES_AT_ONCE = Math.min(256, PATCH_PAGES_MAX);

function pageOf(heap: Uint8Array, page: number): Uint8Array {
  return heap.subarray(page * STABLE_GRANULE_BYTES, (page + 1) * STABLE_GRANULE_BYTES);
}

/** Those that the message in progress has written. */
export function markStable(kept: KeptCanister, stable: StableMemory): void {
  for (const granule of stable.dirtyGranules) kept.stablePages.add(granule);
}

function standingOf(canister: CanisterState): Standing {
  const { account, version, timerNs, instantMs, stable, openCalls, settings, installed } = canister;
  return {
    policy: account.policy,
    balance: account.balance,
    version,
    timerNs,
    instantMs,
    settings,
    heapBytes: installed?.instance.heapBytes ?? 0,
    stablePages: stable.pages,
    openCalls: openCalls.entries(),
  };
}

/** Throws ServerError `state-corrupt`. */
export function readStanding(bytes: Uint8Array): Standing {
  return read(bytes, 'checkpoint') as Standing;
}

/** Throws ServerError `state-corrupt`. */
export function readRecord(bytes: Uint8Array): LogRecord {
  return read(bytes, 'log record') as LogRecord;
}

/** Its bytes come from tables and a log that check theirs: what does not fit here was written by another version. */
function read(bytes: Uint8Array, what: string): unknown {
  try {
    const value: unknown = deserialize(bytes);
    if (typeof value === 'object' && value !== null) return value;
  } catch {
    // Told below.
  }
  throw new ServerError('unavailable', 'state-corrupt', `a ${what} of ${bytes.length} bytes cannot be read`);
}
