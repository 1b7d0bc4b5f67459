/**
 * Answers requests for a state whose reads return at once. The caller says when each is due: a large canister is read a
 * slice at a time, and a backup begins when the state has a snapshot. An error that is no ServerError is thrown: then
 * the state cannot go on.
 */
import { ServerError } from '../../kernel/index.ts';
import { BackupReader } from './backup.ts';
import type { StorageFigures, StoredCanister, StoredImage } from './index.ts';
import type { StateReader } from './state-reader.ts';
import { type ArchiveRequest, carried, type FromStorage, type StorageRequest } from './storage-wire.ts';
import type { Family, TableReader } from './tables.ts';
import { META, metaKey } from './keyspace.ts';
import type { UnitFeeds } from './unit-feed.ts';

/** Requests that are reads of the state as it is. */
export type ReadRequest = Extract<StorageRequest, { readonly kind: 'range' | 'keys' | 'get' | 'values' | 'canister' }>;

type AnsweredRequest = Exclude<StorageRequest, { readonly kind: 'close' }> | ArchiveRequest;

/** Reads that answer such requests, at once or by promises. */
interface RequestReader {
  range(family: Family, prefix: Uint8Array): unknown;
  keys(family: Family, from: Uint8Array): unknown;
  get(family: Family, key: Uint8Array): unknown;
  values(family: Family, prefix: Uint8Array): unknown;
  canister(id: Uint8Array): unknown;
}

/** Returns the reader's answer to a request. */
export function answerOf(reader: RequestReader, request: ReadRequest): unknown {
  switch (request.kind) {
    case 'range':
      return reader.range(request.family, request.prefix);
    case 'keys':
      return reader.keys(request.family, request.from);
    case 'get':
      return reader.get(request.family, request.key);
    case 'values':
      return reader.values(request.family, request.prefix);
    case 'canister':
      return reader.canister(request.id);
  }
}

/** A state that requests are answered from. */
export interface RequestedState {
  readonly reader: StateReader;
  readonly figures: StorageFigures;
  /** Calls `taken` with everything committed so far, now or when the tables have all of that. */
  takeSnapshot(taken: (snapshot: TableReader & Disposable) => void): void;
  /** Place of the snapshot that is being handed to `taken`; only where there is an archive. */
  readonly snapshotPlace?: Place;
  /** The newest unit; only where somebody takes units. */
  readonly last?: number;
}

/** The newest unit of a backup, and its time; 0: not known. */
interface Place {
  readonly unit: number;
  readonly timeMs: number;
}

/** A canister that is read for a caller. */
interface Reading {
  readonly call: number;
  readonly slices: Generator<undefined, StoredCanister>;
}

type Send = (message: FromStorage, given: ArrayBuffer[]) => void;

export class RequestServer {
  readonly #state: RequestedState;
  readonly #send: Send;
  /** Canisters that are being read, a slice of one in each round. */
  readonly #readings: Reading[] = [];
  readonly #backups = new Map<number, BackupReader>();
  readonly #places = new Map<number, Place>();
  readonly #feeds: UnitFeeds;
  #backupsOpened = 0;

  /** `send` is given the buffers that may be handed over to another thread. */
  constructor(state: RequestedState, send: Send, feeds: UnitFeeds = new Map()) {
    this.#state = state;
    this.#send = send;
    this.#feeds = feeds;
  }

  /** Answers a request, or begins to; the caller answers `close`. */
  answer(call: number, request: AnsweredRequest): void {
    this.#refusing(call, () => this.#begin(call, request));
  }

  #begin(call: number, request: AnsweredRequest): void {
    const state = this.#state;
    switch (request.kind) {
      case 'canister':
        this.#read({ call, slices: state.reader.readingCanister(request.id) });
        return;
      case 'image':
        this.#read({ call, slices: this.#readingImage(request.id) });
        return;
      case 'openBackup':
        state.takeSnapshot((snapshot) => {
          this.#backups.set(++this.#backupsOpened, new BackupReader(snapshot));
          if (state.snapshotPlace !== undefined) this.#places.set(this.#backupsOpened, state.snapshotPlace);
          this.#tell(call, this.#backupsOpened);
        });
        return;
      case 'nextPiece': {
        const piece = this.#backups.get(request.backup)?.next();
        if (piece === undefined) this.#closeBackup(request.backup);
        this.#tell(call, piece, piece === undefined ? [] : [piece]);
        return;
      }
      case 'closeBackup':
        this.#closeBackup(request.backup);
        this.#tell(call, undefined);
        return;
      case 'values': {
        const values = state.reader.values(request.family, request.prefix);
        this.#tell(call, values, [values.bytes]);
        return;
      }
      case 'figures':
        this.#tell(call, state.figures);
        return;
      case 'placeOfBackup':
        this.#tell(call, this.#places.get(request.backup));
        return;
      case 'takeUnits': {
        const answer = this.#feeds.get(request.taker)?.take(request.archived) ?? {
          units: undefined,
          isBehindGap: false,
        };
        this.#tell(call, answer, answer.units?.frames);
        return;
      }
      default:
        this.#tell(call, answerOf(state.reader, request));
    }
  }

  *#readingImage(id: Uint8Array): Generator<undefined, StoredImage> {
    const state = this.#state;
    const { reader, last: from = 0 } = state;
    const canister = yield* reader.readingCanister(id);
    const [identity, numbers] = [META.identity, META.numbers].map((letter) =>
      state.reader.get('meta', metaKey(letter, id)),
    );
    return { ...canister, identity, numbers, from, until: state.last ?? 0 };
  }

  /** True while a canister is being read. */
  get isReading(): boolean {
    return this.#readings.length > 0;
  }

  /** Reads a slice. A small canister is one; of a large one commits and other reads come between them. */
  readOn(): void {
    const reading = this.#readings.shift();
    if (reading !== undefined) this.#read(reading);
  }

  #read(reading: Reading): void {
    this.#refusing(reading.call, () => {
      const slice = reading.slices.next();
      if (slice.done !== true) {
        this.#readings.push(reading);
        return;
      }
      const { memory, records } = slice.value;
      this.#tell(reading.call, slice.value, [...memory.heap.chunks, ...memory.stable.chunks, records.bytes]);
    });
  }

  /** Sends an answer; `given`: arrays in it whose buffers nobody here uses any more. */
  #tell(call: number, answer: unknown, given: readonly Uint8Array[] = []): void {
    const buffers = given.map(({ buffer }) => buffer as ArrayBuffer);
    this.#send({ kind: 'answer', call, answer }, buffers);
  }

  #refusing(call: number, work: () => void): void {
    try {
      work();
    } catch (error) {
      if (!(error instanceof ServerError)) throw error;
      this.#send({ kind: 'refusal', call, error: carried(error) }, []);
    }
  }

  #closeBackup(backup: number): void {
    this.#backups.get(backup)?.close();
    this.#backups.delete(backup);
    this.#places.delete(backup);
  }

  /** Closes the backups that are still open: the state is to be closed. */
  closeBackups(): void {
    for (const backup of this.#backups.keys()) this.#closeBackup(backup);
  }
}
