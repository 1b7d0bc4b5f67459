/**
 * The timeline of one actor: its files, oldest first. Each frame has what one message changed; bases have the whole
 * state. A state is the newest base before the point with the frames between them. Timeline thread.
 */
import { existsSync, mkdirSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { inflateRawSync } from 'node:zlib';
import { ServerError } from '../../kernel/index.ts';
import { AboutActor } from './about-actor.ts';
import { FRAME, encodeFrame, FRAME_HEAD_BYTES, type FrameHead } from './frame-format.ts';
import type { PageAsked, Place, TimelineEntry, TimelinePage } from './index.ts';
import { decodeNote, ownNote } from './note.ts';
import { PastRows } from './past-rows.ts';
import type { UnitPart } from './split-unit.ts';
import type { TimePoint } from './time-point.ts';
import { type AppendBytes, damaged, type PlacedFrame, TimelineFile } from './timeline-file.ts';

const FILE = /^(\d{8})[.]tl$/;

/** Bytes of arguments in one page, exceeded by the last: the main thread takes a millisecond for a megabyte. */
const PAGE_ARGUMENT_BYTES = 8 * 2 ** 20;

/** A place in the files: behind the frame that ends there. */
interface Position extends Place {
  readonly file: number;
  readonly end: number;
  /** True if it is within a unit: more of that follows. */
  readonly hasMore: boolean;
}

/** A base with the file that it is in. */
interface PlacedBase {
  readonly file: number;
  readonly offset: number;
}

/** An actor's rows at a place. */
interface RowsAt {
  readonly rows: PastRows;
  readonly place: Place;
}

interface Pending {
  readonly frames: PlacedFrame[];
  readonly bytes: Buffer[];
  length: number;
}

export class ActorTimeline {
  readonly id: Uint8Array;
  readonly directory: string;
  readonly #append: AppendBytes;
  readonly files: TimelineFile[] = [];
  readonly #about: AboutActor;
  #seq = 0;
  #lastUnit = 0;
  /** Time of that unit: times of frames do not go back. */
  #lastMs = 0;
  /** Frames that are not written yet. */
  #pending: Pending = { frames: [], bytes: [], length: 0 };
  isBaseWanted = false;
  /** Until then no base is wanted: the last one was too large. */
  noBaseUntilMs = 0;
  #baseBytes = 0;

  /** Takes up what is in the directory, which need not exist. */
  constructor(root: string, id: Uint8Array, append: AppendBytes) {
    this.id = id;
    this.directory = join(root, Buffer.from(id).toString('hex'));
    this.#append = append;
    this.#about = new AboutActor(this.directory);
    if (existsSync(this.directory)) this.#takeUp();
  }

  #takeUp(): void {
    const about = this.#about.read();
    const names = readdirSync(this.directory).filter((name) => FILE.test(name));
    for (const name of names.toSorted())
      this.files.push(new TimelineFile(join(this.directory, name), Number.parseInt(name, 10)));
    const newest = this.files.at(-1);
    newest?.cutTorn();
    if (newest?.bytes === 0) {
      rmSync(newest.path, { force: true });
      this.files.pop();
    }
    const last = this.files.toReversed().find((file) => file.known.last !== undefined)?.known.last;
    this.#seq = Math.max(about.seq, last?.seq ?? 0);
    this.#lastUnit = Math.max(about.unit, last?.unit ?? 0);
    this.#lastMs = last?.timeMs ?? 0;
  }

  get isEmpty(): boolean {
    return this.files.length === 0 && this.#pending.length === 0;
  }

  /** The newest unit that it has. */
  get lastUnit(): number {
    return this.#lastUnit;
  }

  get bytes(): number {
    return this.files.reduce((sum, { bytes }) => sum + bytes, 0);
  }

  /** Bytes of the newest base. */
  get baseBytes(): number {
    return this.#baseBytes;
  }

  get newestBytes(): number {
    return this.files.at(-1)?.bytes ?? 0;
  }

  /** True if states can be read from here on: there is a base behind the last gap. */
  get hasBase(): boolean {
    const from = Math.max(
      0,
      this.files.findLastIndex(({ known }) => known.isBehindGap),
    );
    return this.files.slice(from).some(({ known }) => known.bases.length > 0);
  }

  get isDamaged(): boolean {
    return this.files.at(-1)?.known.damagedAt !== undefined;
  }

  // ---- writing

  /** Adds what a message has changed, or what changed without one; `hasMore`: another part of the unit follows. */
  add(
    { unit, timeMs, hasMore }: { readonly unit: number; readonly timeMs: number; readonly hasMore: boolean },
    { note, operations }: UnitPart,
  ): void {
    if (note !== undefined) this.#seq++;
    const kind = note === undefined ? FRAME.change : FRAME.message;
    this.#put({ kind, hasMore, unit, seq: this.#seq, timeMs }, note ?? new Uint8Array(0), operations);
    this.#lastUnit = unit;
    this.#lastMs = timeMs;
  }

  /** Adds a base: all operations that make the state, deflated; pages are of units up to `exact`. */
  addBase(deflated: Uint8Array, exact: number): void {
    this.#baseBytes = deflated.length;
    this.#put({ kind: FRAME.base, hasMore: false, ...this.#lastPlace }, noteOfUnit(exact), [deflated]);
    this.isBaseWanted = false;
  }

  get #lastPlace(): Place {
    return { unit: this.#lastUnit, seq: this.#seq, timeMs: this.#lastMs };
  }

  #put(head: FrameHead, note: Uint8Array, operations: readonly Uint8Array[]): void {
    const frame = encodeFrame(head, note, operations);
    const { frames, bytes, length } = this.#pending;
    const operationBytes = frame.subarray(FRAME_HEAD_BYTES + note.length);
    frames.push({ ...head, note, operations: operationBytes, offset: length, end: length + frame.length });
    bytes.push(frame);
    this.#pending.length += frame.length;
  }

  /** Writes what was added. */
  flush(): void {
    if (this.#pending.length === 0) return;
    const { frames, bytes } = this.#pending;
    this.#pending = { frames: [], bytes: [], length: 0 };
    const file = this.files.at(-1) ?? this.#begin();
    file.append(Buffer.concat(bytes), frames, this.#append);
  }

  /** Begins another file. `gapBehind`: units are missing before it, and none up to that one; undefined: no gap. */
  rotate(gapBehind?: number): void {
    this.flush();
    this.files.at(-1)?.rest(true);
    this.#begin();
    if (gapBehind === undefined) return;
    this.#put({ kind: FRAME.gap, hasMore: false, ...this.#lastPlace }, noteOfUnit(gapBehind), []);
    this.flush();
  }

  /** Forgets what could not be written. */
  drop(): void {
    this.#pending = { frames: [], bytes: [], length: 0 };
  }

  #begin(): TimelineFile {
    mkdirSync(this.directory, { recursive: true, mode: 0o700 });
    const number = (this.files.at(-1)?.number ?? 0) + 1;
    const path = join(this.directory, `${String(number).padStart(8, '0')}.tl`);
    const file = TimelineFile.create(path, number, this.#append);
    this.files.push(file);
    return file;
  }

  /** Deletes the oldest file; its messages keep their numbers. */
  forgetOldest(): void {
    const file = this.files.shift();
    if (file === undefined) return;
    if (this.files.length === 0) this.#about.keep(this.#lastPlace);
    file.rest(false);
    rmSync(file.path, { force: true });
  }

  /** Returns true if a label needs the file. */
  isPinned({ number }: TimelineFile): boolean {
    return this.#about.isPinned(number);
  }

  /** Deletes everything: the actor is gone. */
  erase(): void {
    for (const file of this.files.splice(0)) file.rest(false);
    this.drop();
    rmSync(this.directory, { recursive: true, force: true });
  }

  // ---- points

  /** Returns the place of a point. Throws ServerError `point-missing` if its state is not kept. */
  placeOf(point: TimePoint, nowMs: number): Place {
    const position = this.#positionOf(point, nowMs);
    this.#baseFor(position);
    return placeIn(position);
  }

  #positionOf(point: TimePoint, nowMs: number): Position {
    const found = this.#locate(point, nowMs);
    if (found === undefined) throw this.#missing('that point lies before it');
    return this.#behindBases(found);
  }

  #locate(point: TimePoint, nowMs: number): Position | undefined {
    switch (point.kind) {
      case 'now':
        return this.#last(() => true);
      case 'start':
        return this.#earliest();
      case 'unit':
        return this.#last(({ unit }) => unit <= point.unit);
      case 'time':
        return this.#last(({ timeMs }) => timeMs <= point.timeMs);
      case 'ago':
        return this.#last(({ timeMs }) => timeMs <= nowMs - point.ms);
      case 'seq': {
        if (point.seq > this.#seq) throw this.#missing(`its newest message is seq:${this.#seq}`);
        const before = this.#last(({ seq }) => seq < point.seq);
        for (const { frame, file } of this.#following(before))
          if (frame.kind === FRAME.message && frame.seq >= point.seq)
            return frame.seq === point.seq ? behind(frame, file) : undefined;
        return undefined;
      }
      case 'place':
        return this.#last(({ unit, seq }) => unit <= point.unit && seq <= point.seq);
      case 'label': {
        const label = this.#about.placeOf(point.label);
        return this.#last(({ unit, seq }) => unit <= label.unit && seq <= label.seq);
      }
    }
  }

  /** Returns the place behind the last frame that fulfils what grows with the frames. */
  #last(isWithin: (place: Place) => boolean): Position | undefined {
    for (let file = this.files.length - 1; file >= 0; file--) {
      const timelineFile = this.#file(file);
      const from = timelineFile.known.index.findLast(isWithin);
      if (from === undefined) continue;
      let found: Position | undefined;
      for (const frame of timelineFile.frames(from.offset, timelineFile.known.damagedAt)) {
        if (!isWithin(frame)) break;
        if (frame.kind === FRAME.message || frame.kind === FRAME.change) found = behind(frame, file);
      }
      // Nothing but a base or the mark of a gap: the frame before is in the file before.
      if (found !== undefined) return found;
      if (timelineFile.known.bases.length > 0 && file === 0) return this.#atFirstBase(file);
    }
    return undefined;
  }

  /** A file may begin with a base, when files before it are gone. */
  #atFirstBase(file: number): Position | undefined {
    for (const frame of this.#file(file).frames()) if (frame.kind === FRAME.base) return behind(frame, file);
    return undefined;
  }

  /** Returns the first place whose state is kept. */
  #earliest(): Position | undefined {
    for (const [file, { known }] of this.files.entries())
      for (const base of known.bases) {
        const position = this.#exactFrom({ file, offset: base.offset }, base.exact);
        if (position !== undefined) return position;
      }
    return undefined;
  }

  /** Returns the first place from which on a base with what follows it is exact. */
  #exactFrom({ file, offset }: PlacedBase, exact: number): Position | undefined {
    const [base, next] = this.#twoFrom({ file, offset });
    if (base === undefined) return undefined;
    const clean = behind(base.frame, base.file);
    if (next === undefined || next.frame.unit > exact) return clean;
    return this.#behindBases(this.#last(({ unit }) => unit <= exact) ?? clean);
  }

  /** Takes a place behind bases that follow it at once: they have the same state. */
  #behindBases(position: Position): Position {
    let reached = position;
    for (const { frame, file } of this.#following(position)) {
      if (frame.kind !== FRAME.base) break;
      reached = { ...position, file, end: frame.end };
    }
    return reached;
  }

  /** Yields what follows a place; from the beginning without one. */
  *#following(position: Position | undefined): Generator<{ readonly frame: PlacedFrame; readonly file: number }> {
    if (position === undefined) {
      if (this.files.length > 0) yield* this.#framesFrom({ file: 0, offset: undefined });
    } else yield* this.#framesFrom({ file: position.file, offset: position.end });
  }

  /** Returns a base and the frame behind it, as far as they can be read. */
  #twoFrom(base: PlacedBase): readonly { readonly frame: PlacedFrame; readonly file: number }[] {
    const found: { readonly frame: PlacedFrame; readonly file: number }[] = [];
    try {
      for (const each of this.#framesFrom(base)) if (found.push(each) === 2) break;
    } catch (error) {
      if (!(error instanceof ServerError)) throw error;
    }
    return found;
  }

  *#framesFrom(from: {
    readonly file: number;
    readonly offset: number | undefined;
  }): Generator<{ readonly frame: PlacedFrame; readonly file: number }> {
    for (let file = from.file; file < this.files.length; file++) {
      const offset = file === from.file ? from.offset : undefined;
      for (const frame of this.#file(file).frames(offset)) {
        yield { frame, file };
      }
    }
  }

  /** Returns the newest base that the state of a place can be made from. Throws with the reason where there is none. */
  #baseFor(position: Position, reason = 'that point lies before it'): PlacedBase {
    for (let file = position.file; file >= 0; file--) {
      const { known } = this.#file(file);
      for (const { offset, exact } of known.bases.toReversed()) {
        if (file === position.file && offset >= position.end) continue;
        if (exact < position.unit || this.#isBehind(position, exact)) return { file, offset };
      }
      if (known.isBehindGap) break;
    }
    throw this.#missing(reason);
  }

  /** Returns true if the place has everything up to a unit: others may have changed what came since. */
  #isBehind(position: Position, unit: number): boolean {
    if (position.hasMore) return false;
    try {
      for (const { frame } of this.#following(position))
        if (frame.kind === FRAME.gap) return unitOfNote(frame.note) >= unit;
        else if (frame.kind !== FRAME.base) return frame.unit > unit;
    } catch (error) {
      if (!(error instanceof ServerError)) throw error;
    }
    return true;
  }

  /** Throws ServerError `timeline-damaged` for a file of which nothing can be read. */
  #file(at: number): TimelineFile {
    const file = this.files[at];
    if (file === undefined) throw new Error(`the timeline has no file ${at}`);
    if (file.known.damagedAt === 0) throw damaged(file.path, 0);
    return file;
  }

  #missing(why: string): ServerError {
    const first = this.#earliest();
    const reach =
      first === undefined
        ? 'the timeline of this actor has no state yet: it begins with its first message'
        : `the timeline of this actor begins with seq:${first.seq}, unit:${first.unit} (${new Date(first.timeMs).toISOString()})`;
    return new ServerError('missing', 'point-missing', `${reach}; ${why}`);
  }

  // ---- states and pages

  /** Returns the rows at a point. */
  rowsAt(point: TimePoint, nowMs: number): RowsAt {
    return this.#rowsTo(this.#positionOf(point, nowMs));
  }

  /** Returns the rows before a message, and the message's frame. */
  before(seq: number): RowsAt & { readonly frame: PlacedFrame } {
    if (seq > this.#seq) throw this.#missing(`its newest message is seq:${this.#seq}`);
    const reason = `the state before seq:${seq} is not kept`;
    const position = this.#last((place) => place.seq < seq);
    for (const { frame } of position === undefined ? [] : this.#following(position)) {
      // Behind a gap messages are missing: they have made the state that this one found.
      if (frame.kind === FRAME.gap || frame.seq > seq || position === undefined) break;
      if (frame.kind === FRAME.message) return { ...this.#rowsTo(this.#behindBases(position), reason), frame };
    }
    throw this.#missing(reason);
  }

  #rowsTo(position: Position, reason?: string): RowsAt {
    const base = this.#baseFor(position, reason);
    const rows = new PastRows();
    let isFirst = true;
    for (let file = base.file; file <= position.file; file++) {
      const end = file === position.file ? position.end : undefined;
      for (const { kind, operations, note } of this.#file(file).frames(isFirst ? base.offset : undefined, end)) {
        if (kind === FRAME.base && isFirst) rows.apply(inflateRawSync(operations));
        else if (kind === FRAME.message) rows.apply(operations, decodeNote(note));
        else if (kind === FRAME.change) rows.apply(operations);
        isFirst = false;
      }
    }
    return { rows, place: placeIn(position) };
  }

  /** Returns messages in order, with the reach of the timeline. */
  page({ from, to, limit, argumentBytesMax = Infinity }: PageAsked, nowMs: number): TimelinePage {
    const begin = from === undefined || from.kind === 'start' ? undefined : this.#begins(from, nowMs);
    const end = to === undefined ? undefined : this.#locate(to, nowMs);
    const entries: TimelineEntry[] = [];
    let next: number | undefined;
    let argumentBytes = 0;
    const isBeyond = ({ unit, seq }: Place): boolean =>
      end === undefined ? to !== undefined : unit > end.unit || seq > end.seq;
    for (const { frame } of this.#following(begin)) {
      if (frame.kind !== FRAME.message) continue;
      if (isBeyond(frame)) break;
      if (entries.length === limit || argumentBytes >= PAGE_ARGUMENT_BYTES) {
        next = frame.seq;
        break;
      }
      const note = decodeNote(frame.note);
      const argument = note.argument.subarray(0, argumentBytesMax);
      const isArgumentCut = argument.length < note.argument.length;
      argumentBytes += argument.length;
      const bytes = frame.operations.length;
      entries.push({ ...placeIn(frame), note: ownNote({ ...note, argument }), bytes, isArgumentCut });
    }
    const first = this.#earliest();
    const last = this.#last(() => true);
    const reach = first === undefined || last === undefined ? undefined : { from: placeIn(first), to: placeIn(last) };
    return { entries, next, reach };
  }

  /** Returns the place behind which a page begins that has the message of the point, or the first one after it. */
  #begins(from: TimePoint, nowMs: number): Position | undefined {
    if (from.kind === 'seq') return this.#last(({ seq }) => seq < from.seq);
    const at = this.#locate(from, nowMs);
    return at === undefined ? undefined : this.#last(({ seq }) => seq < at.seq);
  }

  // ---- labels

  /** Names a point. Throws ServerError `label-exists`, `label-bad`, `labels-full`, `point-missing`. */
  label(name: string, point: TimePoint, nowMs: number): Place {
    this.#about.checkNew(name);
    const position = this.#positionOf(point, nowMs);
    const numbers = [this.#baseFor(position).file, position.file].map((file) => this.#file(file).number);
    const [from = 0, to = 0] = numbers;
    this.#about.give(name, { ...placeIn(position), from, to }, this.#lastPlace);
    return placeIn(position);
  }

  unlabel(name: string): void {
    this.#about.free(name, this.#lastPlace);
  }
}

/** Returns the place behind a frame. */
function behind(frame: PlacedFrame, file: number): Position {
  return { ...placeIn(frame), file, end: frame.end, hasMore: frame.hasMore };
}

function placeIn({ seq, unit, timeMs }: Place): Place {
  return { seq, unit, timeMs };
}

function noteOfUnit(unit: number): Uint8Array {
  const note = Buffer.alloc(6);
  note.writeUIntLE(unit, 0, 6);
  return note;
}

/** Earlier versions noted nothing with a gap. */
function unitOfNote(note: Uint8Array): number {
  return note.length < 6 ? 0 : Buffer.from(note).readUIntLE(0, 6);
}
