/**
 * Memory that a thread has no use for when nothing comes any more. V8 keeps the room of its young generation, and pages that garbage was
 * in, until it finds time in the thread's event loop: a thread that blocks never gives it any, and an idle main thread little. It is
 * 3 to 7 MB of each thread, more after a compilation.
 */
import { getHeapStatistics } from 'node:v8';
import { threadId } from 'node:worker_threads';
import { beginFullCollection, collectGarbage } from './collect-garbage.ts';

/**
 * Garbage counts as well. A heap that is larger is left as it is: what can be saved is a small part of it, and with 100 MB the main thread was
 * held up for 55 ms, twice.
 */
const HEAP_BYTES_MAX = 48 * 2 ** 20;
/** A thread that blocks stops for it: for 20 to 30 ms with the 6 MB of one that has little to do. One that was held up for longer does it no more. */
const HELD_UP_MS_MAX = 50;
/** Threads that fall idle together do it one after the other: at the same time each takes twice as long. */
const STAGGER_MS = 500;
const STAGGERED = 8;

/** For so long nothing has come to a thread that gives its memory back. */
export const IDLE_MS = 4_000 + STAGGER_MS * (threadId % STAGGERED);

let isTooSlow = false;

/** Gives it back, in a thread that blocks. */
export function giveBackIdleMemory(): void {
  if (isTooSlow || isHeapLarge()) return;
  const beganMs = performance.now();
  collectGarbage('all-there-is');
  isTooSlow = performance.now() - beganMs > HELD_UP_MS_MAX;
}

function isHeapLarge(): boolean {
  return getHeapStatistics().used_heap_size > HEAP_BYTES_MAX;
}

/** Share of the time that an event loop may work and still be idle: looking at the clock sixteen times a second takes 2 % on a virtual machine. */
const BUSY_SHARE = 0.1;

/** The second finds what the first has freed, and moves what is left together. */
const COLLECTIONS = 2;

/** Has a thread with an event loop give memory back, whenever it has become idle. Does not keep the process alive. */
export class IdleWatch implements Disposable {
  readonly #timer: NodeJS.Timeout;
  #utilization = performance.eventLoopUtilization();
  #collectionsLeft = COLLECTIONS;

  constructor() {
    this.#timer = setInterval(() => this.#look(), IDLE_MS).unref();
  }

  #look(): void {
    const { utilization } = performance.eventLoopUtilization(this.#utilization);
    this.#utilization = performance.eventLoopUtilization();
    if (utilization > BUSY_SHARE) {
      this.#collectionsLeft = COLLECTIONS;
    } else if (this.#collectionsLeft > 0) {
      this.#collectionsLeft--;
      if (!isHeapLarge()) beginFullCollection({ keepsNoRoom: true });
    }
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }
}
