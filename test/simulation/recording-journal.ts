/** Units as a storage keeps them, without a disk: what is durable when, and what survives a crash, the test says. */
import assert from 'node:assert/strict';
import type { KeptUnits } from '../../subsystems/scheduler/call-journal.ts';
import type { Entry } from '../../subsystems/storage/index.ts';
import { applyWriteSet, WriteSet } from '../../subsystems/storage/write-set.ts';

/** `State`: whatever else a unit holds. */
export class RecordingJournal<State> implements KeptUnits {
  readonly isKept = true;
  current = 1;
  durable = 0;
  /** Bytes of all units so far. */
  written = 0;
  readonly #writers: ((unit: WriteSet) => void)[] = [];
  #waiters: { readonly unit: number; readonly callback: () => void }[] = [];
  /** Sealed and not durable. */
  readonly #units: { readonly operations: Uint8Array; readonly state: State }[] = [];
  readonly #stored: Map<string, Entry>;
  #state: State;
  #isTouched = false;

  constructor(state: State, entries: readonly Entry[] = []) {
    this.#state = state;
    this.#stored = new Map(entries.map((entry) => [hex(entry[0]), entry]));
  }

  touch(): void {
    this.#isTouched = true;
  }

  beforeSeal(write: (unit: WriteSet) => void): void {
    this.#writers.push(write);
  }

  whenDurable(unit: number, callback: () => void): void {
    assert.ok(unit < this.current || this.#isTouched || unit === 0, `unit ${unit} will be sealed`);
    if (unit <= this.durable) callback();
    else this.#waiters.push({ unit, callback });
  }

  settled(): Promise<void> {
    const newest = this.#isTouched ? this.current : this.current - 1;
    return new Promise((resolve) => this.whenDurable(newest, resolve));
  }

  /** Ends the unit that is being collected, if anything has changed. */
  seal(state: () => State): void {
    if (!this.#isTouched) return;
    this.#isTouched = false;
    const unit = new WriteSet();
    for (const write of this.#writers) write(unit);
    this.written += unit.length;
    this.#units.push({ operations: unit.take(), state: state() });
    this.current++;
  }

  get pending(): number {
    return this.#units.length;
  }

  /** Makes so many more units durable. */
  commit(units: number): void {
    for (const { operations, state } of this.#units.splice(0, units)) {
      this.#apply(operations);
      this.#state = state;
      this.durable++;
    }
    const released = this.#waiters.filter(({ unit }) => unit <= this.durable);
    this.#waiters = this.#waiters.filter(({ unit }) => unit > this.durable);
    for (const { callback } of released) callback();
  }

  /** What is found afterwards when so many units that nobody was told of have been written all the same. */
  crash(units: number): { readonly entries: readonly Entry[]; readonly state: State } {
    this.#waiters = [];
    this.commit(units);
    return { entries: this.entries(), state: this.#state };
  }

  /** What is durable. */
  entries(): readonly Entry[] {
    return [...this.#stored.values()].sort((a, b) => Buffer.compare(a[0], b[0]));
  }

  #apply(operations: Uint8Array): void {
    const wrong = (): never => assert.fail('the scheduler puts and deletes, in its own family');
    applyWriteSet(operations, {
      put: (family, key, value) => {
        assert.equal(family, 'queue');
        this.#stored.set(hex(key), [key.slice(), value.slice()]);
      },
      delete: (family, key) => {
        assert.equal(family, 'queue');
        assert.ok(this.#stored.delete(hex(key)), 'only what is there is deleted');
      },
      clear: wrong,
      patch: wrong,
    });
  }
}

function hex(key: Uint8Array): string {
  return Buffer.from(key).toString('hex');
}
