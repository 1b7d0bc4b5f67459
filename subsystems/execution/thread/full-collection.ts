/**
 * Full collections of this thread's garbage, other than those that V8 starts by itself: in the background, or at once.
 *
 * `gc()` stops the thread for as long as marking takes: 40 to 60 ms with 2,500 live actors. V8 itself marks in other threads
 * while this one goes on, and stops it for the rest only, but it starts that when its own limits are reached, which heaps of
 * actors hardly move. So the limit is lowered for an instant (`--incremental-marking-hard-trigger`, the percentage of it from
 * which on marking begins, for all threads, which may begin theirs early then), and V8 is made to look: it does so when
 * the bytes outside of its heap have grown by 64 MiB, which a buffer does that nobody ever writes to. Whether the collection
 * has ended is asked of a profile of collections: finalizers and weak references would need the event loop, which an
 * executor never returns to.
 *
 * Executor thread; for an instant a flag of V8 that all threads read.
 */
import { GCProfiler, setFlagsFromString } from 'node:v8';
import { collectGarbage } from '../../threads/index.ts';

/** Not touched, so the machine provides none of them. */
const UNTOUCHED_BYTES = 128 * 2 ** 20;

export class FullCollection {
  #profile: GCProfiler | undefined;
  /** The one that was begun, and not one before, which does not see what became garbage meanwhile. */
  #isMarking = false;
  #hasNoRoom = false;

  /** Begins one in the background, which goes on while this thread allocates; cost: about a millisecond. */
  begin(): void {
    this.#profile?.stop();
    this.#startProfile();
    this.#isMarking = false;
    setFlagsFromString('--incremental-marking-hard-trigger=1');
    try {
      void new ArrayBuffer(UNTOUCHED_BYTES).byteLength;
    } catch (error) {
      // No room for it: then it is not begun, and not tried again, for V8 has looked for room everywhere.
      if (!(error instanceof RangeError)) throw error;
      this.#hasNoRoom = true;
    }
    setFlagsFromString('--incremental-marking-hard-trigger=0');
  }

  /** Whether the one begun has ended, for the one who asks again and again until then; cost: up to half a millisecond. */
  hasEnded(): boolean {
    // The next profile begins before this one ends: nothing happens unseen in between.
    const profile = this.#profile;
    this.#startProfile();
    for (const { gcType } of profile?.stop()?.statistics ?? []) {
      if (gcType === 'IncrementalMarking') this.#isMarking = true;
      else if (gcType === 'MarkSweepCompact' && this.#isMarking) {
        this.#forget();
        return true;
      }
    }
    // One was under way before.
    if (!this.#isMarking && !this.#hasNoRoom) this.begin();
    return false;
  }

  /** Does one now. */
  atOnce(): void {
    this.#forget();
    collectGarbage('full');
  }

  #forget(): void {
    this.#profile?.stop();
    this.#profile = undefined;
    this.#isMarking = false;
    this.#hasNoRoom = false;
  }

  #startProfile(): void {
    this.#profile = new GCProfiler();
    this.#profile.start();
  }
}
