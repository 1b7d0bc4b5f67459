/**
 * Makes a backup: one walk over a snapshot of the tables, a piece at a time, in the order of the keys. One piece and
 * one value are in memory, however large the state is. `backup-format.ts` has the layout, `restore.ts` the way back.
 */
import { createHash } from 'node:crypto';
import { type Clock, ServerError, systemClock } from '../../kernel/index.ts';
import {
  BLOCK_BYTES_MAX,
  BLOCK_HEADER_BYTES,
  backupHeader,
  blockCrc,
  END,
  END_BYTES,
  ENTRIES,
  ENTRY_HEADER_BYTES,
  VALUE_BYTES_MAX,
} from './backup-format.ts';
import { META, metaKey } from './keyspace.ts';
import { FORMAT as STATE_FORMAT } from './format-steps.ts';
import { FAMILIES, type Family, type TableReader } from './tables.ts';
import { NO_BYTES } from '../bytes/index.ts';

/** Key of the log's floor: the log beside these tables is not in the backup. */
const LEFT_OUT = metaKey(META.logFloor);

/** One backup on its way out. Close it, or the snapshot stays. */
export class BackupReader {
  readonly #reader: TableReader & Disposable;
  readonly #bytes: Generator<Uint8Array, void, void>;
  readonly #digest = createHash('sha256');
  readonly #counts = new BigUint64Array(FAMILIES.length);
  readonly #header: Uint8Array;
  #crc: number;
  #isBegun = false;
  #isEnded = false;
  #isClosed = false;
  /** The part of an entry that is still to go into a piece. */
  #rest: Uint8Array = NO_BYTES;

  /** The snapshot is closed with the reader. */
  constructor(reader: TableReader & Disposable, clock: Pick<Clock, 'nowMs'> = systemClock) {
    this.#reader = reader;
    this.#bytes = this.#entryBytes();
    const { line, crc } = backupHeader(STATE_FORMAT, clock.nowMs());
    this.#header = line;
    this.#crc = crc;
  }

  /**
   * Returns the next piece of the file, about a mebibyte, which the caller owns; undefined after the last. Throws
   * ServerError `state-corrupt` where the tables cannot be read: what was handed out before is no whole backup, and
   * shows it.
   */
  next(): Uint8Array | undefined {
    if (this.#isEnded || this.#isClosed) return undefined;
    const start = this.#isBegun ? 0 : this.#header.length;
    const piece = new Uint8Array(start + BLOCK_HEADER_BYTES + BLOCK_BYTES_MAX);
    if (!this.#isBegun) {
      piece.set(this.#header);
      this.#digest.update(this.#header);
      this.#isBegun = true;
    }
    const block = piece.subarray(start);
    let length = this.#fill(block.subarray(BLOCK_HEADER_BYTES));
    let kind = ENTRIES;
    if (length === 0) {
      kind = END;
      length = this.#writeEnd(block.subarray(BLOCK_HEADER_BYTES));
      this.#isEnded = true;
    }
    const whole = block.subarray(0, BLOCK_HEADER_BYTES + length);
    const view = new DataView(whole.buffer, whole.byteOffset);
    view.setUint32(4, length, true);
    view.setUint8(8, kind);
    this.#crc = blockCrc(whole, this.#crc);
    view.setUint32(0, this.#crc, true);
    if (!this.#isEnded) this.#digest.update(whole);
    const total = start + whole.length;
    return total === piece.length ? piece : piece.slice(0, total);
  }

  /** Lets the snapshot go; at any time, and more than once. */
  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#rest = NO_BYTES;
    this.#bytes.return();
    this.#reader[Symbol.dispose]();
  }

  /** Fills `target` and returns the number of bytes of entries in it; 0 if there are no more. */
  #fill(target: Uint8Array): number {
    let at = 0;
    while (at < target.length) {
      if (this.#rest.length === 0) {
        const next = this.#bytes.next();
        if (next.done === true) break;
        this.#rest = next.value;
      }
      const part = this.#rest.subarray(0, target.length - at);
      target.set(part, at);
      at += part.length;
      this.#rest = this.#rest.subarray(part.length);
    }
    return at;
  }

  /** An empty state has an end that says so, like any other. */
  #writeEnd(target: Uint8Array): number {
    const view = new DataView(target.buffer, target.byteOffset);
    view.setUint8(0, FAMILIES.length);
    for (const [family, count] of this.#counts.entries()) view.setBigUint64(1 + 8 * family, count, true);
    target.set(this.#digest.digest(), 1 + 8 * FAMILIES.length);
    return END_BYTES;
  }

  *#entryBytes(): Generator<Uint8Array, void, void> {
    for (const [index, family] of FAMILIES.entries()) {
      for (const [key, value] of this.#reader.range(family, NO_BYTES, undefined)) {
        if (family === 'meta' && Buffer.compare(key, LEFT_OUT) === 0) continue;
        if (key.length > 0xffff || value.length > VALUE_BYTES_MAX) throw tooLarge(family, key, value);
        const header = new Uint8Array(ENTRY_HEADER_BYTES + key.length);
        const view = new DataView(header.buffer);
        view.setUint8(0, index);
        view.setUint16(1, key.length, true);
        view.setUint32(3, value.length, true);
        header.set(key, ENTRY_HEADER_BYTES);
        this.#counts[index] = (this.#counts[index] ?? 0n) + 1n;
        yield header;
        if (value.length > 0) yield value;
      }
    }
  }
}

function tooLarge(family: Family, key: Uint8Array, value: Uint8Array): ServerError {
  const shown = Buffer.from(key.subarray(0, 32)).toString('hex');
  return new ServerError(
    'unavailable',
    'state-corrupt',
    `${family}/${shown} has a key of ${key.length} bytes and ${value.length} bytes under it: nothing so large is ever kept`,
  );
}
