/**
 * Applies units of an archive to tables, by the code that commits and recovers them: they keep their numbers and their
 * times, and a process that is killed meanwhile recovers what it had.
 */
import { TimeSlices } from '../../kernel/index.ts';
import type { ArchivedUnit, Moment } from '../archive/index.ts';
import { FileDisk } from './file-disk.ts';
import { StateStore } from './state-store.ts';
import { StepLog } from './step-log.ts';
import type { Tables } from './tables.ts';

export class AppliedUnits {
  readonly #store: StateStore;
  #timeMs = 0;
  #isSynced = false;

  /**
   * `log`: the directory of the step log, which must be there. The tables are closed by whoever opened them. A log that
   * is scratch has as few files as it can: each is filled with zeros when it is made.
   */
  constructor(tables: Tables, log: string, { isScratch }: { readonly isScratch: boolean }) {
    const kept = isScratch ? { segmentsKept: 1 } : {};
    const isSynced = (): boolean => this.#isSynced;
    const nowMs = (): number => this.#timeMs;
    this.#store = new StateStore(unclosed(tables), (known) => StepLog.open(new FileDisk(log), { ...known, ...kept }), {
      get isSynced() {
        return isSynced();
      },
      clock: { nowMs },
    });
  }

  /** The newest unit that was applied; its time is 0 if this object has not applied it. */
  get last(): Moment {
    return { unit: this.#store.last, timeMs: this.#timeMs };
  }

  /**
   * Applies the units that follow `last`, all of one time together, in slices of the thread. With `isSynced` they are
   * durable then.
   */
  async apply(units: readonly ArchivedUnit[], { isSynced }: { readonly isSynced: boolean }): Promise<void> {
    const slices = new TimeSlices();
    for (let from = 0; from < units.length;) {
      const timeMs = units[from]?.timeMs ?? 0;
      let to = from;
      while (to < units.length && units[to]?.timeMs === timeMs) to++;
      this.#timeMs = timeMs;
      this.#isSynced = isSynced && to === units.length;
      this.#store.commit(units.slice(from, to).map(({ bytes }) => bytes));
      while (this.#store.settle());
      from = to;
      if (slices.isOver) await slices.next();
    }
  }

  /** Brings everything into the tables, and ends the log. */
  async close(): Promise<void> {
    this.#isSynced = true;
    this.#store.fold();
    await this.#store.close();
  }
}

/** Returns the same tables, which this store does not close. */
function unclosed(tables: Tables): Tables {
  return {
    get: (family, key) => tables.get(family, key),
    getMany: (family, keys) => tables.getMany(family, keys),
    range: (family, from, to) => tables.range(family, from, to),
    write: (changes, options) => tables.write(changes, options),
    snapshot: () => tables.snapshot(),
    get bytes() {
      return tables.bytes;
    },
    close: () => Promise.resolve(),
  };
}
