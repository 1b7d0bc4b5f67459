/**
 * Executor thread: records the changes of each step of a durable canister, as operations for storage.
 *
 * There are two ways (docs/durability.md). A small heap is stored as the bytes that each message changed. A large heap
 * is stored as a log of what each message depended on: after a crash the records since the last checkpoint are run
 * again. The recorder chooses after each step, by the size of the heap; and before the commit of a message that has
 * changed much, which may be gigabytes. A canister's log begins with a checkpoint; its `CheckpointHeader` holds what
 * the stored memory does not. From then on the pages that messages touch are remembered for the next checkpoint.
 */
import { logKey, memoryId, META, metaKey, WriteBatch } from '../../storage/index.ts';
import type { CanisterState } from '../engine/canister-state.ts';
import type { Instance } from '../engine/instance.ts';
import { encodeRecord, encodeCheckpointHeader, type LogRecord, type CheckpointHeader } from './log-record.ts';
import { PageEntries, RecordWriter, PAGE_BYTES } from '../../bytes/index.ts';
import { inOneGo, type Pieces } from '../memory/pieces.ts';
import type { PersistenceState } from './persistence-state.ts';
import { PIECE_SIZES, type PieceSizes } from './piece-sizes.ts';
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

  // ---- by changed bytes

  /** Records a message's changes before it is committed. */
  beforeCommit(canister: CanisterState, instance: Instance): void {
    const { kept } = canister;
    if (kept === undefined) return;
    if (!kept.isLogged && isTooMuch(canister, instance)) this.#beginLog(canister, kept, instance);
    if (kept.isLogged) {
      instance.markDirtyPages(kept.stales[0].heap, kept.stales[1].heap);
    } else {
      const id = memoryId(canister.id, kept.copy);
      instance.deltas((pages, body) => this.#set.patch('heap', id, pages, body));
    }
    this.beforeStableCommit(canister, kept);
  }

  /** Does the same as `beforeCommit` in pieces, for a message that has changed much. */
  *beforeCommitInPieces(canister: CanisterState, instance: Instance): Pieces {
    const { kept } = canister;
    if (kept === undefined) return;
    if (!kept.isLogged && isTooMuch(canister, instance)) this.#beginLog(canister, kept, instance);
    if (kept.isLogged) {
      yield* instance.markDirtyPagesInPieces(kept.stales[0].heap, kept.stales[1].heap);
    } else {
      const id = memoryId(canister.id, kept.copy);
      yield* instance.deltasInPieces((pages, body) => this.#set.patch('heap', id, pages, body));
    }
    yield* this.beforeStableCommitInPieces(canister, kept);
  }

  *beforeStableCommitInPieces(canister: CanisterState, kept: PersistenceState): Pieces {
    if (kept.isLogged) return this.beforeStableCommit(canister, kept);
    const memory = memoryId(canister.id, kept.copy);
    yield* canister.stable.deltasInPieces((granules, body) => this.#set.patch('stable', memory, granules, body));
  }

  beforeStableCommit({ stable, id }: CanisterState, kept: PersistenceState): void {
    if (kept.isLogged) {
      for (const granule of stable.dirtyGranules) for (const lag of kept.stales) lag.stable.add(granule);
    } else {
      const memory = memoryId(id, kept.copy);
      stable.deltas((granules, body) => this.#set.patch('stable', memory, granules, body));
    }
  }

  certifiedData({ id, kept, certifiedData }: CanisterState): void {
    if (kept === undefined || kept.isLogged) return;
    this.#set.put('meta', metaKey(META.certifiedData, id), certifiedData);
  }

  /** Records the globals, if a committed message has changed them. */
  globals({ id }: CanisterState, kept: PersistenceState, instance: Instance): void {
    const globals = instance.viewGlobals();
    if (kept.globals !== undefined && Buffer.compare(kept.globals, globals) === 0) return;
    kept.globals = globals.slice();
    this.#set.put('meta', metaKey(META.globals, id), globals);
  }

  /** Records a canister's new code, or its removal. Its log ends here: no log spans a change of code. */
  *newCode(canister: CanisterState, kept: PersistenceState, has: MemoryOfNewCode): Pieces {
    kept.globals = undefined;
    if (kept.isAhead) this.#useAhead(canister, kept);
    else if (has !== 'kept') yield* this.#image(canister, kept, has === 'new');
    else if (kept.isLogged) yield* this.#checkpointInPieces(canister, kept);
    else this.#withoutPages(canister, kept);
  }

  #withoutPages(canister: CanisterState, kept: PersistenceState): void {
    const { id, installed, certifiedData } = canister;
    if (installed === undefined) this.#set.delete('meta', metaKey(META.globals, id));
    else this.globals(canister, kept, installed.instance);
    this.#set.put('meta', metaKey(META.certifiedData, id), certifiedData);
    this.#endLog(canister, kept);
    this.chooseWay(canister, kept);
    // From now on nobody notes what the other copy lacks.
    if (!kept.isLogged) this.#forgetOther(id, kept);
  }

  *#image(canister: CanisterState, kept: PersistenceState, isStableNew: boolean): Pieces {
    const { id, installed, stable } = canister;
    const set = this.#set;
    const memory = memoryId(id, kept.copy);
    this.#forgetOther(id, kept);
    set.clear('heap', memory);
    if (installed !== undefined)
      yield* installed.instance.image((pages, body) => set.patch('heap', memory, pages, body));
    if (isStableNew) {
      set.clear('stable', memory);
      yield* stable.image((granules, body) => set.patch('stable', memory, granules, body));
    } else {
      yield* this.#writeStable(canister, memory, kept.stale.stable);
    }
    kept.stale.clear();
    this.#withoutPages(canister, kept);
  }

  /** Copies the memory that a canister is about to have to its other copy, which does not count yet. */
  *copyAhead({ id }: CanisterState, kept: PersistenceState, { instance, stable }: ComingMemory): Pieces {
    const set = this.#set;
    const memory = memoryId(id, 1 - kept.copy);
    const { slicePages } = this.#sizes;
    kept.forgetOther();
    kept.hasAhead = true;
    set.put('meta', metaKey(META.ahead, id), Uint8Array.of(1 - kept.copy));
    // The other copy may hold what a crash has left.
    if (!kept.isOtherEmpty) this.#clear(memory);
    kept.isOtherEmpty = false;
    if (instance !== undefined)
      yield* instance.image((pages, body) => set.patch('heap', memory, pages, body), slicePages);
    yield* stable.image((granules, body) => set.patch('stable', memory, granules, body), slicePages);
    kept.isAhead = true;
  }

  #useAhead(canister: CanisterState, kept: PersistenceState): void {
    const { id } = canister;
    const before = kept.copy;
    kept.switchCopy();
    this.#set.put('meta', metaKey(META.copy, id), Uint8Array.of(kept.copy));
    this.#set.delete('meta', metaKey(META.ahead, id));
    this.#clear(memoryId(id, before));
    kept.stale.clear();
    kept.stale.isWhole = false;
    kept.forgetOther();
    kept.isOtherEmpty = true;
    this.#withoutPages(canister, kept);
  }

  /** Switches a canister to a log if it is stored by its changes and has become too large for that. */
  chooseWay(canister: CanisterState, kept: PersistenceState): void {
    const heapBytes = canister.installed?.instance.heapBytes ?? 0;
    if (kept.isLogged || heapBytes <= kept.snapshotBelowBytes) return;
    kept.isLogged = true;
    this.#set.put(
      'meta',
      metaKey(META.checkpoint, canister.id),
      encodeCheckpointHeader(this.#writer, checkpointHeaderOf(canister)),
    );
  }

  // ---- by a log

  /**
   * Begins a canister's log with its state before the message that is about to be committed, which is the stored state.
   */
  #beginLog(canister: CanisterState, kept: PersistenceState, { bytesBefore }: Instance): void {
    kept.isLogged = true;
    const standing = {
      ...checkpointHeaderOf(canister),
      ...canister.beforeMessage(),
      heapBytes: bytesBefore,
      stablePages: canister.stable.pagesBefore,
    };
    this.#set.put('meta', metaKey(META.checkpoint, canister.id), encodeCheckpointHeader(this.#writer, standing));
  }

  record({ id }: CanisterState, kept: PersistenceState, record: LogRecord): void {
    if (kept.isReplaying) {
      kept.records++;
      return;
    }
    this.#set.put('log', logKey(id, kept.records++), encodeRecord(this.#writer, record));
  }

  /** Records numbers that no step explains. */
  numbers(canister: CanisterState): void {
    const { kept, account, version, timerNs } = canister;
    if (kept?.isLogged === true)
      this.record(canister, kept, { kind: 'numbers', balance: account.balance, version, timerNs });
  }

  /**
   * Writes some of the pages that a checkpoint needs ahead of it, if there are many: to the other copy, which does not
   * count yet. Returns true if `checkpoint` has little left to write.
   */
  prepareCheckpoint(canister: CanisterState, kept: PersistenceState): boolean {
    if (!kept.isLogged) return true;
    if (!kept.isCopying) {
      if (kept.stale.pages <= this.#sizes.atOncePages) return true;
      this.#beginCopy(canister, kept);
    }
    const memory = memoryId(canister.id, 1 - kept.copy);
    const lag = kept.otherStale;
    const { slicePages } = this.#sizes;
    if (lag.pages > slicePages && kept.piecesLeft > 0) {
      kept.piecesLeft--;
      inOneGo(this.#writeHeap(canister, memory, lag.heap.take(slicePages)));
      inOneGo(this.#writeStable(canister, memory, lag.stable.take(slicePages)));
    }
    return lag.pages <= slicePages || kept.piecesLeft === 0;
  }

  #beginCopy({ id, installed, stable }: CanisterState, kept: PersistenceState): void {
    kept.isCopying = true;
    const lag = kept.otherStale;
    if (lag.isWhole) {
      this.#clearOther(id, kept);
      kept.isOtherEmpty = false;
      lag.isWhole = false;
      const pages = (installed?.instance.heapBytes ?? 0) / PAGE_BYTES;
      for (let page = 0; page < pages; page++) lag.heap.add(page);
      for (const granule of stable.granules()) lag.stable.add(granule);
    }
    kept.piecesLeft = Math.ceil((PIECES_FACTOR * lag.pages) / this.#sizes.slicePages);
  }

  /** Brings the stored state of a logged canister up to date, and begins its log anew: all at once. */
  checkpoint(canister: CanisterState, kept: PersistenceState): void {
    if (kept.isLogged) inOneGo(this.#checkpointInPieces(canister, kept));
  }

  *#checkpointInPieces(canister: CanisterState, kept: PersistenceState): Pieces {
    const { id } = canister;
    if (kept.isCopying) {
      kept.switchCopy();
      this.#set.put('meta', metaKey(META.copy, id), Uint8Array.of(kept.copy));
    }
    const memory = memoryId(id, kept.copy);
    yield* this.#writeHeap(canister, memory, kept.stale.heap);
    yield* this.#writeStable(canister, memory, kept.stale.stable);
    kept.stale.clear();
    this.#withoutPages(canister, kept);
  }

  #endLog({ id }: CanisterState, kept: PersistenceState): void {
    if (!kept.isLogged) return;
    this.#set.clear('log', id);
    this.#set.delete('meta', metaKey(META.checkpoint, id));
    kept.isLogged = false;
    kept.sharedInLog = undefined;
    kept.records = 0;
    kept.instructions = 0;
  }

  #forgetOther(id: Uint8Array, kept: PersistenceState): void {
    if (!kept.otherStale.isWhole || kept.hasAhead) this.#clearOther(id, kept);
    kept.forgetOther();
  }

  #clearOther(id: Uint8Array, kept: PersistenceState): void {
    if (!kept.isOtherEmpty) this.#clear(memoryId(id, 1 - kept.copy));
    kept.isOtherEmpty = true;
    if (kept.hasAhead) this.#set.delete('meta', metaKey(META.ahead, id));
    kept.hasAhead = false;
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

/** Changed bytes are copied a few times on their way to the disk: if more pages changed, the log is used. */
const CHANGED_PAGES_MAX = (64 * 2 ** 20) / PAGE_BYTES;

/** Returns true if a message has changed too much to be stored at once. */
function isTooMuch({ stable }: CanisterState, { touchedPages }: Instance): boolean {
  return touchedPages + stable.dirtyGranules.length > CHANGED_PAGES_MAX;
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
