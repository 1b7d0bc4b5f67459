/**
 * A state directory that follows a line of an archive: units are applied as their segments appear, and nothing is
 * served. The directory is a whole state at each moment; the file `following` says that it was never served, and which
 * line it follows, so that it can go on after a stop. A start without `--follow` takes the file away.
 */
import { readFile } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { type Logger, ServerError } from '../../kernel/index.ts';
import { ArchiveLine, type Moment, momentText, readLines, UnitReader } from '../archive/index.ts';
import { AppliedUnits } from './applied-units.ts';
import { FORMAT, FORMAT_STEPS } from './format-steps.ts';
import { openTables } from './open-tables.ts';
import type { ArchivePlace } from './restore-archive.ts';
import { FOLLOWING_FILE, FORMAT_FILE, openStateDirectory, type StateDirectory } from './state-directory.ts';
import { codeOf, unreadable } from './state-problems.ts';
import type { Tables } from './tables.ts';

const LOOK_MS = 1_000;
/** Milliseconds after which damage or a gap is believed: a file may have come in parts, or after the next one. */
const PATIENCE_MS = 30_000;
/** Milliseconds between two looks for a newer line. */
const LINES_MS = 30_000;

interface FollowOptions {
  readonly log: Pick<Logger, 'info' | 'warn'>;
}

/** Resolves with true for a directory that follows an archive, and is a whole state. */
export async function isFollowing(directory: string): Promise<boolean> {
  const root = resolve(directory);
  return (await lineOf(root)) !== undefined && (await textOf(join(root, FORMAT_FILE))) !== undefined;
}

async function lineOf(root: string): Promise<string | undefined> {
  const text = await textOf(join(root, FOLLOWING_FILE));
  const [, line] = /^\{"line":"([\w-]+)"\}\n$/.exec(text ?? '') ?? [];
  return line;
}

async function textOf(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, 'latin1');
  } catch (error) {
    if (codeOf(error) === 'ENOENT' || codeOf(error) === 'ENOTDIR') return undefined;
    throw await unreadable(path, error);
  }
}

/**
 * Applies what the archive has by now: the copy is to be served. Rejects with ServerError `archive-point` where a point
 * is named, and with those of reading an archive and of opening a state.
 */
export async function catchUp({ archive, directory, until }: ArchivePlace, { log }: FollowOptions): Promise<void> {
  if (until.kind !== 'latest')
    throw new ServerError(
      'invalid',
      'archive-point',
      `${resolve(directory)} follows the archive already, and takes no --until: restore into an empty directory`,
    );
  await using follower = await Follower.open(archive, directory);
  while (await follower.step());
  log.info(`the copy that followed line ${follower.line} is to be served from ${momentText(follower.last)} on`);
}

/** Follows until the signal is aborted. Rejects with the ServerErrors of reading an archive and of opening a state. */
export async function followArchive(
  { archive, directory }: Pick<ArchivePlace, 'archive' | 'directory'>,
  context: FollowOptions & { readonly signal: AbortSignal; readonly waiting: (note: string) => void },
): Promise<void> {
  const { signal, waiting, log } = context;
  await using follower = await Follower.open(archive, directory);
  let troubledSinceMs: number | undefined;
  let isTold = false;
  let linesMs = performance.now();
  while (!signal.aborted) {
    try {
      while (!signal.aborted && (await follower.step()))
        waiting(`following line ${follower.line}: ${momentText(follower.last)}`);
      troubledSinceMs = undefined;
      isTold = false;
    } catch (error) {
      if (!(error instanceof ServerError)) throw error;
      troubledSinceMs ??= performance.now();
      const isPassing = error.code === 'archive-unreadable';
      if (!isPassing && performance.now() - troubledSinceMs > PATIENCE_MS) throw error;
      if (isPassing && !isTold) log.warn(`following waits: ${error.message}`);
      isTold ||= isPassing;
    }
    waiting(`following line ${follower.line}: ${momentText(follower.last)}`);
    if (performance.now() - linesMs > LINES_MS) {
      linesMs = performance.now();
      await follower.warnOfNewerLine(log);
    }
    await setTimeout(LOOK_MS, undefined, { signal }).catch(() => undefined);
  }
}

class Follower implements AsyncDisposable {
  readonly line: string;
  readonly #path: string;
  readonly #directory: StateDirectory;
  readonly #tables: Tables;
  readonly #applied: AppliedUnits;
  readonly #reader: UnitReader;
  #isListed = false;
  #hasWarned = false;

  private constructor(
    line: ArchiveLine,
    directory: StateDirectory,
    opened: { readonly tables: Tables; readonly applied: AppliedUnits },
  ) {
    this.line = line.name;
    this.#path = line.path;
    this.#directory = directory;
    this.#tables = opened.tables;
    this.#applied = opened.applied;
    this.#reader = new UnitReader(line, opened.applied.last, FORMAT);
  }

  static async open(archive: string, directory: string): Promise<Follower> {
    const root = resolve(directory);
    const name = await lineOf(root);
    const path = name !== undefined && basename(resolve(archive)) !== name ? join(archive, name) : archive;
    const line = await ArchiveLine.read(resolve(path));
    const state = await openStateDirectory(root, FORMAT_STEPS, { follows: true });
    let tables: Tables | undefined;
    try {
      ({ tables } = await openTables(state.tables, undefined));
      return new Follower(line, state, { tables, applied: new AppliedUnits(tables, state.log, { isScratch: false }) });
    } catch (error) {
      await tables?.close();
      await state.close();
      throw error;
    }
  }

  get last(): Moment {
    return this.#reader.last;
  }

  /** Applies the units of the next segment; false: there is none yet. */
  async step(): Promise<boolean> {
    if (!this.#isListed) this.#reader.relist(await ArchiveLine.read(this.#path));
    this.#isListed = false;
    const units = await this.#reader.next();
    if (units === undefined) return false;
    this.#isListed = true;
    await this.#applied.apply(units, { isSynced: true });
    return true;
  }

  /** Tells once that the state was restored, promoted or put back, and is archived elsewhere since then. */
  async warnOfNewerLine(log: Pick<Logger, 'warn'>): Promise<void> {
    if (this.#hasWarned) return;
    const lines = await readLines(dirname(this.#path)).catch(() => []);
    const newer = lines.findLast(({ name }) => name > this.line);
    if (newer === undefined) return;
    this.#hasWarned = true;
    log.warn(
      `the archive has a newer line, ${newer.name}: if that is the state which is served now, ` +
        `follow it in an empty directory; this copy follows ${this.line}`,
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      await this.#applied.close();
    } finally {
      await this.#tables.close();
      await this.#directory.close();
    }
  }
}
