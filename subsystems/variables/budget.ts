/** Bounds of one answer: its size, the time and the places that reading it may take. Worker thread. */
import { ServerError } from '../../kernel/index.ts';

/** Places between two looks at the clock. */
const PLACES_PER_LOOK = 1024;

export class Budget {
  /** Size from which on nothing is begun any more, in characters. */
  readonly #charactersMax: number;
  readonly #endMs: number;
  readonly #nowMs: () => number;
  #places = 0;
  #characters = 0;
  #isLate = false;

  constructor(charactersMax: number, msMax: number, nowMs: () => number = () => performance.now()) {
    this.#charactersMax = charactersMax;
    this.#nowMs = nowMs;
    this.#endMs = nowMs() + msMax;
  }

  /** True if the answer is to end where it is. */
  get isSpent(): boolean {
    return this.#isLate || this.#characters > this.#charactersMax;
  }

  get charactersLeft(): number {
    return Math.max(0, this.#charactersMax - this.#characters);
  }

  wrote(characters: number): void {
    this.#characters += characters;
  }

  /** Counts one place that is looked at. */
  readonly look = (): void => {
    if (++this.#places % PLACES_PER_LOOK === 0 && this.#nowMs() > this.#endMs) this.#isLate = true;
  };

  /** Counts a place on the way to what is shown: there is no answer without it. Throws ServerError `variables-slow`. */
  readonly pass = (): void => {
    this.look();
    if (this.#isLate)
      throw new ServerError(
        'invalid',
        'variables-slow',
        'finding this place takes too long: ask for one nearer to the beginning',
      );
  };
}
