/**
 * Makes a state directory of a backup (`restore-directory.ts`). Nothing counts before the whole file has been read and
 * found right.
 */
import { resolve } from 'node:path';
import { type Clock, systemClock } from '../../kernel/index.ts';
import { FileSource } from './backup-file.ts';
import { BackupParser } from './backup-parser.ts';
import { checkUnused, makeState, type MakeStateOptions } from './restore-directory.ts';
import type { Change, Tables } from './tables.ts';

export const PROGRESS_MS = 5000;

export interface RestoreOptions extends MakeStateOptions {
  readonly clock?: Pick<Clock, 'nowMs'>;
}

export interface Restored {
  readonly entries: number;
  /** Bytes of the file. */
  readonly bytes: number;
}

/**
 * Puts what `file` has into `directory`, which must be empty or not there. Rejects with ServerError
 * `restore-not-empty` before anything is touched; with `backup-unreadable`, `backup-foreign`, `backup-newer`,
 * `backup-older`, `backup-truncated` or `backup-damaged`, which say where; or with `state-unwritable` or
 * `state-locked`. Then the directory is as it was before.
 */
export async function restoreBackup(file: string, directory: string, options: RestoreOptions = {}): Promise<Restored> {
  const root = resolve(directory);
  await checkUnused(root);
  await using backup = await OpenBackup.open(file, options);
  await makeState(root, options, async (tables) => backup.fill(tables));
  const { entries, bytes } = backup;
  return { entries, bytes };
}

/**
 * Reads a whole backup and restores nothing. Rejects as `restoreBackup` would because of the file, or of a directory
 * that is in use; undefined: the state is not kept in a directory.
 */
export async function verifyBackup(file: string, directory: string | undefined): Promise<Restored> {
  if (directory !== undefined) await checkUnused(resolve(directory));
  await using source = await FileSource.open(file);
  const parser = new BackupParser(source);
  for await (const _ of parser.changes());
  return { entries: parser.entries, bytes: parser.bytes };
}

/** A backup whose first entries have been read: it is one. */
export class OpenBackup implements AsyncDisposable {
  readonly #source: FileSource;
  readonly #parser: BackupParser;
  readonly #batches: AsyncGenerator<readonly Change[], void, void>;
  readonly #progress: Progress;
  #first: IteratorResult<readonly Change[], void> | undefined;

  private constructor(source: FileSource, options: RestoreOptions) {
    this.#source = source;
    this.#parser = new BackupParser(source);
    this.#batches = this.#parser.changes();
    this.#progress = new Progress(source, this.#parser, options);
  }

  /** Rejects where the file is no backup. */
  static async open(file: string, options: RestoreOptions): Promise<OpenBackup> {
    const source = await FileSource.open(file);
    const backup = new OpenBackup(source, options);
    try {
      backup.#first = await backup.#batches.next();
      return backup;
    } catch (error) {
      await source[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** Writes all entries, once; the file is known to be whole when this resolves. Resolves with the state's format. */
  async fill(tables: Pick<Tables, 'write'>): Promise<number> {
    for (let batch = this.#first; batch !== undefined && batch.done !== true; batch = await this.#batches.next()) {
      tables.write(batch.value, { isSynced: false });
      this.#progress.tell();
    }
    return this.#parser.stateFormat;
  }

  get entries(): number {
    return this.#parser.entries;
  }

  get bytes(): number {
    return this.#parser.bytes;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#source[Symbol.asyncDispose]();
  }
}

/** A line every few seconds. */
class Progress {
  readonly #source: FileSource;
  readonly #parser: BackupParser;
  readonly #log: RestoreOptions['log'];
  readonly #clock: Pick<Clock, 'nowMs'>;
  #toldMs: number;

  constructor(source: FileSource, parser: BackupParser, { log, clock = systemClock }: RestoreOptions) {
    this.#source = source;
    this.#parser = parser;
    this.#log = log;
    this.#clock = clock;
    this.#toldMs = clock.nowMs();
  }

  tell(): void {
    const nowMs = this.#clock.nowMs();
    if (nowMs - this.#toldMs < PROGRESS_MS) return;
    this.#toldMs = nowMs;
    const { name, sizeBytes } = this.#source;
    const { entries, bytes } = this.#parser;
    const whole = sizeBytes === undefined ? '' : ` of ${sizeBytes}`;
    this.#log?.info(`restoring ${name}: ${bytes}${whole} bytes, ${entries} entries`);
  }
}
