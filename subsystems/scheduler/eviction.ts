/**
 * Decides which canisters are awake: who is put to sleep, who is loaded, and when.
 *
 * Where state is kept, an executor need not have every canister: what waits for a sleeping one wakes it. With a cap on how
 * many are awake, or on their bytes, one that is to wake takes the place of the one that has been idle for longest. When
 * all are busy it waits, and so that it does not wait for ever, the one that has been awake for longest starts nothing more
 * after a while, sleeps, and stands in line again.
 *
 * Where executors share a bounded memory (relief.ts), idle canisters also give way to whoever needs that.
 *
 * Calls of a composite query do not wait for a place: the query that made them keeps its own until they have ended. Nor does
 * whoever pins a canister or changes its code, for that may be done for a canister that is pinned itself.
 *
 * Main thread. The states that this brings about are in canister-state.ts; canisters/stored-canister-loader.ts does what is decided.
 */
import { assert, type Clock, ServerError, sleep } from '../../kernel/index.ts';
import { type ScheduledCanister, isUrgent } from './scheduled-canister.ts';
import type { CanisterLoader } from './index.ts';
import { LruList, lruNodeOf } from './lru-list.ts';
import { Queue } from './queue.ts';
import { Relief } from './relief.ts';
import type { Execution, MemoryFigures } from '../execution/index.ts';

export interface EvictionOptions {
  /** How many canisters are awake at most; 0 is no limit. */
  readonly liveCap?: number;
  /** How many bytes of heap and stable memory the awake ones have at most; 0 is no limit. */
  readonly liveBytes?: number;
}

export interface EvictionEvents {
  /** It is awake: what waits may start. */
  readonly awake: (canister: ScheduledCanister) => void;
  /** It could not be woken. */
  readonly failed: (canister: ScheduledCanister, error: Error) => void;
}

/** Wakes at the same time: each reads a whole canister. */
const WAKES_MAX = 64;
/** How long one waits for a place before a busy canister gives way. */
const PATIENCE_MS = 100;
/**
 * Its executor may die while a canister wakes, which is no reason to refuse what waits: the next one wakes it. Unless it is
 * the waking that they die of.
 */
const LOST_WAKES_MAX = 3;
/** After a failure, what must not be refused is tried again; heartbeats and timers wait as long. */
const RETRY_MS = 5_000;
/** For so long one is tried again that there is no memory for: others become idle meanwhile. */
const MEMORY_TRIES = 100;
const MEMORY_RETRY_MS = 100;
/** Smaller heaps count less than their size. */
const LARGE_HEAP_BYTES = 16 * 2 ** 20;

export class Eviction {
  /** How often one was put to sleep, and woken. */
  evictions = 0;
  wakeUps = 0;
  readonly isBounded: boolean;
  readonly #cap: number;
  readonly #bytesMax: number;
  readonly #clock: Clock;
  readonly #events: EvictionEvents;
  /** In the order they were woken. */
  readonly #awake = new Set<ScheduledCanister>();
  readonly #idle = new LruList<ScheduledCanister>();
  readonly #wanted = new Queue<ScheduledCanister>();
  /** Those that take much of what all have together: they wait until there is so much, and nobody waits behind them. */
  readonly #wantedLarge = new Queue<ScheduledCanister>();
  readonly #isWanted = new Set<ScheduledCanister>();
  #waking = 0;
  /** Of heaps: those that wake have not taken theirs yet, and those that fall asleep have not given it back. */
  #wakingBytes = 0;
  #fallingBytes = 0;
  /** Of those that are awake or waking. */
  #bytes = 0;
  #patience: Disposable | undefined;
  #host: CanisterLoader | undefined;
  readonly #relief: Relief | undefined;
  readonly #memory: MemoryFigures | undefined;

  /** `execution`: given if canisters can sleep; it is told which of them to put to sleep for want of memory. */
  constructor(
    options: EvictionOptions,
    clock: Clock,
    events: EvictionEvents,
    execution?: Pick<Execution, 'memory' | 'trim' | 'attendMemory'>,
  ) {
    this.#cap = options.liveCap ?? 0;
    this.#bytesMax = options.liveBytes ?? 0;
    this.isBounded = this.#cap > 0 || this.#bytesMax > 0 || execution !== undefined;
    this.#clock = clock;
    this.#events = events;
    this.#memory = execution?.memory;
    if (execution !== undefined)
      this.#relief = new Relief(execution, {
        coldest: () => this.#idle.coldest,
        putToSleep: (canister) => this.#putToSleep(canister),
        bytesOf: ({ handle }) => this.#loader.bytesOf(handle),
      });
  }

  get #loader(): CanisterLoader {
    const host = this.#host;
    assert(host !== undefined, 'canisters sleep, and nobody can wake them');
    return host;
  }

  attach(host: CanisterLoader): void {
    this.#host = host;
  }

  get liveCount(): number {
    return this.#awake.size;
  }

  /** A canister that is awake from the beginning. */
  admitted(canister: ScheduledCanister): void {
    this.#awake.add(canister);
    this.#count(canister);
    // Nobody is put to sleep for it now: whoever made it is not done with it.
    this.#idle.touch(canister);
  }

  /** Something is about to be done with it: it is no victim. */
  keep(canister: ScheduledCanister): void {
    this.#idle.remove(canister);
  }

  forget(canister: ScheduledCanister): void {
    this.#idle.remove(canister);
    this.#isWanted.delete(canister);
    if (!this.#awake.delete(canister)) return;
    this.#discount(canister);
    this.#advance();
  }

  /** Its executor has died with it. */
  lost(canister: ScheduledCanister): void {
    // What is being woken goes to another executor, or fails.
    if (canister.state === 'live') this.#fallAsleep(canister);
  }

  /** It has had something to do when it fell asleep. */
  busyStill(canister: ScheduledCanister): void {
    this.busy(canister, canister.work.queries.some(isUrgent));
  }

  /** It has something to do. `mustNotWait`: not even for a place. */
  busy(canister: ScheduledCanister, mustNotWait: boolean): void {
    if (canister.state === 'live') this.#idle.remove(canister);
    if (canister.state !== 'evicted') return;
    if (mustNotWait) {
      this.#isWanted.delete(canister);
      this.#makeRoom(canister);
      this.#wake(canister);
    } else if (!this.#isWanted.has(canister)) {
      this.#isWanted.add(canister);
      (this.#isLarge(canister) ? this.#wantedLarge : this.#wanted).push(canister);
      this.#advance();
    }
  }

  /** Something of it has ended: it may be idle now, and the warmest of those. */
  settled(canister: ScheduledCanister): void {
    if (!this.isBounded || canister.state !== 'live') return;
    this.#recount(canister);
    const work = canister.workIfAny;
    // Somebody counts on it: another has to give way.
    if (work !== undefined && (work.frames > 0 || work.pins > 0)) work.isEvictionRequested = false;
    if (work?.isEvictionRequested === true && work.isQuiet) {
      void this.#putToSleep(canister);
      if (work.waiting > 0) this.busyStill(canister);
      this.#advance();
      return;
    }
    if (!canister.isIdle) return;
    this.#idle.touch(canister);
    this.#advance();
  }

  #recount(canister: ScheduledCanister): void {
    this.#discount(canister);
    this.#count(canister);
  }

  #count(canister: ScheduledCanister): void {
    const node = lruNodeOf(canister);
    node.bytes = this.#bytesMax === 0 ? 0 : this.#loader.bytesOf(canister.handle);
    this.#bytes += node.bytes;
  }

  #discount({ lruNode }: ScheduledCanister): void {
    this.#bytes -= lruNode?.bytes ?? 0;
  }

  /** Wakes those for whom there is a place, and makes sure that not more are awake than may be. */
  #advance(): void {
    const isServed = this.#serve(this.#wanted);
    if (!this.#serve(this.#wantedLarge) || !isServed) {
      this.#bePatient();
      return;
    }
    while (this.#isOver(0, 0)) {
      const victim = this.#idle.coldest;
      if (victim === undefined) return;
      void this.#putToSleep(victim);
    }
  }

  /** Wakes those who stand in a line; false: some have to wait. */
  #serve(line: Queue<ScheduledCanister>): boolean {
    for (let next = line.peek(); next !== undefined; next = line.peek()) {
      if (this.#isWanted.has(next)) {
        if (this.#waking >= WAKES_MAX || !this.#makeRoom(next)) return false;
        this.#isWanted.delete(next);
        line.shift();
        this.#wake(next);
      } else {
        line.shift();
      }
    }
    return true;
  }

  #heapBytesOf({ handle }: ScheduledCanister): number {
    return this.#loader.heapBytesOf?.(handle) ?? 0;
  }

  /** Whether it has to wait for memory; one that can never have it is told so. */
  #isLarge(canister: ScheduledCanister): boolean {
    const bytes = this.#heapBytesOf(canister);
    return this.#memory !== undefined && bytes >= LARGE_HEAP_BYTES && bytes <= this.#memory.bytesMax;
  }

  /** Whether memory is lacking for it, when those are gone that fall asleep, and those are there that wake. */
  #lacksMemory(next: ScheduledCanister): boolean {
    if (this.#memory === undefined || !this.#isLarge(next)) return false;
    const { bytesUsed, bytesMax } = this.#memory;
    return bytesUsed - this.#fallingBytes + this.#wakingBytes + this.#heapBytesOf(next) > bytesMax;
  }

  #makeRoom(next: ScheduledCanister): boolean {
    const bytes = this.#bytesMax === 0 ? 0 : this.#loader.bytesOf(next.handle);
    while (this.#isOver(1, bytes) || this.#lacksMemory(next)) {
      const victim = this.#idle.coldest;
      if (victim === undefined) return false;
      void this.#putToSleep(victim);
    }
    return true;
  }

  /** One alone may be larger than all together should be. */
  #isOver(more: number, bytes: number): boolean {
    const places = this.#awake.size + this.#waking;
    if (places + more <= 1) return false;
    return (this.#cap > 0 && places + more > this.#cap) || (this.#bytesMax > 0 && this.#bytes + bytes > this.#bytesMax);
  }

  /** Resolves when its executor has dropped it. */
  #putToSleep(canister: ScheduledCanister): Promise<void> {
    this.evictions++;
    this.#fallAsleep(canister);
    const fallen = Promise.resolve(this.#loader.sleep(canister.handle));
    canister.shrink();
    const bytes = this.#relief === undefined ? 0 : this.#heapBytesOf(canister);
    if (bytes >= LARGE_HEAP_BYTES) {
      this.#fallingBytes += bytes;
      const freed = fallen.then(() => this.#relief?.trim());
      void freed.then(() => {
        this.#fallingBytes -= bytes;
        this.#advance();
      });
    }
    return fallen;
  }

  #fallAsleep(canister: ScheduledCanister): void {
    this.#idle.remove(canister);
    if (this.#awake.delete(canister)) this.#discount(canister);
    canister.lruNode = undefined;
    canister.enter('evicted');
    const work = canister.workIfAny;
    if (work !== undefined) work.isEvictionRequested = false;
  }

  #wake(canister: ScheduledCanister): void {
    const host = this.#loader;
    this.#waking++;
    this.#count(canister);
    canister.enter('loading');
    canister.work.isStatusNew = false;
    const heapBytes = this.#isLarge(canister) ? this.#heapBytesOf(canister) : 0;
    this.#wakingBytes += heapBytes;
    // Later: the executor that it has died with may still be about to be replaced.
    Promise.resolve()
      .then(() => this.#wakeWithMemory(host, canister))
      .finally(() => (this.#wakingBytes -= heapBytes))
      .then(
        () => this.#woken(canister),
        (error: unknown) => this.#failed(canister, error instanceof Error ? error : new Error(String(error))),
      );
  }

  async #wakeWithMemory(host: CanisterLoader, canister: ScheduledCanister): Promise<void> {
    const canFit = this.#memory !== undefined && this.#heapBytesOf(canister) <= this.#memory.bytesMax;
    for (let triesLeft = canFit ? MEMORY_TRIES : 0; ; triesLeft--) {
      try {
        await host.wake(canister.handle);
        return;
      } catch (error) {
        const isShort = error instanceof ServerError && error.code === 'memory-full';
        if (!isShort || triesLeft === 0 || canister.state === 'deleted') throw error;
      }
      // Of its stable memory nobody knows how much was written.
      const bytes = host.heapBytesOf?.(canister.handle) ?? host.bytesOf(canister.handle);
      const hasSlept = await this.#relief?.makeRoom(bytes);
      if (hasSlept !== true) await sleep(this.#clock, MEMORY_RETRY_MS);
    }
  }

  /** A wake has ended. False: the canister was deleted meanwhile. */
  #ended(canister: ScheduledCanister): boolean {
    this.#waking--;
    this.#discount(canister);
    canister.lruNode = undefined;
    return canister.state === 'loading';
  }

  #woken(canister: ScheduledCanister): void {
    if (this.#ended(canister)) {
      this.wakeUps++;
      canister.work.lostWakes = 0;
      canister.enter('live');
      this.#awake.add(canister);
      this.#count(canister);
      this.#events.awake(canister);
      this.settled(canister);
    }
    this.#advance();
  }

  #failed(canister: ScheduledCanister, error: Error): void {
    const { work } = canister;
    if (this.#ended(canister)) {
      const isMissing = error instanceof ServerError && error.kind === 'missing';
      canister.enter(isMissing ? 'unloadable' : 'evicted');
      const hasDied = error instanceof ServerError && error.code === 'executor-stopped';
      if (hasDied && ++work.lostWakes <= LOST_WAKES_MAX) {
        // Its place is still its own.
        this.#wake(canister);
        return;
      }
      if (!work.isUnwakable) this.#clock.after(RETRY_MS, () => this.#retry(canister));
      work.isUnwakable = true;
      if (isMissing) work.loadProblem = error;
      this.#events.failed(canister, error);
    }
    work.lostWakes = 0;
    this.#advance();
  }

  #retry(canister: ScheduledCanister): void {
    const { work } = canister;
    work.isUnwakable = false;
    if (canister.state === 'evicted' && work.waiting > 0) this.busy(canister, false);
    else if (canister.isAsleep) canister.shrink();
  }

  /** Whoever waits for a place gets one in the end. */
  #bePatient(): void {
    if (this.#patience !== undefined || this.#waking > 0) return;
    this.#patience = this.#clock.after(PATIENCE_MS, () => {
      this.#patience = undefined;
      if (this.#isWanted.size === 0) return;
      for (const canister of this.#awake) {
        const { work } = canister;
        if (work.isEvictionRequested || work.changes > 0 || work.pins > 0 || work.frames > 0) continue;
        work.isEvictionRequested = true;
        this.settled(canister);
        break;
      }
      this.#advance();
      const large = this.#wantedLarge.peek();
      // There may be garbage that nobody has seen to.
      if (large !== undefined) void this.#relief?.makeRoom(this.#heapBytesOf(large)).then(() => this.#advance());
    });
  }
}
