/**
 * Stored values of a canister besides its memory: its identity, which rarely changes, and its numbers, which change
 * with almost every step. The identity goes through V8's serializer, the numbers have fixed places.
 */
import {
  CANISTER_STATUSES,
  type CanisterStatus,
  factsAmong,
  type GivenFacts,
  LATER_NUMBERS,
  laterNumbers,
  LOW_MEMORY_HOOKS,
  type LowMemoryHook,
  type MessageNumbers,
  storedNumbers,
} from '../ic/index.ts';
import { ServerError } from '../../kernel/index.ts';
import type { EnforcedSettings } from '../management/index.ts';
import { areOpenMethods, type StoredOpenMethods } from './open-methods.ts';
import { deserialize, serialize } from 'node:v8';

/** With the facts that are not the default. */
export interface StoredIdentity extends Partial<GivenFacts> {
  readonly name: string;
  readonly controllers: readonly Uint8Array[];
  readonly environment: ReadonlyMap<string, string>;
  readonly settings: EnforcedSettings;
  readonly givenCandid: string | undefined;
  /** Left out where none are open. */
  readonly openMethods?: StoredOpenMethods;
  /** SHA-256 of its module, hex; undefined: it is empty. */
  readonly moduleHash: string | undefined;
}

export interface StoredNumbers {
  readonly balance: bigint;
  readonly ofMessages: MessageNumbers;
  /** When the global timer is due, ms since 1970; Infinity: off. */
  readonly timerMs: number;
  readonly heapBytes: number;
  readonly stableBytes: number;
  /**
   * Messages of clients, counted with the step that answers; a crash may lose the last ones that changed nothing. The
   * same holds for `traps` and `lastMessageMs`.
   */
  readonly messages: number;
  readonly traps: number;
  readonly lastMessageMs: number;
  readonly instantMs: number;
  readonly cyclesCharged: number;
  readonly status: CanisterStatus;
  readonly lowMemoryHook: LowMemoryHook;
}

/** Fixed places: one more makes what older versions have stored unreadable. Facts of later versions have a table. */
const FLOATS = [
  'timerMs',
  'heapBytes',
  'stableBytes',
  'messages',
  'traps',
  'lastMessageMs',
  'instantMs',
  'cyclesCharged',
] as const satisfies readonly (keyof StoredNumbers)[];
const VERSION_AT = 16;
const FLOATS_AT = 24;
const STATUS_AT = FLOATS_AT + FLOATS.length * 8;
/** End of what is always there; later numbers that messages change follow. */
const LATER_AT = STATUS_AT + 8;

/** Always the same place: whoever takes it copies it at once. */
const scratch = new DataView(new ArrayBuffer(LATER_AT + LATER_NUMBERS * 8));
const scratchBytes = new Uint8Array(scratch.buffer);

/** A view that the next call overwrites. */
export function numbersBytes(numbers: StoredNumbers): Uint8Array {
  const { balance, ofMessages } = numbers;
  scratch.setBigUint64(0, balance, true);
  scratch.setBigUint64(8, balance >> 64n, true);
  scratch.setFloat64(VERSION_AT, ofMessages.version, true);
  for (let at = 0; at < FLOATS.length; at++) {
    const name = FLOATS[at];
    if (name !== undefined) scratch.setFloat64(FLOATS_AT + at * 8, numbers[name], true);
  }
  scratch.setUint8(STATUS_AT, CANISTER_STATUSES.indexOf(numbers.status));
  scratch.setUint8(STATUS_AT + 1, LOW_MEMORY_HOOKS.indexOf(numbers.lowMemoryHook));
  const later = laterNumbers(ofMessages);
  scratch.setUint8(STATUS_AT + 2, later.length);
  for (const [at, number] of later.entries()) scratch.setFloat64(LATER_AT + at * 8, number, true);
  return scratchBytes.subarray(0, LATER_AT + later.length * 8);
}

/** Throws ServerError `state-corrupt`. */
export function readNumbers(bytes: Uint8Array, key: Uint8Array): StoredNumbers {
  const laterCount = bytes[STATUS_AT + 2] ?? 0;
  if (laterCount > LATER_NUMBERS || bytes.length !== LATER_AT + laterCount * 8) throw corrupt(key);
  const view = new DataView(bytes.buffer, bytes.byteOffset);
  const status = CANISTER_STATUSES[view.getUint8(STATUS_AT)];
  const lowMemoryHook = LOW_MEMORY_HOOKS[view.getUint8(STATUS_AT + 1)];
  if (status === undefined || lowMemoryHook === undefined) throw corrupt(key);
  const later = Array.from({ length: laterCount }, (_, at) => view.getFloat64(LATER_AT + at * 8, true));
  const float = (name: (typeof FLOATS)[number]): number => view.getFloat64(FLOATS_AT + FLOATS.indexOf(name) * 8, true);
  return {
    balance: view.getBigUint64(0, true) | (view.getBigUint64(8, true) << 64n),
    ofMessages: storedNumbers(view.getFloat64(VERSION_AT, true), later),
    timerMs: float('timerMs'),
    heapBytes: float('heapBytes'),
    stableBytes: float('stableBytes'),
    messages: float('messages'),
    traps: float('traps'),
    lastMessageMs: float('lastMessageMs'),
    instantMs: float('instantMs'),
    cyclesCharged: float('cyclesCharged'),
    status,
    lowMemoryHook,
  };
}

export function identityBytes(identity: StoredIdentity): Uint8Array {
  return serialize(identity);
}

/** Throws ServerError `state-corrupt`. */
export function readIdentity(bytes: Uint8Array, key: Uint8Array): StoredIdentity {
  try {
    const identity = deserialize(bytes) as Partial<StoredIdentity> | undefined;
    if (
      typeof identity?.name === 'string' &&
      Array.isArray(identity.controllers) &&
      identity.environment instanceof Map &&
      typeof identity.settings === 'object' &&
      areOpenMethods(identity.openMethods) &&
      factsAmong(identity) !== undefined
    )
      return identity as StoredIdentity;
  } catch {
    // Told below.
  }
  throw corrupt(key);
}

function corrupt(key: Uint8Array): ServerError {
  return new ServerError(
    'unavailable',
    'state-corrupt',
    `the state is damaged: meta/${Buffer.from(key).toString('hex')} cannot be read`,
  );
}
