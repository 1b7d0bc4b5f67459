/**
 * Durable units on their way to whoever takes them (the archive, the timeline), as frames of segments, until they are
 * taken. Bounded: nobody who commits waits for that, so units for which there is no room are dropped, which is a gap.
 *
 * Storage thread. Bytes of units are copied, because whoever applies a unit gives its memory back.
 */
import {
  FRAME_BYTES,
  frameHeader,
  SEGMENT_BYTES,
  type TakeAnswer,
  type TakenUnits,
  type UnitTaker,
} from '../archive/index.ts';

interface UnitFeedOptions {
  /** Called when a whole segment waits. */
  readonly waiting?: () => void;
  /** Bytes that may wait. */
  readonly bytesMax?: number;
}

/** Receiver of a state store's units. */
export interface UnitListener {
  /** A unit was found in the log, with or without its time; `unit` is valid until this returns. */
  recovered(number: number, timeMs: number, unit: Uint8Array): void;
  /** A unit is durable. */
  committed(number: number, timeMs: number, pieces: readonly Uint8Array[]): void;
  /** Returns true while units up to this one have to stay in the log: a start hands them over again. */
  needs(unit: number): boolean;
}

/** Feeds of all who take units, by their names. */
export type UnitFeeds = ReadonlyMap<UnitTaker, UnitFeed>;

/** Returns one listener that hands each unit to all feeds; undefined: nobody takes units. */
export function listenerOf(feeds: UnitFeeds): UnitListener | undefined {
  const [first, ...others] = feeds.values();
  if (first === undefined || others.length === 0) return first;
  const all = [first, ...others];
  return {
    recovered: (number, timeMs, unit) => all.forEach((feed) => feed.recovered(number, timeMs, unit)),
    committed: (number, timeMs, pieces) => all.forEach((feed) => feed.committed(number, timeMs, pieces)),
    needs: (unit) => all.some((feed) => feed.needs(unit)),
  };
}

const BYTES_MAX = 64 * 2 ** 20;
const PIECE_BYTES_MIN = 64 * 1024;
const PIECE_BYTES_MAX = 2 ** 20;

export class UnitFeed implements UnitListener {
  readonly #waiting: () => void;
  readonly #bytesMax: number;
  /** Segments that wait, oldest first; the last one may still grow. */
  readonly #segments: GrowingSegment[] = [];
  #bytes = 0;
  #hasDropped = false;
  #archived = 0;

  constructor({ waiting = () => undefined, bytesMax = BYTES_MAX }: UnitFeedOptions = {}) {
    this.#waiting = waiting;
    this.#bytesMax = bytesMax;
  }

  /** Most of the log was archived when it was written: the oldest units give way. */
  recovered(number: number, timeMs: number, unit: Uint8Array): void {
    while (this.#bytes + unit.length > this.#bytesMax && this.#segments.length > 0) this.#shift();
    this.#add(number, timeMs, [unit]);
  }

  committed(number: number, timeMs: number, pieces: readonly Uint8Array[]): void {
    let bytes = FRAME_BYTES;
    for (const { length } of pieces) bytes += length;
    // One unit alone always has room.
    if (this.#hasDropped || (this.#bytes > 0 && this.#bytes + bytes > this.#bytesMax)) this.#hasDropped = true;
    else this.#add(number, timeMs, pieces);
  }

  needs(unit: number): boolean {
    return unit > this.#archived && !this.#hasDropped;
  }

  /**
   * Hands out the oldest segment; units that were dropped are told when nothing before them is left. `archived`: units
   * up to that one are in the archive.
   */
  take(archived: number): TakeAnswer {
    this.#archived = archived;
    const segment = this.#shift();
    if (segment !== undefined) return { units: segment.take(), isBehindGap: false };
    const isBehindGap = this.#hasDropped;
    this.#hasDropped = false;
    return { units: undefined, isBehindGap };
  }

  #shift(): GrowingSegment | undefined {
    const segment = this.#segments.shift();
    this.#bytes -= segment?.bytes ?? 0;
    return segment;
  }

  #add(number: number, timeMs: number, pieces: readonly Uint8Array[]): void {
    let segment = this.#segments.at(-1);
    if (segment === undefined || segment.isFull) {
      segment = new GrowingSegment(number, timeMs);
      this.#segments.push(segment);
    }
    const before = segment.bytes;
    segment.add(number, timeMs, pieces);
    this.#bytes += segment.bytes - before;
    if (segment.isFull) this.#waiting();
  }
}

class GrowingSegment {
  readonly #first: number;
  readonly #firstMs: number;
  #last = 0;
  #lastMs = 0;
  /** Pieces that are full. */
  readonly #full: Uint8Array[] = [];
  #piece = new Uint8Array(0);
  #used = 0;
  bytes = 0;

  constructor(first: number, firstMs: number) {
    this.#first = first;
    this.#firstMs = firstMs;
  }

  get isFull(): boolean {
    return this.bytes >= SEGMENT_BYTES;
  }

  add(number: number, timeMs: number, pieces: readonly Uint8Array[]): void {
    this.#last = number;
    this.#lastMs = timeMs;
    this.#append(frameHeader(number, timeMs, pieces));
    for (const piece of pieces) this.#append(piece);
  }

  #append(bytes: Uint8Array): void {
    if (this.#used + bytes.length > this.#piece.length) {
      this.#endPiece();
      const next = Math.min(PIECE_BYTES_MAX, Math.max(PIECE_BYTES_MIN, this.bytes));
      this.#piece = new Uint8Array(Math.max(next, bytes.length));
    }
    this.#piece.set(bytes, this.#used);
    this.#used += bytes.length;
    this.bytes += bytes.length;
  }

  #endPiece(): void {
    if (this.#used > 0) this.#full.push(this.#piece.subarray(0, this.#used));
    this.#used = 0;
  }

  take(): TakenUnits {
    this.#endPiece();
    const [first, last, firstMs, lastMs] = [this.#first, this.#last, this.#firstMs, this.#lastMs];
    return { frames: this.#full, bytes: this.bytes, first, last, firstMs, lastMs };
  }
}
