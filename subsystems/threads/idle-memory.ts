/**
 * Memory that a thread has taken to start, and has no use for when little comes. V8 keeps the room of its young
 * generation, and pages that garbage was in, until it finds time in the thread's event loop, and a thread that blocks
 * never gives it any. This is 3 to 5 MB of each thread.
 *
 * Memory is not given back after work, and not in the main thread: a young generation does not grow again where most
 * objects die young, and with a megabyte of it each durable update took an eighth more processor time, or a third with
 * the main thread's.
 */
import { getHeapStatistics } from 'node:v8';
import { threadId } from 'node:worker_threads';
import { collectGarbage } from './collect-garbage.ts';

/**
 * Bytes of a heap, garbage included, above which the heap is left as it is: only a small part of it can be saved, and
 * that would take longer.
 */
const HEAP_BYTES_MAX = 48 * 2 ** 20;
/** Threads that fall idle together do it one after the other: at the same time each takes twice as long. */
const STAGGER_MS = 500;
const STAGGERED = 8;

/** Milliseconds without anything to do after which a thread gives its memory back. */
export const IDLE_MS = 4_000 + STAGGER_MS * (threadId % STAGGERED);

/** Gives it back: the thread stops for that, 20 to 30 ms with the 6 MB of one that has had little to do. */
export function giveBackIdleMemory(): void {
  if (getHeapStatistics().used_heap_size <= HEAP_BYTES_MAX) collectGarbage('all-there-is');
}
