import { sameBytes } from './candid-values.ts';
import { REFUSE } from './refusal.ts';
import type { Snapshot, SnapshotContent } from './snapshot.ts';
import type { StoredBytes } from './stored-bytes.ts';

const SNAPSHOTS_MAX = 10;
const NUMBER_BYTES = 8;

/** One canister's snapshots. */
export class SnapshotShelf {
  readonly #owner: Uint8Array;
  readonly #stored: StoredBytes;
  readonly #snapshots: Snapshot[] = [];
  #nextNumber = 0n;

  constructor(owner: Uint8Array, stored: StoredBytes) {
    this.#owner = owner;
    this.#stored = stored;
  }

  get list(): readonly Snapshot[] {
    return this.#snapshots;
  }

  get bytes(): number {
    return this.#snapshots.reduce((sum, { content }) => sum + content.bytes, 0);
  }

  find(id: Uint8Array): Snapshot | undefined {
    return this.#snapshots.find((snapshot) => sameBytes(snapshot.id, id));
  }

  /** Refuses when there would be too many. */
  expectRoom(replaced: Snapshot | undefined): void {
    if (replaced === undefined && this.#snapshots.length >= SNAPSHOTS_MAX)
      throw REFUSE.wrongState(
        `the canister has ${SNAPSHOTS_MAX} of ${SNAPSHOTS_MAX} snapshots: delete one, or name the one to replace`,
      );
  }

  /** Adds one whose bytes have been taken from the host's store. */
  add(content: SnapshotContent, takenAtNs: bigint, replaced: Snapshot | undefined): Snapshot {
    if (replaced !== undefined) this.remove(replaced);
    const snapshot = { id: this.#nextId(), takenAtNs, content };
    this.#snapshots.push(snapshot);
    return snapshot;
  }

  remove(snapshot: Snapshot): void {
    const index = this.#snapshots.indexOf(snapshot);
    if (index < 0) return;
    this.#snapshots.splice(index, 1);
    this.#stored.give(snapshot.content.bytes);
  }

  clear(): void {
    for (let last = this.#snapshots.at(-1); last !== undefined; last = this.#snapshots.at(-1)) this.remove(last);
  }

  /** A number of its own and the canister's id: so a snapshot's id says whose it is. */
  #nextId(): Uint8Array {
    const id = new Uint8Array(NUMBER_BYTES + this.#owner.length);
    new DataView(id.buffer).setBigUint64(0, this.#nextNumber++);
    id.set(this.#owner, NUMBER_BYTES);
    return id;
  }
}

/** The canister that a snapshot's id names. */
export function ownerOfSnapshot(id: Uint8Array): Uint8Array {
  return id.subarray(NUMBER_BYTES);
}
