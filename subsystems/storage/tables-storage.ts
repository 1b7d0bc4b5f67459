/**
 * A storage on any ordered tables of bytes: an implementation of `Tables` is enough to have a storage. The shortest
 * plugin is made of this.
 *
 * The storage works in the thread that it is made in. In each turn of the event loop it writes what has come as one
 * change of the tables, durable when that returns, and answers requests. So nothing goes on while the tables write:
 * they are to be a store on the same machine, whose writes take a millisecond or two. Units are never divided, so one
 * of 16 MiB takes as long as the tables take for 4096 pages.
 */
import { messageOf, ServerError } from '../../kernel/index.ts';
import { CommitFigures } from './commit-figures.ts';
import { CommitQueue, type StoragePort, type StorageReceiver } from './commit-queue.ts';
import type { BackupFile, StorageFigures } from './index.ts';
import { LAST_UNIT_KEY, lastUnitChange, lastUnitOf } from './last-unit.ts';
import { type RequestedState, RequestServer } from './request-server.ts';
import { StateReader } from './state-reader.ts';
import { carried, type StorageRequest, type ToStorage } from './storage-wire.ts';
import { TableChanges } from './table-changes.ts';
import { type Change, FAMILIES, type TableReader, type Tables } from './tables.ts';
import { applyWriteBatch } from './write-batch.ts';
import { NO_BYTES } from '../bytes/index.ts';

export interface TablesStorageOptions {
  /** Opens the tables, those that were there before if there are any. Throws a ServerError that says why it cannot. */
  readonly openTables: () => Tables | Promise<Tables>;
  /**
   * Called when the state can no longer be written, and the process must end; by default the error is thrown where
   * nobody catches it.
   */
  readonly onFailure?: (error: ServerError) => void;
}

/** Units that are written together have so many bytes, or the last one makes it more. */
const COMMIT_BYTES = 2 ** 20;

export class TablesStorage extends CommitQueue {
  readonly #port: TablesPort;

  constructor({ openTables, onFailure = throwLater }: TablesStorageOptions) {
    const port = new TablesPort(openTables);
    super(port, { onFailure });
    this.#port = port;
  }

  /**
   * Puts the backup's entries into tables that are empty; to be called before `open`. Rejects with ServerError
   * `restore-not-empty`, or with an error that says what is wrong with the file. The remains of a restore that has
   * failed or was killed are no state, and the next restore takes them away.
   */
  restore(backup: BackupFile): Promise<{ readonly entries: number; readonly bytes: number }> {
    return this.#port.restore(backup);
  }
}

class TablesPort implements StoragePort, RequestedState {
  readonly #openTables: () => Tables | Promise<Tables>;
  #tables: Tables | undefined;
  #receiver: StorageReceiver | undefined;
  #last = 0;
  /** Units and requests in their order. */
  #taken: ToStorage[] = [];
  #isWorkDue = false;
  #isOver = false;
  readonly #figures = new CommitFigures();
  readonly #requests = new RequestServer(this, (message) => this.#receiver?.receive(message));

  constructor(openTables: () => Tables | Promise<Tables>) {
    this.#openTables = openTables;
  }

  open(receiver: StorageReceiver): void {
    this.#receiver = receiver;
    void this.#open().catch((error: unknown) => this.#fail(error));
  }

  async #open(): Promise<void> {
    const tables = (this.#tables ??= await this.#openTables());
    const last = tables.get('meta', LAST_UNIT_KEY);
    if (last === undefined && !isEmpty(tables))
      throw new ServerError(
        'unavailable',
        'state-corrupt',
        'the store holds the rest of a restore that was broken off, or something that is not a state: restore ' +
          'again (--restore FILE), or name an empty store',
      );
    this.#last = lastUnitOf(last);
    this.#receiver?.receive({ kind: 'opened', last: this.#last });
  }

  async restore(backup: BackupFile): Promise<{ readonly entries: number; readonly bytes: number }> {
    const tables = (this.#tables ??= await this.#openTables());
    if (tables.get('meta', LAST_UNIT_KEY) !== undefined)
      throw new ServerError(
        'invalid',
        'restore-not-empty',
        'the store holds a state already (drop --restore to serve it): a backup is restored into an empty one',
      );
    for (const family of FAMILIES) {
      const left = [...tables.range(family, NO_BYTES, undefined)].map(([key]) => ({ family, key, value: undefined }));
      tables.write(left, { isSynced: false });
    }
    let last: Change = lastUnitChange(0);
    for await (const changes of backup.changes()) {
      const isLast = (change: Change): boolean =>
        change.family === 'meta' && Buffer.compare(change.key, LAST_UNIT_KEY) === 0;
      last = changes.find(isLast) ?? last;
      tables.write(
        changes.filter((change) => !isLast(change)),
        { isSynced: false },
      );
    }
    tables.write([last], { isSynced: true });
    return { entries: backup.entries, bytes: backup.bytes };
  }

  copy(unit: Uint8Array): boolean {
    this.#taken.push({ kind: 'unit', unit: unit.slice() });
    return true;
  }

  send(message: ToStorage): boolean {
    this.#taken.push(message);
    return true;
  }

  publish(): void {
    if (this.#isWorkDue || this.#isOver) return;
    this.#isWorkDue = true;
    setImmediate(() => {
      this.#isWorkDue = false;
      if (this.#isOver) return;
      try {
        this.#work();
      } catch (error) {
        this.#fail(error);
      }
    });
  }

  /** Units up to the next request or COMMIT_BYTES, or a request. */
  #work(): void {
    const units: Uint8Array[] = [];
    let bytes = 0;
    let at = 0;
    for (; bytes < COMMIT_BYTES; at++) {
      const message = this.#taken[at];
      if (message?.kind !== 'unit') break;
      units.push(message.unit);
      bytes += message.unit.length;
    }
    const next = this.#taken[at];
    const request = next?.kind === 'request' ? next : undefined;
    this.#taken = this.#taken.slice(request === undefined ? at : at + 1);
    if (units.length > 0) this.#commit(units);
    if (request !== undefined) this.#answer(request.call, request.request);
    if (this.#taken.length > 0) this.publish();
  }

  #commit(units: readonly Uint8Array[]): void {
    const tables = this.#opened;
    const startedMs = performance.now();
    const changes = new TableChanges(tables);
    for (const unit of units) applyWriteBatch(unit, changes);
    const last = this.#last + units.length;
    tables.write([...changes.take(), lastUnitChange(last)], { isSynced: true });
    this.#last = last;
    this.#figures.committed(units);
    this.#figures.took(performance.now() - startedMs);
    this.#receiver?.durable(last);
  }

  get #opened(): Tables {
    if (this.#tables === undefined) throw new ServerError('unavailable', 'storage-failed', 'the store is not open');
    return this.#tables;
  }

  #answer(call: number, request: StorageRequest): void {
    if (request.kind === 'close') {
      void this.#close(call).catch((error: unknown) => this.#fail(error));
      return;
    }
    this.#requests.answer(call, request);
    // Nothing is committed between slices here.
    while (this.#requests.isReading) this.#requests.readOn();
  }

  /** Nothing is above the tables. */
  get reader(): StateReader {
    return new StateReader(this.#opened);
  }

  get figures(): StorageFigures {
    return { ...this.#figures.figures, stateBytes: this.#opened.bytes, logBytes: 0 };
  }

  takeSnapshot(taken: (snapshot: TableReader & Disposable) => void): void {
    taken(this.#opened.snapshot());
  }

  async #close(call: number): Promise<void> {
    await this.end();
    this.#receiver?.receive({ kind: 'answer', call, answer: undefined });
  }

  async end(): Promise<void> {
    this.#isOver = true;
    this.#requests.closeBackups();
    const tables = this.#tables;
    this.#tables = undefined;
    await tables?.close();
  }

  #fail(error: unknown): void {
    this.#isOver = true;
    const failure =
      error instanceof ServerError
        ? error
        : new ServerError('unavailable', 'state-unwritable', `the store has failed: ${messageOf(error)}`);
    this.#receiver?.receive({ kind: 'failed', error: carried(failure) });
  }
}

function isEmpty(tables: TableReader): boolean {
  return FAMILIES.every((family) => {
    // A range that is left early is closed by the loop alone.
    for (const _ of tables.range(family, NO_BYTES, undefined)) return false;
    return true;
  });
}

/** Throws outside of every call: no caller can handle the error, and nothing is to be answered any more. */
function throwLater(error: ServerError): void {
  setImmediate(() => {
    throw error;
  });
}
