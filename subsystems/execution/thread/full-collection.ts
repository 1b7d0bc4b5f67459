/**
 * Full collections of this thread's garbage, besides those that V8 starts by itself: in the background, or at once.
 *
 * `gc()` stops the thread for as long as marking takes: 40 to 60 ms with 2,500 live actors. V8's own collections mark
 * in other threads while this one goes on, and stop it for the rest only. But V8 starts them when its own limits are
 * reached, which heaps of actors hardly move. So the limit is lowered for an instant
 * (`--incremental-marking-hard-trigger`, the percentage of the limit at which marking begins; the flag is for all
 * threads, which may begin theirs early then), and V8 is made to check: it does so when the bytes outside of its heap
 * have grown by 64 MiB, for which a buffer suffices that is never written. A profile of collections tells when the
 * collection has ended: finalizers and weak references would need the event loop, to which an executor never returns.
 *
 * Executor thread; for an instant a flag of V8 that all threads read.
 */
import { GCProfiler, setFlagsFromString } from 'node:v8';
import { collectGarbage } from '../../threads/index.ts';

/** Size of a buffer that is never touched, so the machine provides no page of it. */
const UNTOUCHED_BYTES = 128 * 2 ** 20;

export class FullCollection {
  #profile: GCProfiler | undefined;
  /**
   * True if the collection that was begun is marking, and not an earlier one, which misses garbage made since its
   * start.
   */
  #isMarking = false;
  #hasNoRoom = false;

  /** Begins a collection in the background, which goes on while this thread allocates; cost: about a millisecond. */
  begin(): void {
    this.#profile?.stop();
    this.#startProfile();
    this.#isMarking = false;
    setFlagsFromString('--incremental-marking-hard-trigger=1');
    try {
      void new ArrayBuffer(UNTOUCHED_BYTES).byteLength;
    } catch (error) {
      // Without room for the buffer the collection is not begun, and not tried again, for V8 has looked for room
      // everywhere.
      if (!(error instanceof RangeError)) throw error;
      this.#hasNoRoom = true;
    }
    setFlagsFromString('--incremental-marking-hard-trigger=0');
  }

  /** Returns true if the collection has ended; to be called repeatedly until then. Cost: up to half a millisecond. */
  hasEnded(): boolean {
    // The next profile begins before this one ends, so nothing happens unseen in between.
    const profile = this.#profile;
    this.#startProfile();
    for (const { gcType } of profile?.stop()?.statistics ?? []) {
      if (gcType === 'IncrementalMarking') this.#isMarking = true;
      else if (gcType === 'MarkSweepCompact' && this.#isMarking) {
        this.#forget();
        return true;
      }
    }
    // The collection seen was one that was under way before.
    if (!this.#isMarking && !this.#hasNoRoom) this.begin();
    return false;
  }

  /** Collects at once. */
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
