/** A thread that has had much to do: waits on a ring, or turns its event loop, and tells of its heap before and after. */
import { getHeapSpaceStatistics } from 'node:v8';
import { setTimeout as sleep } from 'node:timers/promises';
import { parentPort, workerData } from 'node:worker_threads';
import { IdleWatch, RingConsumer } from '../../subsystems/threads/index.ts';

export interface IdleThreadData {
  /** It waits on this one; undefined: it has an event loop. */
  readonly ring: SharedArrayBuffer | undefined;
  /** What it keeps for ever, in objects. */
  readonly kept: number;
  readonly idleMs: number;
}

/** Bytes that its young generation and the pages of its old one take. */
export interface IdleThreadHeap {
  readonly young: number;
  readonly old: number;
}

const { ring, kept, idleMs } = workerData as IdleThreadData;

function heap(): IdleThreadHeap {
  const bytesOf = (name: string): number =>
    getHeapSpaceStatistics().find(({ space_name }) => space_name === name)?.physical_space_size ?? 0;
  return { young: bytesOf('new_space'), old: bytesOf('old_space') };
}

/** Grows both generations. Returns what stays of it. */
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

const watch = ring === undefined ? new IdleWatch() : undefined;
const stays = work();
const before = heap();
if (ring === undefined) await sleep(idleMs);
else new RingConsumer(ring).wait();
watch?.[Symbol.dispose]();
parentPort?.postMessage({ before, after: heap(), stays: stays.length });
