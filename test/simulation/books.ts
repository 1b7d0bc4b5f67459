/** State of canisters without code, and the changes of it that storage is told of. */
import assert from 'node:assert/strict';
import { deserialize, serialize } from 'node:v8';
import { seal, unseal } from './sealed.ts';

/**
 * Kinds of calls: made by a timer or a heartbeat, to the canister itself, to the management canister, without
 * callbacks, and all others.
 */
export const CALL_KINDS = ['timer', 'own', 'system', 'oneWay', 'other'] as const;
export type CallKind = (typeof CALL_KINDS)[number];

/** The part of a canister's state that is stored. */
export class Books {
  balance = 0n;
  version: number | undefined = undefined;
  /** Stands for a heap. */
  memory = 0;
  /** Number of change sets told; a lost set shows as a gap. */
  told = 0;
  /** Counts the instances of the canister: its code's, and those without code. */
  instance = 0;
  /** Requests of instances before this one must not come to it or to a later one. */
  sealedInstance = 0;
  /** True if the timer was set after the last change of code. */
  isArmed = false;
  /** Unanswered calls of the canister, by number. */
  openCalls = new Map<number, CallKind>();
  /** Calls of others that have started here, by number. */
  started = new Set<number>();
  /** Calls to each canister, and the last that started of each. */
  made = new Map<number, number>();
  startedOf = new Map<string, number>();

  copy(): Books {
    const { openCalls, started, made, startedOf } = this;
    return Object.assign(new Books(), this, {
      openCalls: new Map(openCalls),
      started: new Set(started),
      made: new Map(made),
      startedOf: new Map(startedOf),
    });
  }

  apply(change: Change): void {
    switch (change.kind) {
      case 'balance':
        this.balance += change.by;
        assert.ok(this.balance >= 0n, 'no more cycles are spent than there are');
        break;
      case 'code':
        this.version = change.version;
        this.instance++;
        if (change.by === 'operator') this.sealedInstance = this.instance;
        if (change.by !== 'snapshot') this.isArmed = false;
        break;
      case 'armed':
        this.isArmed = true;
        break;
      case 'memory':
        this.memory = change.value;
        break;
      case 'numbered':
        this.made.set(change.to, change.number);
        break;
      case 'called':
        this.openCalls.set(change.call, change.as);
        break;
      case 'answered':
        this.openCalls.delete(change.call);
        break;
      case 'emptied':
        this.openCalls.clear();
        break;
      case 'started':
        this.started.add(change.call);
        this.startedOf.set(change.caller, change.number);
    }
  }

  /** Encodes the books as they are stored, in so many bytes. */
  encode(bytes: number): Uint8Array {
    return seal(serialize(Object.assign({}, this)), bytes);
  }

  static decode(stored: Uint8Array): Books {
    return Object.assign(new Books(), deserialize(unseal(stored, 'what is stored of a canister')) as Books);
  }
}

export type Change =
  | { readonly kind: 'balance'; readonly by: bigint }
  /**
   * Changes of code by operators, and changes that drop code, seal the new instance off from earlier ones; changes by
   * canisters that install code or load a snapshot do not.
   */
  | {
      readonly kind: 'code';
      readonly version: number | undefined;
      readonly by: 'operator' | 'canister' | 'snapshot';
    }
  | { readonly kind: 'armed' }
  | { readonly kind: 'memory'; readonly value: number }
  /** Number of the last call to that canister. */
  | { readonly kind: 'numbered'; readonly to: number; readonly number: number }
  | { readonly kind: 'called'; readonly call: number; readonly as: CallKind }
  | { readonly kind: 'answered'; readonly call: number }
  /** No open call of the canister will be answered. */
  | { readonly kind: 'emptied' }
  | { readonly kind: 'started'; readonly call: number; readonly caller: string; readonly number: number };

/** Changes that are told together. */
interface ChangeSet {
  readonly handle: number;
  /** Place of this set among those of the canister, counted from 1. */
  readonly number: number;
  readonly changes: readonly Change[];
}

export function encodeChanges(set: ChangeSet, bytes: number): Uint8Array {
  return seal(serialize(set), bytes);
}

export function decodeChanges(bytes: Uint8Array): ChangeSet {
  return deserialize(unseal(bytes, 'changes')) as ChangeSet;
}
