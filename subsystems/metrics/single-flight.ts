/**
 * Work that many may ask for at once and that is done once at a time. Who asks while it is under way gets what the next
 * run brings, together with all others who asked meanwhile: so nobody gets anything older than the question, and there are
 * two runs at most to wait for.
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
    // Before whoever asked meanwhile, so that the next run does not find this one.
    this.#running.then(ended, ended);
    return this.#running;
  }
}
