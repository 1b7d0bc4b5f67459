/**
 * Rows of payloads that are stored ahead of the unit that makes them true: arguments of calls and replies. They are in
 * the family `queue`, under keys of their own:
 *
 *     p · 10 bytes id of the sender · u48 its version when the payload is true · u32 index · u16 piece
 *
 * Numbers are big-endian. Index: the place of the call among those of its message, or ANSWER_INDEX. A query leaves its
 * canister the version that it has: its answer has the number of its call's context instead, and QUERY_INDEX. Records
 * refer to a payload by the key that its next piece would have.
 */
import { numberAt } from '../../kernel/index.ts';
import { ID_BYTES, type WriteBatch } from './write-batch.ts';

const PAYLOAD = 0x70;
const VERSION_AT = 1 + ID_BYTES;
const INDEX_AT = VERSION_AT + 6;
const PIECE_AT = INDEX_AT + 4;
/** Bytes of a row's key. */
export const PAYLOAD_KEY_BYTES = PIECE_AT + 2;

/** Index of the answer to a call. */
export const ANSWER_INDEX = 0xffff_ffff;
/** Index of the answer of a query method that was called by an update. */
export const QUERY_INDEX = 0xffff_fffe;

const FAMILY = 'queue';

/** Reference to the rows of a payload: the key that its next piece would have. */
export type PayloadRef = Uint8Array;

export function payloadKey(
  id: Uint8Array,
  { version, index, piece }: { readonly version: number; readonly index: number; readonly piece: number },
): Uint8Array {
  const key = Buffer.alloc(PAYLOAD_KEY_BYTES);
  key[0] = PAYLOAD;
  key.set(id, 1);
  key.writeUIntBE(version, VERSION_AT, 6);
  key.writeUInt32BE(index, INDEX_AT);
  key.writeUInt16BE(piece, PIECE_AT);
  return new Uint8Array(key.buffer, key.byteOffset, key.length);
}

export function isPayloadKey(key: Uint8Array): boolean {
  return key[0] === PAYLOAD && key.length === PAYLOAD_KEY_BYTES;
}

/** Returns the number of the context whose call the payload answers; 0: its key has none. */
export function contextNumberOf(ref: PayloadRef): number {
  const key = Buffer.from(ref);
  return key.readUInt32BE(INDEX_AT) === QUERY_INDEX ? key.readUIntBE(VERSION_AT, 6) : 0;
}

/** Yields the keys of a payload's rows, in order. */
export function* rowsOfPayload(ref: PayloadRef): Generator<Uint8Array> {
  const pieces = 256 * numberAt(ref, PIECE_AT, 'byte of a key') + numberAt(ref, PIECE_AT + 1, 'byte of a key');
  for (let piece = 0; piece < pieces; piece++) {
    const key = new Uint8Array(ref);
    key[PIECE_AT] = piece >>> 8;
    key[PIECE_AT + 1] = piece;
    yield key;
  }
}

export function erasePayload(unit: Pick<WriteBatch, 'delete'>, ref: PayloadRef): void {
  for (const key of rowsOfPayload(ref)) unit.delete(FAMILY, key);
}
