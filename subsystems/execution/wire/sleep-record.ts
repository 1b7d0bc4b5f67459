/**
 * Records of evictions and of waking packed canisters, in the ring: with a cap on the number of canisters that are
 * awake, both happen for every message, and by the port each takes ten times as long. Main thread and executor
 * (wire.ts).
 */
import type { RingConsumer, RingProducer } from '../../threads/index.ts';
import {
  CANISTER_STATUSES,
  type CanisterStatus,
  MESSAGE_NUMBERS,
  type MessageNumbers,
  numbersAt,
  putNumbers,
} from '../../ic/index.ts';
import { floatAt, longAt, readAmount, wordAt, writeAmount } from './ring-bytes.ts';
import { REST, ROUSE, SLEEP } from './wire.ts';

/** Asks for a canister to be put to sleep. */
export interface SleepRecord {
  readonly kind: 'sleep';
  readonly call: number;
  readonly handle: number;
  /** True if that may be done only when a checkpoint has little to write. */
  readonly isPreparing: boolean;
}

/**
 * Facts that the main thread knows of a sleeping canister: those that may have changed while it slept, and those that
 * must not have.
 */
interface PackedFacts {
  readonly status: CanisterStatus;
  readonly numbers: MessageNumbers;
  readonly balance: bigint;
  readonly timerNs: bigint;
  readonly instantMs: number;
  readonly heapBytes: number;
  readonly stablePages: number;
}

/** Asks for a canister to be woken from the packed state that the executor has kept. */
export interface RouseRecord extends PackedFacts {
  readonly kind: 'rouse';
  readonly call: number;
  readonly handle: number;
}

/**
 * Answers to these records and to the command `wake`, if there is nothing else to tell; other answers go by the port.
 * `takenBack` answers a task, or a change of code: the work has not begun, or is as if it had not (recalls.ts).
 */
const REST_ANSWERS = ['asleep', 'packed', 'unready', 'awake', 'notPacked', 'takenBack'] as const;
export type RestAnswer = (typeof REST_ANSWERS)[number];

// Byte offsets in the payloads. f64 and u64 fields are 8-aligned.
const S = { CALL: 0, HANDLE: 4, IS_PREPARING: 8, BYTES: 16 } as const;
/** End of the numbers. */
const N = 8 * MESSAGE_NUMBERS;
const R = {
  NUMBERS: 0,
  INSTANT: N,
  TIMER: N + 8,
  HEAP: N + 16,
  STABLE: N + 24,
  BALANCE: N + 32,
  CALL: N + 48,
  HANDLE: N + 52,
  STATUS: N + 56,
  BYTES: N + 64,
} as const;
const A = { CALL: 0, ANSWER: 4, BYTES: 8 } as const;

/** Returns false if the ring is full now; so do the other writers. */
export function writeSleep(ring: RingProducer, { call, handle, isPreparing }: SleepRecord): boolean {
  const at = ring.reserve(SLEEP, S.BYTES);
  if (at < 0) return false;
  const { words } = ring;
  words[(at + S.CALL) >> 2] = call;
  words[(at + S.HANDLE) >> 2] = handle;
  words[(at + S.IS_PREPARING) >> 2] = isPreparing ? 1 : 0;
  return true;
}

export function readSleep({ words }: RingConsumer, at: number): SleepRecord {
  return {
    kind: 'sleep',
    call: wordAt(words, at + S.CALL),
    handle: wordAt(words, at + S.HANDLE),
    isPreparing: wordAt(words, at + S.IS_PREPARING) !== 0,
  };
}

export function writeRouse(ring: RingProducer, record: RouseRecord): boolean {
  const at = ring.reserve(ROUSE, R.BYTES);
  if (at < 0) return false;
  const { words, floats, longs } = ring;
  putNumbers(floats, (at + R.NUMBERS) >> 3, record.numbers);
  floats[(at + R.INSTANT) >> 3] = record.instantMs;
  longs[(at + R.TIMER) >> 3] = record.timerNs;
  floats[(at + R.HEAP) >> 3] = record.heapBytes;
  floats[(at + R.STABLE) >> 3] = record.stablePages;
  writeAmount(longs, at + R.BALANCE, record.balance);
  words[(at + R.CALL) >> 2] = record.call;
  words[(at + R.HANDLE) >> 2] = record.handle;
  words[(at + R.STATUS) >> 2] = CANISTER_STATUSES.indexOf(record.status);
  return true;
}

export function readRouse({ words, floats, longs }: RingConsumer, at: number): RouseRecord {
  const status = CANISTER_STATUSES[wordAt(words, at + R.STATUS)];
  if (status === undefined) throw new Error('a canister is roused with no status');
  return {
    kind: 'rouse',
    status,
    numbers: numbersAt(floats, (at + R.NUMBERS) >> 3),
    instantMs: floatAt(floats, at + R.INSTANT),
    timerNs: longAt(longs, at + R.TIMER),
    heapBytes: floatAt(floats, at + R.HEAP),
    stablePages: floatAt(floats, at + R.STABLE),
    balance: readAmount(longs, at + R.BALANCE),
    call: wordAt(words, at + R.CALL),
    handle: wordAt(words, at + R.HANDLE),
  };
}

export function writeRest(ring: RingProducer, call: number, answer: RestAnswer): boolean {
  const at = ring.reserve(REST, A.BYTES);
  if (at < 0) return false;
  ring.words[(at + A.CALL) >> 2] = call;
  ring.words[(at + A.ANSWER) >> 2] = REST_ANSWERS.indexOf(answer);
  return true;
}

export function readRest({ words }: RingConsumer, at: number): { readonly call: number; readonly answer: RestAnswer } {
  const answer = REST_ANSWERS[wordAt(words, at + A.ANSWER)];
  if (answer === undefined) throw new Error('an executor has answered with nothing that is known');
  return { call: wordAt(words, at + A.CALL), answer };
}
