import { defineCapability } from '../../kernel/index.ts';
import type { UnitSource } from '../archive/index.ts';
import type { HistogramFigures } from '../figures/index.ts';
import type { Change, Entry, Family } from './tables.ts';
import type { StoredPages } from './stored-pages.ts';
import type { WriteBatch } from './write-batch.ts';

export {
  answersKey,
  answersOf,
  eraseCanister,
  logKey,
  memoryId,
  META,
  metaKey,
  type MovedRows,
  rowsOfCanister,
  STATE_ROWS,
} from './keyspace.ts';
export {
  ANSWER_INDEX,
  contextNumberOf,
  erasePayload,
  isPayloadKey,
  PAYLOAD_KEY_BYTES,
  payloadKey,
  type PayloadRef,
  QUERY_INDEX,
  rowsOfPayload,
} from './payload-rows.ts';
export { FAMILIES, type Entry, type Family } from './tables.ts';
export { release } from './release.ts';
export { buffersOf, CHUNK_PAGES, type StoredPages } from './stored-pages.ts';
export { applyWriteBatch, ID_BYTES, WriteBatch, type WriteBatchVisitor } from './write-batch.ts';

/** Abilities that a storage may lack. All methods are there; without an ability they do nothing. */
export interface StorageSupports {
  /** Units go on over several turns. */
  readonly heldUnits: boolean;
  /** The storage waits for another owner of its state, and reads what that has. */
  readonly readAhead: boolean;
}

/**
 * Decides what survives, and from when on.
 *
 * Everything that one turn of the event loop changes is one unit: it becomes durable wholly or not at all, after all
 * units before it. A caller that changes something calls `markDirty`, and is asked by `onSeal` for the operations at
 * the turn's end; or adds them to `unit` at once. Execution does not wait for that: it runs ahead of the disk. What
 * leaves the host waits, by `whenDurable`. A unit that cannot be written ends the process: recovery is the only way
 * back.
 */
export interface CommitPort {
  /** `heldUnits`: `holdUnit` has a unit go on; without it, turns are long. */
  readonly supports: Pick<StorageSupports, 'heldUnits'>;
  /** False without a state directory: nothing is kept, and everything counts as durable at once. */
  readonly isKept: boolean;
  /** The operations of the unit that is being collected. Add nothing unless `isKept`. */
  readonly unit: WriteBatch;
  /** The number of the unit that is being collected; 0 if nothing is kept. */
  readonly current: number;
  /** The newest durable unit. */
  readonly durable: number;
  /** The newest unit that there is, or will be at the end of this turn: what is known now may be in it. */
  readonly newest: number;
  /**
   * Announces that what is executed now will lead to a unit, as a rule within a moment: a storage whose thread sleeps
   * may wake it meanwhile, and others do nothing.
   */
  expectUnit(): void;
  /** Something has changed in this turn: there will be a unit. */
  markDirty(): void;
  /**
   * Lets the unit go on over several turns, until the returned function is called: it has all changes made meanwhile.
   * Callers that wait for something to be durable wait for that. Only with `heldUnits`.
   */
  holdUnit(): () => void;
  /**
   * Has `write` called for every unit, before the unit is sealed, in the order of these calls; the last unit is that of
   * the stop. For a unit that is held, `write` is called at the end of each turn.
   */
  onSeal(write: (unit: WriteBatch) => void): void;
  /** Calls back when that unit is durable; at once, within this call, if it is already. Callbacks keep their order. */
  whenDurable(unit: number, callback: () => void): void;
  /** Resolves when everything that was changed so far is durable. */
  settled(): Promise<void>;
}

/** One canister's memories as they are stored. */
export interface StoredMemory {
  /** Pages of PAGE_BYTES each; the others are zeros. */
  readonly heap: StoredPages;
  readonly stable: StoredPages;
}

/** Everything that execution has stored of one canister (`keyspace.ts`). */
export interface StoredCanister {
  readonly memory: StoredMemory;
  /** Which copy that is: `memoryId`. */
  readonly copy: number;
  readonly globals: Uint8Array | undefined;
  readonly certifiedData: Uint8Array | undefined;
  readonly checkpoint: Uint8Array | undefined;
  /** Records of the canister's log, in order. */
  readonly records: PackedRecords;
}

/** Many byte strings as two that can be handed from thread to thread: one after the other, and where each ends. */
export interface PackedRecords {
  readonly bytes: Uint8Array;
  readonly ends: Uint32Array;
}

/** Numbers of the commits since this process opened the state. */
export interface CommitNumbers {
  readonly unitsCommitted: number;
  /** Bytes of all committed units. */
  readonly commitBytes: number;
  /** Seconds that commits took, including the disk's flush. */
  readonly commitSeconds: HistogramFigures;
  /** Number of units that one commit made durable. */
  readonly commitUnits: HistogramFigures;
}

/** Numbers for operators. */
export interface StorageFigures extends CommitNumbers {
  /** About what the state takes on disk. */
  readonly stateBytes: number;
  /** Bytes of the step log that the tables do not have yet. */
  readonly logBytes: number;
}

/** A reader of what another owner of the state has. */
export interface AheadReader {
  /** Takes all keys that there are now; other keys are gone. Returns the keys whose values are wanted. */
  wanted(keys: readonly Uint8Array[]): readonly Uint8Array[];
  /** Resolves when the next one may come. */
  take(key: Uint8Array, value: Uint8Array): Promise<void>;
}

/** Rows of one canister, as they are stored. */
export interface StoredImage extends StoredCanister {
  /** The newest unit when the reading began, and when it had ended: pages may be of any unit between them. */
  readonly from: number;
  readonly until: number;
  readonly identity: Uint8Array | undefined;
  readonly numbers: Uint8Array | undefined;
}

/** The units of a storage for the timeline, and what a timeline begins with. */
export interface ActorUnits extends Omit<UnitSource, 'base'> {
  /** Reads a canister as it is stored; commits go on. */
  image(id: Uint8Array): Promise<StoredImage>;
  /** Resolves with the stored module of that SHA-256; undefined: there is none. */
  module(hash: Uint8Array): Promise<Uint8Array | undefined>;
}

/** The state of this host. Reads see every unit handed over before, durable or not. */
export interface Storage extends CommitPort {
  readonly supports: StorageSupports;
  /** Entries whose key begins with `prefix`, in order. Rejects with ServerError `state-corrupt`. */
  range(family: Family, prefix: Uint8Array): Promise<readonly Entry[]>;
  /**
   * Returns all keys of a family in order, some at a time, without values, which may be many megabytes. Keys that are
   * written meanwhile may be among them or not. Not for pages. Rejects with ServerError `state-corrupt`.
   */
  keys(family: Family): AsyncIterable<readonly Uint8Array[]>;
  /** Returns the value of that key. Not for pages. Rejects with ServerError `state-corrupt`. */
  get(family: Family, key: Uint8Array): Promise<Uint8Array | undefined>;
  /**
   * Returns the values of entries whose key begins with `prefix`, in order: for many small ones. Rejects with
   * ServerError `state-corrupt`.
   */
  values(family: Family, prefix: Uint8Array): Promise<PackedRecords>;
  /**
   * Returns what execution has stored of one canister. Rejects with ServerError `state-corrupt`, which names the
   * damaged key.
   */
  canister(id: Uint8Array): Promise<StoredCanister>;
  figures(): Promise<StorageFigures>;
  /**
   * Has a storage that waits for another owner hand over the entries of a family as they are then, again and again.
   * Called before the storage is opened. Without the ability it does nothing.
   */
  readAhead(family: Family, reader: AheadReader): void;
  /** Units for timelines; undefined: the storage hands out none. */
  readonly actorUnits?: ActorUnits | undefined;
  /** A consistent copy of everything, as of now, in pieces; see backup.ts for the format. */
  backup(): AsyncIterable<Uint8Array>;
}
export const Storage = defineCapability<Storage>('storage');

/** A backup (`GET /backup`) that is to be put into a store. */
export interface BackupFile {
  readonly path: string;
  /**
   * Returns the changes to be stored, in the order of families and keys, about a mebibyte at a time; bytes are valid
   * until the next ones are asked for. The file is known to be whole when this has ended without an error, and not
   * before. Errors are ServerErrors (`backup-unreadable`, `backup-foreign`, `backup-truncated`, `backup-damaged`, …)
   * and say where.
   */
  changes(): AsyncIterable<readonly Change[]>;
  /** Number of entries that have been read. */
  readonly entries: number;
  readonly bytes: number;
}
