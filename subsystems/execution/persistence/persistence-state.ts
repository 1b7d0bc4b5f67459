/** Executor thread: how a canister is made durable, and what its stored copies lack. Plain state; change-recorder.ts acts on it. */
import type { Environment } from '../engine/environment.ts';
import { PageSet } from '../memory/page-set.ts';

/** Pages that a stored copy of a canister's memory does not have as they are now. */
export class StalePages {
  readonly heap = new PageSet();
  readonly stable = new PageSet();
  /** There is no such copy: it lacks everything. */
  isWhole = false;

  get pages(): number {
    return this.heap.size + this.stable.size;
  }

  clear(): void {
    this.heap.clear();
    this.stable.clear();
  }
}

/** A canister's way to be kept. */
export class PersistenceState {
  /** Heaps up to this are kept by what changed. */
  readonly snapshotBelowBytes: number;
  isLogged = false;
  /** Its log is being run again: its records are stored already. */
  isReplaying = false;
  /** Records since the last checkpoint. */
  records = 0;
  /** Instructions that running them again takes. */
  instructions = 0;
  /** The variables of all canisters that its log has; another process may have others. */
  sharedInLog: Environment | undefined;
  /** As they were stored last. */
  globals: Uint8Array | undefined;
  /** The copy of its stored memory that counts. */
  copy = 0;
  /** A checkpoint is being written to the other one. */
  isCopying = false;
  /** What the other copy has is written ahead of a change of code, or was: nothing else tells of it (META.ahead). */
  hasAhead = false;
  /** That is whole: the change that comes makes it count. */
  isAhead = false;
  /** The other copy has nothing, for certain: to delete it again is to look at all that was deleted before. */
  isOtherEmpty = false;
  /** How many pieces of a checkpoint may come yet; then the rest is written at once. */
  piecesLeft = 0;
  /** By copy, while there is a log; what is kept by what changed has one copy, which lacks nothing. */
  readonly stales: readonly [StalePages, StalePages] = [new StalePages(), new StalePages()];

  constructor(snapshotBelowBytes: number) {
    this.snapshotBelowBytes = snapshotBelowBytes;
    this.stales[1].isWhole = true;
  }

  /** Of the copy that counts. */
  get stale(): StalePages {
    return this.stales[this.copy === 0 ? 0 : 1];
  }

  get otherStale(): StalePages {
    return this.stales[this.copy === 0 ? 1 : 0];
  }

  /** The other copy is given up. */
  forgetOther(): void {
    this.isCopying = false;
    this.otherStale.clear();
    this.otherStale.isWhole = true;
  }

  /** The other copy has everything, and counts from now on. */
  switchCopy(): void {
    this.copy = 1 - this.copy;
    this.isCopying = false;
    this.hasAhead = false;
    this.isAhead = false;
    this.isOtherEmpty = false;
  }
}
