/**
 * Layout of bytes and numbers in the ring: behind their record or, if they are large, on the port.
 * Both sides; touches nothing but the ring's bytes and the port.
 */
import type { MessagePort } from 'node:worker_threads';
import { isShared, sharedSlice, sliceBytes } from '../../bytes/index.ts';
import { receiveDue, type RingConsumer, type RingProducer } from '../../threads/index.ts';
import type { RejectCode } from '../../ic/index.ts';

export const RING_BYTES = 1 << 20;
/** Larger payloads are copied once by structured clone instead of twice through the ring, and never fill it. */
export const INLINE_BYTES_MAX = 32 * 1024;

/** Stands in for the length of bytes that the port carries. */
const BY_PORT = -1;

/**
 * Puts bytes of a record that was just reserved behind it, or on the port. `isGiven`: the caller does not read them any
 * more.
 */
export function writeBytes(
  ring: RingProducer,
  port: MessagePort,
  at: number,
  data: Uint8Array,
  isGiven: boolean,
): void {
  if (data.length <= INLINE_BYTES_MAX) {
    copyInto(ring.bytes, at, data);
    return;
  }
  if (isShared(data)) {
    port.postMessage(data);
    return;
  }
  // For a view, the port would carry the whole buffer. A Buffer's own `slice` would be such a view.
  const isAll = data.buffer instanceof ArrayBuffer && data.buffer.byteLength === data.byteLength;
  const own = isGiven && isAll ? data : new Uint8Array(data);
  port.postMessage(own, [own.buffer as ArrayBuffer]);
}

/**
 * Returns a copy of bytes that are to go from thread to thread, and that one of them keeps: large ones are shared, so
 * that handing them over copies nothing.
 */
export function payloadSlice(source: Uint8Array, from: number, length: number): Uint8Array {
  return length > INLINE_BYTES_MAX ? sharedSlice(source, from, length) : sliceBytes(source, from, length);
}

/** Returns the number of bytes that the ring's record itself carries. */
export function inlineBytes(data: Uint8Array): number {
  return data.length <= INLINE_BYTES_MAX ? data.length : 0;
}

export function lengthField(data: Uint8Array): number {
  return data.length <= INLINE_BYTES_MAX ? data.length : BY_PORT;
}

/**
 * Returns bytes that `writeBytes` has written: a view of the ring, valid only as long as the record, or bytes of the
 * reader's own.
 */
export function viewBytes(ring: RingConsumer, port: MessagePort, at: number, length: number): Uint8Array {
  return length === BY_PORT ? (receiveDue(port) as Uint8Array) : ring.bytes.subarray(at, at + length);
}

export function readBytes(ring: RingConsumer, port: MessagePort, at: number, length: number): Uint8Array {
  return length === BY_PORT ? (receiveDue(port) as Uint8Array) : ring.bytes.slice(at, at + length);
}

/** Place of a principal, which has 29 bytes at most. */
export const PRINCIPAL_BYTES = 32;

/** Writes 128 bits, little endian; nearly always 0. */
export function writeAmount(longs: BigUint64Array, at: number, amount: bigint): void {
  longs[at >> 3] = amount === 0n ? 0n : BigInt.asUintN(64, amount);
  longs[(at >> 3) + 1] = amount === 0n ? 0n : amount >> 64n;
}

export function readAmount(longs: BigUint64Array, at: number): bigint {
  const low = longAt(longs, at);
  const high = longAt(longs, at + 8);
  return high === 0n ? low : low | (high << 64n);
}

export function rejectCodeOf(code: number): RejectCode {
  return code === 1 || code === 2 || code === 3 || code === 4 || code === 6 ? code : 5;
}

/**
 * Returns the word at a byte of the ring. One function for each kind of array: V8 looks up each kind that `numberAt` of
 * the kernel sees.
 */
export function wordAt(words: Int32Array, at: number): number {
  const word = words[at >> 2];
  if (word === undefined) throw new Error(`no word at byte ${at} of the ring`);
  return word;
}

export function floatAt(floats: Float64Array, at: number): number {
  const float = floats[at >> 3];
  if (float === undefined) throw new Error(`no number at byte ${at} of the ring`);
  return float;
}

export function longAt(longs: BigUint64Array, at: number): bigint {
  const long = longs[at >> 3];
  if (long === undefined) throw new Error(`no number at byte ${at} of the ring`);
  return long;
}

/** Copies `from` to `to[at…]`. `set` has a fixed cost of its own that short runs do not pay back. */
export function copyInto(to: Uint8Array, at: number, from: Uint8Array): void {
  if (from.length > 64) to.set(from, at);
  // `?? 0`: the loop ends with the array.
  else for (let i = 0; i < from.length; i++) to[at + i] = from[i] ?? 0;
}
