import assert from 'node:assert/strict';
import { ServerError } from '../../kernel/index.ts';
import { MemoryTables } from '../../subsystems/storage/memory-tables.ts';
import type { Change, Entry, Family, TableReader, Tables } from '../../subsystems/storage/tables.ts';
import type { Seeded } from './seeded.ts';

/** The machine stopped: whoever catches it is not alive any more. */
export class Crash extends Error {
  override readonly name = 'Crash';
}

/** `fail`: nothing is kept, and the system says why. `crash`: the machine stops; what was being written may be kept. */
export type Fault = 'fail' | 'crash' | undefined;

/** Decides what happens to a write; they are numbered from 1. */
export type Faults = (write: { readonly number: number; readonly isSynced: boolean }) => Fault;

/** The faults of those writes, and no others. */
export function scriptedFaults(script: Readonly<Record<number, Fault>>): Faults {
  return ({ number }) => script[number];
}

/** Each fault once in so many writes; 0: never. */
export function randomFaults(
  random: Seeded,
  odds: { readonly failOneIn: number; readonly crashOneIn: number },
): Faults {
  return () => {
    if (odds.crashOneIn > 0 && random.oneIn(odds.crashOneIn)) return 'crash';
    return odds.failOneIn > 0 && random.oneIn(odds.failOneIn) ? 'fail' : undefined;
  };
}

/**
 * Tables on a disk that fails, in a machine that stops. What is on that disk is every synced write and what came before
 * it; of the writes since, the first few: how many, `random` decides when the machine stops.
 */
export class FaultyTables implements Tables {
  readonly #tables: Tables;
  readonly #random: Seeded;
  readonly #faults: Faults;
  /** What is on the disk for certain. */
  readonly #synced: MemoryTables;
  #unsynced: (readonly Change[])[] = [];
  #writes = 0;
  #crash: Crash | undefined;

  /** What `tables` has already is on the disk. */
  constructor(tables: Tables, random: Seeded, faults: Faults = () => undefined) {
    this.#tables = tables;
    this.#random = random;
    this.#faults = faults;
    this.#synced = MemoryTables.copyOf(tables);
  }

  get(family: Family, key: Uint8Array): Uint8Array | undefined {
    return this.#alive().get(family, key);
  }

  getMany(family: Family, keys: readonly Uint8Array[]): (Uint8Array | undefined)[] {
    return this.#alive().getMany(family, keys);
  }

  *range(family: Family, from: Uint8Array, to: Uint8Array | undefined): Iterable<Entry> {
    for (const entry of this.#alive().range(family, from, to)) {
      this.#alive();
      yield entry;
    }
  }

  write(changes: readonly Change[], options: { readonly isSynced: boolean }): void {
    const tables = this.#alive();
    const fault = this.#faults({ number: ++this.#writes, isSynced: options.isSynced });
    if (fault === 'fail') {
      const message = `the state cannot be written: write ${this.#writes}: no space left on device`;
      throw new ServerError('unavailable', 'state-unwritable', message);
    }
    // Buffers are the caller's, who may use them again.
    this.#unsynced.push(
      changes.map(({ family, key, value }) => ({ family, key: key.slice(), value: value && value.slice() })),
    );
    if (fault === 'crash') throw this.crash();
    tables.write(changes, options);
    if (!options.isSynced) return;
    for (const each of this.#unsynced) this.#synced.write(each, options);
    this.#unsynced = [];
  }

  snapshot(): TableReader & Disposable {
    const snapshot = this.#alive().snapshot();
    const alive = (): TableReader => {
      this.#alive();
      return snapshot;
    };
    return {
      get: (family, key) => alive().get(family, key),
      getMany: (family, keys) => alive().getMany(family, keys),
      range: (family, from, to) => alive().range(family, from, to),
      [Symbol.dispose]: () => snapshot[Symbol.dispose](),
    };
  }

  get bytes(): number {
    return this.#alive().bytes;
  }

  /** Also of a machine that stopped: for whoever tidies up after a test. */
  close(): Promise<void> {
    return this.#tables.close();
  }

  /** The machine stops now, between two writes. Returns what everything throws from here on. */
  crash(): Crash {
    return (this.#crash ??= new Crash(`the machine stopped at write ${this.#writes}`));
  }

  /** After a crash: what the disk has, for the next start. Every call cuts anew. */
  survivors(): MemoryTables {
    assert.ok(this.#crash, 'the machine has not stopped');
    const survivors = MemoryTables.copyOf(this.#synced);
    const kept = this.#unsynced.slice(0, this.#random.below(this.#unsynced.length + 1));
    for (const changes of kept) survivors.write(changes, { isSynced: true });
    return survivors;
  }

  #alive(): Tables {
    if (this.#crash) throw this.#crash;
    return this.#tables;
  }
}

/** The next storage on the same machine has them, too. */
export class LastingTables extends FaultyTables {
  override close(): Promise<void> {
    return Promise.resolve();
  }
}
