/**
 * What crosses between the main thread and an executor, and how it is laid out in the ring.
 *
 *   main → executor
 *     EXECUTE   f64 now (ms) · u32 call · u32 canister · u32 entry point · u32 kind · u32 caller length · u32 argument length ·
 *               caller (32 bytes reserved) · argument
 *     COMMAND   nothing: the next message on the port is due here, so that order holds
 *   executor → main
 *     OUTCOME   f64 instructions · f64 charge · f64 heap bytes · f64 stable bytes · u64 balance low · u64 balance high ·
 *               u32 call · u32 canister · u32 kind · u32 code · u32 data length · u32 has balance · data
 *     DEBUG     u32 canister · u32 length · UTF-8 text
 *     MESSAGE   nothing: the next message on the port is due here
 *
 * Small things travel inline; anything larger than INLINE_BYTES_MAX, and everything rare, goes by the port
 * (structured clone, buffers transferred) with a marker record in the ring that keeps the order.
 */
import type { MessagePort } from 'node:worker_threads';
import type { CallKind, Outcome, RejectCode } from './index.ts';
import type { RingConsumer, RingProducer } from './message-ring.ts';
import type { InstrumentedCode } from './instance.ts';
import type { MeteringPolicy } from '../metering/index.ts';

export const RING_BYTES = 1 << 20;
/** Larger payloads are copied once by structured clone instead of twice through the ring, and never fill it. */
export const INLINE_BYTES_MAX = 32 * 1024;

export const EXECUTE = 1;
export const COMMAND = 2;
export const OUTCOME = 3;
export const DEBUG = 4;
export const MESSAGE = 5;

const CALLER_BYTES_RESERVED = 32;
const EXECUTE_HEADER_BYTES = 32 + CALLER_BYTES_RESERVED;
const OUTCOME_HEADER_BYTES = 72;
const DEBUG_HEADER_BYTES = 8;

const CALL_KINDS = ['update', 'query'] as const satisfies readonly CallKind[];
const OUTCOME_KINDS = [
  'reply',
  'reject',
  'trap',
  'limit',
  'noReply',
  'outOfCycles',
  'unavailable',
] as const satisfies readonly Outcome['kind'][];

/** One message on its way to a canister. */
export interface ExecuteRecord {
  nowMs: number;
  call: number;
  handle: number;
  /** Number of the entry point in the module's layout. */
  entry: number;
  kind: CallKind;
  caller: Uint8Array;
  argument: Uint8Array;
}

/** What goes by the port to an executor. `reply` commands are answered by a PortMessage with the same `call`. */
export type Command =
  | {
      readonly kind: 'create';
      readonly handle: number;
      readonly spec: {
        readonly id: Uint8Array;
        readonly balance: bigint;
        readonly controllers: readonly Uint8Array[];
        readonly env: ReadonlyMap<string, string>;
      };
    }
  | {
      readonly kind: 'install';
      readonly call: number;
      readonly handle: number;
      readonly code: InstrumentedCode;
      readonly argument: Uint8Array;
      readonly caller: Uint8Array;
      readonly nowMs: number;
    }
  | { readonly kind: 'execute'; readonly record: ExecuteRecord }
  | { readonly kind: 'addCycles'; readonly call: number; readonly handle: number; readonly amount: bigint }
  | { readonly kind: 'remove'; readonly handle: number };

/** What an executor sends by the port. */
export type PortMessage =
  | { readonly kind: 'outcome'; readonly record: OutcomeRecord }
  | { readonly kind: 'debug'; readonly handle: number; readonly text: string }
  | { readonly kind: 'balance'; readonly call: number; readonly balance: bigint }
  /** A fault of the host's own, for the log. */
  | { readonly kind: 'bug'; readonly message: string };

export interface OutcomeRecord {
  call: number;
  handle: number;
  outcome: Outcome;
  heapBytes: number;
  stableBytes: number;
  balance: bigint | undefined;
}

/** Handed to an executor thread when it starts. */
export interface ExecutorOptions {
  readonly inbox: SharedArrayBuffer;
  readonly outbox: SharedArrayBuffer;
  readonly port: MessagePort;
  readonly policy: MeteringPolicy;
  readonly wasmStackBytes: number;
}

export function writeExecute(ring: RingProducer, record: ExecuteRecord): boolean {
  const { caller, argument } = record;
  const at = ring.reserve(EXECUTE, EXECUTE_HEADER_BYTES + argument.length);
  if (at < 0) return false;
  ring.floats[at >> 3] = record.nowMs;
  const word = at >> 2;
  ring.words[word + 2] = record.call;
  ring.words[word + 3] = record.handle;
  ring.words[word + 4] = record.entry;
  ring.words[word + 5] = record.kind === 'query' ? 1 : 0;
  ring.words[word + 6] = caller.length;
  ring.words[word + 7] = argument.length;
  copyInto(ring.bytes, at + 32, caller);
  copyInto(ring.bytes, at + EXECUTE_HEADER_BYTES, argument);
  return true;
}

/** Fills `into`; caller and argument are views of the ring, valid only while the record is. */
export function readExecute(ring: RingConsumer, at: number, into: ExecuteRecord): void {
  const word = at >> 2;
  into.nowMs = ring.floats[at >> 3] ?? 0;
  into.call = ring.words[word + 2] ?? 0;
  into.handle = ring.words[word + 3] ?? 0;
  into.entry = ring.words[word + 4] ?? 0;
  into.kind = CALL_KINDS[ring.words[word + 5] ?? 0] ?? 'update';
  const callerLength = ring.words[word + 6] ?? 0;
  const argumentLength = ring.words[word + 7] ?? 0;
  into.caller = ring.bytes.subarray(at + 32, at + 32 + callerLength);
  into.argument = ring.bytes.subarray(at + EXECUTE_HEADER_BYTES, at + EXECUTE_HEADER_BYTES + argumentLength);
}

const EMPTY = new Uint8Array(0);
const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** False when the ring is full now. The data must fit (`outcomeBytes`). */
export function writeOutcome(ring: RingProducer, record: OutcomeRecord): boolean {
  const { outcome } = record;
  const data = outcome.kind === 'reply' ? outcome.data : encoder.encode(outcome.message);
  const at = ring.reserve(OUTCOME, OUTCOME_HEADER_BYTES + data.length);
  if (at < 0) return false;
  const float = at >> 3;
  ring.floats[float] = outcome.instructions;
  ring.floats[float + 1] = outcome.charge;
  ring.floats[float + 2] = record.heapBytes;
  ring.floats[float + 3] = record.stableBytes;
  const word = at >> 2;
  ring.words[word + 12] = record.call;
  ring.words[word + 13] = record.handle;
  ring.words[word + 14] = OUTCOME_KINDS.indexOf(outcome.kind);
  ring.words[word + 15] = outcome.kind === 'reply' ? 0 : outcome.code;
  ring.words[word + 16] = data.length;
  ring.words[word + 17] = record.balance === undefined ? 0 : 1;
  if (record.balance !== undefined) {
    ring.longs[float + 4] = BigInt.asUintN(64, record.balance);
    ring.longs[float + 5] = record.balance >> 64n;
  }
  copyInto(ring.bytes, at + OUTCOME_HEADER_BYTES, data);
  return true;
}

/** Bytes of an outcome's data in the ring, at most: to decide whether it goes inline. */
export function outcomeBytes(outcome: Outcome): number {
  return outcome.kind === 'reply' ? outcome.data.length : outcome.message.length * 3;
}

export function readOutcome(ring: RingConsumer, at: number): OutcomeRecord {
  const float = at >> 3;
  const word = at >> 2;
  const numbers = { instructions: ring.floats[float] ?? 0, charge: ring.floats[float + 1] ?? 0 };
  const length = ring.words[word + 16] ?? 0;
  const data = length === 0 ? EMPTY : ring.bytes.slice(at + OUTCOME_HEADER_BYTES, at + OUTCOME_HEADER_BYTES + length);
  const kind = OUTCOME_KINDS[ring.words[word + 14] ?? 0] ?? 'unavailable';
  const outcome: Outcome =
    kind === 'reply'
      ? { kind, data, ...numbers }
      : { kind, code: rejectCodeOf(ring.words[word + 15] ?? 0), message: decoder.decode(data), ...numbers };
  return {
    call: ring.words[word + 12] ?? 0,
    handle: ring.words[word + 13] ?? 0,
    outcome,
    heapBytes: ring.floats[float + 2] ?? 0,
    stableBytes: ring.floats[float + 3] ?? 0,
    balance:
      ring.words[word + 17] === 1 ? (ring.longs[float + 4] ?? 0n) | ((ring.longs[float + 5] ?? 0n) << 64n) : undefined,
  };
}

export function writeDebug(ring: RingProducer, handle: number, text: Uint8Array): boolean {
  const at = ring.reserve(DEBUG, DEBUG_HEADER_BYTES + text.length);
  if (at < 0) return false;
  ring.words[at >> 2] = handle;
  ring.words[(at >> 2) + 1] = text.length;
  copyInto(ring.bytes, at + DEBUG_HEADER_BYTES, text);
  return true;
}

export function readDebug(ring: RingConsumer, at: number): { readonly handle: number; readonly text: string } {
  const length = ring.words[(at >> 2) + 1] ?? 0;
  const text = ring.bytes.slice(at + DEBUG_HEADER_BYTES, at + DEBUG_HEADER_BYTES + length);
  return { handle: ring.words[at >> 2] ?? 0, text: decoder.decode(text) };
}

function rejectCodeOf(code: number): RejectCode {
  return code === 1 || code === 2 || code === 3 || code === 4 || code === 6 ? code : 5;
}

/** `set` has a fixed cost of its own that short runs do not pay back. */
function copyInto(to: Uint8Array, at: number, from: Uint8Array): void {
  if (from.length > 64) to.set(from, at);
  else for (let i = 0; i < from.length; i++) to[at + i] = from[i] ?? 0;
}
