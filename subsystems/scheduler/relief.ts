/**
 * Puts idle canisters to sleep when executors need the memory that they have.
 *
 * Executors say so when they have taken most of what there is (`Execution.attendMemory`), and again, waiting for a
 * while, before one refuses a message more memory. What a sleeping canister had is garbage in its executor at first: it
 * counts as free when that has been collected.
 *
 * Storing a large canister takes seconds. Requests of little memory do not wait for that where small canisters can give
 * way instead.
 *
 * Main thread; asks for sleep and for collections, and touches no canister itself.
 */
import { type Clock, sleep, within } from '../../kernel/index.ts';
import type { Execution } from '../execution/index.ts';
import { LARGE_HEAP_BYTES } from '../ic/index.ts';
import type { ScheduledCanister } from './scheduled-canister.ts';

/** The part of the canisters that relief uses. */
interface Sleepers {
  /** Returns the one that has been idle for longest, of those for which `mayGo` is true. */
  readonly coldest: (mayGo: (canister: ScheduledCanister) => boolean) => ScheduledCanister | undefined;
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
/** Time that a request of less than LARGE_HEAP_BYTES waits for a large canister before small ones give way, too. */
const SOON_MS = 250;

/** Tells if any canister was put to sleep, and if there was room for all that was wanted. */
interface Relieved {
  readonly hasSlept: boolean;
  readonly isEnough: boolean;
}

export class Relief {
  readonly #execution: Pick<Execution, 'memory' | 'trim'>;
  readonly #sleepers: Sleepers;
  readonly #clock: Pick<Clock, 'after'>;
  #lastLittle: Promise<unknown> = Promise.resolve();
  #lastLarge: Promise<unknown> = Promise.resolve();

  constructor(
    clock: Pick<Clock, 'after'>,
    execution: Pick<Execution, 'memory' | 'trim' | 'attendMemory'>,
    sleepers: Sleepers,
  ) {
    this.#clock = clock;
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

  /** Serves requests in two lines: those of little memory do not wait for those of much. */
  #relieve(bytesWanted: number): Promise<Relieved> {
    const isLittle = bytesWanted > 0 && bytesWanted < LARGE_HEAP_BYTES;
    const before = isLittle ? this.#lastLittle : this.#lastLarge;
    const made = before.then(() => (isLittle ? this.#makeLittleRoom(bytesWanted) : this.#makeRoom(bytesWanted)));
    const last = made.catch(() => undefined);
    if (isLittle) this.#lastLittle = last;
    else this.#lastLarge = last;
    return made;
  }

  async #makeRoom(bytesWanted: number): Promise<Relieved> {
    let hasSlept = false;
    for (let round = 0; round < ROUNDS_MAX; round++) {
      const missing = this.#missing(bytesWanted);
      if (missing <= 0) return { hasSlept, isEnough: true };
      const falling = this.#putToSleep(missing, () => true);
      if (falling.length === 0 && round > 0) break;
      await Promise.all(falling);
      await this.trim();
      hasSlept ||= falling.length > 0;
    }
    return { hasSlept, isEnough: false };
  }

  async #makeLittleRoom(bytesWanted: number): Promise<Relieved> {
    let hasSlept = false;
    // Canisters that fall asleep and take long.
    const slow: Promise<unknown>[] = [];
    const wait = async (falling: Promise<unknown>): Promise<void> => {
      if (!(await within(this.#clock, SOON_MS, falling))) slow.push(falling);
    };
    const isLittle = (canister: ScheduledCanister): boolean => this.#sleepers.bytesOf(canister) < LARGE_HEAP_BYTES;
    if (this.#missing(bytesWanted) > 0) await wait(this.#lastLarge);
    for (let round = 0; round < ROUNDS_MAX; round++) {
      const isSlow = slow.length > 0;
      const missing = isSlow ? this.#lacking(bytesWanted) : this.#missing(bytesWanted);
      if (missing <= 0) return { hasSlept, isEnough: true };
      const falling = this.#putToSleep(missing, isSlow ? isLittle : () => true);
      if (falling.length > 0) await wait(Promise.all(falling));
      else if (isSlow) await Promise.all(slow.splice(0));
      else if (round > 0) break;
      await this.trim();
      hasSlept ||= falling.length > 0;
    }
    return { hasSlept, isEnough: false };
  }

  /** Has the coldest that may go fall asleep, until they have so many bytes together. */
  #putToSleep(missing: number, mayGo: (canister: ScheduledCanister) => boolean): readonly Promise<void>[] {
    const { coldest, putToSleep, bytesOf } = this.#sleepers;
    const falling: Promise<void>[] = [];
    let left = missing;
    for (let victim = coldest(mayGo); victim !== undefined && left > 0; victim = coldest(mayGo)) {
      left -= bytesOf(victim);
      falling.push(putToSleep(victim));
    }
    return falling;
  }

  /** Has executors collect what those had that sleep. */
  trim(): Promise<void> {
    return this.#execution.trim();
  }

  /** Returns the bytes that have to become free, so that there is some room left as well. */
  #missing(bytesWanted: number): number {
    const { bytesUsed, bytesHigh } = this.#execution.memory;
    return Math.max(bytesUsed - bytesHigh, this.#lacking(bytesWanted));
  }

  #lacking(bytesWanted: number): number {
    const { bytesUsed, bytesMax } = this.#execution.memory;
    return bytesUsed + bytesWanted - bytesMax;
  }
}
