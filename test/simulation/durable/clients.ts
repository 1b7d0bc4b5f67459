/** Those who send messages, and remember what they were told. */
import type { Outcome } from '../../../subsystems/execution/index.ts';
import { INLINE_BYTES_MAX } from '../../../subsystems/execution/wire.ts';
import type { Seeded } from '../../support/seeded.ts';
import { FILL_BYTES_MAX, FLAGS, type LedgerArgument, ledgerArgument, NUMBERS_MAX } from './ledger-module.ts';
import type { Life } from './life.ts';
import type { Plan } from './plan.ts';

export const CALLER = Uint8Array.of(4);

export type Method = 'note' | 'spread' | 'transfer' | 'ask' | 'arm' | 'look' | 'peek';

/** One message of a client's. */
export interface Sent {
  readonly number: number;
  readonly actor: string;
  readonly method: Method;
  readonly argument: LedgerArgument;
  /** Name of the actor that a transfer goes to, or that a query looks at. */
  readonly to: string | undefined;
  /** What the client was told; undefined: nothing yet, or never. */
  outcome: Outcome | undefined;
  /** Nobody tells it any more. */
  isLost: boolean;
}

/** The actor that has a large heap, if one has. */
const SPREADING = 'bank1';
/** As often as they are here. */
const METHODS = ['note', 'note', 'transfer', 'transfer', 'transfer', 'look', 'look', 'peek', 'arm', 'ask'] as const;

export class Clients {
  readonly sent: Sent[] = [];
  readonly #seeded: Seeded;
  readonly #plan: Plan;
  /** How often a message takes more than its first slice of fuel. */
  readonly #longOneIn: number;

  constructor(seeded: Seeded, plan: Plan) {
    this.#seeded = seeded;
    this.#plan = plan;
    this.#longOneIn = seeded.pick([3, 6, 30]);
  }

  /** The host has crashed: who waits, waits for ever. */
  lose(): void {
    for (const each of this.sent) if (each.outcome === undefined) each.isLost = true;
  }

  get waiting(): number {
    return this.sent.filter(({ outcome, isLost }) => outcome === undefined && !isLost).length;
  }

  /** Sends something to one of the actors; `peers` may be called, too. */
  send(life: Life, actors: readonly string[], peers: readonly string[]): void {
    const seeded = this.#seeded;
    const number = this.sent.length + 1;
    if (number >= NUMBERS_MAX) return;
    const actor = this.#actorOf(actors);
    const record = actor === undefined ? undefined : life.named(actor);
    if (actor === undefined || record?.module === undefined) return;
    const isSpread = this.#plan.hasLargeHeaps && actor === SPREADING && seeded.oneIn(3);
    const method = isSpread ? 'spread' : seeded.pick(METHODS);
    const to = method === 'transfer' || method === 'peek' ? peers[seeded.below(peers.length)] : undefined;
    const callee = to === undefined ? undefined : life.named(to);
    if (to !== undefined && callee === undefined) return;
    const third = life.named(peers[seeded.below(peers.length)] ?? '');
    const argument: LedgerArgument = {
      number,
      flags: this.#flags(method),
      amount: BigInt(1 + seeded.below(1000)),
      fillBytes: seeded.below(FILL_BYTES_MAX + 1),
      grow: seeded.oneIn(25) ? 1 : 0,
      cycles: seeded.oneIn(2) ? BigInt(seeded.below(1_000_000)) : 0n,
      delayMs: seeded.below(100),
      spinSlices: this.#spinSlices(),
      ...(callee === undefined ? {} : { callee: callee.id, calleeFlags: this.#calleeFlags() }),
      ...(third === undefined ? {} : { third: third.id }),
    };
    const sent: Sent = { number, actor, method, argument, to, outcome: undefined, isLost: false };
    this.sent.push(sent);
    const kind = method === 'look' || method === 'peek' ? 'query' : 'update';
    life.registry.call(record, kind, method, CALLER, this.#padded(ledgerArgument(argument))).then(
      (outcome) => {
        if (!life.isOver) sent.outcome = outcome;
      },
      () => {
        // Refused before it came to the actor.
        sent.isLost = true;
      },
    );
  }

  /** Often the one before again: what waits for an actor, waits for its messages. */
  #actorOf(actors: readonly string[]): string | undefined {
    const before = actors.find((actor) => actor === this.sent.at(-1)?.actor);
    return before !== undefined && !this.#seeded.oneIn(3) ? before : actors[this.#seeded.below(actors.length)];
  }

  /** Most messages are short, some long; a few seem to have no end. */
  #spinSlices(): number {
    const seeded = this.#seeded;
    if (!seeded.oneIn(this.#longOneIn)) return 0;
    return seeded.oneIn(8) ? 30 + seeded.below(60) : 1 + seeded.below(12);
  }

  /** Some come by the port. */
  #padded(argument: Uint8Array): Uint8Array {
    if (!this.#seeded.oneIn(6)) return argument;
    const bytes = new Uint8Array(INLINE_BYTES_MAX - 2 + this.#seeded.below(5));
    bytes.set(argument);
    return bytes;
  }

  #flags(method: Method): number {
    const seeded = this.#seeded;
    let flags = 0;
    if (method === 'note' || method === 'spread' || method === 'transfer' || method === 'ask') {
      if (seeded.oneIn(15)) flags |= FLAGS.trapsHalfway;
      if (seeded.oneIn(15)) flags |= FLAGS.trapsAtEnd;
    }
    if (method === 'transfer' || method === 'ask') {
      if (seeded.oneIn(10)) flags |= FLAGS.trapsInCallback;
    }
    if (method === 'transfer') {
      if (this.#plan.hasTimeouts && seeded.oneIn(4)) flags |= FLAGS.isBestEffort;
    }
    return flags;
  }

  #calleeFlags(): number {
    const seeded = this.#seeded;
    let flags = 0;
    if (seeded.oneIn(12)) flags |= FLAGS.trapsHalfway;
    if (seeded.oneIn(12)) flags |= FLAGS.trapsAtEnd;
    if (seeded.oneIn(8)) flags |= FLAGS.rejects;
    if (seeded.oneIn(4)) flags |= FLAGS.relays;
    if (seeded.oneIn(3)) flags |= FLAGS.leavesCycles;
    return flags;
  }
}
