/**
 * Bounds what waking for heartbeats and timers takes of the time: one such wake that takes another canister's place at
 * a time, and after it a pause of so many times as long, if anybody has used an actor meanwhile. Where nobody does,
 * there is nobody to be held up.
 *
 * Main thread; reads the clock.
 */
import type { Clock } from '../../kernel/index.ts';

/** So the wakes take an eighth of the time at most. */
const PAUSE_FACTOR = 7;
/** Heartbeats and timers of actors that take long to wake come at least so often. */
const PAUSE_MS_MAX = 60_000;

export class TickGate {
  readonly #clock: Clock;
  readonly #opened: () => void;
  /** Counts what is done for those who wait. */
  readonly #uses: () => number;
  #usesBefore = 0;
  #startedMs = 0;
  #isOpen = true;
  #openedMs = 0;

  /** `opened` is called when it opens after a pause. */
  constructor(clock: Clock, uses: () => number, opened: () => void) {
    this.#clock = clock;
    this.#uses = uses;
    this.#opened = opened;
  }

  get isOpen(): boolean {
    return this.#isOpen;
  }

  /** For how long it has been open to whoever waits since then. */
  openMs(sinceMs: number): number {
    return this.#isOpen ? this.#clock.nowMs() - Math.max(sinceMs, this.#openedMs) : 0;
  }

  /** A canister is about to be woken. */
  close(): void {
    this.#isOpen = false;
    this.started();
  }

  /** Notes that the canister's waking, which had to wait, begins now. */
  started(): void {
    this.#startedMs = this.#clock.nowMs();
  }

  /** The canister is awake, or will not be. */
  ended(): void {
    const uses = this.#uses();
    const isPressed = uses !== this.#usesBefore;
    this.#usesBefore = uses;
    const pauseMs = Math.min(PAUSE_MS_MAX, PAUSE_FACTOR * (this.#clock.nowMs() - this.#startedMs));
    if (isPressed && pauseMs > 0) this.#clock.after(pauseMs, () => this.#open());
    else this.#open();
  }

  #open(): void {
    this.#isOpen = true;
    this.#openedMs = this.#clock.nowMs();
    this.#opened();
  }
}
