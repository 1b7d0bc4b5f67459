/**
 * A ring's consumer that cannot block, because its thread has an event loop. It is woken by an asynchronous wait, or,
 * while something is expected, looks for records in each turn of the event loop, so that the producer need not wake it
 * (ADR 10).
 *
 * Main thread.
 */
import { ASLEEP, RingConsumer } from './message-ring.ts';
import { SpinGate } from './spin-gate.ts';

/**
 * Long enough for a thread that has to be woken and for a short message; with less, both sides miss each other for
 * ever.
 */
const LOOK_OUT_MS = 0.04;

export class RingListener extends RingConsumer {
  #isClosed = false;
  #wake: (() => boolean) | undefined;
  readonly #gate = new SpinGate();
  /** A wait for ASLEEP has not ended: `publish` ends it, if it finds ASLEEP set. */
  #isWaiting = false;
  /** True if the listener looks for records in each turn of the event loop, and ASLEEP is not set. */
  #isLooking = false;
  #lookUntilMs = 0;

  /**
   * Calls `wake` whenever something is published, without blocking. `wake` must drain, and returns whether more is to
   * come soon. Does not keep the process alive. Between two wakes the event loop gets its turn, also when something
   * comes all the time.
   */
  listen(wake: () => boolean): void {
    this.#wake = wake;
    this.#sleep();
  }

  /**
   * Says that something is to come soon: a listener that sleeps looks for it, once in each turn of the event loop, for
   * LOOK_OUT_MS since it has found something. Meanwhile the producer need not wake it, which costs both threads more.
   */
  expect(): void {
    if (this.#wake === undefined || this.#isClosed) return;
    if (!this.#isLooking) {
      if (!this.#gate.opens()) return;
      Atomics.store(this.words, ASLEEP, 0);
      this.#isLooking = true;
      setImmediate(this.#look);
    }
    this.#lookUntilMs = performance.now() + LOOK_OUT_MS;
  }

  readonly #look = (): void => {
    if (this.#isClosed) return;
    if (this.hasMore) {
      this.#gate.tell(true);
      this.#isLooking = this.#isMoreExpected();
    } else if (performance.now() >= this.#lookUntilMs) {
      this.#gate.tell(false);
      this.#isLooking = false;
    }
    if (this.#isLooking) setImmediate(this.#look);
    else this.#sleep();
  };

  /** Wakes the listener and returns true if it expects more; then the thread looks for longer. */
  #isMoreExpected(): boolean {
    const isMoreExpected = this.#wake?.() === true;
    if (isMoreExpected) this.#lookUntilMs = performance.now() + LOOK_OUT_MS;
    return isMoreExpected;
  }

  /**
   * Waits for the next record. Records that were published before are reported as well, in a later turn of the event
   * loop.
   */
  #sleep(): void {
    if (this.#isClosed) return;
    Atomics.store(this.words, ASLEEP, 1);
    if (this.#isWaiting) {
      // The wait began before this look, and has not been woken.
      if (this.hasMore && Atomics.exchange(this.words, ASLEEP, 0) === 1) Atomics.notify(this.words, ASLEEP, 1);
      return;
    }
    const waiting = this.hasMore ? undefined : Atomics.waitAsync(this.words, ASLEEP, 1);
    this.#isWaiting = waiting?.async === true;
    if (waiting?.async) void waiting.value.then(this.#woken);
    else {
      Atomics.store(this.words, ASLEEP, 0);
      setImmediate(this.#woken);
    }
  }

  readonly #woken = (): void => {
    this.#isWaiting = false;
    if (this.#isClosed) return;
    const isMoreExpected = this.#isMoreExpected();
    // A listener that looks goes to sleep when the look is over.
    if (this.#isLooking) return;
    if (isMoreExpected) this.expect();
    if (!this.#isLooking) this.#sleep();
  };

  /** Ends `listen`: the pending wait is let go. */
  close(): void {
    this.#isClosed = true;
    Atomics.notify(this.words, ASLEEP);
  }
}
