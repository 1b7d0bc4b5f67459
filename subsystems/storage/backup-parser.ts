/**
 * Reads a backup and believes nothing in it: each length has a bound, each block its checksum, and the end must say
 * what came before. A block and one value are in memory, whatever the file claims. `backup-format.ts` has the layout.
 */
import { createHash } from 'node:crypto';
import { crc32 } from 'node:zlib';
import { ServerError } from '../../kernel/index.ts';
import {
  BACKUP_FORMAT,
  BLOCK_BYTES_MAX,
  BLOCK_HEADER_BYTES,
  blockCrc,
  DIGEST_BYTES,
  END,
  ENTRIES,
  ENTRY_HEADER_BYTES,
  HEADER_BYTES_MAX,
  MAGIC,
  VALUE_BYTES_MAX,
} from './backup-format.ts';
import { FORMAT as STATE_FORMAT, OLDEST_FORMAT } from './format-steps.ts';
import { type Change, FAMILIES } from './tables.ts';

/** A source of bytes. */
export interface BackupSource {
  /** Name of the source in messages. */
  readonly name: string;
  /** Returns the next `length` bytes, valid until the next call; fewer only where the file ends. */
  take(length: number): Promise<Uint8Array>;
}

const LINE_FEED = 0x0a;

/**
 * The entries of a backup in their order, about a mebibyte at a time; their bytes are valid until the next ones are
 * asked for. That the file is whole is known when this has ended without an error, and not before. ServerErrors:
 * `backup-foreign`, `backup-newer`, `backup-older`, `backup-truncated`, `backup-damaged`; they say where.
 */
export class BackupParser {
  readonly #source: BackupSource;
  readonly #digest = createHash('sha256');
  readonly #counts = new BigUint64Array(FAMILIES.length);
  #position = 0;
  #stateFormat = 0;
  #crc = 0;
  /** The beginning of an entry whose other part is in the next block, and how many bytes it needs to get on. */
  #parts: Uint8Array[] = [];
  #partBytes = 0;
  #neededBytes = 0;
  #lastFamily = 0;
  #lastKey: Uint8Array | undefined;

  constructor(source: BackupSource) {
    this.#source = source;
  }

  /** Bytes of the file that have been read. */
  get bytes(): number {
    return this.#position;
  }

  /** Format of the state of which the backup was made; known when the first changes are there. */
  get stateFormat(): number {
    return this.#stateFormat;
  }

  /** Entries that have been handed out. */
  get entries(): number {
    return Number(this.#counts.reduce((sum, count) => sum + count, 0n));
  }

  async *changes(): AsyncGenerator<readonly Change[], void, void> {
    await this.#readHeader();
    for (;;) {
      const start = this.#position;
      const block = await this.#readBlock(start);
      const contents = block.subarray(BLOCK_HEADER_BYTES);
      if (block[8] === END) {
        this.#checkEnd(contents, start);
        const rest = await this.#source.take(1);
        if (rest.length > 0) throw this.#damaged(this.#position, 'something follows the end of the backup');
        return;
      }
      this.#digest.update(block);
      yield this.#changesOf(contents, start);
    }
  }

  async #readHeader(): Promise<void> {
    const { name } = this.#source;
    const magic = latin1Of(await this.#take(MAGIC.length));
    if (magic !== MAGIC) {
      const cut = magic === MAGIC.slice(0, magic.length);
      if (cut && magic !== '') throw this.#truncated(0);
      const what = magic === '' ? 'it is empty' : `it does not begin with "${MAGIC.trim()}"`;
      throw new ServerError('invalid', 'backup-foreign', `${name} is not a backup of this server: ${what}`);
    }
    const bytes: number[] = [];
    while (bytes.at(-1) !== LINE_FEED) {
      const [byte] = await this.#take(1);
      if (byte === undefined) throw this.#truncated(0);
      bytes.push(byte);
      if (bytes.length > HEADER_BYTES_MAX) throw this.#damaged(0, 'its first line does not end');
    }
    const line = magic + latin1Of(Uint8Array.from(bytes));
    const [, text = '', format, stateFormat, crc] =
      /^(svc-backup (\d+) state (\d+) \S+) ([0-9a-f]{8})\n$/.exec(line) ?? [];
    const isIntact = crc !== undefined && Number.parseInt(crc, 16) === crc32(text);
    // A newer format may have another first line: its number alone decides, unless the line is ours and damaged.
    const newer = Number(/^svc-backup (\d{1,9})\s/.exec(line)?.[1] ?? 0);
    if (newer > BACKUP_FORMAT && (isIntact || crc === undefined))
      throw this.#newer(`backup format ${newer}`, BACKUP_FORMAT);
    if (!isIntact || Number(format) !== BACKUP_FORMAT) throw this.#damaged(0, 'its first line is damaged');
    if (Number(stateFormat) > STATE_FORMAT) throw this.#newer(`state format ${stateFormat}`, STATE_FORMAT);
    if (Number(stateFormat) === 0) throw this.#damaged(0, 'there is no state format 0');
    if (Number(stateFormat) < OLDEST_FORMAT) {
      const message = `${name} was made by an older version: it has state format ${stateFormat}, this version reads ${OLDEST_FORMAT} to ${STATE_FORMAT}`;
      throw new ServerError('invalid', 'backup-older', message);
    }
    this.#stateFormat = Number(stateFormat);
    this.#digest.update(line, 'latin1');
    this.#crc = crc32(text);
  }

  async #readBlock(start: number): Promise<Uint8Array> {
    const header = Uint8Array.from(await this.#take(BLOCK_HEADER_BYTES));
    if (header.length < BLOCK_HEADER_BYTES) throw this.#truncated(start);
    const view = new DataView(header.buffer);
    const crc = view.getUint32(0, true);
    const length = view.getUint32(4, true);
    const kind = view.getUint8(8);
    if (length === 0 || length > BLOCK_BYTES_MAX || (kind !== ENTRIES && kind !== END)) {
      throw this.#damaged(start, 'a block is damaged');
    }
    const contents = await this.#take(length);
    if (contents.length < length) throw this.#truncated(start);
    const block = Buffer.concat([header, contents]);
    if (blockCrc(block, this.#crc) !== crc) throw this.#damaged(start, 'a block is damaged');
    this.#crc = crc;
    return block;
  }

  /** The entries that end in this block; `start`: where it begins. */
  #changesOf(contents: Uint8Array, start: number): readonly Change[] {
    this.#parts.push(contents);
    this.#partBytes += contents.length;
    if (this.#partBytes < this.#neededBytes) return [];
    const bytes = this.#parts.length === 1 ? contents : Buffer.concat(this.#parts, this.#partBytes);
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
    const changes: Change[] = [];
    let at = 0;
    for (;;) {
      const left = bytes.length - at;
      this.#neededBytes = ENTRY_HEADER_BYTES;
      if (left < ENTRY_HEADER_BYTES) break;
      const keyLength = view.getUint16(at + 1, true);
      const valueLength = view.getUint32(at + 3, true);
      if (valueLength > VALUE_BYTES_MAX)
        throw this.#damaged(start, `a value has ${valueLength} bytes: no value is so large`);
      this.#neededBytes += keyLength + valueLength;
      if (left < this.#neededBytes) break;
      const keyEnd = at + ENTRY_HEADER_BYTES + keyLength;
      const key = bytes.subarray(at + ENTRY_HEADER_BYTES, keyEnd);
      changes.push(this.#change(view.getUint8(at), key, bytes.subarray(keyEnd, keyEnd + valueLength), start));
      at += this.#neededBytes;
    }
    this.#parts = at === bytes.length ? [] : [bytes.subarray(at)];
    this.#partBytes = bytes.length - at;
    return changes;
  }

  #change(familyIndex: number, key: Uint8Array, value: Uint8Array, start: number): Change {
    const family = FAMILIES[familyIndex];
    if (family === undefined) throw this.#damaged(start, `there is no family ${familyIndex}`);
    const isAfter =
      familyIndex > this.#lastFamily ||
      (familyIndex === this.#lastFamily && (this.#lastKey === undefined || Buffer.compare(key, this.#lastKey) > 0));
    if (!isAfter) throw this.#damaged(start, 'its entries are out of order');
    this.#lastFamily = familyIndex;
    this.#lastKey = key.slice();
    this.#counts[familyIndex] = (this.#counts[familyIndex] ?? 0n) + 1n;
    return { family, key, value };
  }

  #checkEnd(contents: Uint8Array, start: number): void {
    const families = contents[0] ?? 0;
    const digestAt = 1 + 8 * families;
    if (families > FAMILIES.length || contents.length !== digestAt + DIGEST_BYTES) {
      throw this.#damaged(start, 'its end is damaged');
    }
    if (this.#partBytes > 0) throw this.#damaged(start, 'its last entry is cut off');
    const view = new DataView(contents.buffer, contents.byteOffset, contents.length);
    for (const [index, family] of FAMILIES.entries()) {
      const count = index < families ? view.getBigUint64(1 + 8 * index, true) : 0n;
      const found = this.#counts[index] ?? 0n;
      if (count !== found) throw this.#damaged(start, `the file has ${found} entries of ${family} instead of ${count}`);
    }
    if (Buffer.compare(contents.subarray(digestAt), this.#digest.digest()) !== 0) {
      throw this.#damaged(start, 'the checksum of the whole file does not match');
    }
  }

  async #take(length: number): Promise<Uint8Array> {
    const bytes = await this.#source.take(length);
    this.#position += bytes.length;
    return bytes;
  }

  #truncated(start: number): ServerError {
    return new ServerError(
      'invalid',
      'backup-truncated',
      `${this.#source.name} is not whole: it ends at byte ${this.#position}, ` +
        `${start === this.#position ? 'where another block should begin' : `within the block that begins at byte ${start}`}; ` +
        'take the backup again',
    );
  }

  #damaged(at: number, reason: string): ServerError {
    return new ServerError('invalid', 'backup-damaged', `${this.#source.name} is damaged at byte ${at}: ${reason}`);
  }

  #newer(what: string, ours: number): ServerError {
    return new ServerError(
      'invalid',
      'backup-newer',
      `${this.#source.name} was made by a newer version: it has ${what}, this version reads ${ours}`,
    );
  }
}

function latin1Of(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('latin1');
}
