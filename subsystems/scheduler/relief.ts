/**
 * Puts idle canisters to sleep when executors need the memory that they have.
 *
 * Executors say so when they have taken most of what there is (`Execution.attendMemory`), and again, waiting for a
 * while, before one refuses a message more memory. What a sleeping canister had is garbage in its executor at first: it
 * counts as free when that has been collected.
 *
 * Main thread; asks for sleep and for collections, and touches no canister itself.
 */
import { type Clock, sleep } from '../../kernel/index.ts';
import type { Execution } from '../execution/index.ts';
import type { ScheduledCanister } from './scheduled-canister.ts';

/** The part of the canisters that relief uses. */
interface Sleepers {
  /** The one that has been idle for longest. */
  readonly coldest: () => ScheduledCanister | undefined;
  /** Resolves when its executor has dropped it. */
  readonly putToSleep: (canister: ScheduledCanister) => Promise<void>;
  /** Bytes that it has at most. */
  readonly bytesOf: (canister: ScheduledCanister) => number;
}

/** Small canisters count less than their size: so it is looked again whether it was enough. */
const ROUNDS_MAX = 16;
/**
 * Time until an executor is told that nobody can give way: other messages end meanwhile and give memory back. A message
 * is told so four times before it is refused.
 */
const IN_VAIN_MS = 50;

/** Tells if any canister was put to sleep, and if there was room for all that was wanted. */
interface Relieved {
  readonly hasSlept: boolean;
  readonly isEnough: boolean;
}

export class Relief {
  readonly #execution: Pick<Execution, 'memory' | 'trim'>;
  readonly #sleepers: Sleepers;
  #last: Promise<unknown> = Promise.resolve();

  constructor(
    clock: Pick<Clock, 'after'>,
    execution: Pick<Execution, 'memory' | 'trim' | 'attendMemory'>,
    sleepers: Sleepers,
  ) {
    this.#execution = execution;
    this.#sleepers = sleepers;
    execution.attendMemory(async (bytesWanted) => {
      const { hasSlept, isEnough } = await this.#relieve(bytesWanted);
      if (isEnough) return true;
      if (!hasSlept) await sleep(clock, IN_VAIN_MS);
      return this.#missing(bytesWanted) <= 0;
    });
  }

  /** Makes room for so many bytes, if idle canisters have them; whether any was put to sleep. One after the other. */
  async makeRoom(bytesWanted: number): Promise<boolean> {
    return (await this.#relieve(bytesWanted)).hasSlept;
  }

  #relieve(bytesWanted: number): Promise<Relieved> {
    const made = this.#last.then(() => this.#makeRoom(bytesWanted));
    this.#last = made.catch(() => undefined);
    return made;
  }

  async #makeRoom(bytesWanted: number): Promise<Relieved> {
    const { coldest, putToSleep, bytesOf } = this.#sleepers;
    let hasSlept = false;
    for (let round = 0; round < ROUNDS_MAX; round++) {
      let missing = this.#missing(bytesWanted);
      if (missing <= 0) return { hasSlept, isEnough: true };
      const falling: Promise<void>[] = [];
      for (let victim = coldest(); victim !== undefined && missing > 0; victim = coldest()) {
        missing -= bytesOf(victim);
        falling.push(putToSleep(victim));
      }
      if (falling.length === 0 && round > 0) break;
      await Promise.all(falling);
      await this.trim();
      hasSlept ||= falling.length > 0;
    }
    return { hasSlept, isEnough: false };
  }

  /** Has executors collect what those had that sleep. */
  trim(): Promise<void> {
    return this.#execution.trim();
  }

  #missing(bytesWanted: number): number {
    const { bytesUsed, bytesHigh, bytesMax } = this.#execution.memory;
    return Math.max(bytesUsed - bytesHigh, bytesUsed + bytesWanted - bytesMax);
  }
}
