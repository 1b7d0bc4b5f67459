/**
 * Executor thread: the way in which a canister is made durable, and the pages that its stored copies lack. Plain state;
 * change-recorder.ts acts on it.
 */
import type { Environment } from '../engine/environment.ts';
import { PageSet } from '../memory/page-set.ts';

/** Pages whose present content a stored copy of a canister's memory lacks. */
class StalePages {
  readonly heap = new PageSet();
  readonly stable = new PageSet();
  /** True if there is no such copy: it lacks everything. */
  isWhole = false;

  get pages(): number {
    return this.heap.size + this.stable.size;
  }

  clear(): void {
    this.heap.clear();
    this.stable.clear();
  }
}

/** State of a canister's storage. */
export class PersistenceState {
  /** Heaps up to this size are stored by their changes. */
  readonly snapshotBelowBytes: number;
  isLogged = false;
  /** True while the canister's log is run again: its records are stored already. */
  isReplaying = false;
  /** Records since the last checkpoint. */
  records = 0;
  /** Instructions that running these records again takes. */
  instructions = 0;
  /** The variables of all canisters that the log has; another process may have others. */
  sharedInLog: Environment | undefined;
  /** The globals as they were stored last. */
  globals: Uint8Array | undefined;
  /** Number of the stored copy of the memory that counts. */
  copy = 0;
  /** True while a checkpoint is being written to the other copy. */
  isCopying = false;
  /**
   * True if the other copy holds memory that was written ahead of a change of code: nothing else tells of it
   * (META.ahead).
   */
  hasAhead = false;
  /** True if that memory is complete: the coming change makes it count. */
  isAhead = false;
  /**
   * True if the other copy is certainly empty: deleting it again would have to scan everything that was deleted before.
   */
  isOtherEmpty = false;
  /** Number of pieces of a checkpoint that may still come; then the rest is written at once. */
  piecesLeft = 0;
  /**
   * Pages that each copy lacks, while there is a log. A canister that is stored by its changes has one copy, which
   * lacks nothing.
   */
  readonly stales: readonly [StalePages, StalePages] = [new StalePages(), new StalePages()];

  constructor(snapshotBelowBytes: number) {
    this.snapshotBelowBytes = snapshotBelowBytes;
    this.stales[1].isWhole = true;
  }

  /** Pages that the copy that counts lacks. */
  get stale(): StalePages {
    return this.stales[this.copy === 0 ? 0 : 1];
  }

  get otherStale(): StalePages {
    return this.stales[this.copy === 0 ? 1 : 0];
  }

  /** Gives up the other copy. */
  forgetOther(): void {
    this.isCopying = false;
    this.otherStale.clear();
    this.otherStale.isWhole = true;
  }

  /** Makes the other copy, which has everything, the one that counts. */
  switchCopy(): void {
    this.copy = 1 - this.copy;
    this.isCopying = false;
    this.hasAhead = false;
    this.isAhead = false;
    this.isOtherEmpty = false;
  }
}
