/**
 * Work of some milliseconds that comes in floods, one piece after the other, with a pause behind each that is as long
 * as the piece took. So others have half of the thread, and turns that are short: a request takes several turns of the
 * event loop, and more where many connections are new, so one turn behind each piece would not do. Main thread.
 */
import { setTimeout as sleep } from 'node:timers/promises';

export class TurnLine {
  readonly #nowMs: () => number;
  readonly #pause: (ms: number) => Promise<void>;
  #last: Promise<unknown> = Promise.resolve();

  /** A test has a clock of its own. */
  constructor(nowMs = (): number => performance.now(), pause: (ms: number) => Promise<void> = sleep) {
    this.#nowMs = nowMs;
    this.#pause = pause;
  }

  /** Does the work behind what came before. Resolves when it is done; rejects with its error. */
  run(work: () => void): Promise<void> {
    const done = Promise.withResolvers<void>();
    this.#last = this.#last.then(() => {
      const beganMs = this.#nowMs();
      try {
        work();
        done.resolve();
      } catch (error) {
        done.reject(error);
      }
      return this.#pause(Math.ceil(this.#nowMs() - beganMs));
    });
    return done.promise;
  }
}
