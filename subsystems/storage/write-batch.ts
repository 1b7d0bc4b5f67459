/**
 * The changes of a unit, as bytes: made in executors and on the main thread, carried to the storage thread, written
 * to the step log as they are. Every operation says what is there afterwards, so a unit may be applied twice.
 *
 *     PUT     1 · family · u16 key length · u32 value length · key · value
 *     DELETE  2 · family · u16 key length · key
 *     CLEAR   3 · family · u16 prefix length · prefix                       every key that begins so
 *     PATCH   4 · family · u16 pages · 10 bytes id · pages × page           key: id · u32 page number, big-endian
 *             page: as in bytes/page-patch.ts
 *     TIME    6 · f64 milliseconds since 1970                               first in a unit of the step log
 *
 * Numbers are little-endian and unaligned. A page holds zeros where it was never written.
 */
import { readPageEntries } from '../bytes/index.ts';
import { ServerError } from '../../kernel/index.ts';
import { isLarge, release } from './release.ts';
import { FAMILIES, type Family } from './tables.ts';

export const ID_BYTES = 10;

const PUT = 1;
const DELETE = 2;
const CLEAR = 3;
const PATCH = 4;
const TIME = 6;

const FIRST_BYTES = 4096;
/** Bytes at which a piece ends, unless a single operation is longer. So much room is kept for what comes. */
const PIECE_BYTES = 1 << 20;
const PATCH_HEADER_BYTES = 4 + ID_BYTES;
const TIME_BYTES = 9;

/**
 * Collects operations; `take` hands them out. Large amounts are collected in pieces, each of whole operations, so
 * that megabytes are not copied again whenever more comes: in the main thread everybody would wait for that.
 */
export class WriteBatch {
  /** Pieces before `#bytes`. Each owns its buffer. */
  #pieces: Uint8Array[] = [];
  #pieceBytes = 0;
  #bytes = new Uint8Array(FIRST_BYTES);
  #length = 0;

  get length(): number {
    return this.#pieceBytes + this.#length;
  }

  put(family: Family, key: Uint8Array, value: Uint8Array): void {
    let at = this.#room(8 + key.length + value.length);
    const bytes = this.#bytes;
    bytes[at] = PUT;
    bytes[at + 1] = FAMILIES.indexOf(family);
    bytes[at + 2] = key.length;
    bytes[at + 3] = key.length >>> 8;
    writeU32(bytes, at + 4, value.length);
    bytes.set(key, (at += 8));
    bytes.set(value, at + key.length);
  }

  delete(family: Family, key: Uint8Array): void {
    this.#keyOnly(DELETE, family, key);
  }

  clear(family: Family, prefix: Uint8Array): void {
    this.#keyOnly(CLEAR, family, prefix);
  }

  /** `body`: `pages` page entries (bytes/page-patch.ts), at most 65,535. */
  patch(family: Family, id: Uint8Array, pages: number, body: Uint8Array): void {
    const at = this.#room(PATCH_HEADER_BYTES + body.length);
    const bytes = this.#bytes;
    bytes[at] = PATCH;
    bytes[at + 1] = FAMILIES.indexOf(family);
    bytes[at + 2] = pages;
    bytes[at + 3] = pages >>> 8;
    bytes.set(id, at + 4);
    bytes.set(body, at + PATCH_HEADER_BYTES);
  }

  /** Takes over operations that another set collected: nobody may look at them any more. */
  append(operations: Uint8Array): void {
    if (isLarge(operations)) {
      this.#endPiece();
      this.#addPiece(operations);
    } else {
      const at = this.#room(operations.length);
      this.#bytes.set(operations, at);
    }
  }

  /** A view of what was collected, valid until something is added; undefined: it is large, and in pieces. */
  view(): Uint8Array | undefined {
    return this.#pieces.length === 0 ? this.#bytes.subarray(0, this.#length) : undefined;
  }

  /** Returns what was collected, which the caller owns; the set is empty then. */
  take(): Uint8Array {
    return joinPieces(this.takePieces());
  }

  /**
   * Returns the same in pieces of whole operations, in their order. The caller owns their buffers. There is at least
   * one piece, which may be empty.
   */
  takePieces(): readonly Uint8Array[] {
    this.#endPiece();
    const pieces = this.#pieces;
    this.reset();
    return pieces.length === 0 ? [new Uint8Array(0)] : pieces;
  }

  reset(): void {
    this.#pieces = [];
    this.#pieceBytes = 0;
    this.#length = 0;
    if (this.#bytes.length <= PIECE_BYTES) return;
    release(this.#bytes);
    this.#bytes = new Uint8Array(FIRST_BYTES);
  }

  #keyOnly(kind: number, family: Family, key: Uint8Array): void {
    const at = this.#room(4 + key.length);
    const bytes = this.#bytes;
    bytes[at] = kind;
    bytes[at + 1] = FAMILIES.indexOf(family);
    bytes[at + 2] = key.length;
    bytes[at + 3] = key.length >>> 8;
    bytes.set(key, at + 4);
  }

  #room(length: number): number {
    if (this.#length + length > PIECE_BYTES) this.#endPiece();
    const at = this.#length;
    const end = at + length;
    // Without memory for that nothing has changed.
    if (end > this.#bytes.length) {
      const larger = new Uint8Array(Math.max(Math.min(this.#bytes.length * 2, PIECE_BYTES), end));
      larger.set(this.#bytes.subarray(0, at));
      release(this.#bytes);
      this.#bytes = larger;
    }
    this.#length = end;
    return at;
  }

  /** Ends the piece: operations that come later begin another one. */
  #endPiece(): void {
    if (this.#length === 0) return;
    if (2 * this.#length < PIECE_BYTES) this.#addPiece(this.#bytes.slice(0, this.#length));
    else {
      this.#addPiece(new Uint8Array(this.#bytes.buffer.transfer(this.#length)));
      // The next one will be as long; what is not written to takes no memory.
      this.#bytes = new Uint8Array(PIECE_BYTES);
    }
    this.#length = 0;
  }

  #addPiece(piece: Uint8Array): void {
    this.#pieces.push(piece);
    this.#pieceBytes += piece.length;
  }
}

/**
 * Returns one array of all pieces, which the caller owns. The pieces own their buffers, and must not be used any more.
 */
export function joinPieces(pieces: readonly Uint8Array[]): Uint8Array {
  const [first] = pieces;
  if (first !== undefined && pieces.length === 1) return first;
  const joined = new Uint8Array(pieces.reduce((bytes, { length }) => bytes + length, 0));
  let at = 0;
  for (const piece of pieces) {
    joined.set(piece, at);
    at += piece.length;
    release(piece);
  }
  return joined;
}

/** Receiver of a unit's operations. Buffers are views of the unit. */
export interface WriteBatchVisitor {
  put(family: Family, key: Uint8Array, value: Uint8Array): void;
  delete(family: Family, key: Uint8Array): void;
  /** Deletes what is under keys that begin with `prefix`. */
  clear(family: Family, prefix: Uint8Array): void;
  /**
   * A run of bytes of the page that is under `pageKey(id, page)` in the family `heap` or `stable`; a page that is not
   * there is zeros. `offset + bytes.length` ≤ PAGE_BYTES.
   */
  patch(family: Family, id: Uint8Array, page: number, offset: number, bytes: Uint8Array): void;
}

/**
 * Applies a unit's operations in order, those from byte `from` on, until `bytesMax` bytes of them are applied or
 * more; an operation has at most 256 pages. Returns where the next one begins. Throws ServerError `state-corrupt`
 * when they are not well formed.
 */
export function applyWriteBatch(unit: Uint8Array, visitor: WriteBatchVisitor, from = 0, bytesMax = Infinity): number {
  let at = from;
  const take = (length: number): number => {
    const start = at;
    at += length;
    if (at > unit.length) throw malformed(start);
    return start;
  };
  const u16 = (): number => {
    const start = take(2);
    return (unit[start] ?? 0) | ((unit[start + 1] ?? 0) << 8);
  };
  const bytes = (length: number): Uint8Array => unit.subarray(take(length), at);
  while (at < unit.length && at - from < bytesMax) {
    const start = at;
    const kind = unit[take(1)];
    if (kind === TIME) {
      take(TIME_BYTES - 1);
      continue;
    }
    const family = FAMILIES[unit[take(1)] ?? -1];
    if (family === undefined) throw malformed(start);
    const size = u16();
    switch (kind) {
      case PUT: {
        const length = readU32(unit, take(4));
        const key = bytes(size);
        visitor.put(family, key, bytes(length));
        break;
      }
      case DELETE:
        visitor.delete(family, bytes(size));
        break;
      case CLEAR:
        visitor.clear(family, bytes(size));
        break;
      case PATCH: {
        const id = bytes(ID_BYTES);
        const end = readPageEntries(unit, at, size, (page, offset, run) =>
          visitor.patch(family, id, page, offset, run),
        );
        if (end < 0) throw malformed(start);
        at = end;
        break;
      }
      default:
        throw malformed(start);
    }
  }
  return at;
}

/** Returns the operation with which a unit begins that was committed at that time. It changes nothing. */
export function timeOperation(timeMs: number): Uint8Array {
  const bytes = Buffer.alloc(TIME_BYTES);
  bytes[0] = TIME;
  bytes.writeDoubleLE(timeMs, 1);
  return bytes;
}

/** Returns the time of a unit in milliseconds since 1970; undefined for one of state format 2, which had none. */
export function timeOfUnit(unit: Uint8Array): number | undefined {
  if (unit[0] !== TIME || unit.length < TIME_BYTES) return undefined;
  return new DataView(unit.buffer, unit.byteOffset).getFloat64(1, true);
}

function malformed(at: number): ServerError {
  return new ServerError('unavailable', 'state-corrupt', `a unit of the step log is malformed at byte ${at}`);
}

function writeU32(bytes: Uint8Array, at: number, value: number): void {
  bytes[at] = value;
  bytes[at + 1] = value >>> 8;
  bytes[at + 2] = value >>> 16;
  bytes[at + 3] = value >>> 24;
}

function readU32(bytes: Uint8Array, at: number): number {
  return (
    ((bytes[at] ?? 0) | ((bytes[at + 1] ?? 0) << 8) | ((bytes[at + 2] ?? 0) << 16) | ((bytes[at + 3] ?? 0) << 24)) >>> 0
  );
}
