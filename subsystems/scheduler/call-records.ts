/**
 * Contexts, open calls and credits as they are kept, in the family 'queue', where large payloads have rows of their own
 * (storage/payload-rows.ts):
 *
 *     key      letter · u48 number, big-endian
 *     c        a call context: flags · origin · canister · caller · deadline · cycles · instructions · charge
 *              [· deletion] [· fault] [· its entry point's call: order · method · argument or where it is stored]
 *              [· its client's key: key · method · digest of the argument]
 *     o        an open call: context · callee · callbacks · deadline · cycles
 *              [· between shards: node that made it · its number there]
 *              [· response: order · refund · reject, data, or where the data is stored]
 *     d        cycles that are due to a canister: id · amount
 *
 * Values are little-endian; texts and bytes carry their length. The layout belongs to the version of the state's
 * format. What is read may be damaged: every length is checked, and an error names the key.
 *
 * Main thread: bytes in, records out, and back.
 */
import { numberAt } from '../../kernel/index.ts';
import { NO_BYTES, RecordReader, RecordWriter } from '../bytes/index.ts';
import type { RejectCode, Response, StepFault, StoredAs } from '../ic/index.ts';
import { type Entry, isPayloadKey, type PayloadRef } from '../storage/index.ts';
import type { QueuedResponse, QueuedCall, CallContext, Deletion, OpenCall } from './scheduled-canister.ts';

export const CONTEXT = 0x63;
export const CALL = 0x6f;
export const CREDIT = 0x64;

const KEY_BYTES = 7;
const U48_MAX = 2 ** 48 - 1;
/** Flag of a context whose call's argument has rows of its own; it is set in place of the flag for an argument. */
const START_STORED = 64;
/** Flags of an open call. */
const ANSWERED = 1;
const BETWEEN_SHARDS = 2;
/** Stands in for a reject code: the reply has rows of its own. */
const REPLY_STORED = 7;

interface StartRecord {
  readonly order: number;
  readonly method: string;
  readonly argument: Uint8Array;
  /** Where the argument is stored; then it is not in the record. */
  readonly storedAs?: PayloadRef;
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
  /** The key that its client gave it, until it is answered. */
  readonly keyed: KeyedRecord | undefined;
}

/** As `idempotency/answer-record.ts` has them. */
export interface KeyedRecord {
  readonly key: string;
  readonly method: string;
  readonly digest: string;
}

export interface CallRecord {
  readonly number: number;
  readonly context: number;
  readonly callee: Uint8Array;
  readonly callbacks: Uint8Array;
  readonly deadlineMs: number;
  readonly cycles: bigint;
  readonly madeAs: OpenCall['madeAs'];
  readonly response: { readonly order: number; readonly refunded: bigint; readonly response: Response } | undefined;
}

interface CreditRecord {
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
export class CallRecordWriter {
  readonly #out = new RecordWriter();

  /** Valid until the next value is written. */
  context(context: CallContext, originNumber: number): Uint8Array {
    const { origin, deletion, fault, pending, underWay, storedAs } = context;
    const startFlag = storedAs === undefined ? 16 : START_STORED;
    this.#out.begin();
    this.#out.u8(
      (context.hasAnswered ? 1 : 0) |
        (context.isDeleted ? 2 : 0) |
        (deletion === undefined ? 0 : 4) |
        (fault === undefined ? 0 : 8) |
        (pending === undefined ? 0 : startFlag) |
        (underWay === undefined ? 0 : 32),
    );
    this.#out.u8(ORIGINS.indexOf(origin.kind));
    if (origin.kind === 'canister') this.#out.u48(originNumber);
    this.#out.sized(context.canister.id);
    this.#out.sized(context.caller);
    this.#out.u128(context.deadlineNs);
    this.#out.u128(context.cyclesAvailable);
    this.#out.f64(context.instructions);
    this.#out.f64(context.charge);
    if (deletion !== undefined) this.#reason(DELETIONS.indexOf(deletion.kind), deletion);
    if (fault !== undefined) this.#reason(FAULTS.indexOf(fault.kind), fault);
    if (pending !== undefined) this.#start(pending, storedAs);
    if (underWay !== undefined) this.#keyed(underWay);
    return this.#out.view();
  }

  call(call: OpenCall, contextNumber: number): Uint8Array {
    this.#out.begin();
    const { madeAs } = call;
    this.#out.u8((call.pending === undefined ? 0 : ANSWERED) | (madeAs === undefined ? 0 : BETWEEN_SHARDS));
    this.#out.u48(contextNumber);
    this.#out.sized(call.callee);
    this.#out.sized(call.callbacks);
    this.#out.f64(call.deadlineMs);
    this.#out.u128(call.cycles);
    if (madeAs !== undefined) {
      this.#out.text(madeAs.node);
      this.#out.u48(madeAs.number);
    }
    if (call.pending !== undefined) this.#response(call.pending, call.storedAs);
    return this.#out.view();
  }

  credit(canister: Uint8Array, amount: bigint): Uint8Array {
    this.#out.begin();
    this.#out.sized(canister);
    this.#out.u128(amount);
    return this.#out.view();
  }

  #start({ order, method, argument }: QueuedCall, storedAs: StoredAs | undefined): void {
    this.#out.u48(order);
    this.#out.sizedText(method);
    this.#out.sized(storedAs ?? argument);
  }

  #keyed(record: KeyedRecord): void {
    this.#out.latin1(record.key);
    this.#out.text(record.method);
    this.#out.latin1(record.digest);
  }

  #response({ order, refunded, response }: QueuedResponse, storedAs: StoredAs | undefined): void {
    this.#out.u48(order);
    this.#out.u128(refunded);
    if (response.kind === 'reply') {
      this.#out.u8(storedAs === undefined ? 0 : REPLY_STORED);
      this.#out.sized(storedAs ?? response.data);
    } else {
      this.#out.u8(response.code);
      this.#out.sizedText(response.message);
    }
  }

  #reason(kind: number, { code, message }: { readonly code: RejectCode; readonly message: string }): void {
    this.#out.u8(kind);
    this.#out.u8(code);
    this.#out.sizedText(message);
  }
}

// ---- reading

const ORIGINS: readonly CallContext['origin']['kind'][] = ['ingress', 'system', 'canister'];
const DELETIONS = ['reject', 'unavailable'] as const;
const FAULTS = ['trap', 'limit', 'outOfCycles', 'unavailable', 'calledTrap', 'noCallback'] as const;

type QueueRecord =
  | { readonly kind: 'context'; readonly record: ContextRecord }
  | { readonly kind: 'call'; readonly record: CallRecord }
  | { readonly kind: 'credit'; readonly record: CreditRecord };

/** One entry. What it gives shares no bytes with the entry. Throws ServerError `state-corrupt`. */
export function readRecord([entryKey, value]: Entry): QueueRecord {
  const reader = new CallRecordReader(entryKey, value);
  const number = entryKey.length === KEY_BYTES ? Buffer.from(entryKey).readUIntBE(1, 6) : 0;
  if (number === 0) throw reader.malformed('it is no key of a call');
  const found = recordOf(numberAt(entryKey, 0, 'byte of a key'), number, reader);
  reader.close();
  return found;
}

function recordOf(letter: number, number: number, reader: CallRecordReader): QueueRecord {
  switch (letter) {
    case CONTEXT:
      return { kind: 'context', record: readContext(number, reader) };
    case CALL:
      return { kind: 'call', record: readCall(number, reader) };
    case CREDIT:
      return { kind: 'credit', record: { number, canister: reader.sized(), amount: reader.u128() } };
    default:
      throw reader.malformed('it is no key of a call');
  }
}

function readContext(number: number, reader: CallRecordReader): ContextRecord {
  const flags = reader.u8();
  if (flags > 127 || (flags & (16 | START_STORED)) === (16 | START_STORED)) throw reader.malformed(`flags ${flags}`);
  const origin = reader.oneOf(ORIGINS);
  return {
    number,
    origin: origin === 'canister' ? reader.number() : origin === 'system' ? 'system' : 'client',
    canister: reader.sized(),
    caller: reader.sized(),
    deadlineNs: reader.u128(),
    cyclesAvailable: reader.u128(),
    hasAnswered: (flags & 1) !== 0,
    isDeleted: (flags & 2) !== 0,
    instructions: reader.amount(),
    charge: reader.amount(),
    deletion: (flags & 4) === 0 ? undefined : { kind: reader.oneOf(DELETIONS), ...reader.reason() },
    fault: (flags & 8) === 0 ? undefined : { kind: reader.oneOf(FAULTS), ...reader.reason() },
    start: (flags & (16 | START_STORED)) === 0 ? undefined : reader.start((flags & START_STORED) !== 0),
    keyed: (flags & 32) === 0 ? undefined : { key: reader.latin1(), method: reader.text(), digest: reader.latin1() },
  };
}

function readCall(number: number, reader: CallRecordReader): CallRecord {
  const flags = reader.u8();
  if (flags > (ANSWERED | BETWEEN_SHARDS)) throw reader.malformed(`flags ${flags}`);
  return {
    number,
    context: reader.number(),
    callee: reader.sized(),
    callbacks: reader.sized(),
    deadlineMs: reader.amount(),
    cycles: reader.u128(),
    madeAs: (flags & BETWEEN_SHARDS) === 0 ? undefined : { node: reader.text(), number: reader.number() },
    response:
      (flags & ANSWERED) === 0
        ? undefined
        : { order: reader.number(), refunded: reader.u128(), response: reader.response() },
  };
}

class CallRecordReader extends RecordReader {
  constructor(entryKey: Uint8Array, value: Uint8Array) {
    super(value, `the entry queue ${Buffer.from(entryKey).toString('hex')}`);
    this.open(0, value.length);
  }

  /** The number of a context, a call, or an order: never 0. */
  number(): number {
    const value = this.u48();
    if (value === 0 || value === U48_MAX) throw this.malformed(`number ${value}`);
    return value;
  }

  amount(): number {
    const value = this.f64();
    if (Number.isNaN(value) || value < 0) throw this.malformed(`number ${value}`);
    return value;
  }

  code(): RejectCode {
    const code = this.u8();
    if (code < 1 || code > 6) throw this.malformed(`reject code ${code}`);
    return code as RejectCode;
  }

  reason(): { readonly code: RejectCode; readonly message: string } {
    return { code: this.code(), message: this.sizedText() };
  }

  start(isStored: boolean): StartRecord {
    const call = { order: this.number(), method: this.sizedText() };
    if (isStored) return { ...call, argument: NO_BYTES, storedAs: this.payloadRef() };
    return { ...call, argument: this.sized() };
  }

  payloadRef(): PayloadRef {
    const ref = this.sized();
    if (!isPayloadKey(ref)) throw this.malformed('it does not say where its payload is stored');
    return ref;
  }

  response(): Response {
    const code = this.u8();
    if (code === 0) return { kind: 'reply', data: this.sized() };
    if (code === REPLY_STORED) return { kind: 'reply', data: NO_BYTES, storedAs: this.payloadRef() };
    if (code > 6) throw this.malformed(`reject code ${code}`);
    return { kind: 'reject', code: code as RejectCode, message: this.sizedText() };
  }
}
