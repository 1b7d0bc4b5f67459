/**
 * Clients that give their messages keys and repeat them, whatever outcome they were told, in any life of the host; and
 * the rules for them: each keyed message is executed at most once, and everybody who was told its outcome was told the
 * same. Clients repeat a message for half as long as keys are known after the answer. When the host has its maximum of
 * keys, new ones are refused, and known ones are not.
 */
import assert from 'node:assert/strict';
import { messageOf, ServerError } from '../../../kernel/index.ts';
import type { Outcome } from '../../../subsystems/ic/index.ts';
import type { Seeded } from '../../support/seeded.ts';
import { CALLER, exportOf, type Sent } from './sent.ts';
import { ledgerArgument } from './ledger-module.ts';
import type { Life } from './life.ts';
import type { KeyPlan } from './plan.ts';

/** Another sending of a message with its key. */
interface Repeat {
  readonly of: Sent;
  /** True if the argument differs from the first one's: the repeat must be refused. */
  readonly isOther: boolean;
  /** True if some client knew the message's outcome when it was repeated. */
  readonly isAnswered: boolean;
  outcome: Outcome | undefined;
  refusal: unknown;
  isLost: boolean;
}

/** Rejects of messages that were never executed; they are not kept. */
const NEVER_EXECUTED =
  /is (stopping|stopped)$|has no (method|Wasm module)|contains no Wasm module|rejected the message|No route/;

export class Keys {
  readonly repeats: Repeat[] = [];
  readonly #seeded: Seeded;
  readonly #lasting: readonly string[];
  readonly #keyed: Sent[] = [];
  /** Ids of the actors that got the messages: another actor of the same name does not know their keys. */
  readonly #ids = new Map<Sent, string>();
  /** Times of sending by the host's clock, which may be set back. */
  readonly #sentMs = new Map<Sent, number>();
  readonly #plan: KeyPlan;
  full = 0;

  /** `lasting`: actors that are never deleted nor uninstalled. */
  constructor(seeded: Seeded, lasting: readonly string[], plan: KeyPlan) {
    this.#seeded = seeded;
    this.#lasting = lasting;
    this.#plan = plan;
  }

  /** Number of keys that were not repeated at the end because their time was over. */
  expired = 0;

  /** Returns the key that goes with a message, or undefined. */
  keyFor(sent: Sent, id: string, nowMs: number): string | undefined {
    const isUpdate = sent.method !== 'look' && sent.method !== 'peek';
    if (!isUpdate || !this.#seeded.oneIn(2)) return undefined;
    this.#keyed.push(sent);
    this.#ids.set(sent, id);
    this.#sentMs.set(sent, nowMs);
    return keyOf(sent);
  }

  get waiting(): number {
    return this.repeats.filter(
      ({ outcome, refusal, isLost }) => !isLost && outcome === undefined && refusal === undefined,
    ).length;
  }

  /**
   * Notes that the host's clock was set back: keys count from then on as if they were sent at `nowMs`, at the latest.
   */
  clockSetBack(nowMs: number): void {
    for (const [sent, sentMs] of this.#sentMs) this.#sentMs.set(sent, Math.min(sentMs, nowMs));
  }

  /** Marks all open repeats as lost: the host is gone. */
  lose(): void {
    for (const repeat of this.repeats) {
      if (repeat.outcome === undefined && repeat.refusal === undefined) repeat.isLost = true;
    }
  }

  /** Repeats one of the keyed messages, mostly one of the last, sometimes several times. */
  act(life: Life): void {
    if (this.#keyed.length === 0 || !this.#seeded.oneIn(3)) return;
    const back = this.#seeded.below(this.#seeded.oneIn(3) ? this.#keyed.length : Math.min(4, this.#keyed.length));
    const sent = this.#keyed[this.#keyed.length - 1 - back];
    if (sent === undefined) return;
    for (let times = this.#seeded.oneIn(4) ? 3 : 1; times > 0; times--) {
      this.#repeat(life, sent, sent.outcome?.kind === 'reply' && this.#seeded.oneIn(8));
    }
  }

  /** Repeats all keyed messages, and counts those whose keys the host need not know any more. */
  repeatAll(life: Life): void {
    this.expired = this.#keyed.filter((sent) => !this.#isKnown(sent, life.nowMs)).length;
    for (const sent of this.#keyed) this.#repeat(life, sent, false);
  }

  /** Counts a refusal for too many keys. */
  refused(error: unknown): void {
    if (isFull(error)) this.full++;
  }

  #isKnown(sent: Sent, nowMs: number): boolean {
    return nowMs - (this.#sentMs.get(sent) ?? 0) <= (this.#plan.idempotencySecs * 1000) / 2;
  }

  #repeat(life: Life, sent: Sent, isOther: boolean): void {
    const record = life.named(sent.actor);
    if (record?.module === undefined || record.idText !== this.#ids.get(sent) || !this.#isKnown(sent, life.nowMs))
      return;
    const told = [sent, ...this.repeats.filter(({ of }) => of === sent)];
    const isAnswered = told.some(({ outcome }) => outcome !== undefined && isKept(outcome));
    const repeat: Repeat = { of: sent, isOther, isAnswered, outcome: undefined, refusal: undefined, isLost: false };
    this.repeats.push(repeat);
    const argument = isOther ? { ...sent.argument, grow: (sent.argument.grow ?? 0) + 1 } : sent.argument;
    life.call(record, 'update', exportOf(sent), CALLER, ledgerArgument(argument), keyOf(sent)).then(
      (outcome) => {
        if (!life.isOver) repeat.outcome = outcome;
      },
      (error: unknown) => {
        this.refused(error);
        if (!life.isOver) repeat.refusal = error;
      },
    );
  }

  /** Returns the messages with the outcomes known from any of their sendings. */
  told(sent: readonly Sent[]): readonly Sent[] {
    const repeats = Map.groupBy(
      this.repeats.filter(({ isOther }) => !isOther),
      ({ of }) => of,
    );
    return sent.map((each) => {
      const again = repeats.get(each);
      if (again === undefined) return each;
      const outcomes = [each.outcome, ...again.map(({ outcome }) => outcome)];
      const kept = outcomes.find((outcome) => outcome !== undefined && isKept(outcome));
      if (kept !== undefined) return { ...each, outcome: kept };
      // A client that was told that nothing has happened may have repeated the message and never heard of the repeat.
      const isUnknown = outcomes.includes(undefined);
      return isUnknown ? { ...each, outcome: undefined } : each;
    });
  }

  check(): void {
    const known = new Map<Sent, Outcome>();
    const heard = (sent: Sent, outcome: Outcome | undefined): void => {
      if (outcome === undefined || !isKept(outcome)) return;
      const before = known.get(sent);
      known.set(sent, before ?? outcome);
      if (before !== undefined)
        assert.equal(textOf(outcome), textOf(before), `${nameOf(sent)}: everybody is told the same`);
    };
    for (const sent of this.#keyed) if (this.#lasting.includes(sent.actor)) heard(sent, sent.outcome);
    for (const { of, isOther, isAnswered, outcome, refusal } of this.repeats) {
      if (this.#plan.keysMax !== undefined && isFull(refusal) && !isAnswered) continue;
      if (!this.#lasting.includes(of.actor)) {
        // The deletion may have taken the keys along: then a repeat is a new message, for which there may be no room.
        if (refusal !== undefined && !(this.#plan.keysMax !== undefined && isFull(refusal)))
          assert.ok(refusal instanceof ServerError && refusal.kind !== 'unavailable', messageOf(refusal));
        continue;
      }
      const code = refusal instanceof ServerError ? refusal.code : undefined;
      if (isOther) {
        assert.notEqual(outcome?.kind, 'reply', `${nameOf(of)}: another argument was answered under its key`);
        if (refusal !== undefined) assert.equal(code, 'idempotency-key-reused', `${nameOf(of)}: ${messageOf(refusal)}`);
      } else {
        assert.equal(refusal, undefined, `${nameOf(of)}: its repeat was refused: ${messageOf(refusal)}`);
        heard(of, outcome);
      }
    }
  }
}

function keyOf({ number }: Sent): string {
  // Keys have all lengths.
  return `message-${number}`.padEnd((number * 37) % 256, '~');
}

function isFull(error: unknown): boolean {
  return error instanceof ServerError && error.code === 'idempotency-full';
}

function nameOf({ number, method, actor }: Sent): string {
  return `message ${number}, ${method} of ${actor}, with a key`;
}

function isKept(outcome: Outcome): boolean {
  if (outcome.kind === 'unavailable' || outcome.kind === 'outOfCycles') return false;
  return outcome.kind === 'reply' || !NEVER_EXECUTED.test(outcome.message);
}

function textOf(outcome: Outcome): string {
  const { kind } = outcome;
  return kind === 'reply'
    ? `reply ${Buffer.from(outcome.data).toString('hex')}`
    : `${kind} ${outcome.code} ${outcome.message}`;
}
