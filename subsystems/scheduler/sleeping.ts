/**
 * Which canisters are awake.
 *
 * Where state is kept, an executor need not have every canister: what waits for a sleeping one wakes it. With a cap on how
 * many are awake, or on their bytes, one that is to wake takes the place of the one that has been idle for longest. When
 * all are busy it waits, and so that it does not wait for ever, the one that has been awake for longest starts nothing more
 * after a while, sleeps, and stands in line again.
 *
 * Calls of a composite query do not wait for a place: the query that made them keeps its own until they have ended. Nor does
 * whoever pins a canister or changes its code, for that may be done for a canister that is pinned itself.
 */
import { ServerError } from '../../kernel/index.ts';
import { type Agenda, isUrgent } from './agenda.ts';
import type { CanisterHost } from './index.ts';
import { LiveSet, seatOf } from './live-set.ts';
import { Queue } from './queue.ts';

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

export class Sleeping {
  /** How often one was put to sleep, and woken. */
  evictions = 0;
  wakeUps = 0;
  readonly isBounded: boolean;
  readonly #cap: number;
  readonly #bytesMax: number;
  readonly #events: SleepingEvents;
  /** In the order they were woken. */
  readonly #awake = new Set<Agenda>();
  readonly #idle = new LiveSet();
  readonly #wanted = new Queue<Agenda>();
  readonly #isWanted = new Set<Agenda>();
  #waking = 0;
  /** Of those that are awake or waking. */
  #bytes = 0;
  #patience: NodeJS.Timeout | undefined;
  #host: CanisterHost | undefined;

  constructor(options: SleepingOptions, events: SleepingEvents) {
    this.#cap = options.liveCap ?? 0;
    this.#bytesMax = options.liveBytes ?? 0;
    this.isBounded = this.#cap > 0 || this.#bytesMax > 0;
    this.#events = events;
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
      this.#wanted.push(agenda);
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
      this.#putToSleep(agenda);
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
    for (;;) {
      const next = this.#wanted.peek();
      if (next === undefined) break;
      if (this.#isWanted.has(next)) {
        if (this.#waking >= WAKES_MAX || !this.#makeRoom(next)) {
          this.#bePatient();
          return;
        }
        this.#isWanted.delete(next);
        this.#wanted.shift();
        this.#wake(next);
      } else {
        this.#wanted.shift();
      }
    }
    while (this.#isOver(0, 0)) {
      const victim = this.#idle.coldest;
      if (victim === undefined) return;
      this.#putToSleep(victim);
    }
  }

  #makeRoom(next: Agenda): boolean {
    const bytes = this.#bytesMax === 0 ? 0 : (this.#host?.bytesOf(next.handle) ?? 0);
    while (this.#isOver(1, bytes)) {
      const victim = this.#idle.coldest;
      if (victim === undefined) return false;
      this.#putToSleep(victim);
    }
    return true;
  }

  /** One alone may be larger than all together should be. */
  #isOver(more: number, bytes: number): boolean {
    const places = this.#awake.size + this.#waking;
    if (places + more <= 1) return false;
    return (this.#cap > 0 && places + more > this.#cap) || (this.#bytesMax > 0 && this.#bytes + bytes > this.#bytesMax);
  }

  #putToSleep(agenda: Agenda): void {
    this.evictions++;
    this.#fallAsleep(agenda);
    this.#host?.sleep(agenda.handle);
    agenda.shrink();
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
    if (host === undefined) throw new Error(`canister ${agenda.handle} sleeps, and nobody can wake it`);
    this.#waking++;
    this.#count(agenda);
    agenda.work.isWaking = true;
    agenda.work.isStatusNew = false;
    // Later: the executor that it has died with may still be about to be replaced.
    Promise.resolve()
      .then(() => host.wake(agenda.handle))
      .then(
        () => this.#woken(agenda),
        (error: unknown) => this.#failed(agenda, error instanceof Error ? error : new Error(String(error))),
      );
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
      if (!work.isUnwakable) setTimeout(() => this.#retry(agenda), RETRY_MS).unref();
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
    this.#patience = setTimeout(() => {
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
    }, PATIENCE_MS);
    this.#patience.unref();
  }
}
