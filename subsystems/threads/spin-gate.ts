/**
 * Decides whether a thread looks for the next record for a moment before it sleeps.
 *
 * To be woken takes 15 to 35 µs where a core has to be woken as well, so a moment's looking pays when something mostly
 * comes within it. When it does not, the moment is lost: then the tries are further and further apart, up to
 * TRIES_APART_MAX. A thread to which something comes now and then loses a moment each 64 times, and an idle one
 * nothing.
 */
import { availableParallelism } from 'node:os';

const TRIES_APART_MAX = 64;
/** On one core, what a thread waits for cannot happen while it looks. */
const HAS_CORES = availableParallelism() > 1;

export class SpinGate {
  readonly #isOpen: boolean;
  #skipsLeft = 0;
  /** Number of times that looking is left out after the next failure. */
  #skips = 1;

  constructor(isOpen: boolean = HAS_CORES) {
    this.#isOpen = isOpen;
  }

  /** Looks by means of `spin`, if that has mostly been worth it; whether something was found. */
  try(spin: () => boolean): boolean {
    if (!this.opens()) return false;
    const isFound = spin();
    this.tell(isFound);
    return isFound;
  }

  /** Returns true if looking is worth it now. A caller that looks reports the outcome. */
  opens(): boolean {
    if (!this.#isOpen) return false;
    if (this.#skipsLeft === 0) return true;
    this.#skipsLeft--;
    return false;
  }

  /** Takes the outcome of a look. */
  tell(isFound: boolean): void {
    if (isFound) this.#skips = Math.max(1, this.#skips >> 1);
    else {
      this.#skipsLeft = this.#skips;
      this.#skips = Math.min(TRIES_APART_MAX, this.#skips * 2);
    }
  }
}
