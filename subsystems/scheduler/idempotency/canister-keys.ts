/**
 * The keys of one actor: those that are answered, and calls with keys that are under way. In one file, because each refers to the
 * other. Main thread: plain state.
 */
import type { Outcome, Step } from '../../ic/index.ts';
import type { DeliveredMessage } from '../index.ts';
import type { AnsweredCall, AnswerRow } from './answer-record.ts';
import { KeyIndex } from './key-index.ts';

/** The canister that keys belong to. */
export interface KeyOwner {
  readonly id: Uint8Array;
  /** The id as `idToText` has it. */
  readonly idText: string;
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
export interface Asked {
  /** The canister that is called. */
  readonly handle: number;
  readonly message: DeliveredMessage;
  /** As `AnsweredCall` has them. */
  readonly identity: string;
  readonly digest: string;
  readonly answer: (outcome: Outcome) => void;
  readonly refuse: (error: unknown) => void;
}

/** A call with a key that is under way: who waits for its answer, and whether the answer will be kept. */
export class UnderWay implements AnsweredCall {
  readonly identity: string;
  readonly method: string;
  readonly digest: string;
  /** Of the identity. */
  readonly hash: number;
  /** Where it is entered until it has ended; undefined: nowhere. */
  keys: CanisterKeys | undefined;
  /** Something of it has been executed, so that its answer is kept, whatever it is. */
  hasRun: boolean;
  #first: ((outcome: Outcome) => void) | undefined;
  #repeats: ((outcome: Outcome) => void)[] | undefined;
  readonly #forget: (ended: UnderWay) => void;

  /**
   * `first`: who has sent it; undefined: the process that has taken it is gone. `forget` takes it out of its keys, if it is still
   * there.
   */
  constructor(
    identity: string,
    method: string,
    digest: string,
    hash: number,
    keys: CanisterKeys,
    first: ((outcome: Outcome) => void) | undefined,
    forget: (ended: UnderWay) => void,
  ) {
    this.identity = identity;
    this.method = method;
    this.digest = digest;
    this.hash = hash;
    this.keys = keys;
    this.hasRun = first === undefined;
    this.#first = first;
    this.#forget = forget;
  }

  /** The key, as the client wrote it. */
  get key(): string {
    return this.identity.slice(1 + this.identity.charCodeAt(0));
  }

  /** How many repeats wait. */
  get repeats(): number {
    return this.#repeats?.length ?? 0;
  }

  /** A repeat waits for the same answer. */
  repeat(done: (outcome: Outcome) => void): void {
    (this.#repeats ??= []).push(done);
  }

  /** A step of it has ended. One that the balance did not suffice for has left nothing, and may be tried again. */
  ran({ fault }: Step): void {
    if (fault === undefined || (fault.kind !== 'outOfCycles' && fault.kind !== 'unavailable')) this.hasRun = true;
  }

  /** Everybody is told. */
  readonly tell = (outcome: Outcome): void => {
    this.#forget(this);
    const [first, repeats] = [this.#first, this.#repeats];
    this.#first = undefined;
    this.#repeats = undefined;
    first?.(outcome);
    for (const done of repeats ?? []) done(asRepeat(outcome));
  };
}

/** For one who waited: bytes of its own, since they may be handed over. */
function asRepeat(outcome: Outcome): Outcome {
  if (outcome.kind !== 'reply') return { ...outcome, isRepeat: true };
  return { ...outcome, data: outcome.data.slice(), isRepeat: true };
}
