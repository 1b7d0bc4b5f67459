/**
 * The step log: units of bytes in the order in which they happened, durable after one write and one flush.
 *
 * Segments are files that are filled with zeros once and then used again and again: a flush of one changes no
 * metadata of the file system. Each use has a generation, one more than the segment before it, and a salt; parts of
 * units carry a checksum that depends on both (step-log-format.ts), so that what an earlier use left behind never
 * reads as a part of this one.
 *
 * What is guaranteed:
 * - After `flush({ isSynced: true })` everything appended before comes back, in order, whatever happens to the
 *   process or the machine. Of what was appended later, a prefix does; never a unit in part, never one without those
 *   before it.
 * - Damage to a unit that had been durable refuses the recovery. Every part says which unit was durable when it was
 *   written, and so does every segment's header: whatever stands behind a unit that cannot be read tells whether it was
 *   only torn. The last flush before a crash has nothing behind it; there, damage cannot be told from a torn write.
 *   `close` writes a mark behind it, and so does the header of the segment that recovery begins.
 * - Loss of segments refuses the recovery, too. Between others the numbers of their uses tell, at the log's old end
 *   `firstUnit`, at its new end `floor`: what whoever opens the log keeps elsewhere of what must be there
 *   (log-floor.ts).
 * - Recovery always begins a new segment, so a torn unit's number is used again in another segment, or at least with
 *   another salt. Segments behind the torn unit, which have nothing to offer, are freed before, the newest first, so
 *   that the generations in use are without gaps at every moment. Releasing frees the oldest first, for the same
 *   reason.
 * - Before a unit is visited, it is flushed: a process that was killed may have left it in the system's memory only.
 * - After an error nothing works any more: what a failed flush left on the disk is unknown, and a second flush would
 *   lie.
 */
import { assert, messageOf, ServerError, systemRandom, type Random } from '../../kernel/index.ts';
import type { Disk, DiskFile } from './disk.ts';
import { checkLast, checkNewest, type LogFloor } from './log-floor.ts';
import { SegmentMaker, UNFINISHED } from './segment-maker.ts';
import { SegmentWriter } from './segment-writer.ts';
import { corrupt, decodeHeader, encodeHeader, HEADER_BLOCK_BYTES, SALT_BYTES } from './step-log-format.ts';
import { StepLogReader, type SegmentFile, type StoredSegment, type UnitVisitor } from './step-log-reader.ts';
import { bytesOf, slicesOf, type Unit } from './unit.ts';

export interface StepLogOptions {
  /**
   * The first unit that is stored nowhere else. Without it, the log's own first one is; 1 if the log is empty.
   * A log that begins later is damaged; one that ends before is of no use any more, and goes on with this number.
   */
  readonly firstUnit?: number;
  /** The floor that `keepFloor` was given last, and that is durable. Without it nothing is known. */
  readonly floor?: LogFloor | undefined;
  /** Keeps what must be there from now on; undefined: nothing. With `isSynced` it is durable when it returns. */
  readonly keepFloor?: (floor: LogFloor | undefined, options: { readonly isSynced: boolean }) => void;
  /** A multiple of 8, at least SEGMENT_BYTES_MIN. Segments of another size are replaced when they are free. */
  readonly segmentBytes?: number;
  /** Number of files that there are normally, used or free. */
  readonly segmentsKept?: number;
  /** Bytes of a segment that are read at once when the log is recovered, a multiple of 8; see SegmentWindow. */
  readonly windowBytes?: number;
  /** Source of salts. */
  readonly random?: Random;
}

const SEGMENT_BYTES_MIN = HEADER_BLOCK_BYTES + 512;
const SEGMENT_BYTES = 32 * 2 ** 20;
const SEGMENTS_KEPT = 3;
/** While the log is open, so many times as many are kept: a log that was so long once may soon be again. */
const KEPT_WHEN_OPEN_FACTOR = 2;
/** A unit is not divided for the sake of fewer bytes than these. */
const PIECE_BYTES_MIN = 64;
const SEGMENT_NAME = /^segment-\d+\.log$/;

/** Options that others know from the log, or have their own values for. */
type Optional = 'firstUnit' | 'floor' | 'keepFloor' | 'windowBytes';

/** A segment that holds units. */
interface LiveSegment {
  readonly generation: number;
  /** Undefined while nothing of the segment is written. */
  readonly slot: SegmentFile | undefined;
  /** Bytes in use, including the header block. */
  readonly usedBytes: number;
}

export class StepLog {
  readonly #disk: Disk;
  readonly #options: Required<Omit<StepLogOptions, Optional>> & Pick<StepLogOptions, Optional>;
  /** Oldest first; the last is the writer, once there is one. */
  #live: LiveSegment[] = [];
  #free: SegmentFile[] = [];
  /** The segment that is being made while the log goes on. */
  #coming: SegmentMaker | undefined;
  #writer: SegmentWriter | undefined;
  readonly #unwritten = new Set<SegmentWriter>();
  readonly #unsynced = new Set<DiskFile>();
  #last = 0;
  #written = 0;
  #durable = 0;
  #failure: unknown;
  #isClosed = false;

  private constructor(disk: Disk, options: StepLogOptions) {
    const { segmentBytes = SEGMENT_BYTES, segmentsKept = SEGMENTS_KEPT, random = systemRandom } = options;
    const isFit = segmentBytes % 8 === 0 && segmentBytes >= SEGMENT_BYTES_MIN;
    assert(isFit, `segments of ${segmentBytes} bytes: a multiple of 8 from ${SEGMENT_BYTES_MIN} on is needed`);
    this.#disk = disk;
    this.#options = { ...options, segmentBytes, segmentsKept, random };
  }

  /** A log in this directory, which has it alone. Nothing is read before `recover`. */
  static open(disk: Disk, options: StepLogOptions = {}): StepLog {
    return new StepLog(disk, options);
  }

  /** The newest unit, flushed or not; 0: none yet. */
  get last(): number {
    return this.#last;
  }

  /** Bytes of units that are not released, as they are stored. */
  get bytesWaiting(): number {
    return this.#live.reduce((sum, { usedBytes }) => sum + usedBytes - HEADER_BLOCK_BYTES, 0);
  }

  /**
   * Visits all complete units of segments that were not released, oldest first; `unit` is valid until `visit`
   * returns. Once, before anything else. None is visited if the log is damaged, or if all of them are before
   * `firstUnit`. Throws ServerErrors `state-corrupt`, `state-newer` and `state-unwritable`.
   */
  recover(visit: UnitVisitor): void {
    assert(this.#writer === undefined, 'the step log was recovered before');
    this.#attempt(() => {
      try {
        this.#recover(visit);
      } catch (error) {
        this.#closeFiles();
        throw error;
      }
    });
  }

  /** Adds a unit to what the next flush writes; returns its number. Its pieces stay as they are until then. */
  append(unit: Unit): number {
    return this.#attempt(() => {
      const number = this.#last + 1;
      const behind = { unit: number, durable: this.#durable, isMark: false };
      const bytes = bytesOf(unit);
      let part = 0;
      for (let from = 0; from < bytes || part === 0; part++) {
        let writer = this.#current;
        if (writer.roomBytes < Math.min(PIECE_BYTES_MIN, bytes - from)) writer = this.#next(number, part);
        const length = Math.min(bytes - from, writer.roomBytes);
        const body = slicesOf(unit, from, from + length);
        from += length;
        writer.add({ ...behind, part, isLast: from === bytes, length }, body);
        this.#unwritten.add(writer);
      }
      return (this.#last = number);
    });
  }

  /** Writes what was appended; with `isSynced` it is durable then, and so is what was written without. */
  flush({ isSynced }: { readonly isSynced: boolean }): void {
    this.#attempt(() => {
      this.#begin(this.#unwritten);
      for (const writer of this.#unwritten) {
        const { slot } = writer;
        assert(slot !== undefined, `segment ${writer.generation} of the step log has no file`);
        this.#unsynced.add(slot.file);
        writer.write(slot);
        if (writer !== this.#writer) writer.end();
      }
      this.#unwritten.clear();
      this.#written = this.#last;
      if (isSynced) this.#sync();
    });
  }

  /** Returns a mark: everything that was appended so far lies in segments up to it; what follows, in others. */
  rotate(): number {
    return this.#attempt(() => {
      const { generation, usedBytes } = this.#current;
      if (usedBytes === HEADER_BLOCK_BYTES) return generation - 1;
      this.#next(this.#last + 1, 0);
      return generation;
    });
  }

  /** The units up to this mark are durable elsewhere. They must have been flushed. */
  release(mark: number): void {
    this.#attempt(() => {
      const current = this.#current;
      assert(mark < current.generation, `segment ${mark} of the step log is still being written`);
      // The current segment's header says where the log goes on, also while the segment is empty: it reveals tables
      // that have lost something.
      this.#begin([...this.#unwritten, current]);
      for (let oldest = this.#live[0]; oldest !== undefined && oldest.generation <= mark; oldest = this.#live[0]) {
        const { slot } = oldest;
        const isFlushed = [...this.#unwritten].every(({ generation }) => generation > mark);
        assert(slot !== undefined && isFlushed, `segment ${mark} of the step log is released before it is flushed`);
        this.#setFree(slot);
        this.#live.shift();
      }
      this.#trim(KEPT_WHEN_OPEN_FACTOR);
    });
  }

  /**
   * Makes a part of the segment that will be needed next, if none is free and the present one is half full. So the
   * commit that needs that segment does not wait for it.
   */
  prepare(): void {
    this.#attempt(() => {
      if (this.#free.length > 0 || this.#current.roomBytes > this.#options.segmentBytes / 2) return;
      this.#coming ??= this.#startMaking();
      if (!this.#coming.isFilled) this.#coming.fillPart();
      else this.#free.push(this.#create());
    });
  }

  /** Has the floor's keeper store how far the log is durable by now, without waiting for that. */
  confirm(): void {
    this.#attempt(() => {
      const newest = this.#live.findLast(({ slot }) => slot !== undefined);
      if (newest !== undefined) this.#keepFloor(newest.generation, this.#durable, false);
    });
  }

  /** Ends the log. Parts that were written are durable then; parts that were not flushed are lost. */
  close(): void {
    if (this.#isClosed) return;
    try {
      if (this.#failure === undefined && this.#writer !== undefined) {
        this.#sync();
        if (this.#durable > 0) this.#writer.writeMark(this.#durable);
      }
    } finally {
      this.#closeFiles();
    }
  }

  #recover(visit: UnitVisitor): void {
    const reader = new StepLogReader(this.#openSegments(), this.#options.windowBytes);
    const newest = reader.segments.at(-1);
    const { kept, end } = this.#readBack(reader, visit);
    const newestKept = this.#live.findLast(({ generation }) => kept.has(generation))?.generation;
    const { floor } = this.#options;
    if (floor !== undefined && floor.generation !== newestKept) this.#keepFloor(newestKept, end - 1);
    // Newest first: should this end in between, then what is left ends where it ended before, or earlier.
    for (const { slot, header } of reader.segments.toReversed()) {
      if (!kept.has(header.generation)) this.#setFree(slot);
    }
    this.#live = this.#live.filter(({ generation }) => kept.has(generation));
    for (const slot of this.#free) {
      if (slot.file.sizeBytes !== this.#options.segmentBytes) this.#remove(slot);
    }
    this.#trim();
    while (this.#files < this.#options.segmentsKept) this.#free.push(this.#create());
    this.#last = this.#written = this.#durable = end - 1;
    const generation = (this.#live.at(-1)?.generation ?? newest?.header.generation ?? 0) + 1;
    this.#begin([this.#start(generation, end, 0)]);
  }

  /** Opens what is there, and makes durable what a killed process had only written. */
  #openSegments(): readonly StoredSegment[] {
    const stored: StoredSegment[] = [];
    for (const name of this.#disk.list()) {
      if (name.endsWith(UNFINISHED) && SEGMENT_NAME.test(name.slice(0, -UNFINISHED.length))) this.#disk.remove(name);
      if (!SEGMENT_NAME.test(name)) continue;
      const slot = { name, file: this.#disk.open(name, { create: false }) };
      this.#free.push(slot);
      slot.file.sync();
      const block = new Uint8Array(HEADER_BLOCK_BYTES);
      const header = decodeHeader(block.subarray(0, slot.file.read(0, block)), name);
      const { sizeBytes } = slot.file;
      if (sizeBytes !== header.segmentBytes) {
        throw corrupt(`${name} has ${sizeBytes} bytes instead of ${header.segmentBytes}`);
      }
      if (header.generation > 0) stored.push({ slot, header });
    }
    this.#disk.syncDirectory();
    const used = new Set(stored.map(({ slot }) => slot));
    this.#free = this.#free.filter((slot) => !used.has(slot));
    this.#live = stored.map(({ slot, header: { generation } }) => ({
      slot,
      generation,
      usedBytes: HEADER_BLOCK_BYTES,
    }));
    return stored;
  }

  /** Visits the units; returns the generations that hold some, and the number of the next one. */
  #readBack(reader: StepLogReader, visit: UnitVisitor): { kept: ReadonlySet<number>; end: number } {
    const { firstUnit, floor } = this.#options;
    const [first] = reader.segments;
    const newest = reader.segments.at(-1);
    if (floor !== undefined) checkNewest(floor, newest);
    const end = first === undefined ? (firstUnit ?? 1) : reader.findEnd(first);
    if (floor !== undefined) checkLast(floor, Math.max(end, firstUnit ?? 1) - 1, newest);
    if (first === undefined) return { kept: new Set(), end };
    // An old unit without the newer ones that the tables have would take these back.
    if (firstUnit !== undefined && end < firstUnit) return { kept: new Set(), end: firstUnit };
    const { start } = first.header;
    const begin = start.part === 0 ? start.unit : start.unit + 1;
    if (firstUnit !== undefined && begin > firstUnit) {
      throw corrupt(
        `units ${firstUnit} to ${begin - 1} are missing; the oldest segment, ${first.slot.name}, begins with unit ${begin}`,
      );
    }
    const usedBytes = reader.visit(end, visit);
    const kept = reader.segments.filter(({ header }) => header.start.unit < end);
    this.#live = reader.segments.map(({ slot, header: { generation } }, index) => {
      return { slot, generation, usedBytes: usedBytes[index] ?? HEADER_BLOCK_BYTES };
    });
    return { kept: new Set(kept.map(({ header }) => header.generation)), end };
  }

  get #current(): SegmentWriter {
    assert(this.#writer !== undefined, 'the step log has to be recovered first');
    return this.#writer;
  }

  /** Goes on in another segment, with that part. */
  #next(unit: number, part: number): SegmentWriter {
    const before = this.#current;
    before.end();
    return this.#start(before.generation + 1, unit, part);
  }

  #start(generation: number, unit: number, part: number): SegmentWriter {
    const { segmentBytes, random } = this.#options;
    const header = { generation, start: { unit, part }, durable: this.#durable, segmentBytes };
    const writer = new SegmentWriter(header, random);
    this.#live.push(writer);
    return (this.#writer = writer);
  }

  /** Gives those a file that have none, in their order. */
  #begin(writers: Iterable<SegmentWriter>): void {
    let newest: SegmentWriter | undefined;
    for (const writer of writers) {
      if (writer.slot !== undefined) continue;
      writer.begin(this.#free.pop() ?? this.#create());
      newest = writer;
    }
    if (newest !== undefined) this.#keepFloor(newest.generation, this.#durable);
  }

  #keepFloor(generation: number | undefined, durable: number, isSynced = true): void {
    this.#options.keepFloor?.(generation === undefined ? undefined : { generation, durable }, { isSynced });
  }

  #sync(): void {
    for (const file of this.#unsynced) file.sync();
    this.#unsynced.clear();
    this.#durable = this.#written;
  }

  #create(): SegmentFile {
    const making = this.#coming ?? this.#startMaking();
    this.#coming = undefined;
    try {
      return making.finish();
    } catch (error) {
      making.close();
      throw error;
    }
  }

  #startMaking(): SegmentMaker {
    const taken = new Set([...this.#live.map(({ slot }) => slot), ...this.#free].map((slot) => slot?.name));
    let index = 0;
    while (taken.has(segmentName(index))) index++;
    return new SegmentMaker(this.#disk, segmentName(index), this.#freeHeader(), this.#options.segmentBytes);
  }

  #setFree(slot: SegmentFile): void {
    slot.file.write(0, this.#freeHeader(slot.file.sizeBytes));
    slot.file.sync();
    this.#unsynced.delete(slot.file);
    this.#free.push(slot);
  }

  #freeHeader(segmentBytes = this.#options.segmentBytes): Uint8Array {
    const header = { generation: 0, start: { unit: 0, part: 0 }, durable: 0, segmentBytes };
    return encodeHeader(header, new Uint8Array(SALT_BYTES)).bytes;
  }

  get #files(): number {
    return this.#free.length + this.#live.filter(({ slot }) => slot !== undefined).length;
  }

  /** Removes free segments beyond what is kept. Whether that lasts does not matter: they are marked as free. */
  #trim(factor = 1): void {
    const extra = this.#files - factor * this.#options.segmentsKept;
    for (const slot of this.#free.slice(0, Math.max(0, extra))) this.#remove(slot);
  }

  #remove(slot: SegmentFile): void {
    this.#free = this.#free.filter((other) => other !== slot);
    slot.file.close();
    this.#disk.remove(slot.name);
  }

  #closeFiles(): void {
    this.#isClosed = true;
    for (const { slot } of this.#live) slot?.file.close();
    for (const { file } of this.#free) file.close();
    this.#coming?.close();
    this.#live = [];
    this.#free = [];
  }

  /** The first error is the last thing that works. */
  #attempt<T>(action: () => T): T {
    if (this.#failure !== undefined) {
      const reason = `the step log stopped at an error: ${messageOf(this.#failure)}`;
      throw new ServerError('unavailable', 'state-unwritable', reason, { cause: this.#failure });
    }
    assert(!this.#isClosed, 'the step log is closed');
    try {
      return action();
    } catch (error) {
      this.#failure = error ?? new Error('unknown');
      throw error;
    }
  }
}

function segmentName(index: number): string {
  return `segment-${index}.log`;
}
