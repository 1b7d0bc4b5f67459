/**
 * Executor thread: records the changes of each step of a durable canister, as operations for storage.
 *
 * There are two ways (docs/durability.md). A small heap is stored as the bytes that each message changed. A large heap
 * is stored as a log of what each message depended on: after a crash the records since the last checkpoint are run
 * again. The recorder chooses after each step, by the size of the heap; and before the commit of a message that has
 * changed much, which may be gigabytes. A canister's log begins with a checkpoint; its `CheckpointHeader` holds what
 * the stored memory does not. From then on the pages that messages touch are remembered for the next checkpoint.
 */
import { erasePayload, logKey, memoryId, META, metaKey, type PayloadRef, WriteBatch } from '../../storage/index.ts';
import { numbersOf } from '../../ic/index.ts';
import type { CanisterState } from '../engine/canister-state.ts';
import type { Instance } from '../engine/instance.ts';
import { encodeRecord, encodeCheckpointHeader, type LogRecord, type CheckpointHeader } from './log-record.ts';
import { PageEntries, RecordWriter, PAGE_BYTES } from '../../bytes/index.ts';
import { inOneGo, type Pieces } from '../memory/pieces.ts';
import type { PersistenceState } from './persistence-state.ts';
import { changedPagesMax, PIECE_SIZES, type PieceSizes } from './piece-sizes.ts';
import type { ComingMemory } from './ahead-store.ts';

/**
 * Memory that a canister gets new with its code: all of it, all but the stable memory, or only the changes that were
 * told before its upgrade was committed.
 */
export type MemoryOfNewCode = 'new' | 'heap-new' | 'kept';

/** Collects the changes of the steps of one engine. */
export class ChangeRecorder {
  readonly #set = new WriteBatch();
  readonly #writer = new RecordWriter();
  readonly #sizes: PieceSizes;

  constructor(sizes: PieceSizes = PIECE_SIZES) {
    this.#sizes = sizes;
  }

  /**
   * True if a piece has been collected. Half a slice is enough: with the next slice the piece would be twice as large
   * as it should be.
   */
  get hasPiece(): boolean {
    return this.#set.length >= (this.#sizes.slicePages * PAGE_BYTES) / 2;
  }

  /** Returns the operations collected since the last time, in pieces (`WriteBatch.takePieces`); undefined: none. */
  take(): readonly Uint8Array[] | undefined {
    return this.#set.length === 0 ? undefined : this.#set.takePieces();
  }

  // ---- payloads

  /** Records a row of a payload. */
  payload(key: Uint8Array, bytes: Uint8Array): void {
    this.#set.put('queue', key, bytes);
  }

  /** Records that the payload's rows are gone; nothing else that was recorded counts. */
  withoutPayloads(refs: Iterable<PayloadRef>): void {
    this.#set.reset();
    for (const ref of refs) erasePayload(this.#set, ref);
  }

  // ---- by changed bytes

  /** Records a message's changes before it is committed. */
  beforeCommit(canister: CanisterState, instance: Instance): void {
    const { persistence } = canister;
    if (persistence === undefined) return;
    if (!persistence.isLogged && this.#isTooMuch(canister, instance)) this.#beginLog(canister, persistence, instance);
    if (persistence.isLogged) {
      instance.markDirtyPages(persistence.stales[0].heap, persistence.stales[1].heap);
    } else {
      const id = memoryId(canister.id, persistence.copy);
      instance.deltas((pages, body) => this.#set.patch('heap', id, pages, body));
    }
    this.beforeStableCommit(canister, persistence);
  }

  /** Does the same as `beforeCommit` in pieces, for a message that has changed much. */
  *beforeCommitInPieces(canister: CanisterState, instance: Instance): Pieces {
    const { persistence } = canister;
    if (persistence === undefined) return;
    if (!persistence.isLogged && this.#isTooMuch(canister, instance)) this.#beginLog(canister, persistence, instance);
    if (persistence.isLogged) {
      yield* instance.markDirtyPagesInPieces(persistence.stales[0].heap, persistence.stales[1].heap);
    } else {
      const id = memoryId(canister.id, persistence.copy);
      yield* instance.deltasInPieces((pages, body) => this.#set.patch('heap', id, pages, body));
    }
    yield* this.beforeStableCommitInPieces(canister, persistence);
  }

  *beforeStableCommitInPieces(canister: CanisterState, persistence: PersistenceState): Pieces {
    if (persistence.isLogged) return this.beforeStableCommit(canister, persistence);
    const memory = memoryId(canister.id, persistence.copy);
    yield* canister.stable.deltasInPieces((granules, body) => this.#set.patch('stable', memory, granules, body));
  }

  beforeStableCommit({ stable, id }: CanisterState, persistence: PersistenceState): void {
    if (persistence.isLogged) {
      for (const granule of stable.dirtyGranules) for (const stale of persistence.stales) stale.stable.add(granule);
    } else {
      const memory = memoryId(id, persistence.copy);
      stable.deltas((granules, body) => this.#set.patch('stable', memory, granules, body));
    }
  }

  certifiedData({ id, persistence, certifiedData }: CanisterState): void {
    if (persistence === undefined || persistence.isLogged) return;
    this.#set.put('meta', metaKey(META.certifiedData, id), certifiedData);
  }

  /** Records the globals, if a committed message has changed them. */
  globals({ id }: CanisterState, persistence: PersistenceState, instance: Instance): void {
    const globals = instance.viewGlobals();
    if (persistence.globals !== undefined && Buffer.compare(persistence.globals, globals) === 0) return;
    persistence.globals = globals.slice();
    this.#set.put('meta', metaKey(META.globals, id), globals);
  }

  /** Records a canister's new code, or its removal. Its log ends here: no log spans a change of code. */
  *newCode(canister: CanisterState, persistence: PersistenceState, has: MemoryOfNewCode): Pieces {
    persistence.globals = undefined;
    if (persistence.isAhead) this.#useAhead(canister, persistence);
    else if (has !== 'kept') yield* this.#image(canister, persistence, has === 'new');
    else if (persistence.isLogged) yield* this.#checkpointInPieces(canister, persistence);
    else this.#withoutPages(canister, persistence);
  }

  #withoutPages(canister: CanisterState, persistence: PersistenceState): void {
    const { id, installed, certifiedData } = canister;
    if (installed === undefined) this.#set.delete('meta', metaKey(META.globals, id));
    else this.globals(canister, persistence, installed.instance);
    this.#set.put('meta', metaKey(META.certifiedData, id), certifiedData);
    this.#endLog(canister, persistence);
    this.chooseWay(canister, persistence);
    // From now on nobody notes what the other copy lacks.
    if (!persistence.isLogged) this.#forgetOther(id, persistence);
  }

  *#image(canister: CanisterState, persistence: PersistenceState, isStableNew: boolean): Pieces {
    const { id, installed, stable } = canister;
    const set = this.#set;
    const memory = memoryId(id, persistence.copy);
    this.#forgetOther(id, persistence);
    set.clear('heap', memory);
    if (installed !== undefined)
      yield* installed.instance.image((pages, body) => set.patch('heap', memory, pages, body));
    if (isStableNew) {
      set.clear('stable', memory);
      yield* stable.image((granules, body) => set.patch('stable', memory, granules, body));
    } else {
      yield* this.#writeStable(canister, memory, persistence.stale.stable);
    }
    persistence.stale.clear();
    this.#withoutPages(canister, persistence);
  }

  /** Copies the memory that a canister is about to have to its other copy, which does not count yet. */
  *copyAhead({ id }: CanisterState, persistence: PersistenceState, { instance, stable }: ComingMemory): Pieces {
    const set = this.#set;
    const memory = memoryId(id, 1 - persistence.copy);
    const { slicePages } = this.#sizes;
    persistence.forgetOther();
    persistence.hasAhead = true;
    set.put('meta', metaKey(META.ahead, id), Uint8Array.of(1 - persistence.copy));
    // The other copy may hold what a crash has left.
    if (!persistence.isOtherEmpty) this.#clear(memory);
    persistence.isOtherEmpty = false;
    if (instance !== undefined)
      yield* instance.image((pages, body) => set.patch('heap', memory, pages, body), slicePages);
    yield* stable.image((granules, body) => set.patch('stable', memory, granules, body), slicePages);
    persistence.isAhead = true;
  }

  #useAhead(canister: CanisterState, persistence: PersistenceState): void {
    const { id } = canister;
    const before = persistence.copy;
    persistence.switchCopy();
    this.#set.put('meta', metaKey(META.copy, id), Uint8Array.of(persistence.copy));
    this.#set.delete('meta', metaKey(META.ahead, id));
    this.#clear(memoryId(id, before));
    persistence.stale.clear();
    persistence.stale.isWhole = false;
    persistence.forgetOther();
    persistence.isOtherEmpty = true;
    this.#withoutPages(canister, persistence);
  }

  /** Switches a canister to a log if it is stored by its changes and has become too large for that. */
  chooseWay(canister: CanisterState, persistence: PersistenceState): void {
    const heapBytes = canister.installed?.instance.heapBytes ?? 0;
    if (persistence.isLogged || heapBytes <= persistence.snapshotBelowBytes) return;
    persistence.isLogged = true;
    this.#set.put(
      'meta',
      metaKey(META.checkpoint, canister.id),
      encodeCheckpointHeader(this.#writer, checkpointHeaderOf(canister)),
    );
  }

  /** Returns true if a message has changed more than goes into one unit: everybody's commits would wait for it. */
  #isTooMuch({ stable }: CanisterState, { touchedPages }: Instance): boolean {
    return touchedPages + stable.dirtyGranules.length > changedPagesMax(this.#sizes);
  }

  // ---- by a log

  /**
   * Begins a canister's log with its state before the message that is about to be committed, which is the stored state.
   */
  #beginLog(canister: CanisterState, persistence: PersistenceState, { bytesBefore }: Instance): void {
    persistence.isLogged = true;
    const header = {
      ...checkpointHeaderOf(canister),
      ...canister.beforeMessage(),
      heapBytes: bytesBefore,
      stablePages: canister.stable.pagesBefore,
    };
    this.#set.put('meta', metaKey(META.checkpoint, canister.id), encodeCheckpointHeader(this.#writer, header));
  }

  record({ id }: CanisterState, persistence: PersistenceState, record: LogRecord): void {
    if (persistence.isReplaying) {
      persistence.records++;
      return;
    }
    this.#set.put('log', logKey(id, persistence.records++), encodeRecord(this.#writer, record));
  }

  /** Records numbers that no step explains. */
  numbers(canister: CanisterState): void {
    const { persistence, account, timerNs } = canister;
    if (persistence?.isLogged === true)
      this.record(canister, persistence, {
        kind: 'numbers',
        balance: account.balance,
        timerNs,
        ...numbersOf(canister),
      });
  }

  /**
   * Writes some of the pages that a checkpoint needs ahead of it, if there are many: to the other copy, which does not
   * count yet. Returns true if `checkpoint` has little left to write.
   */
  prepareCheckpoint(canister: CanisterState, persistence: PersistenceState): boolean {
    if (!persistence.isLogged) return true;
    if (!persistence.isCopying) {
      if (persistence.stale.pages <= this.#sizes.atOncePages) return true;
      this.#beginCopy(canister, persistence);
    }
    const memory = memoryId(canister.id, 1 - persistence.copy);
    const stale = persistence.otherStale;
    const { slicePages } = this.#sizes;
    if (stale.pages > slicePages && persistence.piecesLeft > 0) {
      persistence.piecesLeft--;
      inOneGo(this.#writeHeap(canister, memory, stale.heap.take(slicePages)));
      inOneGo(this.#writeStable(canister, memory, stale.stable.take(slicePages)));
    }
    return stale.pages <= slicePages || persistence.piecesLeft === 0;
  }

  #beginCopy({ id, installed, stable }: CanisterState, persistence: PersistenceState): void {
    persistence.isCopying = true;
    const stale = persistence.otherStale;
    if (stale.isWhole) {
      this.#clearOther(id, persistence);
      persistence.isOtherEmpty = false;
      stale.isWhole = false;
      const pages = (installed?.instance.heapBytes ?? 0) / PAGE_BYTES;
      for (let page = 0; page < pages; page++) stale.heap.add(page);
      for (const granule of stable.granules()) stale.stable.add(granule);
    }
    persistence.piecesLeft = Math.ceil((PIECES_FACTOR * stale.pages) / this.#sizes.slicePages);
  }

  /** Brings the stored state of a logged canister up to date, and begins its log anew: all at once. */
  checkpoint(canister: CanisterState, persistence: PersistenceState): void {
    if (persistence.isLogged) inOneGo(this.#checkpointInPieces(canister, persistence));
  }

  *#checkpointInPieces(canister: CanisterState, persistence: PersistenceState): Pieces {
    const { id } = canister;
    if (persistence.isCopying) {
      persistence.switchCopy();
      this.#set.put('meta', metaKey(META.copy, id), Uint8Array.of(persistence.copy));
    }
    const memory = memoryId(id, persistence.copy);
    yield* this.#writeHeap(canister, memory, persistence.stale.heap);
    yield* this.#writeStable(canister, memory, persistence.stale.stable);
    persistence.stale.clear();
    this.#withoutPages(canister, persistence);
  }

  #endLog({ id }: CanisterState, persistence: PersistenceState): void {
    if (!persistence.isLogged) return;
    this.#set.clear('log', id);
    this.#set.delete('meta', metaKey(META.checkpoint, id));
    persistence.isLogged = false;
    persistence.sharedInLog = undefined;
    persistence.records = 0;
    persistence.instructions = 0;
  }

  #forgetOther(id: Uint8Array, persistence: PersistenceState): void {
    if (!persistence.otherStale.isWhole || persistence.hasAhead) this.#clearOther(id, persistence);
    persistence.forgetOther();
  }

  #clearOther(id: Uint8Array, persistence: PersistenceState): void {
    if (!persistence.isOtherEmpty) this.#clear(memoryId(id, 1 - persistence.copy));
    persistence.isOtherEmpty = true;
    if (persistence.hasAhead) this.#set.delete('meta', metaKey(META.ahead, id));
    persistence.hasAhead = false;
  }

  #clear(memory: Uint8Array): void {
    for (const family of ['heap', 'stable'] as const) this.#set.clear(family, memory);
  }

  // ---- whole pages

  *#writeHeap({ installed }: CanisterState, memory: Uint8Array, pages: Iterable<number>): Pieces {
    if (installed === undefined) return;
    const heap = installed.instance.heap();
    const entries = new PageEntries((count, body) => this.#set.patch('heap', memory, count, body), SLICE_PAGES);
    let added = 0;
    for (const page of pages) {
      entries.addWhole(page, heap, page * PAGE_BYTES, ADD_ZEROS);
      if (++added % SLICE_PAGES === 0) yield;
    }
    entries.end();
  }

  *#writeStable({ stable }: CanisterState, memory: Uint8Array, granules: Iterable<number>): Pieces {
    const entries = new PageEntries((count, body) => this.#set.patch('stable', memory, count, body), SLICE_PAGES);
    const content = new Uint8Array(PAGE_BYTES);
    let added = 0;
    for (const granule of granules) {
      stable.read(granule * PAGE_BYTES, content, 0, PAGE_BYTES);
      entries.addWhole(granule, content, 0, ADD_ZEROS);
      if (++added % SLICE_PAGES === 0) yield;
    }
    entries.end();
  }
}

/** Pages that are copied between two pauses: about a tenth of a millisecond. */
const SLICE_PAGES = 256;
/**
 * A canister that changes pages faster than pieces can be written would never be checkpointed. So after this many times
 * the pieces that were missing at the beginning, the rest is written at once.
 */
const PIECES_FACTOR = 2;
/** A page that had other content before is written even if it is zeros now. */
const ADD_ZEROS = true;

function checkpointHeaderOf(canister: CanisterState): CheckpointHeader {
  const { account, timerNs, instantMs, stable, openCalls, settings, installed } = canister;
  return {
    ...numbersOf(canister),
    policy: account.policy,
    balance: account.balance,
    timerNs,
    instantMs,
    settings,
    heapBytes: installed?.instance.heapBytes ?? 0,
    stablePages: stable.pages,
    openCalls: openCalls.entries(),
  };
}
