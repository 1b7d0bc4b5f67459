import type { DiskFile } from './disk.ts';
import {
  corrupt,
  decodeBody,
  decodePart,
  HEADER_BLOCK_BYTES,
  PART_HEADER_BYTES,
  partBytes,
  type PartHeader,
  type Position,
  type SegmentHeader,
} from './step-log-format.ts';
import { SegmentWindow } from './segment-window.ts';

/** A segment's file. */
export interface SegmentFile {
  readonly name: string;
  readonly file: DiskFile;
}

export interface StoredSegment {
  readonly slot: SegmentFile;
  readonly header: SegmentHeader & { readonly seed: number };
}

export type UnitVisitor = (unit: Uint8Array, number: number) => void;

/**
 * Reads the segments of a log, oldest first, a window at a time.
 *
 * The log ends at the first part that cannot be read. That is where the last write was torn, unless something behind
 * it says that this unit had been durable by then: the header of a later segment, or a part, anywhere. Then the log
 * is damaged.
 */
export class StepLogReader {
  readonly #segments: readonly StoredSegment[];
  readonly #window: SegmentWindow;

  /**
   * `segments`: all that are in use; `windowBytes`: see SegmentWindow. Throws ServerError `state-corrupt` if one is
   * missing between others.
   */
  constructor(segments: readonly StoredSegment[], windowBytes?: number) {
    this.#window = new SegmentWindow(windowBytes);
    this.#segments = segments.toSorted((a, b) => a.header.generation - b.header.generation);
    for (const [index, { slot, header }] of this.#segments.entries()) {
      const before = this.#segments[index - 1];
      if (before === undefined) continue;
      if (header.generation === before.header.generation + 1 && !isBefore(header.start, before.header.start)) continue;
      throw corrupt(
        `a segment is missing between ${before.slot.name}, which is segment ${before.header.generation} of the log, ` +
          `and ${slot.name}, which is segment ${header.generation}`,
      );
    }
  }

  /** Oldest first. */
  get segments(): readonly StoredSegment[] {
    return this.#segments;
  }

  /** The number of the first unit that is not wholly there. Throws ServerError `state-corrupt`. */
  findEnd(first: StoredSegment): number {
    let position = first.header.start;
    for (const [index, segment] of this.#segments.entries()) {
      const next = this.#segments[index + 1]?.header.start;
      const { at, reached } = this.#walk(segment, position, next);
      position = reached;
      if (next !== undefined && isEqual(position, next)) continue;
      if (this.#isDurable(position.unit, index, at)) {
        throw corrupt(
          `${segment.slot.name} at byte ${at}: unit ${position.unit} cannot be read, and it had been written durably`,
        );
      }
      break;
    }
    return position.unit;
  }

  /** Visits the units before `end` that begin in these segments; returns how many bytes of each segment they take. */
  visit(end: number, visit: UnitVisitor): number[] {
    const until = { unit: end, part: 0 };
    let position = this.#segments[0]?.header.start ?? until;
    let pieces: Uint8Array[] = [];
    return this.#segments.map((segment, index) => {
      const next = this.#segments[index + 1]?.header.start ?? until;
      const { at, reached } = this.#walk(segment, position, isBefore(next, until) ? next : until, (part, body) => {
        if (part.part === 0 && part.isLast) {
          visit(body, part.unit);
          return;
        }
        // The oldest segment may begin within a unit whose beginning was released.
        if (part.part !== pieces.length) return;
        pieces.push(new Uint8Array(body));
        if (!part.isLast) return;
        const unit = Buffer.concat(pieces);
        pieces = [];
        visit(unit, part.unit);
      });
      position = reached;
      return at;
    });
  }

  /** Goes on from `position` to `until`, or to the first part that cannot be read: `at` is where that would be. */
  #walk(
    segment: StoredSegment,
    position: Position,
    until: Position | undefined,
    onPart?: (part: PartHeader, body: Uint8Array) => void,
  ): { at: number; reached: Position } {
    const window = this.#open(segment);
    let at = HEADER_BLOCK_BYTES;
    let { unit, part } = position;
    while (until === undefined || unit !== until.unit || part !== until.part) {
      const found = this.#partAt(segment, at);
      if (found === undefined) break;
      if (found.isMark) {
        if (found.durable >= unit) break;
        at += PART_HEADER_BYTES;
        continue;
      }
      if (found.unit !== unit || found.part !== part) break;
      const body = decodeBody(window.load(at, partBytes(found.length)), found.length);
      if (body === undefined) break;
      onPart?.(found, body);
      at += partBytes(found.length);
      if (found.isLast) {
        unit++;
        part = 0;
      } else part++;
    }
    return { at, reached: { unit, part } };
  }

  /**
   * Returns true if anything behind this place says that the unit was durable. Parts may begin anywhere: the bytes
   * before them are damaged.
   */
  #isDurable(unit: number, index: number, at: number): boolean {
    for (const [later, segment] of this.#segments.slice(index).entries()) {
      if (later > 0 && segment.header.durable >= unit) return true;
      const window = this.#open(segment);
      const { segmentBytes, start } = segment.header;
      // Zeros, and the 32 MiB that other generations may have left, have no number of a later unit but by chance.
      const highest = start.unit + segmentBytes / PART_HEADER_BYTES;
      for (let from = window.seek(later > 0 ? HEADER_BLOCK_BYTES : at, unit, highest); from < segmentBytes;) {
        const found = this.#partAt(segment, from);
        if (found !== undefined && found.durable >= unit) return true;
        from = window.seek(from + (found === undefined ? 8 : partBytes(found.length)), unit, highest);
      }
    }
    return false;
  }

  /** The header of a part in a segment that is open. */
  #partAt({ header }: StoredSegment, at: number): PartHeader | undefined {
    return decodePart(this.#window.load(at, PART_HEADER_BYTES), header.segmentBytes - at, header.seed);
  }

  #open({ slot, header }: StoredSegment): SegmentWindow {
    this.#window.open(slot, header.segmentBytes);
    return this.#window;
  }
}

function isEqual(a: Position, b: Position): boolean {
  return a.unit === b.unit && a.part === b.part;
}

function isBefore(a: Position, b: Position): boolean {
  return a.unit < b.unit || (a.unit === b.unit && a.part < b.part);
}
