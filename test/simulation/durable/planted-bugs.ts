/** Mistakes on purpose, between the host and its storage: the simulator must find each of them. */
import { applyWriteSet } from '../../../subsystems/storage/write-set.ts';
import { WriteSet } from '../../../subsystems/storage/index.ts';
import type { Seeded } from '../../support/seeded.ts';
import type { Bug } from './plan.ts';
import type { SimulatedStorageOptions } from './simulated-storage.ts';
import type { SimulatedThreadsOptions } from './simulated-threads.ts';

export interface Planted {
  readonly storageOptions: SimulatedStorageOptions;
  readonly onChanges: Pick<SimulatedThreadsOptions, 'onChanges'>;
}

export function plantedBug(bug: Bug | undefined, seeded: Seeded): Planted {
  switch (bug) {
    case undefined:
      return { storageOptions: {}, onChanges: {} };
    case 'answers-too-early':
      return { storageOptions: { isHasty: true }, onChanges: {} };
    case 'lost-page':
      return {
        storageOptions: {},
        onChanges: { onChanges: (changes) => (seeded.oneIn(8) ? withoutOnePage(changes) : changes) },
      };
    case 'queue-before-state':
      return { storageOptions: { onSeal: queueFirst }, onChanges: {} };
  }
}

/** What a step changed of the last page of heap or stable memory that it touched is forgotten. */
function withoutOnePage(changes: Uint8Array): Uint8Array {
  let last = '';
  visit(changes, (family, page) => {
    if (page !== undefined) last = `${family} ${page}`;
    return undefined;
  });
  const set = new WriteSet();
  visit(changes, (family, page) => (page !== undefined && `${family} ${page}` === last ? undefined : set));
  return set.take();
}

/** Calls and queues are written in a unit of their own, before the state that goes with them. */
function queueFirst(unit: Uint8Array): readonly Uint8Array[] {
  const queue = new WriteSet();
  const rest = new WriteSet();
  visit(unit, (family) => (family === 'queue' ? queue : rest));
  return [queue, rest].filter(({ length }) => length > 0).map((set) => set.take());
}

/** Copies each operation into the set that `choose` names, if it names one. */
function visit(operations: Uint8Array, choose: (family: string, page?: number) => WriteSet | undefined): void {
  applyWriteSet(operations, {
    put: (family, key, value) => choose(family)?.put(family, key, value),
    delete: (family, key) => choose(family)?.delete(family, key),
    clear: (family, prefix) => choose(family)?.clear(family, prefix),
    patch: (family, id, page, offset, bytes) => {
      const body = Buffer.alloc(10 + bytes.length);
      body.writeUInt32LE(page, 0);
      body.writeUInt16LE(1, 4);
      body.writeUInt16LE(offset, 6);
      body.writeUInt16LE(bytes.length, 8);
      body.set(bytes, 10);
      choose(family, page)?.patch(family, id, 1, body);
    },
  });
}
