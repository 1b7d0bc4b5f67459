/**
 * The state of a host: units come in, durable when `commit` returns; the tables get them later.
 *
 *     commit: units ─► step log, one flush     settle: applied to the overlay, folded into the tables, segments reused
 *
 * Folding begins at `foldBytes` of log, half as many again of overlay, or many pages, and goes on slice by slice
 * behind commits. Runs in the thread `storage`.
 *
 * Recovery is the same as normal work: the log's units are applied to the overlay again, whether the tables have them
 * already or not. Synchronous and without threads of its own, so that a simulator can run it.
 *
 * Every unit of the log begins with the time of its commit, which never goes back.
 */
import { at, type Clock, systemClock } from '../../kernel/index.ts';
import { CommitFigures } from './commit-figures.ts';
import { release } from './release.ts';
import { decodeFloor, encodeFloor, type LogFloor } from './log-floor.ts';
import { META, metaKey } from './keyspace.ts';
import { LAST_UNIT_KEY, lastUnitChange, lastUnitOf } from './last-unit.ts';
import { Overlay, SLICE_BYTES } from './overlay.ts';
import type { StorageFigures } from './index.ts';
import type { StateReader } from './state-reader.ts';
import type { StepLog, StepLogOptions } from './step-log.ts';
import type { Change, TableReader, Tables, WriteOut } from './tables.ts';
import { bytesOf, piecesOf, type Unit } from './unit.ts';
import type { UnitListener } from './unit-feed.ts';
import { timeOfUnit, timeOperation } from './write-batch.ts';

interface StateStoreOptions {
  /** Bytes of log or overlay from which on they go to the tables. */
  readonly foldBytes?: number;
  /** True if a commit waits for the disk. */
  readonly isSynced: boolean;
  /** Called when some megabytes are garbage. */
  readonly garbage?: () => void;
  /** Missing: folding syncs the tables in between, and commits wait for that. */
  readonly writeOut?: WriteOut | undefined;
  /** Units are handed over: nobody else has them when they are committed. */
  readonly ownsUnits?: boolean;
  /** Source of units' times. */
  readonly clock?: Pick<Clock, 'nowMs'>;
  /** Hears of each unit of the log, and of each that has become durable, before its bytes are given away. */
  readonly listener?: UnitListener | undefined;
}

/** The tables' knowledge of the log. */
export type KnownLog = Required<Pick<StepLogOptions, 'firstUnit' | 'floor' | 'keepFloor'>>;

type SnapshotTaker = (snapshot: TableReader & Disposable) => void;

const FOLD_BYTES = 48 * 2 ** 20;
/** The overlay may hold more than the log: a page of which much has changed is whole there. */
const OVERLAY_FACTOR = 1.5;
/**
 * Bytes of `foldBytes` per page: folding also begins at so many pages, 65,536 of FOLD_BYTES. Each page is written
 * whole, all of them in 3 to 5 s, which a stop has to wait for.
 */
const BYTES_PER_PAGE = 768;
/**
 * Slices after one commit where commits come faster than one slice after each brings to the tables. They take tens of
 * milliseconds, for which a caller that commits a little meanwhile waits.
 */
const SLICES_WHEN_LARGE = 4;
/**
 * Upper bound of slices in that case: a little more than has been committed goes to the tables, up to so many.
 * Several clients that store megabytes piece by piece then do not make log and overlay too large (TOO_LARGE_FACTOR).
 */
const SLICES_WHEN_LARGE_MAX = 16;
/**
 * Share of `foldBytes` that is applied in one slice: 2 MiB of FOLD_BYTES take a few milliseconds. A unit of 16 MiB at
 * once took 20, and 50 to 80 on a busy machine.
 */
const APPLY_SHARE = 1 / 24;
/**
 * Where commits come faster than that, too: at least so many slices, and so many times as much as has been committed.
 * Log and overlay then take at most three times as much, and nobody waits until the tables have everything, which takes
 * seconds. With 32 slices at once, commits waited for 0.1 to 0.6 s.
 */
const TOO_LARGE_FACTOR = 2;
const SLICES_WHEN_TOO_LARGE = 8;
const OWED_WHEN_TOO_LARGE = 3;
/** Share of `foldBytes` that the tables have neither synced nor written out: 4 MiB of FOLD_BYTES. */
const UNSYNCED_SHARE = 1 / 12;
/** Key of the least that the step log must have. */
const FLOOR_KEY = metaKey(META.logFloor);
/** Segments' marks that are held at most: an archive that cannot be written does not keep more of the log. */
const HELD_MAX = 4;
/** Commits after which the tables are told how far the log is durable: told so seldom, the cost does not show. */
const COMMITS_UNTOLD_MAX = 64;

export class StateStore {
  readonly #tables: Tables;
  readonly #log: StepLog;
  readonly #overlay: Overlay;
  readonly #options: StateStoreOptions;
  readonly #foldBytes: number;
  /** Units, or pieces of them, that are durable and not applied yet; of the first one so many bytes are. */
  readonly #unapplied: Uint8Array[] = [];
  #appliedBytes = 0;
  /** Marks up to which the tables have all, and whoever listens has not; each with the last unit before it. */
  readonly #held: { readonly mark: number; readonly unit: number }[] = [];
  readonly #commits = new CommitFigures();
  #commitsUntold = 0;
  /** The tables have everything. */
  #isFolded = false;
  #bytesSinceFreeze = 0;
  /** Committed since the last slice. */
  #bytesUnsettled = 0;
  /**
   * The mark up to which the log may reuse segments when the frozen layer is folded, and the last unit in that layer.
   */
  #mark = 0;
  #lastFrozen = 0;
  #frozenMs = 0;
  #last: number;
  /** Time of the newest unit whose time is known. */
  #timeMs = 0;
  /** Callbacks that want a snapshot of what is committed, and of what is being folded. */
  readonly #wanted: SnapshotTaker[] = [];
  #folding: SnapshotTaker[] = [];

  /** Opens the state of a directory; units of the log that the tables lack are applied. */
  constructor(tables: Tables, openLog: (known: KnownLog) => StepLog, options: StateStoreOptions) {
    this.#tables = tables;
    this.#options = options;
    this.#foldBytes = options.foldBytes ?? FOLD_BYTES;
    const { garbage, writeOut } = options;
    this.#overlay = new Overlay(tables, { garbage, writeOut, unsyncedBytesMax: this.#foldBytes * UNSYNCED_SHARE });
    // The step log goes on from there.
    this.#last = lastUnitOf(tables.get('meta', LAST_UNIT_KEY));
    const floor = tables.get('meta', FLOOR_KEY);
    this.#log = openLog({
      firstUnit: this.#last + 1,
      floor: floor && decodeFloor(floor),
      keepFloor: (kept, { isSynced }) => tables.write([floorChange(kept)], { isSynced }),
    });
    this.#log.recover((unit, number) => {
      this.#overlay.apply(unit);
      this.#last = number;
      this.#timeMs = Math.max(this.#timeMs, timeOfUnit(unit) ?? 0);
      options.listener?.recovered(number, this.#timeMs, unit);
      this.#bytesSinceFreeze += unit.length;
      if (this.#isOverlayLarge(this.#foldBytes)) this.#foldRecovered();
    });
  }

  /** While the log is read nothing of it can be released: what was applied goes to the tables all the same. */
  #foldRecovered(): void {
    this.#overlay.freeze();
    while (!this.#overlay.foldSlice(lastUnitChange(this.#last), true));
  }

  /** The newest durable unit; 0: none yet. */
  get last(): number {
    return this.#last;
  }

  /**
   * Makes units durable, all with one flush; returns the number of the last. A caller that catches an error of this
   * must end the process.
   */
  commit(units: readonly Unit[]): number {
    this.#isFolded = false;
    this.#timeMs = Math.max(this.#timeMs, (this.#options.clock ?? systemClock).nowMs());
    const time = timeOperation(this.#timeMs);
    for (const unit of units) {
      this.#last = this.#log.append([time, ...piecesOf(unit)]);
      this.#bytesSinceFreeze += bytesOf(unit);
      this.#bytesUnsettled += bytesOf(unit);
    }
    this.#log.flush({ isSynced: this.#options.isSynced });
    this.#tell(units);
    for (const unit of units) this.#unapplied.push(...piecesOf(unit));
    this.#commits.committed(units);
    this.#commitsUntold++;
    return this.#last;
  }

  #tell(units: readonly Unit[]): void {
    const { listener } = this.#options;
    if (listener === undefined) return;
    const first = this.#last - units.length + 1;
    for (const [index, unit] of units.entries()) listener.committed(first + index, this.#timeMs, piecesOf(unit));
  }

  /** A slice of what can wait: applies units, folds. True: there is more to do. */
  settle(): boolean {
    if (this.#commitsUntold >= COMMITS_UNTOLD_MAX) this.#confirmLog();
    if (this.#held.length > 0) this.#release(HELD_MAX);
    this.#log.prepare();
    const owed = 1 + Math.ceil(this.#bytesUnsettled / SLICE_BYTES);
    this.#bytesUnsettled = 0;
    this.#apply(this.#slicesMax(owed) * this.#foldBytes * APPLY_SHARE);
    if (!this.#overlay.isFolding) {
      if (this.#unapplied.length > 0) return true;
      if (!this.#isLarge() && this.#wanted.length === 0) return false;
      this.#freeze();
      return true;
    }
    const slicesMax = this.#slicesMax(owed);
    const mustWrite = this.#isLarge(TOO_LARGE_FACTOR);
    for (let slices = 0; slices < slicesMax; slices++)
      if (this.#foldSlice(mustWrite)) return this.#unapplied.length > 0 || this.#isLarge() || this.#wanted.length > 0;
    return this.#unapplied.length > 0 || !this.isWaitingForDisk;
  }

  /** True while `settle` can do no more before something is written out: it is to be called again soon. */
  get isWaitingForDisk(): boolean {
    return this.#overlay.isWaitingForDisk;
  }

  #confirmLog(): void {
    this.#commitsUntold = 0;
    if (this.#options.isSynced) this.#log.confirm();
  }

  /**
   * Returns the number of slices that may be done after one commit; `owed` is a little more than what was committed.
   */
  #slicesMax(owed: number): number {
    if (this.#isLarge(TOO_LARGE_FACTOR)) return Math.max(SLICES_WHEN_TOO_LARGE, OWED_WHEN_TOO_LARGE * owed);
    return this.#isLarge() ? Math.max(SLICES_WHEN_LARGE, Math.min(owed, SLICES_WHEN_LARGE_MAX)) : 1;
  }

  /** Returns true if log or overlay is more than so many times as large as it is to be. */
  #isLarge(times = 1): boolean {
    const bytes = times * this.#foldBytes;
    return this.#bytesSinceFreeze > bytes || this.#isOverlayLarge(bytes);
  }

  #isOverlayLarge(bytes: number): boolean {
    const { activeBytes, activePages } = this.#overlay;
    return activeBytes > bytes * OVERLAY_FACTOR || activePages > bytes / BYTES_PER_PAGE;
  }

  /** Applies all durable units to the overlay, or so many bytes of them, exceeded by one operation at most. */
  #apply(bytesMax = Infinity): void {
    let units = 0;
    for (let bytes = 0; units < this.#unapplied.length && bytes < bytesMax;) {
      const unit = at(this.#unapplied, units, 'unit');
      const from = this.#appliedBytes;
      this.#appliedBytes = this.#overlay.apply(unit, from, bytesMax - bytes);
      bytes += this.#appliedBytes - from;
      if (this.#appliedBytes < unit.length) break;
      this.#appliedBytes = 0;
      units++;
      if (this.#options.ownsUnits === true) release(unit);
    }
    this.#unapplied.splice(0, units);
  }

  #freeze(): void {
    this.#overlay.freeze();
    this.#mark = this.#log.rotate();
    this.#lastFrozen = this.#last;
    this.#frozenMs = this.#timeMs;
    this.#bytesSinceFreeze = 0;
    this.#folding = this.#wanted.splice(0);
  }

  /** Folds one slice. Returns true if the frozen layer is in the tables. */
  #foldSlice(mustWrite: boolean): boolean {
    if (!this.#overlay.foldSlice(lastUnitChange(this.#lastFrozen), mustWrite)) return false;
    // Damage to the end of the tables' own log looks like a write that was not finished: so nothing that counts is at
    // the end.
    this.#tables.write([], { isSynced: false });
    this.#held.push({ mark: this.#mark, unit: this.#lastFrozen });
    this.#release(HELD_MAX);
    for (const taken of this.#folding.splice(0)) taken(this.#tables.snapshot());
    return true;
  }

  /** Lets go of segments that nobody needs any more, and of the oldest where more marks are held than `max`. */
  #release(max: number): void {
    const { listener } = this.#options;
    const isFree = ({ unit }: { readonly unit: number }, index: number): boolean =>
      this.#held.length - index > max || listener?.needs(unit) !== true;
    const kept = this.#held.findIndex((held, index) => !isFree(held, index));
    const free = this.#held.splice(0, kept < 0 ? this.#held.length : kept).at(-1);
    if (free !== undefined) this.#log.release(free.mark);
  }

  /** Brings everything into the tables, and empties the log. */
  fold(): void {
    this.#apply();
    while (this.#overlay.isFolding) this.#foldSlice(true);
    this.#freeze();
    while (this.#overlay.isFolding) this.#foldSlice(true);
    this.#release(0);
    this.#isFolded = true;
  }

  /** Returns a reader of everything committed so far. */
  get reader(): StateReader {
    this.#apply();
    return this.#overlay;
  }

  /**
   * Everything committed so far, unchanged by what is committed later: handed to `taken` by `settle`, when it has
   * brought all that into the tables. Commits go on meanwhile.
   */
  takeSnapshot(taken: SnapshotTaker): void {
    this.#wanted.push(taken);
  }

  /** The newest unit that a snapshot has when it is handed out, and its time; 0: not known. */
  get snapshotPlace(): { readonly unit: number; readonly timeMs: number } {
    return { unit: this.#lastFrozen, timeMs: this.#frozenMs };
  }

  /** Notes how long the last commit took, by the caller's clock. */
  commitTook(ms: number): void {
    this.#commits.took(ms);
  }

  get figures(): StorageFigures {
    const logBytes = this.#log.bytesWaiting;
    return { stateBytes: this.#tables.bytes + logBytes, logBytes, ...this.#commits.figures };
  }

  async close(): Promise<void> {
    this.#log.close();
    // Nothing in the log is needed now: its removal loses nothing.
    if (this.#isFolded) this.#tables.write([floorChange(undefined)], { isSynced: true });
    await this.#tables.close();
  }
}

function floorChange(floor: LogFloor | undefined): Change {
  return { family: 'meta', key: FLOOR_KEY, value: floor && encodeFloor(floor) };
}
