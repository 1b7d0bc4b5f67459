import type { Clock } from '../../kernel/index.ts';

/** The main thread is let go so often while many are told; a write to a socket takes 5 to 10 µs. */
const SLICE_MS = 2;
/** Milliseconds that everybody else has at least before telling goes on. */
const PAUSE_MS_MIN = 4;
/**
 * The pause lasts so many times as long as the slice took together with Node's work behind its writes, which takes as
 * long again: telling takes a third of the main thread at most, and all are told within three times what that takes
 * (10,000 clients: half a second).
 */
const PAUSE_FACTOR = 2;
/** Whatever else happened while the slice was measured. */
const PAUSE_MS_MAX = 50;
/** Viewers of one audience that are told before it is the next one's turn. */
const TURN = 64;

/** Viewers that have to be told something that is the same for all of them. */
export interface Audience {
  /** Tells at most so many of those that are behind; false: nobody is behind any more. */
  tellSome(count: number): boolean;
}

/**
 * Tells many clients what has changed without holding up the others. A few hundred are told at once. More are told in
 * slices; who is reached late gets what is true by then, and never what was true before it.
 */
export class Broadcast {
  readonly #clock: Clock;
  readonly #line = new Set<Audience>();
  #pause: Disposable | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  tell(audience: Audience): void {
    this.#line.add(audience);
    if (this.#pause === undefined) this.#tellSlice();
  }

  #tellSlice(): void {
    const startedMs = this.#clock.nowMs();
    // An audience with some left goes to the end of the line, and the walk comes by again.
    for (const audience of this.#line) {
      this.#line.delete(audience);
      if (audience.tellSome(TURN)) this.#line.add(audience);
      if (this.#clock.nowMs() >= startedMs + SLICE_MS) break;
    }
    if (this.#line.size === 0) return;
    // Until then nobody begins another slice.
    this.#pause = NOT_YET;
    // Behind what the writes have left to be done in this turn.
    process.nextTick(() => {
      const tookMs = this.#clock.nowMs() - startedMs;
      const pauseMs = Math.min(Math.max(tookMs * PAUSE_FACTOR, PAUSE_MS_MIN), PAUSE_MS_MAX);
      this.#pause = this.#clock.after(pauseMs, () => {
        this.#pause = undefined;
        this.#tellSlice();
      });
    });
  }
}

const NOT_YET: Disposable = { [Symbol.dispose]: () => undefined };
