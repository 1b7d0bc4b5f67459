/**
 * Keeps what the scheduler alone knows: call contexts, open calls, queued messages and responses between canisters.
 *
 * A message is consumed when the execution it led to has ended, not when that begins: until then the record of its
 * context holds its method, argument and place in the queue. The same holds for a response, in the record of its call.
 * So the unit of an ended step has everything at once: the message gone, the state changed, new messages there. A
 * client's context is kept from its first ended step that left calls open; before that nothing has happened that the
 * client knows of. Queries are never kept. What comes and goes within one unit is not written, and an update without
 * calls writes nothing here.
 *
 * Answers of clients wait here, too (`tell`), until all that they have seen is durable.
 *
 * Main thread, as everything here; adds operations to the unit that is being collected.
 */
import type { Outcome, StoredAs } from '../ic/index.ts';
import { erasePayload, type Storage, type WriteBatch } from '../storage/index.ts';
import type { ScheduledCanister, Credit, QueuedTask, CallContext, OpenCall } from './scheduled-canister.ts';
import { CALL, CONTEXT, CREDIT, keyOf, CallRecordWriter } from './call-records.ts';

const FAMILY = 'queue';
const NOTHING_HELD = (): void => undefined;

/** The part of Storage that the scheduler uses. */
export type KeptUnits = Pick<
  Storage,
  | 'isKept'
  | 'current'
  | 'newest'
  | 'unit'
  | 'expectUnit'
  | 'markDirty'
  | 'holdUnit'
  | 'supports'
  | 'onSeal'
  | 'whenDurable'
  | 'settled'
  | 'get'
  | 'range'
  | 'values'
>;

/** A context, a call or a credit. */
interface StoredItem {
  /** The key of the stored record; 0: none yet. */
  number: number;
  isStored: boolean;
}

export class CallJournal {
  readonly isDurable: boolean;
  readonly #storage: KeptUnits;
  readonly #writer = new CallRecordWriter();
  #contexts: CallContext[] = [];
  #calls: OpenCall[] = [];
  #credits: Credit[] = [];
  #numbers = 0;
  #orders = 0;

  constructor(storage: KeptUnits) {
    this.#storage = storage;
    this.isDurable = storage.isKept;
    if (this.isDurable) storage.onSeal((unit) => this.#write(unit));
  }

  /** The newest unit that there is, or will be at the end of this turn. */
  get newest(): number {
    return this.#storage.newest;
  }

  /** Goes on after the numbers that are in use. */
  resume(number: number, order: number): void {
    this.#numbers = Math.max(this.#numbers, number);
    this.#orders = Math.max(this.#orders, order);
  }

  /**
   * Has the unit go on, if it is to have calls of that context, until what is returned is called; undefined: that is
   * not possible.
   */
  hold({ evaluation }: CallContext): (() => void) | undefined {
    if (!this.isDurable || evaluation !== undefined) return NOTHING_HELD;
    return this.#storage.supports.heldUnits ? this.#storage.holdUnit() : undefined;
  }

  /** Something is executed that will change a canister, as a rule. */
  expectsChange(): void {
    this.#storage.expectUnit();
  }

  /** A canister's state is another: whoever sees it from now on has seen this unit. */
  changed(canister: ScheduledCanister): void {
    if (!this.isDurable) return;
    this.#storage.markDirty();
    canister.lastUnit = this.#storage.current;
  }

  /** A client is told something when what it has seen is durable. */
  tell(unit: number, done: (outcome: Outcome) => void, outcome: Outcome): void {
    if (this.isDurable) this.#storage.whenDurable(unit, () => done(outcome));
    else done(outcome);
  }

  /** Returns true if the task waits in the store as well. */
  keeps(waiting: QueuedTask): boolean {
    if (!this.isDurable) return false;
    switch (waiting.kind) {
      case 'start':
        return isOfCanister(waiting.context);
      case 'response':
        return waiting.call.context.evaluation === undefined;
      case 'credit':
        return true;
      default:
        return false;
    }
  }

  /** Something begins to wait. */
  queued(waiting: QueuedTask): void {
    if (!this.isDurable) return;
    if (waiting.kind === 'start' && isOfCanister(waiting.context)) {
      const { context } = waiting;
      if (waiting.order === 0) waiting.order = ++this.#orders;
      context.pending = waiting;
      this.contextChanged(context);
    } else if (waiting.kind === 'response' && waiting.call.context.evaluation === undefined) {
      const { call } = waiting;
      if (waiting.order === 0) waiting.order = ++this.#orders;
      call.pending = waiting;
      this.callChanged(call);
    }
  }

  contextChanged(context: CallContext): void {
    if (!this.isDurable || context.isDirty || context.evaluation !== undefined) return;
    if (!context.isStored && context.storedAs === undefined && !isAlive(context)) return;
    context.isDirty = true;
    this.#contexts.push(context);
    this.#storage.markDirty();
  }

  callChanged(call: OpenCall): void {
    if (!this.isDurable || call.isDirty || call.context.evaluation !== undefined) return;
    call.isDirty = true;
    this.#calls.push(call);
    this.#storage.markDirty();
  }

  /** A context is over, which is written with the next unit: that may come late. */
  contextEnded(context: CallContext): void {
    if (!this.isDurable || context.isDirty || (!context.isStored && context.storedAs === undefined)) return;
    context.isDirty = true;
    this.#contexts.push(context);
  }

  /** A call is over, which is written with the next unit: that may come late. */
  callEnded(call: OpenCall): void {
    if (!this.isDurable || call.isDirty) return;
    call.isDirty = true;
    this.#calls.push(call);
  }

  /** Gives a context or a call its number before it is written: what is stored for it then has that number, too. */
  number(item: CallContext | OpenCall): void {
    this.#numberOf(item);
  }

  /** Calls back when all that was changed so far is durable. */
  whenDurable(callback: () => void): void {
    this.#storage.whenDurable(this.#storage.newest, callback);
  }

  /** A payload that is stored already has been refused: nobody will need it. */
  refused(storedAs: StoredAs | undefined): void {
    if (!this.isDurable || storedAs === undefined) return;
    erasePayload(this.#storage.unit, storedAs);
    this.#storage.markDirty();
  }

  /** Erases rows of payloads that were stored ahead of messages that have not happened. */
  eraseLeft(keys: readonly Uint8Array[]): void {
    if (keys.length === 0) return;
    for (const key of keys) this.#storage.unit.delete(FAMILY, key);
    this.#storage.markDirty();
  }

  /** Cycles that are on their way to a canister, until `paid`. */
  credit(canister: ScheduledCanister, amount: bigint): Credit {
    const credit: Credit = { canister, amount, number: 0, isStored: false, isPaid: false };
    this.#creditChanged(credit);
    return credit;
  }

  paid(credit: Credit): void {
    credit.isPaid = true;
    this.#creditChanged(credit);
  }

  #creditChanged(credit: Credit): void {
    if (!this.isDurable) return;
    this.#credits.push(credit);
    this.#storage.markDirty();
  }

  #write(unit: WriteBatch): void {
    if (this.#contexts.length + this.#calls.length + this.#credits.length === 0) return;
    const [contexts, calls, credits] = [this.#contexts, this.#calls, this.#credits];
    this.#contexts = [];
    this.#calls = [];
    this.#credits = [];
    for (const context of contexts) {
      context.isDirty = false;
      erasePayloadOf(unit, context);
      if (!isAlive(context)) {
        erase(unit, CONTEXT, context);
        continue;
      }
      const { origin } = context;
      const originNumber = origin.kind === 'canister' ? this.#numberOf(origin.call) : 0;
      this.#put(unit, CONTEXT, context, this.#writer.context(context, originNumber));
    }
    for (const call of calls) {
      call.isDirty = false;
      erasePayloadOf(unit, call);
      if (call.isEnded) erase(unit, CALL, call);
      else this.#put(unit, CALL, call, this.#writer.call(call, this.#numberOf(call.context)));
    }
    for (const credit of credits) {
      if (credit.isPaid) erase(unit, CREDIT, credit);
      else this.#put(unit, CREDIT, credit, this.#writer.credit(credit.canister.id, credit.amount));
    }
  }

  /** `value`: made first, so that what it refers to has its number before. */
  #put(unit: WriteBatch, letter: number, item: StoredItem, value: Uint8Array): void {
    unit.put(FAMILY, keyOf(letter, this.#numberOf(item)), value);
    item.isStored = true;
  }

  #numberOf(item: Pick<StoredItem, 'number'>): number {
    if (item.number === 0) item.number = ++this.#numbers;
    return item.number;
  }
}

/** Erases the payload of an item, if that is stored in rows of its own and nobody waits for it any more. */
function erasePayloadOf(unit: WriteBatch, item: Pick<CallContext | OpenCall, 'pending' | 'storedAs'>): void {
  if (item.storedAs === undefined || item.pending !== undefined) return;
  erasePayload(unit, item.storedAs);
  item.storedAs = undefined;
}

function erase(unit: WriteBatch, letter: number, item: StoredItem): void {
  if (!item.isStored) return;
  unit.delete(FAMILY, keyOf(letter, item.number));
  item.isStored = false;
}

function isOfCanister({ origin, evaluation }: CallContext): boolean {
  return origin.kind === 'canister' && evaluation === undefined;
}

/** Returns true if the context matters after a restart. */
function isAlive(context: CallContext): boolean {
  if (context.pending === undefined && context.openCalls === 0) return false;
  // One that was ended with its code is among them no longer; cycles may come back to it yet.
  const mayBePaid = context.isDeleted && context.openCalls > 0;
  return mayBePaid || context.canister.workIfAny?.contexts.has(context) === true;
}
