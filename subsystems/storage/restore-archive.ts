/** Brings a moment of an archive into an empty directory: the last base before it, and the units from there on. */
import { mkdir } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { messageOf, ServerError, systemClock } from '../../kernel/index.ts';
import {
  type ArchivedUnit,
  type ArchiveLine,
  type BaseEntry,
  findLine,
  type Moment,
  momentText,
  type Point,
  pointText,
  readLines,
  readMarker,
  UnitReader,
} from '../archive/index.ts';
import { AppliedUnits } from './applied-units.ts';
import { LAST_UNIT_KEY, lastUnitOf } from './last-unit.ts';
import { PRIVATE_DIRECTORY } from './private-files.ts';
import { checkUnused, makeState } from './restore-directory.ts';
import { OpenBackup, PROGRESS_MS, type RestoreOptions } from './restore.ts';

export interface ArchivePlace {
  /** The archive, or a line in it. */
  readonly archive: string;
  /** The state directory, which must be empty or not there. */
  readonly directory: string;
  readonly until: Point;
  /** True if the state is to follow the archive from there on. */
  readonly follows: boolean;
}

export interface RestoredMoment extends Moment {
  readonly line: string;
  /** Entries of the base. */
  readonly entries: number;
  /** Units that were applied to it. */
  readonly units: number;
}

/**
 * Rejects with ServerError `restore-not-empty`, `archive-unreadable`, `archive-foreign`, `archive-point`,
 * `archive-ambiguous`, `archive-damaged`, `archive-gap`, `archive-newer`, `state-unwritable` or `state-locked`. Those
 * of the archive name the place and the last good moment. Then the directory is as it was before.
 */
export async function restoreArchive(place: ArchivePlace, options: RestoreOptions = {}): Promise<RestoredMoment> {
  const root = resolve(place.directory);
  const { until } = place;
  await checkUnused(root);
  const { clock = systemClock } = options;
  if (until.kind === 'time' && until.timeMs > clock.nowMs())
    throw new ServerError(
      'invalid',
      'archive-point',
      `${pointText(until)} lies in the future: nothing has happened yet`,
    );
  const line = findLine(await readLines(place.archive), until);
  const base = line.baseFor(until);
  if (base === undefined) throw new ServerError('invalid', 'archive-point', `line ${line.name} has no whole base`);
  await readMarker(base);
  const restore = new Restore(line, base, until, options);
  const following = place.follows ? `${JSON.stringify({ line: line.name })}\n` : undefined;
  await makeState(root, { ...options, following }, (tables, scratch) => restore.fill(tables, scratch));
  return restore.restored;
}

type Filled = Parameters<Parameters<typeof makeState>[2]>[0];

/** One restore, from a base on. */
class Restore {
  readonly #line: ArchiveLine;
  readonly #base: BaseEntry;
  readonly #until: Point;
  readonly #options: RestoreOptions;
  #toldMs: number;
  #entries = 0;
  #last: Moment;

  constructor(line: ArchiveLine, base: BaseEntry, until: Point, options: RestoreOptions) {
    this.#line = line;
    this.#base = base;
    this.#until = until;
    this.#options = options;
    this.#last = base;
    this.#toldMs = (options.clock ?? systemClock).nowMs();
  }

  get restored(): RestoredMoment {
    const { unit, timeMs } = this.#last;
    return { unit, timeMs, line: this.#line.name, entries: this.#entries, units: unit - this.#base.unit };
  }

  /** Resolves with the state's format. */
  async fill(tables: Filled, scratch: string): Promise<number> {
    const stateFormat = await this.#fillBase(tables);
    const log = join(scratch, 'log');
    await mkdir(log, { mode: PRIVATE_DIRECTORY });
    const applied = new AppliedUnits(tables, log, { isScratch: true });
    try {
      await this.#apply(applied, new UnitReader(this.#line, this.#base, stateFormat));
    } finally {
      await applied.close();
    }
    return stateFormat;
  }

  async #fillBase(tables: Filled): Promise<number> {
    const { path, unit } = this.#base;
    try {
      await using backup = await OpenBackup.open(path, this.#options);
      const stateFormat = await backup.fill(tables);
      this.#entries = backup.entries;
      const found = lastUnitOf(tables.get('meta', LAST_UNIT_KEY));
      if (found !== unit) throw new Error(`it ends with unit ${found} instead of ${unit}`);
      return stateFormat;
    } catch (error) {
      if (error instanceof ServerError && !error.code.startsWith('backup-')) throw error;
      const before = this.#line.bases.findLast((base) => base.unit < unit);
      const way =
        before === undefined
          ? 'there is no base before it'
          : `take its marker (${path}.json) away to begin with the base at ${momentText(before)}`;
      throw new ServerError(
        'invalid',
        'archive-damaged',
        `the base ${path} cannot be used: ${messageOf(error)}; ${way}`,
        { cause: error },
      );
    }
  }

  async #apply(applied: AppliedUnits, reader: UnitReader): Promise<void> {
    const until = this.#until;
    for (;;) {
      if (until.kind === 'unit' && this.#last.unit >= until.unit) return;
      const units = await reader.next();
      if (units === undefined) break;
      // Where a clock was set back, a time may come again: what is behind a later one does not count.
      const end = units.findIndex((unit) => !isWanted(unit, until));
      const wanted = end < 0 ? units : units.slice(0, end);
      await applied.apply(wanted, { isSynced: false });
      const last = wanted.at(-1);
      if (last !== undefined) this.#last = { unit: last.unit, timeMs: last.timeMs };
      this.#tell();
      if (end >= 0) return;
    }
    reader.checkEnd();
    if (until.kind === 'unit')
      throw new ServerError(
        'invalid',
        'archive-point',
        `${pointText(until)} is not in line ${this.#line.name}, which ends with ${momentText(reader.last)}` +
          `${reader.cut === undefined ? '' : `: ${reader.cut}`}; --until unit:${reader.last.unit} restores that`,
      );
    if (reader.cut !== undefined)
      this.#options.log?.info(`${reader.cut}: its writing was broken off; the last whole unit is ${reader.last.unit}`);
  }

  #tell(): void {
    const { log, clock = systemClock } = this.#options;
    const nowMs = clock.nowMs();
    if (nowMs - this.#toldMs < PROGRESS_MS) return;
    this.#toldMs = nowMs;
    log?.info(`restoring line ${this.#line.name}: ${momentText(this.#last)} of ${this.#line.last?.unit ?? 0}`);
  }
}

function isWanted({ unit, timeMs }: ArchivedUnit, until: Point): boolean {
  if (until.kind === 'latest') return true;
  return until.kind === 'unit' ? unit <= until.unit : timeMs <= until.timeMs;
}
