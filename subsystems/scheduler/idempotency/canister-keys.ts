/** The keys of one actor: those that are answered, and those under way. Main thread: plain state. */
import type { Outcome } from '../../ic/index.ts';
import type { AnsweredCall, AnswerRow } from './answer-record.ts';
import { KeyIndex } from './key-index.ts';
import type { UnderWay } from './under-way.ts';

/** The canister that keys belong to. */
export interface KeyOwner {
  readonly id: Uint8Array;
  /** The id as `idToText` has it. */
  readonly idText: string;
  /** It is deleted. */
  readonly isWithdrawn: boolean;
}

export class CanisterKeys {
  readonly canister: KeyOwner;
  readonly index = new KeyIndex();
  /** By identity. */
  readonly underWay = new Map<string, UnderWay>();
  /** Those of which it is not known yet whether they are new, by identity: who asks. */
  readonly looking = new Map<string, Asked[]>();
  /** Of records that are kept, and their entries. */
  bytes = 0;
  /** Of the newest row. */
  lastRow = 0;
  /** The row that takes records now. */
  row: AnswerRow | undefined;

  constructor(canister: KeyOwner) {
    this.canister = canister;
  }

  get isEmpty(): boolean {
    return this.index.count === 0 && this.underWay.size === 0 && this.looking.size === 0;
  }

  /** The number of a living row of which the index has the lowest 32 bits. */
  rowNumber(low: number): number {
    return this.lastRow - ((this.lastRow - low) >>> 0);
  }
}

/** A call with a key that has come. */
export interface Asked extends AnsweredCall {
  readonly answer: (outcome: Outcome) => void;
  readonly refuse: (error: unknown) => void;
  /** The key is new: the call is to be let in. Its answer goes to `underWay`, as soon as it is known and once. */
  readonly begin: (underWay: UnderWay) => void;
}
