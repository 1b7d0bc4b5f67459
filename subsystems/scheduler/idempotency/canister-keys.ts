/**
 * The keys of one actor: those that are answered, and calls with keys that are under way. In one file, because each
 * refers to the other. Main thread: plain state.
 */
import { type Outcome, sameBytes, type Step } from '../../ic/index.ts';
import { type DeliveredMessage, isRequestKey } from '../index.ts';
import type { AnsweredCall, AnswerRow } from './answer-record.ts';
import { latin1Of } from './argument-digest.ts';
import { type Chained, HashChains } from './hash-chains.ts';
import { KeyCount } from './key-bounds.ts';
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
  readonly #underWay = new HashChains<UnderWay>();
  /** Calls that ask, by `identityOf`, for keys of which nobody knows yet whether they are new. */
  readonly looking = new Map<string, Asked[]>();
  /** All of its keys, and those of clients that have shown no token. */
  readonly all = new KeyCount();
  readonly open = new KeyCount();
  /** Number of the newest row. */
  lastRow = 0;
  /** The row that takes records now. */
  row: AnswerRow | undefined;

  /** Counts that each key is in, and those of keys of clients that have shown no token. */
  readonly counts: readonly KeyCount[];
  readonly openCounts: readonly KeyCount[];

  /** `all`, `open`: the counts of all canisters. */
  constructor(canister: KeyOwner, all = new KeyCount(), open = new KeyCount()) {
    this.canister = canister;
    this.counts = [this.all, all];
    this.openCounts = [this.all, all, this.open, open];
  }

  get isEmpty(): boolean {
    return this.index.count === 0 && this.#underWay.count === 0 && this.looking.size === 0;
  }

  /** The call of that key that is under way, if there is one. */
  underWay(hash: number, caller: Uint8Array, key: string): UnderWay | undefined {
    let call = this.#underWay.bucketOf(hash);
    while (call !== undefined && !(call.hash === hash && call.key === key && isSameOwner(key, call.caller, caller))) {
      call = call.next;
    }
    return call;
  }

  enter(call: UnderWay): void {
    this.#underWay.add(call);
  }

  /** Returns whether it was entered. */
  leave(call: UnderWay): boolean {
    return this.#underWay.delete(call);
  }

  /** None is under way any more. */
  leaveAll(): void {
    this.#underWay.clear();
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
  readonly key: string;
  /** As `AnsweredCall` has it. */
  readonly digest: string;
  readonly answer: (outcome: Outcome) => void;
  readonly refuse: (error: unknown) => void;
}

/** A call with a key that is under way: who waits for its answer, and whether the answer will be kept. */
export class UnderWay implements AnsweredCall, Chained<UnderWay> {
  readonly caller: Uint8Array;
  readonly key: string;
  readonly method: string;
  readonly digest: string;
  /** Hash of caller and key. */
  readonly hash: number;
  next: UnderWay | undefined = undefined;
  /** Where it is entered until it has ended; undefined: nowhere. */
  keys: CanisterKeys | undefined;
  /** Something of it has been executed, so that its answer is kept, whatever it is. */
  hasRun: boolean;
  #first: ((outcome: Outcome) => void) | undefined;
  #repeats: ((outcome: Outcome) => void)[] | undefined;
  /** The outcome that all waiting clients were told before the call has ended. */
  #ahead: Outcome | undefined;
  readonly #forget: (ended: UnderWay) => void;

  /**
   * `first`: who has sent it; undefined: the process that has taken it is gone. `forget` takes it out of its keys, if
   * it is still there.
   */
  constructor(
    { caller, method }: Pick<AnsweredCall, 'caller' | 'method'>,
    key: string,
    digest: string,
    hash: number,
    keys: CanisterKeys,
    first: ((outcome: Outcome) => void) | undefined,
    forget: (ended: UnderWay) => void,
  ) {
    this.caller = caller;
    this.key = key;
    this.method = method;
    this.digest = digest;
    this.hash = hash;
    this.keys = keys;
    this.hasRun = first === undefined;
    this.#first = first;
    this.#forget = forget;
  }

  /** Number of repeats that wait. */
  get repeats(): number {
    return this.#repeats?.length ?? 0;
  }

  /** A repeat waits for the same answer. */
  repeat(done: (outcome: Outcome) => void): void {
    if (this.#ahead === undefined) (this.#repeats ??= []).push(done);
    else done(asRepeat(this.#ahead));
  }

  /** A step of it has ended. One that the balance did not suffice for has left nothing, and may be tried again. */
  ran({ fault }: Step): void {
    if (fault === undefined || (fault.kind !== 'outOfCycles' && fault.kind !== 'unavailable')) this.hasRun = true;
  }

  /** Tells all waiting clients the outcome: the call has ended. */
  readonly tell = (outcome: Outcome): void => {
    this.#forget(this);
    this.#tellAll(outcome);
  };

  /** Everybody is told before it has ended. It goes on under its key: what it will be answered is to be kept. */
  tellAhead(outcome: Outcome): void {
    this.#ahead = outcome;
    this.#tellAll(outcome);
  }

  #tellAll(outcome: Outcome): void {
    const [first, repeats] = [this.#first, this.#repeats];
    this.#first = undefined;
    this.#repeats = undefined;
    first?.(outcome);
    for (const done of repeats ?? []) done(asRepeat(outcome));
  }
}

/** Returns true if keys of both callers are one: the id of a request has its caller in it. */
export function isSameOwner(key: string, one: Uint8Array, other: Uint8Array): boolean {
  return isRequestKey(key) || sameBytes(one, other);
}

/** Whom a key belongs to, and the key, as one text: a character a byte. A principal has 29 bytes at most. */
export function identityOf(caller: Uint8Array, key: string): string {
  return isRequestKey(key) ? key : String.fromCharCode(caller.length) + latin1Of(caller) + key;
}

/** For one who waited: bytes of its own, since they may be handed over. */
function asRepeat(outcome: Outcome): Outcome {
  if (outcome.kind !== 'reply') return { ...outcome, isRepeat: true };
  return { ...outcome, data: new Uint8Array(outcome.data), isRepeat: true };
}
