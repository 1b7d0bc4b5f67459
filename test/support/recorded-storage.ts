/** A storage whose units can be looked at one by one: what a crash between two of them leaves behind. */
import assert from 'node:assert/strict';
import type { Entry, Family, Journal, Storage } from '../../subsystems/storage/index.ts';
import { FAMILIES, WriteSet } from '../../subsystems/storage/index.ts';
import { applyWriteSet } from '../../subsystems/storage/write-set.ts';

/** Seals a unit at the end of each turn of the event loop that has changed something, and is durable at once then. */
export class RecordedStorage implements Journal, Pick<Storage, 'range'> {
  readonly isKept = true;
  readonly unit = new WriteSet();
  /** The sealed ones. */
  readonly units: Uint8Array[] = [];
  readonly #families = new Map<Family, Map<string, Uint8Array>>(FAMILIES.map((family) => [family, new Map()]));
  readonly #writers: ((unit: WriteSet) => void)[] = [];
  #waiting: { readonly unit: number; readonly callback: () => void }[] = [];
  #isSealDue = false;
  /** How often it was read. */
  reads = 0;

  get current(): number {
    return this.units.length + 1;
  }

  get durable(): number {
    return this.units.length;
  }

  get newest(): number {
    return this.#isSealDue ? this.current : this.durable;
  }

  touch(): void {
    if (this.#isSealDue) return;
    this.#isSealDue = true;
    setImmediate(() => this.#seal());
  }

  beforeSeal(write: (unit: WriteSet) => void): void {
    this.#writers.push(write);
  }

  whenDurable(unit: number, callback: () => void): void {
    if (unit <= this.durable) callback();
    else this.#waiting.push({ unit, callback });
  }

  settled(): Promise<void> {
    return new Promise((resolve) => this.whenDurable(this.newest, resolve));
  }

  #seal(): void {
    for (const write of this.#writers) write(this.unit);
    this.#isSealDue = false;
    const unit = this.unit.take();
    this.units.push(unit);
    this.#apply(unit);
    const ready = this.#waiting.filter((waiting) => waiting.unit <= this.durable);
    this.#waiting = this.#waiting.filter((waiting) => waiting.unit > this.durable);
    for (const { callback } of ready) callback();
  }

  #apply(unit: Uint8Array): void {
    applyWriteSet(unit, {
      put: (family, key, value) => void this.#of(family).set(hexOf(key), value.slice()),
      delete: (family, key) => void this.#of(family).delete(hexOf(key)),
      clear: (family, prefix) => {
        const entries = this.#of(family);
        for (const key of entries.keys()) if (key.startsWith(hexOf(prefix))) entries.delete(key);
      },
      patch: () => assert.fail('no patch was expected'),
    });
  }

  #of(family: Family): Map<string, Uint8Array> {
    const entries = this.#families.get(family);
    assert.ok(entries);
    return entries;
  }

  /** Sealed units only. */
  async range(family: Family, prefix: Uint8Array): Promise<readonly Entry[]> {
    this.reads++;
    // Not within the same turn, as from another thread.
    await new Promise((resolve) => setImmediate(resolve));
    return this.entries(family)
      .filter(([key]) => key.startsWith(hexOf(prefix)))
      .map(([key, value]): Entry => [Buffer.from(key, 'hex'), value.slice()]);
  }

  /** Keys in hex, in order. */
  entries(family: Family): [key: string, value: Uint8Array][] {
    return [...this.#of(family)].toSorted(([a], [b]) => (a < b ? -1 : 1));
  }

  /** Puts a value in place of another, as damage would. `key`: hex. */
  damage(family: Family, key: string, value: Uint8Array | undefined): void {
    if (value === undefined) this.#of(family).delete(key);
    else this.#of(family).set(key, value);
  }

  /** What a new process finds after the first `units` of them, or all; what was not sealed is gone. */
  restart(units: number = this.units.length): RecordedStorage {
    const storage = new RecordedStorage();
    for (const unit of this.units.slice(0, units)) {
      storage.units.push(unit);
      storage.#apply(unit);
    }
    return storage;
  }
}

function hexOf(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('hex');
}
