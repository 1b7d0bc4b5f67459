/**
 * Looks at RocksDB's own log before RocksDB does. RocksDB takes what it can read of it, up to the first record that
 * it cannot, and then removes the file: damage in the middle would cost everything behind it, and nobody would be
 * told.
 *
 *     log      blocks of 32 KiB; a record does not cross their borders, and fewer bytes than a header at the end
 *              are unused
 *     record   u32 masked checksum · u16 length · u8 type · u32 number of the log, with some types · bytes
 *
 * The checksum, CRC-32C, is over everything behind the length. A log may end in the middle of a record, where a
 * process was killed or the power failed: nothing that can be read stands behind it then.
 */
import { type FileHandle, open, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { ServerError } from '../../kernel/index.ts';
import { Crc32c } from './crc32c.ts';

interface LogDamage {
  readonly file: string;
  /** Place of the first record that cannot be read although others stand behind it. */
  readonly byte: number;
}

const LOG_FILE = /^\d+[.]log$/;
/** RocksDB begins a file whenever a memtable is full. Node reads no more at once. */
const FILE_BYTES_MAX = 2 ** 31 - 1;
const BLOCK_BYTES = 32_768;
const HEADER_BYTES = 7;
/** Files are filled with them. */
const NO_RECORD = 0;
const CHECKSUM_MASK = 0xa282ead8;

/**
 * Returns undefined if all logs can be read, except for an end that was not written wholly. Throws ServerError
 * `state-corrupt` for a log that is far too large.
 */
export async function findLogDamage(directory: string): Promise<LogDamage | undefined> {
  // One buffer for all: a fresh one for each file costs four times as much as to read it.
  let buffer = Buffer.alloc(0);
  for (const name of (await readdir(directory)).filter((file) => LOG_FILE.test(file)).toSorted()) {
    const file = join(directory, name);
    await using handle = await open(file);
    const { size } = await handle.stat();
    if (size > FILE_BYTES_MAX)
      throw new ServerError(
        'unavailable',
        'state-corrupt',
        `${file} has ${size} bytes, and no log of this server has as many`,
      );
    if (size > buffer.length) buffer = Buffer.allocUnsafeSlow(size);
    const byte = damageIn(buffer.subarray(0, await readWhole(handle, buffer, size)));
    if (byte !== undefined) return { file, byte };
  }
  return undefined;
}

/** Returns the number of bytes: a file may be shorter than it was. */
async function readWhole(handle: FileHandle, buffer: Buffer, size: number): Promise<number> {
  let bytes = 0;
  while (bytes < size) {
    const { bytesRead } = await handle.read(buffer, bytes, size - bytes, bytes);
    if (bytesRead === 0) break;
    bytes += bytesRead;
  }
  return bytes;
}

function damageIn(bytes: Buffer): number | undefined {
  const checksums = new Crc32c(bytes);
  let at = 0;
  while (at < bytes.length) {
    const length = recordBytes(bytes, checksums, at);
    if (length === 0) return hasRecordBehind(bytes, checksums, at) ? at : undefined;
    at = afterRecord(at + length);
  }
  return undefined;
}

/**
 * Returns true if a record stands right behind this one, if its length is right, or at the beginning of a later
 * block. Other places are not looked at: guests have written bytes there.
 */
function hasRecordBehind(bytes: Buffer, checksums: Crc32c, at: number): boolean {
  if (at + HEADER_BYTES <= bytes.length && recordBytes(bytes, checksums, afterRecord(endOf(bytes, at))) > 0)
    return true;
  for (let block = blockEndOf(at); block < bytes.length; block += BLOCK_BYTES) {
    if (recordBytes(bytes, checksums, block) > 0) return true;
  }
  return false;
}

/** Returns the bytes of a record with its header, or 0 if there is no intact record. */
function recordBytes(bytes: Buffer, checksums: Crc32c, at: number): number {
  if (at + HEADER_BYTES > bytes.length || bytes[at + 6] === NO_RECORD) return 0;
  const end = endOf(bytes, at);
  if (end > blockEndOf(at) || end > bytes.length) return 0;
  return masked(checksums.of(at + 6, end)) === bytes.readUInt32LE(at) ? end - at : 0;
}

function endOf(bytes: Buffer, at: number): number {
  return at + HEADER_BYTES + bytes.readUInt16LE(at + 4) + (hasLogNumber(bytes.readUInt8(at + 6)) ? 4 : 0);
}

/** Returns the place where the next record begins. */
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
