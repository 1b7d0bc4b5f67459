/**
 * Reads the units of a line that follow a moment, in their order, and tells each gap and each damage with the last good
 * moment before it. A segment that a killed server, or a full disk, left cut off is no damage where it is the last, or
 * where the next epoch has its units again.
 */
import { readFile, stat } from 'node:fs/promises';
import { messageOf, ServerError } from '../../kernel/index.ts';
import type { ArchiveLine, SegmentEntry } from './lines.ts';
import { type Moment, momentText } from './moment.ts';
import { readFrame, readSegmentHeader } from './segment-format.ts';

export interface ArchivedUnit extends Moment {
  readonly bytes: Uint8Array;
}

interface Problem {
  readonly kind: 'cut' | 'damaged' | 'foreign' | 'other-format';
  readonly text: string;
}

interface ReadSegment {
  readonly units: readonly ArchivedUnit[];
  /** Reason why the reading ended before the segment's end. */
  readonly problem: Problem | undefined;
}

/** No segment is larger: units have some hundred megabytes at most. */
const SEGMENT_BYTES_MAX = 2 ** 30;

export class UnitReader {
  readonly #stateFormat: number;
  #line: ArchiveLine;
  #at = 0;
  #last: Moment;
  /** Problem of a segment since the last unit. */
  #problem: Problem | undefined;

  /** `after`: the moment whose units are known already; `stateFormat`: of the state that units are applied to. */
  constructor(line: ArchiveLine, after: Moment, stateFormat: number) {
    this.#line = line;
    this.#last = after;
    this.#stateFormat = stateFormat;
  }

  /** The newest unit that was read, or where the reading began. */
  get last(): Moment {
    return this.#last;
  }

  /** Says that the last segment is cut off, if it is; then what it lacks is missing, or still being written. */
  get cut(): string | undefined {
    return this.#problem?.kind === 'cut' ? this.#problem.text : undefined;
  }

  /** Goes on with a newer listing of the same line. */
  relist(line: ArchiveLine): void {
    this.#line = line;
    this.#at = 0;
    this.#problem = undefined;
  }

  /**
   * Returns the units of the next segment that has some; undefined at the line's end. Rejects with ServerError
   * `archive-gap`, `archive-damaged`, `archive-foreign`, `archive-newer`, `archive-unreadable`: then `last` is the last
   * good moment.
   */
  async next(): Promise<readonly ArchivedUnit[] | undefined> {
    for (let segment = this.#segment(); segment !== undefined; segment = this.#segment()) {
      const expected = this.#last.unit + 1;
      if (segment.first > expected) throw this.#gap(segment);
      const { units, problem } = await this.#read(segment, expected);
      this.#at++;
      const last = units.at(-1);
      if (last !== undefined) {
        this.#last = { unit: last.unit, timeMs: last.timeMs };
        this.#problem = problem;
        return units;
      }
      this.#problem = problem ?? this.#problem;
    }
    if (this.#problem !== undefined && this.#problem.kind !== 'cut') throw this.#stopped(this.#problem);
    return undefined;
  }

  /**
   * Throws ServerError `archive-gap` if a base has units behind the last that was read: segments that should have them
   * are missing. Only where nothing is being written, because a base may be there before them.
   */
  checkEnd(): void {
    const base = this.#line.bases.find(({ unit }) => unit > this.#last.unit);
    if (base === undefined) return;
    if (this.#problem !== undefined) throw this.#stopped(this.#problem);
    throw this.#gapBefore(base.path, base.unit);
  }

  /** Returns the next segment that may have units. */
  #segment(): SegmentEntry | undefined {
    const { segments } = this.#line;
    while ((segments[this.#at]?.last ?? Infinity) <= this.#last.unit) this.#at++;
    return segments[this.#at];
  }

  #gap({ path, first }: SegmentEntry): ServerError {
    if (this.#problem !== undefined) return this.#stopped(this.#problem);
    return this.#gapBefore(path, first - 1);
  }

  #gapBefore(path: string, last: number): ServerError {
    return new ServerError(
      'invalid',
      'archive-gap',
      `units ${this.#last.unit + 1} to ${last} are missing in the archive, before ${path}; ${this.#advice()}`,
    );
  }

  #stopped({ kind, text }: Problem): ServerError {
    const message = `${text}; ${this.#advice()}`;
    if (kind === 'foreign') return new ServerError('invalid', 'archive-foreign', message);
    if (kind === 'other-format') return new ServerError('invalid', 'archive-gap', message);
    return new ServerError('invalid', 'archive-damaged', message);
  }

  #advice(): string {
    const later = this.#line.bases.find(({ unit }) => unit > this.#last.unit);
    const from = later === undefined ? '' : `, and the base at ${momentText(later)} every moment from there on`;
    const { unit } = this.#last;
    return `the last good moment before is ${momentText(this.#last)}: --until unit:${unit} restores it${from}`;
  }

  async #read(segment: SegmentEntry, expected: number): Promise<ReadSegment> {
    const { path } = segment;
    const bytes = await contentsOf(path);
    const read = readSegmentHeader(bytes, path);
    const ended = (kind: Problem['kind'], text: string): ReadSegment => {
      return { units, problem: { kind, text: `${path} ${text}` } };
    };
    const units: ArchivedUnit[] = [];
    if ('problem' in read) {
      if (read.problem === 'foreign') return ended('foreign', 'is not a segment of an archive');
      return read.problem === 'cut'
        ? ended('cut', `is cut off at byte ${bytes.length}, within its header`)
        : ended('damaged', 'is damaged: its header is');
    }
    const { header, end } = read;
    if (header.line !== this.#line.name) return ended('foreign', `belongs to line ${header.line}`);
    if (header.epoch !== segment.epoch || header.first !== segment.first || header.last !== segment.last)
      return ended('foreign', `has units ${header.first} to ${header.last} of epoch ${header.epoch}: it was renamed`);
    if (header.stateFormat !== this.#stateFormat)
      return ended(
        'other-format',
        `has units of state format ${header.stateFormat}, which another base begins than one of format ${this.#stateFormat}`,
      );
    if (bytes.length > end + header.bytes)
      return ended('damaged', `is damaged: it has ${bytes.length} bytes instead of ${end + header.bytes}`);
    let at = end;
    for (let unit = header.first; unit <= header.last; unit++) {
      const frame = readFrame(bytes, at);
      if (frame === 'cut' && bytes.length < end + header.bytes)
        return ended('cut', `is cut off at byte ${bytes.length} of ${end + header.bytes}`);
      if (frame === 'cut' || frame === 'damaged' || frame.unit !== unit)
        return ended('damaged', `is damaged at byte ${at}, where unit ${unit} should be`);
      if (unit >= expected) units.push({ unit, timeMs: frame.timeMs, bytes: frame.bytes });
      at = frame.end;
    }
    if (at !== end + header.bytes) return ended('damaged', `is damaged at byte ${at}: something follows its last unit`);
    return { units, problem: undefined };
  }
}

async function contentsOf(path: string): Promise<Buffer> {
  try {
    const { size } = await stat(path);
    if (size > SEGMENT_BYTES_MAX) throw new Error(`it has ${size} bytes, and no segment is so large`);
    return await readFile(path);
  } catch (error) {
    throw new ServerError('invalid', 'archive-unreadable', `${path} cannot be read: ${messageOf(error)}`, {
      cause: error,
    });
  }
}
