/**
 * Runs the suites of every storage on the crash simulator's storage, so that the simulator's findings are those of a
 * real storage.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { describeCommitQueue } from '../../../plugins/api/contracts/commit-queue.ts';
import { describeStorage } from '../../../plugins/api/contracts/storage.ts';
import { MemoryTables } from '../../../subsystems/storage/memory-tables.ts';
import { type KnownLog, StateStore } from '../../../subsystems/storage/state-store.ts';
import { StepLog } from '../../../subsystems/storage/step-log.ts';
import { FaultyDisk } from '../../support/faulty-disk.ts';
import { LastingTables } from '../../support/faulty-tables.ts';
import { SeededRandom } from '../../support/kernel.ts';
import { seeded } from '../../support/seeded.ts';
import { SimulatedStorage } from './simulated-storage.ts';

const SEGMENT_BYTES = 256 * 1024;

/** Parts of one machine that outlive a process. */
interface Machine {
  readonly tables: MemoryTables;
  readonly disk: FaultyDisk;
}

function open({ tables, disk }: Machine, foldBytes: number): SimulatedStorage {
  const random = new SeededRandom();
  const openLog = (known: KnownLog): StepLog => StepLog.open(disk, { ...known, segmentBytes: SEGMENT_BYTES, random });
  const lasting = new LastingTables(tables, seeded(1));
  return new SimulatedStorage(new StateStore(lasting, openLog, { foldBytes, isSynced: true }));
}

/** Lets possible events happen in small steps, turn by turn, until the test has ended. */
function run(storage: SimulatedStorage): () => void {
  let isOver = false;
  const loop = async (): Promise<void> => {
    while (!isOver) {
      await nextTurn();
      if (storage.canSeal) storage.seal();
      if (storage.canWork) storage.work(2);
      if (storage.canTell) storage.tell();
      if (storage.canAnswer) storage.answer();
    }
  };
  void loop();
  return () => void (isOver = true);
}

// With the second, nearly every unit goes on to the tables at once.
for (const foldBytes of [1 << 20, 1]) {
  describeStorage(`SimulatedStorage, folded ${foldBytes === 1 ? 'at once' : 'late'}`, async (t) => {
    const machine: Machine = { tables: new MemoryTables(), disk: new FaultyDisk() };
    const start = (on: Machine): SimulatedStorage => {
      const storage = open(on, foldBytes);
      t.after(run(storage));
      return storage;
    };
    let storage = start(machine);
    const reopen = async (): Promise<SimulatedStorage> => {
      await storage.close();
      return (storage = start({ tables: machine.tables, disk: machine.disk.killed() }));
    };
    const crash = async (): Promise<SimulatedStorage> =>
      start({ tables: MemoryTables.copyOf(machine.tables), disk: machine.disk.killed() });
    return { storage, reopen, crash };
  });
}

describeCommitQueue('SimulatedStorage', async (t) => {
  const queue = open({ tables: new MemoryTables(), disk: new FaultyDisk() }, 1 << 20);
  t.after(run(queue));
  return {
    queue,
    endTurn: nextTurn,
    catchUp: () => queue.settled(),
    stored: async () =>
      new Map(
        (await queue.range('queue', new Uint8Array(0))).map(([key, value]) => [Buffer.from(key).toString(), value]),
      ),
  };
});
