/**
 * Contexts, open calls and credits as they are kept, in the family 'queue':
 *
 *     key      letter · u48 number, big-endian
 *     c        a call context: flags · origin · canister · caller · deadline · cycles · instructions · charge
 *              [· deletion] [· fault] [· its entry point's call: order · method · argument]
 *     o        an open call: context · callee · callbacks · deadline · cycles [· response: order · refund · reject or data]
 *     d        cycles that are due to a canister: id · amount
 *
 * Values are little-endian; texts and bytes carry their length. The layout belongs to the version of the state's format.
 * What is read may be damaged: every length is checked, and an error names the key.
 *
 * Main thread: bytes in, records out, and back.
 */
import { ServerError } from '../../kernel/index.ts';
import type { RejectCode, Response, StepFault } from '../ic/index.ts';
import type { Entry } from '../storage/index.ts';
import type { QueuedResponse, QueuedCall, CallContext, Deletion, OpenCall } from './scheduled-canister.ts';

export const CONTEXT = 0x63;
export const CALL = 0x6f;
export const CREDIT = 0x64;

const KEY_BYTES = 7;
const U48_MAX = 2 ** 48 - 1;

/** Where `call_new`'s slot is in a call's callbacks; see callback-buffer.ts. */
const SLOT_AT = 52;

export interface StartRecord {
  readonly order: number;
  readonly method: string;
  readonly argument: Uint8Array;
}

export interface ContextRecord {
  readonly number: number;
  readonly canister: Uint8Array;
  readonly origin: 'client' | 'system' | number;
  readonly caller: Uint8Array;
  readonly deadlineNs: bigint;
  readonly cyclesAvailable: bigint;
  readonly hasAnswered: boolean;
  readonly isDeleted: boolean;
  readonly instructions: number;
  readonly charge: number;
  readonly deletion: Deletion | undefined;
  readonly fault: StepFault | undefined;
  readonly start: StartRecord | undefined;
}

export interface CallRecord {
  readonly number: number;
  readonly context: number;
  readonly callee: Uint8Array;
  readonly callbacks: Uint8Array;
  readonly deadlineMs: number;
  readonly cycles: bigint;
  readonly response: { readonly order: number; readonly refunded: bigint; readonly response: Response } | undefined;
}

export interface CreditRecord {
  readonly number: number;
  readonly canister: Uint8Array;
  readonly amount: bigint;
}

/** Valid until the next key is asked for. */
export function keyOf(letter: number, number: number): Uint8Array {
  key[0] = letter;
  key.writeUIntBE(number, 1, 6);
  return key;
}
const key = Buffer.alloc(KEY_BYTES);

// ---- writing

/** Writes values, into one buffer that is used again. */
export class RecordWriter {
  #bytes = Buffer.alloc(1024);
  #at = 0;

  /** Valid until the next value is written. */
  context(context: CallContext, originNumber: number): Uint8Array {
    const { origin, deletion, fault, pending } = context;
    this.#at = 0;
    this.#u8(
      (context.hasAnswered ? 1 : 0) |
        (context.isDeleted ? 2 : 0) |
        (deletion === undefined ? 0 : 4) |
        (fault === undefined ? 0 : 8) |
        (pending === undefined ? 0 : 16),
    );
    this.#u8(ORIGINS.indexOf(origin.kind));
    if (origin.kind === 'canister') this.#u48(originNumber);
    this.#data(context.canister.id);
    this.#data(context.caller);
    this.#u128(context.deadlineNs);
    this.#u128(context.cyclesAvailable);
    this.#f64(context.instructions);
    this.#f64(context.charge);
    if (deletion !== undefined) this.#reason(DELETIONS.indexOf(deletion.kind), deletion);
    if (fault !== undefined) this.#reason(FAULTS.indexOf(fault.kind), fault);
    if (pending !== undefined) this.#start(pending);
    return this.#value();
  }

  call(call: OpenCall, contextNumber: number): Uint8Array {
    this.#at = 0;
    this.#u8(call.pending === undefined ? 0 : 1);
    this.#u48(contextNumber);
    this.#data(call.callee);
    this.#data(call.callbacks);
    this.#f64(call.deadlineMs);
    this.#u128(call.cycles);
    if (call.pending !== undefined) this.#response(call.pending);
    return this.#value();
  }

  credit(canister: Uint8Array, amount: bigint): Uint8Array {
    this.#at = 0;
    this.#data(canister);
    this.#u128(amount);
    return this.#value();
  }

  #start({ order, method, argument }: QueuedCall): void {
    this.#u48(order);
    this.#text(method);
    this.#data(argument);
  }

  #response({ order, refunded, response }: QueuedResponse): void {
    this.#u48(order);
    this.#u128(refunded);
    if (response.kind === 'reply') {
      this.#u8(0);
      this.#data(response.data);
    } else {
      this.#u8(response.code);
      this.#text(response.message);
    }
  }

  #reason(kind: number, { code, message }: { readonly code: RejectCode; readonly message: string }): void {
    this.#u8(kind);
    this.#u8(code);
    this.#text(message);
  }

  #value(): Uint8Array {
    const bytes = this.#bytes;
    if (bytes.length > 1 << 20) this.#bytes = Buffer.alloc(1024);
    return bytes.subarray(0, this.#at);
  }

  #room(length: number): number {
    const at = this.#at;
    this.#at += length;
    if (this.#at > this.#bytes.length) {
      const larger = Buffer.alloc(Math.max(this.#bytes.length * 2, this.#at));
      larger.set(this.#bytes.subarray(0, at));
      this.#bytes = larger;
    }
    return at;
  }

  #u8(value: number): void {
    const at = this.#room(1);
    this.#bytes[at] = value;
  }

  #u48(value: number): void {
    const at = this.#room(6);
    this.#bytes.writeUIntLE(value, at, 6);
  }

  #f64(value: number): void {
    const at = this.#room(8);
    this.#bytes.writeDoubleLE(value, at);
  }

  #u128(value: bigint): void {
    const at = this.#room(16);
    this.#bytes.writeBigUInt64LE(value & U64_MAX, at);
    this.#bytes.writeBigUInt64LE(value >> 64n, at + 8);
  }

  #data(bytes: Uint8Array): void {
    const at = this.#room(4 + bytes.length);
    this.#bytes.writeUInt32LE(bytes.length, at);
    this.#bytes.set(bytes, at + 4);
  }

  #text(text: string): void {
    this.#data(Buffer.from(text));
  }
}

const U64_MAX = 2n ** 64n - 1n;

// ---- reading

const ORIGINS: readonly CallContext['origin']['kind'][] = ['ingress', 'system', 'canister'];
const DELETIONS = ['reject', 'unavailable'] as const;
const FAULTS = ['trap', 'limit', 'outOfCycles', 'unavailable', 'calledTrap', 'noCallback'] as const;

export type QueueRecord =
  | { readonly kind: 'context'; readonly record: ContextRecord }
  | { readonly kind: 'call'; readonly record: CallRecord }
  | { readonly kind: 'credit'; readonly record: CreditRecord };

/** One entry. What it gives shares no bytes with the entry. Throws ServerError `state-corrupt`. */
export function readRecord([entryKey, value]: Entry): QueueRecord {
  const reader = new RecordReader(entryKey, value);
  const number = entryKey.length === KEY_BYTES ? Buffer.from(entryKey).readUIntBE(1, 6) : 0;
  if (number === 0) throw reader.corrupt('it is no key of a call');
  const found = recordOf(entryKey[0] ?? 0, number, reader);
  reader.end();
  return found;
}

function recordOf(letter: number, number: number, reader: RecordReader): QueueRecord {
  switch (letter) {
    case CONTEXT:
      return { kind: 'context', record: readContext(number, reader) };
    case CALL:
      return { kind: 'call', record: readCall(number, reader) };
    case CREDIT:
      return { kind: 'credit', record: { number, canister: reader.data(), amount: reader.u128() } };
    default:
      throw reader.corrupt('it is no key of a call');
  }
}

function readContext(number: number, reader: RecordReader): ContextRecord {
  const flags = reader.u8();
  if (flags > 31) throw reader.corrupt(`flags ${flags}`);
  const origin = reader.oneOf(ORIGINS);
  return {
    number,
    origin: origin === 'canister' ? reader.u48() : origin === 'system' ? 'system' : 'client',
    canister: reader.data(),
    caller: reader.data(),
    deadlineNs: reader.u128(),
    cyclesAvailable: reader.u128(),
    hasAnswered: (flags & 1) !== 0,
    isDeleted: (flags & 2) !== 0,
    instructions: reader.f64(),
    charge: reader.f64(),
    deletion: (flags & 4) === 0 ? undefined : { kind: reader.oneOf(DELETIONS), ...reader.reason() },
    fault: (flags & 8) === 0 ? undefined : { kind: reader.oneOf(FAULTS), ...reader.reason() },
    start: (flags & 16) === 0 ? undefined : { order: reader.u48(), method: reader.text(), argument: reader.data() },
  };
}

function readCall(number: number, reader: RecordReader): CallRecord {
  const flags = reader.u8();
  if (flags > 1) throw reader.corrupt(`flags ${flags}`);
  return {
    number,
    context: reader.u48(),
    callee: reader.data(),
    callbacks: reader.data(),
    deadlineMs: reader.f64(),
    cycles: reader.u128(),
    response: flags === 0 ? undefined : { order: reader.u48(), refunded: reader.u128(), response: reader.response() },
  };
}

class RecordReader {
  readonly #key: Uint8Array;
  readonly #bytes: Buffer;
  #at = 0;

  constructor(entryKey: Uint8Array, value: Uint8Array) {
    this.#key = entryKey;
    this.#bytes = Buffer.from(value.buffer, value.byteOffset, value.byteLength);
  }

  corrupt(why: string): ServerError {
    const name = `queue ${Buffer.from(this.#key).toString('hex')}`;
    return new ServerError('unavailable', 'state-corrupt', `the entry ${name} is damaged: ${why}`);
  }

  end(): void {
    if (this.#at !== this.#bytes.length) throw this.corrupt(`it has ${this.#bytes.length - this.#at} bytes too many`);
  }

  #take(length: number): number {
    const at = this.#at;
    if (length > this.#bytes.length - at) throw this.corrupt(`it ends within a field, at byte ${at}`);
    this.#at = at + length;
    return at;
  }

  u8(): number {
    return this.#bytes.readUInt8(this.#take(1));
  }

  oneOf<T>(kinds: readonly T[]): T {
    const at = this.u8();
    const kind = kinds[at];
    if (kind === undefined) throw this.corrupt(`kind ${at}`);
    return kind;
  }

  u48(): number {
    const value = this.#bytes.readUIntLE(this.#take(6), 6);
    if (value === 0 || value === U48_MAX) throw this.corrupt(`number ${value}`);
    return value;
  }

  f64(): number {
    const value = this.#bytes.readDoubleLE(this.#take(8));
    if (Number.isNaN(value) || value < 0) throw this.corrupt(`number ${value}`);
    return value;
  }

  u128(): bigint {
    const at = this.#take(16);
    return this.#bytes.readBigUInt64LE(at) | (this.#bytes.readBigUInt64LE(at + 8) << 64n);
  }

  data(): Uint8Array {
    const length = this.#bytes.readUInt32LE(this.#take(4));
    const at = this.#take(length);
    return new Uint8Array(this.#bytes.subarray(at, at + length));
  }

  text(): string {
    const length = this.#bytes.readUInt32LE(this.#take(4));
    const at = this.#take(length);
    return this.#bytes.toString('utf8', at, at + length);
  }

  code(): RejectCode {
    const code = this.u8();
    if (code < 1 || code > 6) throw this.corrupt(`reject code ${code}`);
    return code as RejectCode;
  }

  reason(): { readonly code: RejectCode; readonly message: string } {
    return { code: this.code(), message: this.text() };
  }

  response(): Response {
    if (this.#bytes[this.#at] === 0) {
      this.u8();
      return { kind: 'reply', data: this.data() };
    }
    return { kind: 'reject', ...this.reason() };
  }
}

/** Where the executor counts a call. */
export function slotOf(callbacks: Uint8Array): number {
  if (callbacks.length < SLOT_AT + 4) return 0;
  return new DataView(callbacks.buffer, callbacks.byteOffset).getUint32(SLOT_AT, true);
}
