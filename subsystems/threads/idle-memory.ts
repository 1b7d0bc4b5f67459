/**
 * Memory that a thread has no use for when nothing comes any more. V8 keeps the room of its young generation, and pages that garbage was
 * in, until it finds time in the thread's event loop: a thread that blocks never gives it any. It is 3 to 5 MB of each.
 *
 * Not for the main thread: its young generation does not grow again under load, where most dies young, and with a megabyte it took a
 * quarter more processor time for each durable update.
 */
import { getHeapStatistics } from 'node:v8';
import { threadId } from 'node:worker_threads';
import { collectGarbage } from './collect-garbage.ts';

/** Garbage counts as well. A heap that is larger is left as it is: what can be saved is a small part of it, and it would take longer. */
const HEAP_BYTES_MAX = 48 * 2 ** 20;
/** It takes 20 to 30 ms with the 6 MB of a thread that has little to do. One that was held up for longer does it no more. */
const HELD_UP_MS_MAX = 50;
/** Threads that fall idle together do it one after the other: at the same time each takes twice as long. */
const STAGGER_MS = 500;
const STAGGERED = 8;

/** For so long nothing has come to a thread that gives its memory back. */
export const IDLE_MS = 4_000 + STAGGER_MS * (threadId % STAGGERED);

let isTooSlow = false;

/** Gives it back: the thread stops for that. */
export function giveBackIdleMemory(): void {
  if (isTooSlow || getHeapStatistics().used_heap_size > HEAP_BYTES_MAX) return;
  const beganMs = performance.now();
  collectGarbage('all-there-is');
  isTooSlow = performance.now() - beganMs > HELD_UP_MS_MAX;
}
