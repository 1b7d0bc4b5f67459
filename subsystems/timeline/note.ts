/**
 * Notes of messages in bytes. A note is the value of a PUT to the row NOTE_KEY of `meta`, behind the operations of the
 * message that it tells of; the unit ends with a DELETE of that row, so the tables never have it. A state without a
 * timeline has none of these operations, and every svc that reads this format of the state applies them.
 *
 *     10 bytes id · u8 1 · u8 kind · u8 outcome · u8 flags (1 balance, 2 timer) · f64 instant · f64 instructions ·
 *     f64 charge · f64 version · f64 heap bytes · f64 stable bytes · u32 open calls · [u128 balance] · [u64 timer] ·
 *     u8 length · caller · u16 length · method · argument
 *
 * Numbers are little-endian and unaligned.
 */
import { ServerError } from '../../kernel/index.ts';
import { ID_BYTES } from '../storage/index.ts';
import { MESSAGE_KINDS, MESSAGE_OUTCOMES, type Note } from './index.ts';

/** Key in `meta`; all keys of canisters are longer. */
export const NOTE_KEY: Uint8Array = Buffer.from('T');

const VERSION = 1;
const HAS_BALANCE = 1;
const HAS_TIMER = 2;
const FLOATS = ['instantMs', 'instructions', 'charge', 'version', 'heapBytes', 'stableBytes'] as const;
const FIXED_BYTES = ID_BYTES + 4 + FLOATS.length * 8 + 4;
/** Names of methods have at most 20,000 bytes in a module. */
const METHOD_BYTES_MAX = 0xffff;

export function encodeNote(id: Uint8Array, note: Note): Uint8Array {
  const method = Buffer.from(note.method).subarray(0, METHOD_BYTES_MAX);
  const { balance, timerNs, caller, argument } = note;
  const optional = (balance === undefined ? 0 : 16) + (timerNs === undefined ? 0 : 8);
  const bytes = Buffer.allocUnsafe(FIXED_BYTES + optional + 1 + caller.length + 2 + method.length + argument.length);
  bytes.set(id);
  let at = bytes.writeUInt8(VERSION, ID_BYTES);
  at = bytes.writeUInt8(MESSAGE_KINDS.indexOf(note.kind), at);
  at = bytes.writeUInt8(MESSAGE_OUTCOMES.indexOf(note.outcome), at);
  at = bytes.writeUInt8((balance === undefined ? 0 : HAS_BALANCE) | (timerNs === undefined ? 0 : HAS_TIMER), at);
  for (const name of FLOATS) at = bytes.writeDoubleLE(note[name], at);
  at = bytes.writeUInt32LE(note.openCalls, at);
  if (balance !== undefined) {
    at = bytes.writeBigUInt64LE(BigInt.asUintN(64, balance), at);
    at = bytes.writeBigUInt64LE(balance >> 64n, at);
  }
  if (timerNs !== undefined) at = bytes.writeBigUInt64LE(timerNs, at);
  at = bytes.writeUInt8(caller.length, at);
  bytes.set(caller, at);
  at = bytes.writeUInt16LE(method.length, at + caller.length);
  bytes.set(method, at);
  bytes.set(argument, at + method.length);
  return bytes;
}

/** Returns the id of the canister that a note tells of. */
export function idOfNote(bytes: Uint8Array): Uint8Array {
  return bytes.subarray(0, ID_BYTES);
}

/** Throws ServerError `timeline-damaged`. */
export function decodeNote(note: Uint8Array): Note {
  const bytes = Buffer.from(note.buffer, note.byteOffset, note.length);
  try {
    if (bytes[ID_BYTES] !== VERSION) throw damagedNote();
    const kind = MESSAGE_KINDS[bytes.readUInt8(ID_BYTES + 1)];
    const outcome = MESSAGE_OUTCOMES[bytes.readUInt8(ID_BYTES + 2)];
    const flags = bytes.readUInt8(ID_BYTES + 3);
    if (kind === undefined || outcome === undefined) throw damagedNote();
    const [instantMs = 0, instructions = 0, charge = 0, version = 0, heapBytes = 0, stableBytes = 0] = FLOATS.map(
      (_name, place) => bytes.readDoubleLE(ID_BYTES + 4 + place * 8),
    );
    let at = FIXED_BYTES;
    const openCalls = bytes.readUInt32LE(at - 4);
    const balance =
      (flags & HAS_BALANCE) === 0 ? undefined : bytes.readBigUInt64LE(at) | (bytes.readBigUInt64LE(at + 8) << 64n);
    at += balance === undefined ? 0 : 16;
    const timerNs = (flags & HAS_TIMER) === 0 ? undefined : bytes.readBigUInt64LE(at);
    at += timerNs === undefined ? 0 : 8;
    const caller = bytes.subarray(at + 1, at + 1 + bytes.readUInt8(at));
    at += 1 + caller.length;
    const methodEnd = at + 2 + bytes.readUInt16LE(at);
    const method = bytes.toString('utf8', at + 2, methodEnd);
    const argument = bytes.subarray(methodEnd);
    const numbers = { instantMs, instructions, charge, version, heapBytes, stableBytes };
    return { kind, outcome, ...numbers, openCalls, balance, timerNs, caller, method, argument };
  } catch (error) {
    if (error instanceof RangeError) throw damagedNote();
    throw error;
  }
}

function damagedNote(): ServerError {
  return new ServerError('unavailable', 'timeline-damaged', 'a note of the timeline cannot be read');
}
