import type { Clock } from '../../../kernel/index.ts';

/** The main thread is let go so often while many are told; a write to a socket takes 5 to 10 µs. */
const SLICE_MS = 2;
/** And has so long for everybody else before it goes on: telling takes at most about a third of it. */
const PAUSE_MS = 4;
/** Told of one audience before it is the next one's turn. */
const TURN = 64;

/** Who has to be told something that is the same for all. */
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
    this.#pause = undefined;
    const endMs = this.#clock.nowMs() + SLICE_MS;
    // An audience with some left goes to the end of the line, and the walk comes by again.
    for (const audience of this.#line) {
      this.#line.delete(audience);
      if (audience.tellSome(TURN)) this.#line.add(audience);
      if (this.#clock.nowMs() >= endMs) break;
    }
    if (this.#line.size > 0) this.#pause = this.#clock.after(PAUSE_MS, () => this.#tellSlice());
  }
}
