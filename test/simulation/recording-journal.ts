/**
 * Units as a storage keeps them, without a disk: the test decides when units become durable and which survive a crash.
 */
import assert from 'node:assert/strict';
import { CommitQueue, type StoragePort, type StorageReceiver } from '../../subsystems/storage/commit-queue.ts';
import type { Entry, Family } from '../../subsystems/storage/index.ts';
import type { ToStorage } from '../../subsystems/storage/storage-wire.ts';
import { applyWriteBatch } from '../../subsystems/storage/write-batch.ts';

/** The shipped commit queue of a scheduler alone. `State`: the other content of a unit. */
export class RecordingJournal<State> extends CommitQueue {
  readonly #port: HeldPort<State>;
  readonly #turn: { seal: (() => void) | undefined };

  constructor(state: State, entries: readonly Entry[] = []) {
    const port = new HeldPort(state, entries);
    const turn: { seal: (() => void) | undefined } = { seal: undefined };
    const onFailure = (error: Error): never => {
      throw error;
    };
    super(port, { onFailure, atTurnsEnd: (seal) => void (turn.seal = seal) });
    this.#port = port;
    this.#turn = turn;
    void this.open();
  }

  override whenDurable(unit: number, callback: () => void): void {
    assert.ok(unit <= this.newest, `unit ${unit} will be sealed`);
    super.whenDurable(unit, callback);
  }

  /** Ends the unit that is being collected, if anything has changed. */
  seal(state: () => State): void {
    const { seal } = this.#turn;
    this.#turn.seal = undefined;
    this.#port.state = state;
    seal?.();
  }

  /** Bytes of the keys and values that the scheduler has put or deleted in all units so far. */
  get written(): number {
    return this.#port.written;
  }

  /** Number of times that a unit was announced. */
  get expected(): number {
    return this.#port.expected;
  }

  /** Number of units that are sealed and not durable. */
  get pending(): number {
    return this.#port.units.length;
  }

  /** Makes so many further units durable. */
  commit(units: number): void {
    this.#port.commit(units);
    this.#port.tell();
  }

  /** Changes the state that is durable, and with it that of each unit that is not: somebody else has written to it. */
  amend(change: (state: State) => void): void {
    this.#port.amend(change);
  }

  /** Returns the state found after a crash in which so many units were written that nobody was told of. */
  crash(units: number): { readonly entries: readonly Entry[]; readonly state: State } {
    this.#port.commit(units);
    return { entries: this.entries(), state: this.#port.durableState };
  }

  /** Returns the durable entries. */
  entries(): readonly Entry[] {
    return this.#port.entries();
  }
}

class HeldPort<State> implements StoragePort {
  /** Units that are sealed and not durable. */
  readonly units: { readonly operations: Uint8Array; readonly state: State }[] = [];
  written = 0;
  expected = 0;
  durableState: State;
  /** Returns the other content of the unit that is sealed next. */
  state: () => State;
  readonly #stored: Map<string, Entry>;
  #receiver: StorageReceiver | undefined;
  #durable = 0;

  constructor(state: State, entries: readonly Entry[]) {
    this.durableState = state;
    this.state = () => state;
    this.#stored = new Map(entries.map((entry) => [hex(entry[0]), entry]));
  }

  open(receiver: StorageReceiver): void {
    this.#receiver = receiver;
    receiver.receive({ kind: 'opened', last: 0 });
  }

  /** Returns false: units are kept as they are, so they have to be the port's own bytes. */
  copy(): boolean {
    return false;
  }

  send(message: ToStorage): boolean {
    if (message.kind !== 'unit') throw new Error('a scheduler asks nothing of its journal');
    this.written += bytesOfQueue(message.unit);
    this.units.push({ operations: message.unit, state: this.state() });
    return true;
  }

  publish(): void {}

  expect(): void {
    this.expected++;
  }

  end(): Promise<void> {
    return Promise.resolve();
  }

  commit(units: number): void {
    for (const { operations, state } of this.units.splice(0, units)) {
      this.#apply(operations);
      this.durableState = state;
      this.#durable++;
    }
  }

  amend(change: (state: State) => void): void {
    for (const state of new Set([this.durableState, ...this.units.map((unit) => unit.state)])) change(state);
  }

  tell(): void {
    this.#receiver?.durable(this.#durable);
  }

  entries(): readonly Entry[] {
    return [...this.#stored.values()].sort((a, b) => Buffer.compare(a[0], b[0]));
  }

  #apply(operations: Uint8Array): void {
    const wrong = (): never => assert.fail('the scheduler puts and deletes, in its own family');
    applyWriteBatch(operations, {
      put: (family, key, value) => {
        assert.equal(family, 'queue');
        this.#stored.set(hex(key), [key.slice(), value.slice()]);
      },
      delete: (family, key) => {
        // A unit without operations deletes keys that never existed.
        if (family === 'meta') return;
        assert.equal(family, 'queue');
        assert.ok(this.#stored.delete(hex(key)), 'only what is there is deleted');
      },
      clear: wrong,
      patch: wrong,
    });
  }
}

function bytesOfQueue(operations: Uint8Array): number {
  let bytes = 0;
  const count = (family: Family, key: Uint8Array, value?: Uint8Array): void => {
    if (family === 'queue') bytes += key.length + (value?.length ?? 0);
  };
  applyWriteBatch(operations, {
    put: count,
    delete: count,
    clear: count,
    patch: () => assert.fail('no patch was expected'),
  });
  return bytes;
}

function hex(key: Uint8Array): string {
  return Buffer.from(key).toString('hex');
}
