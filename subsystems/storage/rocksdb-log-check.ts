/**
 * Looks at RocksDB's own log before RocksDB does. RocksDB takes what it can read of it, up to the first record that it
 * cannot, and then removes the file: damage in the middle would cost everything behind it, and nobody would be told.
 *
 *     log      blocks of 32 KiB; a record does not cross their borders, and fewer bytes than a header at the end are unused
 *     record   u32 masked checksum · u16 length · u8 type · u32 number of the log, with some types · bytes
 *
 * The checksum, CRC-32C, is over everything behind the length. A log may end in the middle of a record, where a process was
 * killed or the power failed: nothing that can be read stands behind it then.
 */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';

export interface LogDamage {
  readonly file: string;
  /** Of the first record that cannot be read although others stand behind it. */
  readonly byte: number;
}

const LOG_FILE = /^\d+[.]log$/;
const BLOCK_BYTES = 32_768;
const HEADER_BYTES = 7;
/** Files are filled with them. */
const NO_RECORD = 0;
const CHECKSUM_MASK = 0xa282ead8;
/** CRC-32C, reflected. */
const POLYNOMIAL = 0x82f63b78;

/** Undefined: all logs can be read, but for an end that was not written wholly. */
export async function findLogDamage(directory: string): Promise<LogDamage | undefined> {
  for (const name of (await readdir(directory)).filter((file) => LOG_FILE.test(file)).toSorted()) {
    const file = join(directory, name);
    const byte = damageIn(await readFile(file));
    if (byte !== undefined) return { file, byte };
  }
  return undefined;
}

function damageIn(bytes: Buffer): number | undefined {
  let at = 0;
  while (at < bytes.length) {
    const length = recordBytes(bytes, at);
    if (length === 0) return hasRecordBehind(bytes, at) ? at : undefined;
    at = afterRecord(at + length);
  }
  return undefined;
}

/** Right behind it, if its length is right, or at the beginning of a later block: elsewhere are bytes that guests have written. */
function hasRecordBehind(bytes: Buffer, at: number): boolean {
  if (at + HEADER_BYTES <= bytes.length && recordBytes(bytes, afterRecord(endOf(bytes, at))) > 0) return true;
  for (let block = blockEndOf(at); block < bytes.length; block += BLOCK_BYTES) {
    if (recordBytes(bytes, block) > 0) return true;
  }
  return false;
}

/** With its header; 0 if there is no intact record. */
function recordBytes(bytes: Buffer, at: number): number {
  if (at + HEADER_BYTES > bytes.length || bytes[at + 6] === NO_RECORD) return 0;
  const end = endOf(bytes, at);
  if (end > blockEndOf(at) || end > bytes.length) return 0;
  return masked(crc32c(bytes, at + 6, end)) === bytes.readUInt32LE(at) ? end - at : 0;
}

function endOf(bytes: Buffer, at: number): number {
  return at + HEADER_BYTES + bytes.readUInt16LE(at + 4) + (hasLogNumber(bytes.readUInt8(at + 6)) ? 4 : 0);
}

/** Where the next one begins. */
function afterRecord(end: number): number {
  const blockEnd = blockEndOf(end);
  return blockEnd - end < HEADER_BYTES ? blockEnd : end;
}

function blockEndOf(at: number): number {
  return (Math.floor(at / BLOCK_BYTES) + 1) * BLOCK_BYTES;
}

/** Records of logs whose files are used again: whole, first, middle, last; sizes of timestamps; the log before. */
function hasLogNumber(type: number): boolean {
  return (type >= 5 && type <= 8) || type === 11 || type === 131;
}

function masked(checksum: number): number {
  return (((checksum >>> 15) | (checksum << 17)) + CHECKSUM_MASK) >>> 0;
}

/** Tables for four bytes at a time. */
const TABLES = Array.from({ length: 4 }, () => new Uint32Array(256));
const [TABLE_0 = new Uint32Array(0), TABLE_1 = TABLE_0, TABLE_2 = TABLE_0, TABLE_3 = TABLE_0] = TABLES;
for (let byte = 0; byte < 256; byte++) {
  let value = byte;
  for (let bit = 0; bit < 8; bit++) value = (value >>> 1) ^ ((value & 1) === 0 ? 0 : POLYNOMIAL);
  TABLE_0[byte] = value;
}
for (let table = 1; table < 4; table++) {
  for (let byte = 0; byte < 256; byte++) {
    const value = TABLES[table - 1]?.[byte] ?? 0;
    (TABLES[table] ?? TABLE_0)[byte] = (value >>> 8) ^ (TABLE_0[value & 255] ?? 0);
  }
}

function crc32c(bytes: Buffer, from: number, to: number): number {
  let crc = 0xffffffff | 0;
  let at = from;
  for (; at + 4 <= to; at += 4) {
    crc ^= (bytes[at] ?? 0) | ((bytes[at + 1] ?? 0) << 8) | ((bytes[at + 2] ?? 0) << 16) | ((bytes[at + 3] ?? 0) << 24);
    crc =
      (TABLE_3[crc & 255] ?? 0) ^
      (TABLE_2[(crc >>> 8) & 255] ?? 0) ^
      (TABLE_1[(crc >>> 16) & 255] ?? 0) ^
      (TABLE_0[crc >>> 24] ?? 0);
  }
  for (; at < to; at++) crc = (crc >>> 8) ^ (TABLE_0[(crc ^ (bytes[at] ?? 0)) & 255] ?? 0);
  return ~crc >>> 0;
}
