/**
 * Notes of messages in bytes. A note is the value of a PUT to the row NOTE_KEY of `meta`, behind the operations of the
 * message that it tells of; the unit ends with a DELETE of that row, so the tables never have it. A state without a
 * timeline has none of these operations, and every svc that reads this format of the state applies them.
 *
 *     10 bytes id · u8 2 · u8 kind · u8 outcome · u8 flags · f64 instant · f64 instructions · f64 charge ·
 *     f64 version · f64 heap bytes · f64 stable bytes · u32 open calls · [u128 balance] · [u64 timer] ·
 *     [u128 cycles available · u64 deadline] · [56 bytes callbacks · u8 reject code · u128 refunded] ·
 *     u8 length · caller · u16 length · method · argument
 *
 * Flags: 1 balance, 2 timer, 4 a call, 8 the call can be answered, 16 cycles or deadline, 32 an answer. Notes of
 * version 1 have the first two flags alone. Notes of upgrades are of version 3: 64 the heap is kept, 128 without
 * `canister_pre_upgrade`. Numbers are little-endian and unaligned.
 */
import { ServerError } from '../../kernel/index.ts';
import { CALLBACK_BYTES } from '../ic/index.ts';
import { ID_BYTES } from '../storage/index.ts';
import {
  MESSAGE_KINDS,
  MESSAGE_OUTCOMES,
  type Note,
  type NotedAnswer,
  type NotedCall,
  type NotedUpgrade,
} from './index.ts';

/** Key in `meta`; all keys of canisters are longer. */
export const NOTE_KEY: Uint8Array = Buffer.from('T');

const VERSION = 2;
/** Notes that tell how an upgrade was done. */
const VERSION_OF_UPGRADES = 3;
/** Notes that told nothing of the call. */
const VERSION_WITHOUT_CALLS = 1;
const HAS_BALANCE = 1;
const HAS_TIMER = 2;
const HAS_CALL = 4;
const CAN_ANSWER = 8;
/** Cycles are attached to the call, or it has a deadline. */
const HAS_TERMS = 16;
const TERMS_BYTES = 24;
const HAS_ANSWER = 32;
const KEEPS_HEAP = 64;
const SKIPS_PRE_UPGRADE = 128;
const ANSWER_BYTES = CALLBACK_BYTES + 17;
const FLOATS = ['instantMs', 'instructions', 'charge', 'version', 'heapBytes', 'stableBytes'] as const;
const FIXED_BYTES = ID_BYTES + 4 + FLOATS.length * 8 + 4;
/** Names of methods have at most 20,000 bytes in a module. */
const METHOD_BYTES_MAX = 0xffff;

export function encodeNote(id: Uint8Array, note: Note): Uint8Array {
  const method = Buffer.from(note.method).subarray(0, METHOD_BYTES_MAX);
  const { balance, timerNs, caller, argument, call } = note;
  const flags = flagsOf(note);
  const length = FIXED_BYTES + optionalBytes(flags) + 1 + caller.length + 2 + method.length + argument.length;
  const bytes = Buffer.allocUnsafe(length);
  bytes.set(id);
  let at = bytes.writeUInt8(note.upgrade === undefined ? VERSION : VERSION_OF_UPGRADES, ID_BYTES);
  at = bytes.writeUInt8(MESSAGE_KINDS.indexOf(note.kind), at);
  at = bytes.writeUInt8(MESSAGE_OUTCOMES.indexOf(note.outcome), at);
  at = bytes.writeUInt8(flags, at);
  for (const name of FLOATS) at = bytes.writeDoubleLE(note[name], at);
  at = bytes.writeUInt32LE(note.openCalls, at);
  if (balance !== undefined) at = writeU128(bytes, balance, at);
  if (timerNs !== undefined) at = bytes.writeBigUInt64LE(timerNs, at);
  if (call !== undefined && (flags & HAS_TERMS) !== 0) {
    at = writeU128(bytes, call.cyclesAvailable, at);
    at = bytes.writeBigUInt64LE(call.deadlineNs, at);
  }
  if (call?.answered !== undefined) {
    const { callbacks, rejectCode, refunded } = call.answered;
    bytes.set(callbacks, at);
    at = bytes.writeUInt8(rejectCode, at + CALLBACK_BYTES);
    at = writeU128(bytes, refunded, at);
  }
  at = bytes.writeUInt8(caller.length, at);
  bytes.set(caller, at);
  at = bytes.writeUInt16LE(method.length, at + caller.length);
  bytes.set(method, at);
  bytes.set(argument, at + method.length);
  return bytes;
}

function flagsOf({ balance, timerNs, call, upgrade }: Note): number {
  const how = (upgrade?.keepsHeap ? KEEPS_HEAP : 0) | (upgrade?.skipsPreUpgrade ? SKIPS_PRE_UPGRADE : 0);
  const own = how | (balance === undefined ? 0 : HAS_BALANCE) | (timerNs === undefined ? 0 : HAS_TIMER);
  if (call === undefined) return own;
  const { canAnswer, cyclesAvailable, deadlineNs, answered } = call;
  const hasTerms = cyclesAvailable !== 0n || deadlineNs !== 0n;
  const flags = own | HAS_CALL | (canAnswer ? CAN_ANSWER : 0);
  return flags | (hasTerms ? HAS_TERMS : 0) | (answered === undefined ? 0 : HAS_ANSWER);
}

function optionalBytes(flags: number): number {
  const bytesOf = (flag: number, bytes: number): number => ((flags & flag) === 0 ? 0 : bytes);
  const own = bytesOf(HAS_BALANCE, 16) + bytesOf(HAS_TIMER, 8);
  return own + bytesOf(HAS_TERMS, TERMS_BYTES) + bytesOf(HAS_ANSWER, ANSWER_BYTES);
}

function writeU128(bytes: Buffer, value: bigint, at: number): number {
  bytes.writeBigUInt64LE(BigInt.asUintN(64, value), at);
  return bytes.writeBigUInt64LE(value >> 64n, at + 8);
}

function readU128(bytes: Buffer, at: number): bigint {
  return bytes.readBigUInt64LE(at) | (bytes.readBigUInt64LE(at + 8) << 64n);
}

/** Returns a note whose bytes are its own: views would take the file that they are of along to other threads. */
export function ownNote(note: Note): Note {
  const { caller, argument, call } = note;
  const answered = call?.answered;
  const own = answered && { ...answered, callbacks: new Uint8Array(answered.callbacks) };
  const ownCall = call && { ...call, answered: own };
  return { ...note, caller: new Uint8Array(caller), argument: new Uint8Array(argument), call: ownCall };
}

/** Returns the id of the canister that a note tells of. */
export function idOfNote(bytes: Uint8Array): Uint8Array {
  return bytes.subarray(0, ID_BYTES);
}

/** Throws ServerError `timeline-damaged`. */
export function decodeNote(note: Uint8Array): Note {
  const bytes = Buffer.from(note.buffer, note.byteOffset, note.length);
  try {
    const version = bytes[ID_BYTES];
    if (version === undefined || version < VERSION_WITHOUT_CALLS || version > VERSION_OF_UPGRADES) throw damagedNote();
    const kind = MESSAGE_KINDS[bytes.readUInt8(ID_BYTES + 1)];
    const outcome = MESSAGE_OUTCOMES[bytes.readUInt8(ID_BYTES + 2)];
    const flags = bytes.readUInt8(ID_BYTES + 3);
    if (kind === undefined || outcome === undefined) throw damagedNote();
    const [instantMs = 0, instructions = 0, charge = 0, noted = 0, heapBytes = 0, stableBytes = 0] = FLOATS.map(
      (_name, place) => bytes.readDoubleLE(ID_BYTES + 4 + place * 8),
    );
    let at = FIXED_BYTES;
    const openCalls = bytes.readUInt32LE(at - 4);
    const balance = (flags & HAS_BALANCE) === 0 ? undefined : readU128(bytes, at);
    at += balance === undefined ? 0 : 16;
    const timerNs = (flags & HAS_TIMER) === 0 ? undefined : bytes.readBigUInt64LE(at);
    at += timerNs === undefined ? 0 : 8;
    const call = readCall(bytes, flags, at);
    at = FIXED_BYTES + optionalBytes(flags);
    const caller = bytes.subarray(at + 1, at + 1 + bytes.readUInt8(at));
    at += 1 + caller.length;
    const methodEnd = at + 2 + bytes.readUInt16LE(at);
    if (methodEnd > bytes.length) throw damagedNote();
    const method = bytes.toString('utf8', at + 2, methodEnd);
    const argument = bytes.subarray(methodEnd);
    const numbers = { instantMs, instructions, charge, version: noted, heapBytes, stableBytes };
    const told = { kind, outcome, ...numbers, openCalls, balance, timerNs, caller, method, argument, call };
    return version === VERSION_OF_UPGRADES ? { ...told, upgrade: readUpgrade(flags) } : told;
  } catch (error) {
    if (error instanceof RangeError) throw damagedNote();
    throw error;
  }
}

function readUpgrade(flags: number): NotedUpgrade {
  return { keepsHeap: (flags & KEEPS_HEAP) !== 0, skipsPreUpgrade: (flags & SKIPS_PRE_UPGRADE) !== 0 };
}

function readCall(bytes: Buffer, flags: number, from: number): NotedCall | undefined {
  if ((flags & HAS_CALL) === 0) return undefined;
  const hasTerms = (flags & HAS_TERMS) !== 0;
  const at = from + (hasTerms ? TERMS_BYTES : 0);
  return {
    canAnswer: (flags & CAN_ANSWER) !== 0,
    cyclesAvailable: hasTerms ? readU128(bytes, from) : 0n,
    deadlineNs: hasTerms ? bytes.readBigUInt64LE(from + 16) : 0n,
    answered: (flags & HAS_ANSWER) === 0 ? undefined : readAnswer(bytes, at),
  };
}

function readAnswer(bytes: Buffer, at: number): NotedAnswer {
  const rejectCode = bytes.readUInt8(at + CALLBACK_BYTES);
  return {
    callbacks: bytes.subarray(at, at + CALLBACK_BYTES),
    rejectCode,
    refunded: readU128(bytes, at + CALLBACK_BYTES + 1),
  };
}

function damagedNote(): ServerError {
  return new ServerError('unavailable', 'timeline-damaged', 'a note of the timeline cannot be read');
}
