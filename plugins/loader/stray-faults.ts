/** Takes what plugins throw beside their loading, so that the server names the plugin before it ends. */
import type { PluginRequest } from './loaded-plugin.ts';
import { nameNow } from './whose-fault.ts';

/** Error that a timer threw, or with which a promise was rejected that nobody awaits. */
export interface StrayFault {
  /** Anything that can be thrown. */
  readonly error: unknown;
  /** Plugin that began the failed work; undefined if nothing says whose it was. */
  readonly begun: PluginRequest | undefined;
}

/**
 * Hears stray faults from its making until `close`. Between two modules nobody hears them: they are kept for the next
 * module, or for `left`.
 */
export class StrayFaults {
  readonly #kept: StrayFault[] = [];
  #hear: ((fault: StrayFault) => void) | undefined;
  readonly #caught = (error: unknown): void => {
    const fault = { error, begun: nameNow() };
    if (this.#hear === undefined) this.#kept.push(fault);
    else this.#hear(fault);
  };

  constructor() {
    process.on('uncaughtException', this.#caught);
  }

  /** Hands on what is kept, and each fault from now on; without a listener, faults are kept. */
  hear(listener: ((fault: StrayFault) => void) | undefined): void {
    this.#hear = listener;
    if (listener !== undefined) for (const fault of this.#kept.splice(0)) listener(fault);
  }

  /** Returns the faults that nobody has heard. */
  left(): readonly StrayFault[] {
    return this.#kept;
  }

  close(): void {
    process.off('uncaughtException', this.#caught);
  }
}
