/**
 * Messages between the main thread and the storage thread.
 *
 *   main → storage
 *     UNIT      a unit's operations
 *     MESSAGE   nothing: the next message on the port is due here (a large unit, or a request), so that order holds
 *   storage → main
 *     DURABLE   u32 low · u32 high: the newest durable unit
 *   Answers to requests come by the port.
 */
import type { MessagePort } from 'node:worker_threads';
import { messageOf, ServerError } from '../../kernel/index.ts';
import type { TakeAnswer, UnitTaker } from '../archive/index.ts';
import type { PackedRecords, StorageFigures, StoredCanister, StoredImage } from './index.ts';
import type { TablesKind } from './open-tables.ts';
import type { Entry, Family } from './tables.ts';

export const RING_BYTES = 4 << 20;
/** Larger units are handed over instead of copied. */
export const INLINE_BYTES_MAX = 64 * 1024;

/**
 * Microseconds that the storage thread looks for a unit that it was woken for: a short message takes about 100 µs
 * until there is one.
 */
export const ROUSED_US = 250;

/** Posted to the thread: the directory is to be opened. */
export const OPEN = 'open';

export const UNIT = 1;
export const MESSAGE = 2;
export const DURABLE = 3;

/** One end of the way between the two threads: rings that both have, and its port. */
export interface StorageEnd {
  /** Ring of the storage thread. */
  readonly inbox: SharedArrayBuffer;
  readonly outbox: SharedArrayBuffer;
  readonly port: MessagePort;
}

export interface StorageThreadOptions {
  readonly end: StorageEnd;
  readonly directory: string;
  /** Store of the tables; undefined: the one that the directory has, or that the platform takes. */
  readonly tables: TablesKind | undefined;
  readonly isSynced: boolean;
  /** Units are kept for each of these until it takes them. */
  readonly takers: readonly UnitTaker[];
}

/** Some of a family's keys, in order. */
export interface KeyPage {
  readonly keys: readonly Uint8Array[];
  /** Key at which the next page begins; undefined after the last one. */
  readonly next: Uint8Array | undefined;
}

/** Requests to the storage thread. */
export type StorageRequest =
  | { readonly kind: 'range'; readonly family: Family; readonly prefix: Uint8Array }
  /** Keys from `from` on, as many as one answer is to have. */
  | { readonly kind: 'keys'; readonly family: Family; readonly from: Uint8Array }
  | { readonly kind: 'get'; readonly family: Family; readonly key: Uint8Array }
  | { readonly kind: 'values'; readonly family: Family; readonly prefix: Uint8Array }
  | { readonly kind: 'canister'; readonly id: Uint8Array }
  | { readonly kind: 'figures' }
  /** Opens a backup; its pieces are asked for with `nextPiece`. One at a time. */
  | { readonly kind: 'openBackup' }
  | { readonly kind: 'nextPiece'; readonly backup: number }
  | { readonly kind: 'closeBackup'; readonly backup: number }
  /** Brings everything into the tables and lets the directory go. */
  | { readonly kind: 'close' };

/** Requests of those who take units, which only the storage thread answers. */
export type ArchiveRequest =
  | { readonly kind: 'takeUnits'; readonly taker: UnitTaker; readonly archived: number }
  /** Reads a canister with its identity and its numbers. */
  | { readonly kind: 'image'; readonly id: Uint8Array }
  /** Asks which unit is the newest in a backup that was opened, and when that was. */
  | { readonly kind: 'placeOfBackup'; readonly backup: number };

/** Answers to requests of the archive. */
export interface ArchiveAnswers {
  takeUnits: TakeAnswer;
  image: StoredImage;
  placeOfBackup: { readonly unit: number; readonly timeMs: number };
}

/** Answers to requests of each kind. */
export interface StorageAnswers {
  range: readonly Entry[];
  keys: KeyPage;
  get: Uint8Array | undefined;
  values: PackedRecords;
  canister: StoredCanister;
  figures: StorageFigures;
  openBackup: number;
  /** Undefined after the last piece. */
  nextPiece: Uint8Array | undefined;
  closeBackup: undefined;
  close: undefined;
}

/** Messages by the port, to the storage thread. */
export type ToStorage =
  | { readonly kind: 'unit'; readonly unit: Uint8Array }
  | { readonly kind: 'request'; readonly call: number; readonly request: StorageRequest };

/** Request of the archive, on the same way. */
export interface ArchiveMessage {
  readonly kind: 'archive';
  readonly call: number;
  readonly request: ArchiveRequest;
}

/** A large unit, in pieces of whole operations. */
export interface UnitPieces {
  readonly kind: 'pieces';
  readonly pieces: readonly Uint8Array[];
}

/** A ServerError on its way between threads. */
export interface CarriedError {
  readonly kind: string;
  readonly code: string;
  readonly message: string;
}

/** Messages by the port, from the storage thread. */
export type FromStorage =
  /** The directory is open; `last`: the newest unit in it. */
  | { readonly kind: 'opened'; readonly last: number }
  /** The directory cannot be opened, or a commit has failed: nothing more will come. */
  | { readonly kind: 'failed'; readonly error: CarriedError }
  | { readonly kind: 'answer'; readonly call: number; readonly answer: unknown }
  | { readonly kind: 'refusal'; readonly call: number; readonly error: CarriedError };

export function carried(error: unknown): CarriedError {
  if (error instanceof ServerError) return { kind: error.kind, code: error.code, message: error.message };
  const stack = error instanceof Error ? `\n${error.stack ?? ''}` : '';
  return {
    kind: 'unavailable',
    code: 'storage-failed',
    message: `the storage thread failed: ${messageOf(error)}${stack}`,
  };
}

/** Messages of the thread itself besides: what an operator should know of the directory. */
/** A warning or a note is for the operator. */
export type FromStorageThread =
  | FromStorage
  | { readonly kind: 'warning'; readonly text: string }
  | { readonly kind: 'note'; readonly text: string }
  /** A segment waits to be taken. */
  | { readonly kind: 'unitsWait'; readonly taker: UnitTaker };
