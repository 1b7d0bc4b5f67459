/**
 * Bounds of the keys that are known, and the refusals where they are reached. Clients that have shown no token have a
 * tenth of them together, so that strangers cannot use up the room of others. Main thread: plain numbers.
 */
import { ServerError } from '../../../kernel/index.ts';

/** Bounds of all keys, and of one canister's: half of that, so that no canister takes everything. */
export interface KeyBounds {
  /** Keys that are answered or under way. */
  readonly keysMax: number;
  /** Bytes of answers, with what they are kept by; on disk as well. */
  readonly bytesMax: number;
}

export const KEY_BOUNDS: KeyBounds = { keysMax: 1_000_000, bytesMax: 256 * 2 ** 20 };
const CANISTER_SHARE = 2;
/** The part of the bounds that keys of open calls have. */
const OPEN_SHARE = 10;
/** Room that is kept for the answer of a call under way. Most are far smaller. */
const RESERVED_BYTES = 2048;
/**
 * Answers that turn out larger may take the bytes beyond their bound, up to this factor; then it is kept that the call
 * was executed, and not what it answered.
 */
const OVERDRAFT_FACTOR = 2;
/**
 * Repeats that wait for one answer. A client that repeats what takes long adds one with every try; this many are not in
 * earnest.
 */
export const WAITING_REPEATS_MAX = 100;

/** Numbers of keys, and what their answers hold. */
export class KeyCount {
  /** Keys that are answered. */
  keys = 0;
  underWay = 0;
  bytes = 0;

  get all(): number {
    return this.keys + this.underWay;
  }

  get allBytes(): number {
    return this.bytes + this.underWay * RESERVED_BYTES;
  }

  /** Takes out all that another one has. */
  subtract({ keys, underWay, bytes }: KeyCount): void {
    this.keys -= keys;
    this.underWay -= underWay;
    this.bytes -= bytes;
  }
}

/** Returns the bounds of keys of open calls. */
export function openBounds({ keysMax, bytesMax }: KeyBounds): KeyBounds {
  return { keysMax: Math.floor(keysMax / OPEN_SHARE), bytesMax: Math.floor(bytesMax / OPEN_SHARE) };
}

/** Returns why there is no room for another key; undefined: there is. */
export function fullness(
  { keysMax, bytesMax }: KeyBounds,
  own: KeyCount,
  all: KeyCount,
  ofWhom = '',
): ServerError | undefined {
  const isOwn = own.all >= keysMax / CANISTER_SHARE || own.allBytes >= bytesMax / CANISTER_SHARE;
  if (!isOwn && all.all < keysMax && all.allBytes < bytesMax) return undefined;
  const [who, { all: count, allBytes: bytes }, share] = isOwn ? ['actor', own, CANISTER_SHARE] : ['server', all, 1];
  return new ServerError(
    'unavailable',
    'idempotency-full',
    `the ${who} knows ${count} of at most ${keysMax / share} idempotency keys${ofWhom}, with ${bytes} of at most ${bytesMax / share} ` +
      'bytes, and forgets none before its time: try again later, or let them expire sooner (--idempotency-secs)',
  );
}

/** Returns true if an answer of so many bytes can be kept. */
export function isKept({ bytesMax }: KeyBounds, own: KeyCount, all: KeyCount, bytes: number): boolean {
  const most = bytesMax * OVERDRAFT_FACTOR;
  return all.bytes + bytes <= most && own.bytes + bytes <= most / CANISTER_SHARE;
}

export function tooManyRepeats(): ServerError {
  return new ServerError(
    'unavailable',
    'idempotency-busy',
    `${WAITING_REPEATS_MAX} repeats of this call wait for its answer already: wait for one of them, or try again later`,
  );
}

export function reused(what: string): ServerError {
  return new ServerError(
    'unprocessable',
    'idempotency-key-reused',
    `the idempotency key was used for a call with ${what}: give each call a key of its own, and repeat a call as it was`,
  );
}
