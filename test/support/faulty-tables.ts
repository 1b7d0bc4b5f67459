import assert from 'node:assert/strict';
import { ServerError } from '../../kernel/index.ts';
import { MemoryTables } from '../../subsystems/storage/memory-tables.ts';
import type { Change, Entry, Family, TableReader, Tables } from '../../subsystems/storage/tables.ts';
import type { Seeded } from './seeded.ts';

/** The machine stopped: code that catches this must not go on. */
export class Crash extends Error {
  override readonly name = 'Crash';
}

/** `fail`: nothing is kept, and the system says why. `crash`: the machine stops; what was being written may be kept. */
type Fault = 'fail' | 'crash' | undefined;

/** Decides what happens to a write; they are numbered from 1. */
type Faults = (write: { readonly number: number; readonly isSynced: boolean }) => Fault;

/** Returns the faults of the scripted writes; all other writes succeed. */
export function scriptedFaults(script: Readonly<Record<number, Fault>>): Faults {
  return ({ number }) => script[number];
}

/** Draws each fault once in so many writes; 0: never. */
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
 * Tables on a failing disk, in a machine that stops. The disk has every synced write and all writes before it, and the
 * first few of the writes since then; `random` decides their number when the machine stops.
 */
export class FaultyTables implements Tables {
  readonly #tables: Tables;
  readonly #random: Seeded;
  readonly #faults: Faults;
  /** Entries that are certainly on the disk. */
  readonly #synced: MemoryTables;
  #unsynced: (readonly Change[])[] = [];
  #writes = 0;
  #crash: Crash | undefined;

  /** Takes the present content of `tables` to be on the disk. */
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
    // Copies the buffers: they are the caller's, who may reuse them.
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

  /** Works on a stopped machine, too, so that a test can clean up. */
  close(): Promise<void> {
    return this.#tables.close();
  }

  /** Stops the machine now, between two writes. Returns the error that every call throws from here on. */
  crash(): Crash {
    return (this.#crash ??= new Crash(`the machine stopped at write ${this.#writes}`));
  }

  /** Returns what the disk has after a crash, for the next start. Each call cuts anew. */
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

/** Tables that stay open for the next storage on the same machine. */
export class LastingTables extends FaultyTables {
  override close(): Promise<void> {
    return Promise.resolve();
  }
}
