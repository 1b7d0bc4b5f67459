/** The backups that are being made, by the numbers that requests name. */
import { type Logger, ServerError } from '../api/plugin.ts';
import { Backup } from './backup.ts';
import { type Database, NotOwner } from './database.ts';
import type { Lease } from './lease.ts';

interface OpenBackupsOptions {
  readonly database: Database;
  readonly lease: Lease;
  readonly log: Pick<Logger, 'warn'>;
}

export class OpenBackups {
  readonly #options: OpenBackupsOptions;
  readonly #backups = new Map<number, Backup>();
  #opened = 0;

  constructor(options: OpenBackupsOptions) {
    this.#options = options;
  }

  /** Begins a backup and returns its number. Everything is to be in the tables. */
  async open(): Promise<number> {
    const { database, lease } = this.#options;
    try {
      const backup = await Backup.begin(await database.connect(), database.namespace, lease.owner);
      this.#backups.set(++this.#opened, backup);
      return this.#opened;
    } catch (error) {
      if (error instanceof NotOwner) throw error;
      throw this.#unreadable(error);
    }
  }

  /** Returns the next piece, or undefined after the last one: then the backup is closed. */
  async next(number: number): Promise<Uint8Array | undefined> {
    try {
      const piece = await this.#backups.get(number)?.next();
      if (piece === undefined) this.close(number);
      return piece;
    } catch (error) {
      this.close(number);
      throw error instanceof ServerError ? error : this.#unreadable(error);
    }
  }

  /** A backup has a transaction of its own, which is gone with its connection; nothing else is. */
  #unreadable(error: unknown): ServerError {
    const words = this.#options.database.wordsOf(error);
    this.#options.log.warn(`a backup was broken off: ${words}`);
    return new ServerError('unavailable', 'storage-failed', `the backup cannot be read from the database: ${words}`);
  }

  close(number: number): void {
    this.#backups.get(number)?.close();
    this.#backups.delete(number);
  }

  closeAll(): void {
    for (const number of this.#backups.keys()) this.close(number);
  }
}
