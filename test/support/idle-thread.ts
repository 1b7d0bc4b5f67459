/** A thread that works hard, then waits on a ring, and reports its heap before and after. */
import { getHeapSpaceStatistics } from 'node:v8';
import { parentPort, workerData } from 'node:worker_threads';
import { RingConsumer } from '../../subsystems/threads/index.ts';

export interface IdleThreadData {
  readonly ring: SharedArrayBuffer;
  /** Number of objects that the thread keeps for ever. */
  readonly kept: number;
  /** Number of records that it takes before it waits. */
  readonly records: number;
}

/** Bytes that a thread's young generation and the pages of its old one take. */
export interface IdleThreadHeap {
  readonly young: number;
  readonly old: number;
}

const { ring, kept, records } = workerData as IdleThreadData;

function heap(): IdleThreadHeap {
  const bytesOf = (name: string): number =>
    getHeapSpaceStatistics().find(({ space_name }) => space_name === name)?.physical_space_size ?? 0;
  return { young: bytesOf('new_space'), old: bytesOf('old_space') };
}

/** Grows both generations. Returns the objects that stay. */
function work(): unknown[] {
  const stays: unknown[] = [];
  let passing: unknown[] = [];
  for (let n = 0; n < 1_500_000; n++) {
    passing.push({ n });
    if (passing.length === 20_000) passing = [];
    if (stays.length < kept) stays.push([n, n, n, n, n, n, n, n, n, n, n, n]);
  }
  return stays;
}

const consumer = new RingConsumer(ring);
for (let taken = 0; taken < records; taken += consumer.drain(() => undefined)) consumer.wait();
const stays = work();
const before = heap();
consumer.wait();
parentPort?.postMessage({ before, after: heap(), stays: stays.length });
