/**
 * One file of an actor's timeline: frames in order. What is known of it (where each 256th frame is, and its bases) is
 * read from the file when it is first needed. Timeline thread.
 */
import { closeSync, fdatasyncSync, ftruncateSync, openSync, readSync, statSync, writeSync } from 'node:fs';
import { ServerError } from '../../kernel/index.ts';
import { FILE_HEAD, FRAME, type Frame, FRAME_HEAD_BYTES, readTimelineFrame } from './frame-format.ts';
import type { Place } from './index.ts';

/** Frames from one entry of the index to the next. */
const INDEXED_FRAMES = 256;
const PRIVATE_FILE = 0o600;
/** Bytes that are read at once; a larger frame is read whole. */
const WINDOW_BYTES = 2 ** 20;
/** A frame begins with its length. */
const LENGTH_BYTES = 4;

/** A frame with its place in the file, and the place behind it. */
export interface PlacedFrame extends Frame {
  readonly offset: number;
}

interface Base {
  readonly offset: number;
  /** The newest unit that its pages may be of. */
  readonly exact: number;
}

/** Facts of a file's frames. */
interface Known {
  readonly index: (Place & { readonly offset: number })[];
  readonly bases: Base[];
  frames: number;
  /** Last frame but bases. */
  last: Place | undefined;
  isBehindGap: boolean;
  /** Where a unit begins whose last frame has not come; undefined: the last unit is whole. */
  openUnitAt: number | undefined;
  /** Where it is damaged. */
  damagedAt: number | undefined;
}

/** Bytes are written by `append` alone: tests have it fail. */
export type AppendBytes = (descriptor: number, bytes: Uint8Array) => void;

export const appendAll: AppendBytes = (descriptor, bytes) => {
  for (let at = 0; at < bytes.length;) at += writeSync(descriptor, bytes, at);
};

export class TimelineFile {
  readonly number: number;
  readonly path: string;
  /** Bytes of whole frames, with the file's head. */
  bytes: number;
  /** When it was written last, ms since 1970. */
  lastMs: number;
  firstMs: number;
  #known: Known | undefined;
  #descriptor: number | undefined;
  #isSynced = true;

  constructor(path: string, number: number) {
    this.path = path;
    this.number = number;
    const status = statSync(path, { throwIfNoEntry: false });
    this.bytes = status?.size ?? 0;
    this.lastMs = status?.mtimeMs ?? 0;
    this.firstMs = status?.birthtimeMs ?? 0;
  }

  /** Returns a file that begins with a head. */
  static create(path: string, number: number, append: AppendBytes): TimelineFile {
    const file = new TimelineFile(path, number);
    file.append(FILE_HEAD, [], append);
    return file;
  }

  /**
   * Appends whole frames. After an error the file is as it was before.
   */
  append(bytes: Uint8Array, frames: readonly PlacedFrame[], append: AppendBytes): void {
    const known = this.bytes === 0 ? (this.#known = nothingKnown()) : this.known;
    this.#descriptor ??= openSync(this.path, 'a', PRIVATE_FILE);
    try {
      append(this.#descriptor, bytes);
    } catch (error) {
      ftruncateSync(this.#descriptor, this.bytes);
      throw error;
    }
    for (const frame of frames) this.#note(known, { ...frame, offset: frame.offset + this.bytes });
    this.bytes += bytes.length;
    this.#isSynced = false;
  }

  /** Makes everything that was appended durable. */
  sync(): void {
    if (this.#isSynced || this.#descriptor === undefined) return;
    fdatasyncSync(this.#descriptor);
    this.#isSynced = true;
  }

  /** Closes the file until it is appended to again. */
  rest(isSynced: boolean): void {
    if (this.#descriptor === undefined) return;
    if (isSynced) this.sync();
    closeSync(this.#descriptor);
    this.#descriptor = undefined;
  }

  get known(): Known {
    return (this.#known ??= this.#scan());
  }

  /**
   * Yields frames from `offset` to `end`. Throws ServerError `timeline-damaged` with the place of a frame that is not
   * what it was.
   */
  *frames(offset: number = FILE_HEAD.length, end: number = this.bytes): Generator<PlacedFrame> {
    for (const frame of this.#read(offset, end)) {
      if (typeof frame === 'number') throw damaged(this.path, frame);
      yield frame;
    }
  }

  /** Yields frames, and then the place of damage, if there is some. */
  *#read(offset: number, end: number): Generator<PlacedFrame | number> {
    let wanted = WINDOW_BYTES;
    for (let from = offset; from < end;) {
      const to = Math.min(end, from + wanted);
      const bytes = this.#bytesBetween(from, to);
      if (bytes.length === 0) return;
      // The file may have become shorter.
      const isLast = to === end || bytes.length < to - from;
      let at = 0;
      while (at < bytes.length) {
        const frame = readTimelineFrame(bytes, at);
        // The rest of it is in the next window.
        if (frame === 'cut' && !isLast) break;
        if (typeof frame === 'string') {
          yield from + at;
          return;
        }
        yield { ...frame, offset: from + at, end: from + frame.end };
        at = frame.end;
      }
      wanted = Math.max(WINDOW_BYTES, bytes.length - at >= LENGTH_BYTES ? bytes.readUInt32LE(at) : 0);
      from += at;
      if (isLast) return;
    }
  }

  #bytesBetween(from: number, to: number): Buffer {
    const bytes = Buffer.allocUnsafe(Math.max(0, to - from));
    const descriptor = openSync(this.path, 'r');
    try {
      let read = 0;
      while (read < bytes.length) {
        const count = readSync(descriptor, bytes, read, bytes.length - read, from + read);
        if (count === 0) break;
        read += count;
      }
      return bytes.subarray(0, read);
    } finally {
      closeSync(descriptor);
    }
  }

  #scan(): Known {
    const known = nothingKnown();
    const head = this.#bytesBetween(0, Math.min(FILE_HEAD.length, this.bytes));
    if (!head.equals(FILE_HEAD)) {
      known.damagedAt = 0;
      return known;
    }
    for (const frame of this.#read(FILE_HEAD.length, this.bytes)) {
      if (typeof frame === 'number') known.damagedAt = frame;
      else this.#note(known, frame);
    }
    return known;
  }

  /** Cuts off what a killed server has left unfinished at the end, if nothing whole can follow it. */
  cutTorn(): void {
    const { damagedAt, openUnitAt } = this.known;
    const isTorn = damagedAt !== undefined && this.#isTorn(damagedAt);
    // A unit counts with its last frame.
    const end = damagedAt === undefined || isTorn ? (openUnitAt ?? damagedAt) : undefined;
    if (end === undefined) return;
    const descriptor = openSync(this.path, 'r+');
    try {
      ftruncateSync(descriptor, end);
      this.bytes = end;
    } finally {
      closeSync(descriptor);
    }
    this.#known = undefined;
  }

  /** Returns true if the frame at that place says that it reaches the end of the file, or beyond. */
  #isTorn(at: number): boolean {
    const left = this.bytes - at;
    if (at === 0) return left <= FILE_HEAD.length;
    if (left < FRAME_HEAD_BYTES) return true;
    return this.#bytesBetween(at, at + 4).readUInt32LE(0) >= left;
  }

  #note(known: Known, frame: PlacedFrame): void {
    const { kind, unit, seq, timeMs, offset } = frame;
    if (known.frames % INDEXED_FRAMES === 0) known.index.push({ unit, seq, timeMs, offset });
    if (known.frames === 0) this.firstMs = timeMs;
    known.frames++;
    known.openUnitAt = frame.hasMore ? (known.openUnitAt ?? offset) : undefined;
    if (kind === FRAME.base) known.bases.push({ offset, exact: Buffer.from(frame.note).readUIntLE(0, 6) });
    else known.last = { unit, seq, timeMs };
    if (kind === FRAME.gap) known.isBehindGap = true;
    this.lastMs = timeMs;
  }
}

function nothingKnown(): Known {
  return {
    index: [],
    bases: [],
    frames: 0,
    last: undefined,
    isBehindGap: false,
    openUnitAt: undefined,
    damagedAt: undefined,
  };
}

export function damaged(path: string, at: number): ServerError {
  return new ServerError(
    'unavailable',
    'timeline-damaged',
    `the timeline is damaged: ${path} at byte ${at}; points behind its next base are not affected`,
  );
}
