import { setImmediate as nextTurn } from 'node:timers/promises';
import type { SnapshotContent, UploadedSnapshot } from '../snapshot.ts';
import type { StoredBytes } from '../stored-bytes.ts';
import { readSnapshot } from './read-snapshot.ts';
import { type RecordReader, RecordWriter } from '../../bytes/index.ts';
import {
  snapshotChunkKey,
  snapshotContentOf,
  snapshotCounterKey,
  snapshotKey,
  type SnapshotPart,
} from './record-keys.ts';
import { type RecordStore, unitOf } from './record-store.ts';
import { piecesOf, touchedPieces } from './snapshot-pieces.ts';
import { type StoredSnapshot, UNFINISHED, writeSnapshot } from './snapshot-value.ts';

/**
 * Bytes of a large content that go into one unit; the disk must have taken them before the next unit is made. With 8
 * MiB the step log was full after a second, and others waited until the tables had all of it.
 */
const UNIT_BYTES_MAX = 1 << 20;
/**
 * Pieces of zeros, of a mebibyte each, that are skipped in a turn. Each takes 0.15 ms; then other work gets its turn.
 */
const ZEROS_PER_TURN = 32;

/**
 * Records of one canister's snapshots, by their numbers. A content may be too large to be written at once. It is then
 * written before its description, which meanwhile says that the snapshot is unfinished: unfinished ones are removed at
 * the next start.
 */
export class SnapshotRecords {
  readonly #store: RecordStore;
  readonly #owner: Uint8Array;

  constructor(store: RecordStore, owner: Uint8Array) {
    this.#store = store;
    this.#owner = owner;
  }

  /**
   * Writes a new content; returns the number of its pieces. Only a large content takes more than this turn of the event
   * loop, and ends early, with the reason of `deletion`, once that is aborted.
   */
  async begin(number: bigint, content: SnapshotContent, deletion: AbortSignal): Promise<number> {
    if (!this.#store.isKept) return 0;
    unitOf(this.#store)?.put('meta', snapshotKey(this.#owner, number), UNFINISHED);
    let pieces = 0;
    let unitBytes = 0;
    let zeros = 0;
    for (const piece of piecesOf(snapshotContentOf(this.#owner, number), content)) {
      if (piece === undefined) {
        if (++zeros % ZEROS_PER_TURN === 0) await nextTurn();
        deletion.throwIfAborted();
        continue;
      }
      const [key, bytes] = piece;
      if (unitBytes + bytes.length > UNIT_BYTES_MAX) {
        await this.#store.settled();
        deletion.throwIfAborted();
        unitBytes = 0;
      }
      unitOf(this.#store)?.put('blob', key, bytes);
      unitBytes += bytes.length;
      pieces++;
    }
    return pieces;
  }

  /** Writes a snapshot's description, after its content. */
  put(number: bigint, snapshot: StoredSnapshot): void {
    unitOf(this.#store)?.put('meta', snapshotKey(this.#owner, number), writeSnapshot(snapshot));
  }

  putCounter(next: bigint): void {
    const counter = new RecordWriter();
    counter.leb128(next);
    unitOf(this.#store)?.put('meta', snapshotCounterKey(this.#owner), counter.view());
  }

  /** Writes the parts that an upload has changed. */
  putTouched(
    number: bigint,
    content: UploadedSnapshot,
    range: { readonly part: SnapshotPart; readonly offset: number; readonly length: number },
  ): void {
    const unit = unitOf(this.#store);
    if (unit === undefined) return;
    for (const [key, bytes] of touchedPieces(snapshotContentOf(this.#owner, number), content, range))
      unit.put('blob', key, bytes);
  }

  putChunk(number: bigint, hash: Uint8Array, chunk: Uint8Array): void {
    unitOf(this.#store)?.put('blob', snapshotChunkKey(snapshotContentOf(this.#owner, number), hash), chunk);
  }

  delete(number: bigint): void {
    const unit = unitOf(this.#store);
    unit?.delete('meta', snapshotKey(this.#owner, number));
    unit?.clear('blob', snapshotContentOf(this.#owner, number));
  }

  /** Reads the content of a snapshot that was there at the start. Rejects with ServerError `state-corrupt`. */
  read(number: bigint, snapshot: StoredSnapshot, stored: StoredBytes): Promise<SnapshotContent> {
    const place = { key: snapshotKey(this.#owner, number), content: snapshotContentOf(this.#owner, number) };
    return readSnapshot(this.#store, place, snapshot, stored);
  }
}

/** Returns the number of the next snapshot. */
export function readSnapshotCounter(value: RecordReader): bigint {
  const next = value.leb128();
  value.close();
  return next;
}
