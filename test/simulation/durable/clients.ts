/** Clients that send messages and remember their outcomes. */
import { DEBUG_BYTES_MAX } from '../../../subsystems/execution/engine/system-api/debug-output.ts';
import { REPLY_BYTES_MAX } from '../../../subsystems/execution/engine/system-api/responding.ts';
import { INLINE_BYTES_MAX } from '../../../subsystems/execution/wire/ring-bytes.ts';
import type { Seeded } from '../../support/seeded.ts';
import {
  ARGUMENT_BYTES,
  FILL_BYTES_MAX,
  FLAGS,
  type LedgerArgument,
  ledgerArgument,
  LOOK_BYTES,
  NUMBERS_MAX,
} from './ledger-module.ts';
import { Keys } from './keys.ts';
import type { Life } from './life.ts';
import { assertPrinted, linesOf } from './printed-lines.ts';
import type { LargePayload, PayloadSizes, Use } from './payload-sizes.ts';
import type { Plan } from './plan.ts';
import { CALLER, exportOf, type Method, type Sent } from './sent.ts';

/** Name of the actor with a large heap, if there is one. */
const SPREADING = 'bank1';
/** Methods to draw from, each as often as it is listed. */
const METHODS = ['note', 'note', 'transfer', 'transfer', 'transfer', 'look', 'look', 'peek', 'arm', 'ask'] as const;
/** Methods that carry a large payload, by the payload's use. */
const LARGE_METHODS: Readonly<Record<Use, readonly [Method, ...Method[]]>> = {
  argument: ['note', 'transfer', 'ask', 'arm', 'look', 'peek'],
  reply: ['note', 'transfer', 'ask', 'arm'],
  shown: ['look', 'peek'],
  call: ['transfer'],
  answer: ['transfer'],
  reject: ['transfer'],
  heap: ['note', 'transfer'],
  stable: ['note', 'transfer'],
  debug: ['note', 'transfer'],
};
/** Bytes in front of a payload. */
const FRAME_BYTES: Readonly<Record<Use, number>> = {
  argument: ARGUMENT_BYTES,
  reply: LOOK_BYTES,
  shown: LOOK_BYTES,
  call: ARGUMENT_BYTES,
  answer: LOOK_BYTES,
  reject: 0,
  heap: 0,
  stable: 0,
  debug: 0,
};
const { trapsHalfway, trapsAtEnd, rejects, relays } = FLAGS;

export class Clients {
  readonly sent: Sent[] = [];
  readonly keys: Keys;
  readonly #seeded: Seeded;
  readonly #plan: Plan;
  /** One message in this many takes more than its first slice of fuel. */
  readonly #longOneIn: number;
  readonly #sizes: PayloadSizes;
  readonly #lasting: readonly string[];
  /** Lines that messages print. */
  readonly #lines = new Set<string>();
  /** Number of lines read. */
  printed = 0;

  /** Chance that decides only about outcalls; undefined: no message makes one. */
  readonly #outside: Seeded | undefined;

  /** `lasting`: actors that are never uninstalled; `keyed`: chance that decides only about keys. */
  constructor(
    seeded: Seeded,
    plan: Plan,
    sizes: PayloadSizes,
    lasting: readonly string[],
    keyed: Seeded,
    outside: Seeded | undefined,
  ) {
    this.#outside = outside;
    this.keys = new Keys(keyed, lasting, plan.keys);
    this.#lasting = lasting;
    this.#seeded = seeded;
    this.#plan = plan;
    this.#longOneIn = seeded.pick([3, 6, 30]);
    this.#sizes = sizes;
  }

  /** Marks all open messages as lost: the host has crashed and will not answer them. */
  lose(): void {
    for (const each of this.sent) if (each.outcome === undefined) each.isLost = true;
    this.keys.lose();
  }

  get waiting(): number {
    return this.sent.filter(({ outcome, isLost }) => outcome === undefined && !isLost).length + this.keys.waiting;
  }

  /** Sends a message to one of the actors; the message may call `peers`, too. */
  send(life: Life, actors: readonly string[], peers: readonly string[]): void {
    this.keys.act(life);
    const seeded = this.#seeded;
    const actor = this.#actorOf(actors);
    if (actor === undefined) return;
    if (this.#plan.hasLargeHeaps && actor === SPREADING && seeded.oneIn(3)) {
      this.#send(life, actor, peers, 'spread', undefined);
    } else if (this.#sizes.isLargeDue()) {
      const large = this.#sizes.large();
      const method = seeded.pick(LARGE_METHODS[large.use]);
      // A message prints a limited number of bytes: filling an actor's lines takes several messages.
      const many = large.use === 'debug' ? Math.ceil(large.bytes / DEBUG_BYTES_MAX) : 1;
      let isSent = false;
      for (let n = 0; n < many; n++) isSent = this.#send(life, actor, peers, method, large) || isSent;
      if (isSent) this.#sizes.taken();
    } else {
      const method = seeded.pick(METHODS);
      this.#send(life, actor, peers, this.#outside?.oneIn(3) === true ? 'ask' : method, undefined);
    }
  }

  /** Returns false if there is no actor to send the message to. */
  #send(life: Life, actor: string, peers: readonly string[], method: Method, large: LargePayload | undefined): boolean {
    const seeded = this.#seeded;
    const number = this.sent.length + 1;
    const record = life.named(actor);
    if (number >= NUMBERS_MAX || record?.module === undefined) return false;
    const isCalling = method === 'transfer' || method === 'peek';
    // If an actor is uninstalled before it has answered, the host rejects its calls in its place.
    const called = large?.use === 'reject' ? this.#lasting : peers;
    const to = isCalling ? called[seeded.below(called.length)] : undefined;
    const callee = to === undefined ? undefined : life.named(to);
    if (to !== undefined && callee === undefined) return false;
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
      ...(callee === undefined ? {} : { callee: callee.id, calleeFlags: this.#calleeFlags(large) }),
      ...(third === undefined ? {} : { third: third.id }),
      ...this.#payloads(method, large, to),
    };
    for (const line of linesOf(number, argument.debugBytes ?? 0)) this.#lines.add(line);
    const isOutside = method === 'ask' && this.#outside?.oneIn(2) === true;
    const sent: Sent = { number, actor, method, isOutside, argument, to, outcome: undefined, isLost: false };
    this.sent.push(sent);
    const kind = isQuery(method) ? 'query' : 'update';
    const key = this.keys.keyFor(sent, record.idText, life.nowMs);
    life.call(record, kind, exportOf(sent), CALLER, ledgerArgument(argument), key).then(
      (outcome) => {
        if (!life.isOver) sent.outcome = outcome;
      },
      (error: unknown) => {
        // The message was refused before it came to the actor.
        this.keys.refused(error);
        sent.isLost = true;
      },
    );
    return true;
  }

  /** Draws the sizes of payloads that go with a message and come back. */
  #payloads(method: Method, large: LargePayload | undefined, to: string | undefined): Partial<LedgerArgument> {
    const bytesOf = (use: Use, small: () => number): number =>
      large?.use === use ? large.bytes - FRAME_BYTES[use] : small();
    const small = (use: Parameters<PayloadSizes['small']>[0]): number => bytesOf(use, () => this.#sizes.small(use));
    const isLasting = to !== undefined && this.#lasting.includes(to);
    const writes = method === 'note' || method === 'transfer';
    return {
      payloadBytes: bytesOf('argument', () => this.#argumentBytes()),
      replyBytes: small(isQuery(method) ? 'shown' : 'reply'),
      ...(method === 'transfer'
        ? { callBytes: small('call'), answerBytes: small('answer'), rejectBytes: isLasting ? small('reject') : 0 }
        : {}),
      ...(writes
        ? { heapBytes: bytesOf('heap', none), stableBytes: bytesOf('stable', none), debugBytes: small('debug') }
        : {}),
    };
  }

  /**
   * Draws the size of an argument. Some come by the port, more than the list of large ones has: they are to meet long
   * messages.
   */
  #argumentBytes(): number {
    if (!this.#seeded.oneIn(6)) return this.#sizes.small('argument');
    return INLINE_BYTES_MAX - ARGUMENT_BYTES - 2 + this.#seeded.below(5);
  }

  /** Reads the lines that actors have printed; each must be one that some message prints. */
  readLines(life: Life, actors: readonly string[]): void {
    for (const name of actors) {
      const record = life.named(name);
      if (record === undefined) continue;
      for (const { text } of life.registry.takeLogs(record)) {
        this.printed++;
        assertPrinted(name, text, this.#lines);
      }
    }
  }

  /** Picks an actor, often the one before: work waits for an actor only if messages follow each other. */
  #actorOf(actors: readonly string[]): string | undefined {
    const before = actors.find((actor) => actor === this.sent.at(-1)?.actor);
    return before !== undefined && !this.#seeded.oneIn(3) ? before : actors[this.#seeded.below(actors.length)];
  }

  /** Draws a message's duration: mostly short, sometimes long, seldom nearly endless. */
  #spinSlices(): number {
    const seeded = this.#seeded;
    if (!seeded.oneIn(this.#longOneIn)) return 0;
    return seeded.oneIn(8) ? 30 + seeded.below(60) : 1 + seeded.below(12);
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

  /** Draws flags of the callee, without those that would trap a large payload. */
  #calleeFlags(large: LargePayload | undefined): number {
    const flags = this.#anyCalleeFlags();
    if (large === undefined) return flags;
    const whole = flags & ~(trapsHalfway | trapsAtEnd);
    if (large.use === 'reject') return (whole | rejects) & ~relays;
    if (large.use !== 'answer') return whole;
    // A callee that traps in the callback in which it answers has still received the payload.
    return whole & ~(large.bytes > REPLY_BYTES_MAX ? rejects | relays : rejects);
  }

  #anyCalleeFlags(): number {
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

const none = (): number => 0;

function isQuery(method: Method): boolean {
  return method === 'look' || method === 'peek';
}
