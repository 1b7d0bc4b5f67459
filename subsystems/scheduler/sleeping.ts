/**
 * Which canisters are awake.
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
 * Main thread; decides, while canisters/sleep-and-wake.ts does.
 */
import { assert, type Clock, ServerError, sleep } from '../../kernel/index.ts';
import { type Agenda, isUrgent } from './agenda.ts';
import type { CanisterHost } from './index.ts';
import { LiveSet, seatOf } from './live-set.ts';
import { Queue } from './queue.ts';
import { Relief } from './relief.ts';
import type { Execution, MemoryFigures } from '../execution/index.ts';

export interface SleepingOptions {
  /** How many canisters are awake at most; 0 is no limit. */
  readonly liveCap?: number;
  /** How many bytes of heap and stable memory the awake ones have at most; 0 is no limit. */
  readonly liveBytes?: number;
}

export interface SleepingEvents {
  /** It is awake: what waits may start. */
  readonly awake: (agenda: Agenda) => void;
  /** It could not be woken. */
  readonly failed: (agenda: Agenda, error: Error) => void;
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

export class Sleeping {
  /** How often one was put to sleep, and woken. */
  evictions = 0;
  wakeUps = 0;
  readonly isBounded: boolean;
  readonly #cap: number;
  readonly #bytesMax: number;
  readonly #clock: Clock;
  readonly #events: SleepingEvents;
  /** In the order they were woken. */
  readonly #awake = new Set<Agenda>();
  readonly #idle = new LiveSet();
  readonly #wanted = new Queue<Agenda>();
  /** Those that take much of what all have together: they wait until there is so much, and nobody waits behind them. */
  readonly #wantedLarge = new Queue<Agenda>();
  readonly #isWanted = new Set<Agenda>();
  #waking = 0;
  /** Of heaps: those that wake have not taken theirs yet, and those that fall asleep have not given it back. */
  #wakingBytes = 0;
  #fallingBytes = 0;
  /** Of those that are awake or waking. */
  #bytes = 0;
  #patience: Disposable | undefined;
  #host: CanisterHost | undefined;
  readonly #relief: Relief | undefined;
  readonly #memory: MemoryFigures | undefined;

  /** `execution`: given if canisters can sleep; it is told which of them to put to sleep for want of memory. */
  constructor(
    options: SleepingOptions,
    clock: Clock,
    events: SleepingEvents,
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
        putToSleep: (agenda) => this.#putToSleep(agenda),
        bytesOf: ({ handle }) => this.#host?.bytesOf(handle) ?? 0,
      });
  }

  attach(host: CanisterHost): void {
    this.#host = host;
  }

  get liveCount(): number {
    return this.#awake.size;
  }

  /** A canister that is awake from the beginning. */
  admitted(agenda: Agenda): void {
    this.#awake.add(agenda);
    this.#count(agenda);
    // Nobody is put to sleep for it now: whoever made it is not done with it.
    this.#idle.touch(agenda);
  }

  /** Something is about to be done with it: it is no victim. */
  keep(agenda: Agenda): void {
    this.#idle.remove(agenda);
  }

  forget(agenda: Agenda): void {
    this.#idle.remove(agenda);
    this.#isWanted.delete(agenda);
    if (!this.#awake.delete(agenda)) return;
    this.#discount(agenda);
    this.#advance();
  }

  /** Its executor has died with it. */
  lost(agenda: Agenda): void {
    // What is being woken goes to another executor, or fails.
    if (agenda.isAsleep) return;
    this.#fallAsleep(agenda);
  }

  /** It has had something to do when it fell asleep. */
  busyStill(agenda: Agenda): void {
    this.busy(agenda, agenda.work.queries.some(isUrgent));
  }

  /** It has something to do. `mustNotWait`: not even for a place. */
  busy(agenda: Agenda, mustNotWait: boolean): void {
    if (!agenda.isAsleep) {
      this.#idle.remove(agenda);
      return;
    }
    const { work } = agenda;
    if (work.isWaking) return;
    if (mustNotWait) {
      this.#isWanted.delete(agenda);
      this.#makeRoom(agenda);
      this.#wake(agenda);
    } else if (!this.#isWanted.has(agenda)) {
      this.#isWanted.add(agenda);
      (this.#isLarge(agenda) ? this.#wantedLarge : this.#wanted).push(agenda);
      this.#advance();
    }
  }

  /** Something of it has ended: it may be idle now, and the warmest of those. */
  settled(agenda: Agenda): void {
    if (!this.isBounded || agenda.isAsleep || agenda.isWithdrawn) return;
    this.#recount(agenda);
    const work = agenda.workIfAny;
    // Somebody counts on it: another has to give way.
    if (work !== undefined && (work.frames > 0 || work.pins > 0)) work.isGivingWay = false;
    if (work?.isGivingWay === true && work.isQuiet) {
      void this.#putToSleep(agenda);
      if (work.waiting > 0) this.busyStill(agenda);
      this.#advance();
      return;
    }
    if (!agenda.isIdle) return;
    this.#idle.touch(agenda);
    this.#advance();
  }

  #recount(agenda: Agenda): void {
    this.#discount(agenda);
    this.#count(agenda);
  }

  #count(agenda: Agenda): void {
    const seat = seatOf(agenda);
    seat.bytes = this.#bytesMax === 0 ? 0 : (this.#host?.bytesOf(agenda.handle) ?? 0);
    this.#bytes += seat.bytes;
  }

  #discount({ seat }: Agenda): void {
    this.#bytes -= seat?.bytes ?? 0;
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
  #serve(line: Queue<Agenda>): boolean {
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

  #heapBytesOf({ handle }: Agenda): number {
    return this.#host?.heapBytesOf?.(handle) ?? 0;
  }

  /** Whether it has to wait for memory; one that can never have it is told so. */
  #isLarge(agenda: Agenda): boolean {
    const bytes = this.#heapBytesOf(agenda);
    return this.#memory !== undefined && bytes >= LARGE_HEAP_BYTES && bytes <= this.#memory.bytesMax;
  }

  /** Whether memory is lacking for it, when those are gone that fall asleep, and those are there that wake. */
  #lacksMemory(next: Agenda): boolean {
    if (this.#memory === undefined || !this.#isLarge(next)) return false;
    const { bytesUsed, bytesMax } = this.#memory;
    return bytesUsed - this.#fallingBytes + this.#wakingBytes + this.#heapBytesOf(next) > bytesMax;
  }

  #makeRoom(next: Agenda): boolean {
    const bytes = this.#bytesMax === 0 ? 0 : (this.#host?.bytesOf(next.handle) ?? 0);
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
  #putToSleep(agenda: Agenda): Promise<void> {
    this.evictions++;
    this.#fallAsleep(agenda);
    const fallen = this.#host?.sleep(agenda.handle) ?? Promise.resolve();
    agenda.shrink();
    const bytes = this.#relief === undefined ? 0 : this.#heapBytesOf(agenda);
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

  #fallAsleep(agenda: Agenda): void {
    this.#idle.remove(agenda);
    if (this.#awake.delete(agenda)) this.#discount(agenda);
    agenda.seat = undefined;
    agenda.isAsleep = true;
    const work = agenda.workIfAny;
    if (work !== undefined) work.isGivingWay = false;
  }

  #wake(agenda: Agenda): void {
    const host = this.#host;
    assert(host !== undefined, `canister ${agenda.handle} sleeps, and nobody can wake it`);
    this.#waking++;
    this.#count(agenda);
    agenda.work.isWaking = true;
    agenda.work.isStatusNew = false;
    const heapBytes = this.#isLarge(agenda) ? this.#heapBytesOf(agenda) : 0;
    this.#wakingBytes += heapBytes;
    // Later: the executor that it has died with may still be about to be replaced.
    Promise.resolve()
      .then(() => this.#wakeWithMemory(host, agenda))
      .finally(() => (this.#wakingBytes -= heapBytes))
      .then(
        () => this.#woken(agenda),
        (error: unknown) => this.#failed(agenda, error instanceof Error ? error : new Error(String(error))),
      );
  }

  async #wakeWithMemory(host: CanisterHost, agenda: Agenda): Promise<void> {
    const canFit = this.#heapBytesOf(agenda) <= (this.#memory?.bytesMax ?? 0);
    for (let triesLeft = canFit ? MEMORY_TRIES : 0; ; triesLeft--) {
      try {
        await host.wake(agenda.handle);
        return;
      } catch (error) {
        const isShort = error instanceof ServerError && error.code === 'memory-full';
        if (!isShort || triesLeft === 0 || agenda.isWithdrawn) throw error;
      }
      // Of its stable memory nobody knows how much was written.
      const bytes = host.heapBytesOf?.(agenda.handle) ?? host.bytesOf(agenda.handle);
      const hasSlept = await this.#relief?.makeRoom(bytes);
      if (hasSlept !== true) await sleep(this.#clock, MEMORY_RETRY_MS);
    }
  }

  #ended(agenda: Agenda): boolean {
    this.#waking--;
    this.#discount(agenda);
    agenda.seat = undefined;
    agenda.work.isWaking = false;
    return !agenda.isWithdrawn;
  }

  #woken(agenda: Agenda): void {
    if (this.#ended(agenda)) {
      this.wakeUps++;
      agenda.work.lostWakes = 0;
      agenda.isAsleep = false;
      this.#awake.add(agenda);
      this.#count(agenda);
      this.#events.awake(agenda);
      this.settled(agenda);
    }
    this.#advance();
  }

  #failed(agenda: Agenda, error: Error): void {
    const { work } = agenda;
    const hasDied = error instanceof ServerError && error.code === 'executor-stopped';
    if (this.#ended(agenda) && hasDied && ++work.lostWakes <= LOST_WAKES_MAX) {
      // Its place is still its own.
      this.#wake(agenda);
      return;
    }
    work.lostWakes = 0;
    if (!agenda.isWithdrawn) {
      if (!work.isUnwakable) this.#clock.after(RETRY_MS, () => this.#retry(agenda));
      work.isUnwakable = true;
      this.#events.failed(agenda, error);
    }
    this.#advance();
  }

  #retry(agenda: Agenda): void {
    const { work } = agenda;
    work.isUnwakable = false;
    if (agenda.isAsleep && !agenda.isWithdrawn && work.waiting > 0) this.busy(agenda, false);
    else if (agenda.isAsleep) agenda.shrink();
  }

  /** Whoever waits for a place gets one in the end. */
  #bePatient(): void {
    if (this.#patience !== undefined || this.#waking > 0) return;
    this.#patience = this.#clock.after(PATIENCE_MS, () => {
      this.#patience = undefined;
      if (this.#isWanted.size === 0) return;
      for (const agenda of this.#awake) {
        const { work } = agenda;
        if (work.isGivingWay || work.changes > 0 || work.pins > 0 || work.frames > 0) continue;
        work.isGivingWay = true;
        this.settled(agenda);
        break;
      }
      this.#advance();
      const large = this.#wantedLarge.peek();
      // There may be garbage that nobody has seen to.
      if (large !== undefined) void this.#relief?.makeRoom(this.#heapBytesOf(large)).then(() => this.#advance());
    });
  }
}
