import { sameBytes } from '../ic/index.ts';
import type { SnapshotRecords } from './records/snapshot-records.ts';
import type { StoredSnapshot } from './records/snapshot-value.ts';
import { REFUSE } from './refusal.ts';
import type { SnapshotContent, SnapshotDescription, UploadedSnapshot } from './snapshot.ts';
import type { StoredBytes } from './stored-bytes.ts';

const SNAPSHOTS_MAX = 10;
const NUMBER_BYTES = 8;

export interface Snapshot {
  readonly id: Uint8Array;
  readonly takenAtNs: bigint;
  readonly description: SnapshotDescription;
  /** Reads the content if it is only on disk, and keeps it in memory. Rejects with ServerError `state-corrupt`. */
  content(): Promise<SnapshotContent>;
}

/** A content that is about to be added. */
interface Draft {
  readonly number: bigint;
  readonly content: SnapshotContent;
  readonly pieces: number;
}

/** One canister's snapshots. */
export class SnapshotStore {
  readonly #owner: Uint8Array;
  readonly #stored: StoredBytes;
  readonly #records: SnapshotRecords;
  readonly #snapshots: HeldSnapshot[] = [];
  #nextNumber = 0n;

  constructor(owner: Uint8Array, stored: StoredBytes, records: SnapshotRecords) {
    this.#owner = owner;
    this.#stored = stored;
    this.#records = records;
  }

  get list(): readonly Snapshot[] {
    return this.#snapshots;
  }

  /** True if the store never held a snapshot. */
  get isUnused(): boolean {
    return this.#nextNumber === 0n;
  }

  get bytes(): number {
    return this.#snapshots.reduce((sum, { description }) => sum + description.bytes, 0);
  }

  find(id: Uint8Array): Snapshot | undefined {
    return this.#find(id);
  }

  #find(id: Uint8Array): HeldSnapshot | undefined {
    return this.#snapshots.find((snapshot) => sameBytes(snapshot.id, id));
  }

  /** Throws a Refusal if there would be too many snapshots. */
  expectRoom(replaced: Snapshot | undefined): void {
    if (replaced === undefined && this.#snapshots.length >= SNAPSHOTS_MAX)
      throw REFUSE.wrongState(
        `the canister has ${SNAPSHOTS_MAX} of ${SNAPSHOTS_MAX} snapshots: delete one, or name the one to replace`,
      );
  }

  /**
   * Writes a content whose bytes have been taken from the host's store. Afterwards call `add` or `discard`. Rejects
   * with the reason of `deletion` once that is aborted; nothing of the content is kept then.
   */
  async draft(content: SnapshotContent, deletion: AbortSignal): Promise<Draft> {
    const number = this.#nextNumber++;
    try {
      return { number, content, pieces: await this.#records.begin(number, content, deletion) };
    } catch (error) {
      this.discard({ number, content });
      throw error;
    }
  }

  add({ number, content, pieces }: Draft, takenAtNs: bigint, replaced: Snapshot | undefined): Snapshot {
    if (replaced !== undefined) this.remove(replaced);
    const read = () => Promise.resolve(content);
    const snapshot = new HeldSnapshot({ number, id: this.#idOf(number), takenAtNs }, content, read);
    this.#snapshots.push(snapshot);
    this.#records.put(number, { takenAtNs, description: content, pieces });
    this.#records.putCounter(this.#nextNumber);
    return snapshot;
  }

  discard({ number, content }: Omit<Draft, 'pieces'>): void {
    this.#records.delete(number);
    this.#stored.give(content.bytes);
  }

  /** Adds data to an uploaded snapshot, which is in memory. */
  upload(snapshot: Snapshot, content: UploadedSnapshot, data: UploadedData): void {
    const stored = this.#find(snapshot.id);
    if (stored === undefined) throw new Error('the snapshot is not in this store');
    const { number, takenAtNs } = stored;
    const { part, bytes } = data;
    if (part === 'chunk') this.#records.putChunk(number, content.addChunk(bytes), bytes);
    else {
      const { offset } = data;
      if (part === 't') content.writeStable(offset, bytes);
      else (part === 'w' ? content.wasm : content.heap).set(bytes, offset);
      this.#records.putTouched(number, content, { part, offset, length: bytes.length });
    }
    this.#records.put(number, { takenAtNs, description: content, pieces: 0 });
  }

  remove(snapshot: Snapshot): void {
    const stored = this.#find(snapshot.id);
    if (stored === undefined) return;
    this.#snapshots.splice(this.#snapshots.indexOf(stored), 1);
    this.#stored.give(stored.description.bytes);
    this.#records.delete(stored.number);
  }

  clear(): void {
    for (let last = this.#snapshots.at(-1); last !== undefined; last = this.#snapshots.at(-1)) this.remove(last);
  }

  /** Adds a snapshot that was there at the start, its bytes already counted; undefined: it was never finished. */
  restore(number: bigint, stored: StoredSnapshot | undefined): void {
    this.restoreCounter(number + 1n);
    if (stored === undefined) {
      this.#records.delete(number);
      return;
    }
    const { takenAtNs, description } = stored;
    const read = () => this.#records.read(number, stored, this.#stored);
    this.#snapshots.push(new HeldSnapshot({ number, id: this.#idOf(number), takenAtNs }, description, read));
  }

  restoreCounter(next: bigint): void {
    if (next > this.#nextNumber) this.#nextNumber = next;
  }

  /** Returns an id of the snapshot's number and the canister's id, so that a snapshot's id names its owner. */
  #idOf(number: bigint): Uint8Array {
    const id = new Uint8Array(NUMBER_BYTES + this.#owner.length);
    new DataView(id.buffer).setBigUint64(0, number);
    id.set(this.#owner, NUMBER_BYTES);
    return id;
  }
}

/** Data of a chunk, or of module, heap or stable memory from `offset` on, within their sizes. */
export type UploadedData =
  | { readonly part: 'chunk'; readonly bytes: Uint8Array }
  | { readonly part: 'w' | 'h' | 't'; readonly offset: number; readonly bytes: Uint8Array };

class HeldSnapshot implements Snapshot {
  readonly number: bigint;
  readonly id: Uint8Array;
  readonly takenAtNs: bigint;
  readonly #read: () => Promise<SnapshotContent>;
  #description: SnapshotDescription;
  #content: Promise<SnapshotContent> | undefined;

  constructor(
    place: { readonly number: bigint; readonly id: Uint8Array; readonly takenAtNs: bigint },
    description: SnapshotDescription,
    read: () => Promise<SnapshotContent>,
  ) {
    this.number = place.number;
    this.id = place.id;
    this.takenAtNs = place.takenAtNs;
    this.#description = description;
    this.#read = read;
  }

  get description(): SnapshotDescription {
    return this.#description;
  }

  content(): Promise<SnapshotContent> {
    this.#content ??= this.#load();
    return this.#content;
  }

  /** Loads the content. It stays in memory as long as the snapshot exists; after an error it is tried again. */
  async #load(): Promise<SnapshotContent> {
    try {
      const content = await this.#read();
      // An upload's description changes with the content.
      this.#description = content;
      return content;
    } catch (error) {
      this.#content = undefined;
      throw error;
    }
  }
}

/** Returns the canister that a snapshot's id names. */
export function ownerOfSnapshot(id: Uint8Array): Uint8Array {
  return id.subarray(NUMBER_BYTES);
}
