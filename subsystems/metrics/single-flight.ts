/**
 * Work that many callers may request at once and that runs once at a time. Requests during a run share the result of
 * the next run: no result is older than its request, and a caller waits for at most two runs.
 */
export class SingleFlight<T> {
  readonly #work: () => Promise<T>;
  #running: Promise<T> | undefined;
  #next: Promise<T> | undefined;

  constructor(work: () => Promise<T>) {
    this.#work = work;
  }

  ask(): Promise<T> {
    if (this.#next !== undefined) return this.#next;
    if (this.#running === undefined) return this.#run();
    this.#next = this.#running.then(this.#runNext, this.#runNext);
    return this.#next;
  }

  readonly #runNext = (): Promise<T> => {
    this.#next = undefined;
    return this.#run();
  };

  #run(): Promise<T> {
    const ended = (): void => {
      this.#running = undefined;
    };
    this.#running = this.#work();
    // Registered before any caller of the meantime, so that the next run does not find this one.
    this.#running.then(ended, ended);
    return this.#running;
  }
}
