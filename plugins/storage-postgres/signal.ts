/** A bell for one waiter: a ring before the waiter waits is heard, too. */
export class Signal {
  #hasRung = false;
  #waiting: (() => void) | undefined;

  ring(): void {
    const waiting = this.#waiting;
    this.#waiting = undefined;
    if (waiting === undefined) this.#hasRung = true;
    else waiting();
  }

  heard(): Promise<void> {
    if (!this.#hasRung) return new Promise((resolve) => (this.#waiting = resolve));
    this.#hasRung = false;
    return Promise.resolve();
  }
}
