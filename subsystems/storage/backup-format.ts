/**
 * The bytes of a backup, for its writer and its reader.
 *
 *     header   a line of ASCII:  svc-backup 1 state 3 2026-11-21T08:30:00.000Z 5f3a09c1
 *              format of the backup, format of the state, when it was made, CRC-32 of all before the last blank
 *     blocks   u32 crc · u32 length · u8 kind · length bytes
 *              kind 1: a part of the entries
 *              kind 2: the end, and nothing after it
 *
 * The contents of all blocks of kind 1, one after the other, are the entries, cut anywhere:
 *
 *     u8 family · u16 key length · u32 value length · key · value       ascending by family and key
 *
 * The end says how much there should have been:
 *
 *     u8 families · families × u64 entries · 32 bytes SHA-256 of all bytes of the file before this block
 *
 * Numbers are little-endian. A block's checksum covers its length, kind and contents, and goes on from the checksum
 * of the block before it (the first from the header's): a block that is damaged, missing or out of place is noticed
 * where it is, and a file that lacks its end is not whole, wherever it was cut.
 */
import { crc32 } from 'node:zlib';
import { FAMILIES } from './tables.ts';

export const BACKUP_FORMAT = 1;
export const MAGIC = 'svc-backup ';
/** A header is shorter, whatever its numbers. */
export const HEADER_BYTES_MAX = 128;

/** Bytes that a block has at most. */
export const BLOCK_BYTES_MAX = 1 << 20;
/** Checksum, length and kind. */
export const BLOCK_HEADER_BYTES = 9;
/** Family and lengths. */
export const ENTRY_HEADER_BYTES = 7;
/** Nothing that this server keeps is larger: modules, the largest, have 100 MiB at most. */
export const VALUE_BYTES_MAX = 256 * 2 ** 20;

export const ENTRIES = 1;
export const END = 2;
export const DIGEST_BYTES = 32;
export const END_BYTES = 1 + 8 * FAMILIES.length + DIGEST_BYTES;

/** The first line, with its line feed, and the checksum that the first block's goes on from. */
export function backupHeader(
  stateFormat: number,
  createdMs: number,
): { readonly line: Uint8Array; readonly crc: number } {
  const text = `${MAGIC}${BACKUP_FORMAT} state ${stateFormat} ${new Date(createdMs).toISOString()}`;
  const crc = crc32(text);
  return { line: Buffer.from(`${text} ${crc.toString(16).padStart(8, '0')}\n`), crc };
}

/** The checksum of a block that stands in `block` with its header. */
export function blockCrc(block: Uint8Array, previous: number): number {
  return crc32(block.subarray(4), previous);
}
