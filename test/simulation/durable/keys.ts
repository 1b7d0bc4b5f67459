/**
 * Clients that give their messages keys and repeat them, whatever they were told of them, in any life of the host; and what must
 * hold then: each is executed at most once, and all who were told of it were told the same. They do so for half as long as keys are
 * known after the answer. Where there are as many keys as may be, new ones are refused, and known ones are not.
 */
import assert from 'node:assert/strict';
import { messageOf, ServerError } from '../../../kernel/index.ts';
import type { Outcome } from '../../../subsystems/ic/index.ts';
import type { Seeded } from '../../support/seeded.ts';
import { CALLER, exportOf, type Sent } from './sent.ts';
import { ledgerArgument } from './ledger-module.ts';
import type { Life } from './life.ts';
import type { KeyPlan } from './plan.ts';

/** A message that was sent again with its key. */
interface Repeat {
  readonly of: Sent;
  /** With another argument: it must be refused. */
  readonly isOther: boolean;
  /** Somebody had been told what came of it when it was sent again. */
  readonly isAnswered: boolean;
  outcome: Outcome | undefined;
  refusal: unknown;
  isLost: boolean;
}

/** Rejects of what was never executed: they are not kept. */
const NEVER_EXECUTED =
  /is (stopping|stopped)$|has no (method|Wasm module)|contains no Wasm module|rejected the message|No route/;

export class Keys {
  readonly repeats: Repeat[] = [];
  readonly #seeded: Seeded;
  readonly #lasting: readonly string[];
  readonly #keyed: Sent[] = [];
  /** To whom they went: another actor of the name knows nothing of their keys. */
  readonly #ids = new Map<Sent, string>();
  /** When they were sent, by the clock of the host, which may be set back. */
  readonly #sentMs = new Map<Sent, number>();
  readonly #plan: KeyPlan;
  full = 0;

  /** `lasting`: actors that are never deleted nor uninstalled. */
  constructor(seeded: Seeded, lasting: readonly string[], plan: KeyPlan) {
    this.#seeded = seeded;
    this.#lasting = lasting;
    this.#plan = plan;
  }

  /** Keys that were not sent again at the end because their time was over. */
  expired = 0;

  /** The key that goes with a message, if one does. */
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

  /** The host's clock was set back: it takes what it has for given now. */
  clockSetBack(nowMs: number): void {
    for (const [sent, sentMs] of this.#sentMs) this.#sentMs.set(sent, Math.min(sentMs, nowMs));
  }

  /** The host is gone. */
  lose(): void {
    for (const repeat of this.repeats) {
      if (repeat.outcome === undefined && repeat.refusal === undefined) repeat.isLost = true;
    }
  }

  /** Sends one of those that have been sent again, mostly one of the last, sometimes often. */
  act(life: Life): void {
    if (this.#keyed.length === 0 || !this.#seeded.oneIn(3)) return;
    const back = this.#seeded.below(this.#seeded.oneIn(3) ? this.#keyed.length : Math.min(4, this.#keyed.length));
    const sent = this.#keyed[this.#keyed.length - 1 - back];
    if (sent === undefined) return;
    for (let times = this.#seeded.oneIn(4) ? 3 : 1; times > 0; times--) {
      this.#repeat(life, sent, sent.outcome?.kind === 'reply' && this.#seeded.oneIn(8));
    }
  }

  /** Sends all of them again. */
  repeatAll(life: Life): void {
    this.expired = this.#keyed.filter((sent) => !this.#isKnown(sent, life.nowMs)).length;
    for (const sent of this.#keyed) this.#repeat(life, sent, false);
  }

  /** A message was refused. */
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

  /** Messages with what is known of them, whoever was told. */
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
      // Who was told that nothing has happened may have sent it again, and never heard of it.
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
        // Its keys may have gone with it: then a repeat is a new message, for which there may be no place.
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
  // Of all lengths.
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
