/**
 * Full collections of this thread's garbage, other than those that V8 starts by itself: in the background, or at once.
 *
 * `gc()` stops the thread for as long as marking takes: 40 to 60 ms with 2,500 live actors. V8 itself marks in other threads
 * while this one goes on, and stops it for the rest only, but its own limits are hardly moved by heaps of actors, so it is made to
 * (`beginFullCollection`). Whether the collection has ended is asked of a profile of collections: finalizers and weak references would
 * need the event loop, which an executor never returns to.
 *
 * Executor thread; for an instant a flag of V8 that all threads read.
 */
import { GCProfiler } from 'node:v8';
import { beginFullCollection, collectGarbage } from '../../threads/index.ts';

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
    // Without room for it it is not begun, and not tried again.
    if (!beginFullCollection()) this.#hasNoRoom = true;
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
