/** Callbacks that wait for units to be durable, in the order they came. */
import { at, numberAt } from '../../kernel/index.ts';

export class Waiters {
  #units: number[] = [];
  #callbacks: (() => void)[] = [];
  #first = 0;

  add(unit: number, callback: () => void): void {
    this.#units.push(unit);
    this.#callbacks.push(callback);
  }

  get length(): number {
    return this.#units.length - this.#first;
  }

  /**
   * Calls the waiters whose units are durable. A waiter that waits for an older unit than the one before it waits for
   * that, too.
   */
  release(durable: number): void {
    while (
      this.#first < this.#units.length &&
      numberAt(this.#units, this.#first, 'unit that is waited for') <= durable
    ) {
      const callback = at(this.#callbacks, this.#first++, 'waiter');
      callback();
    }
    if (this.#first === this.#units.length) {
      this.#units = [];
      this.#callbacks = [];
      this.#first = 0;
    } else if (this.#first > 1024) {
      this.#units = this.#units.slice(this.#first);
      this.#callbacks = this.#callbacks.slice(this.#first);
      this.#first = 0;
    }
  }
}
