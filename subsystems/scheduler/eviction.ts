/**
 * Decides which canisters are awake: who is put to sleep, who is loaded, and when.
 *
 * Where state is kept, an executor need not have every canister: what waits for a sleeping one wakes it. With a bound
 * on how many are awake, or on their bytes (live-places.ts), one that is to wake takes the places of those that have
 * been idle for longest. When they are busy it waits in line (waking-line.ts), and so that it does not wait for ever,
 * those that have been awake for longest start nothing more after a while, sleep, and stand in line again: as many of
 * them as it takes.
 *
 * Heartbeats and timers, and the calls that they have made, are nobody's wait. They wake a canister where there is
 * room, or in place of an idle one, one at a time and with pauses (tick-gate.ts); only when they have waited for long
 * they stand in line. And they do not count as use: whoever was woken for one is the first to give way.
 *
 * Where executors share a bounded memory (relief.ts), idle canisters also give way to whoever needs that.
 *
 * Calls of a composite query do not wait for a place: the query that made them keeps its own until they have ended. A
 * canister with such queries is asked to give way where the others do not suffice: queries that had begun end first,
 * and later ones wait. Nor does whoever pins a canister or changes its code wait, for that may be done for a canister
 * that is pinned itself.
 *
 * Main thread. The states that this brings about are in canister-state.ts; canisters/stored-canister-loader.ts does
 * what is decided.
 */
import { assert, type Clock, type Logger, ServerError } from '../../kernel/index.ts';
import type { ScheduledCanister } from './scheduled-canister.ts';
import type { CanisterPort } from './canister-port.ts';
import { EVICTED, LIVE } from './canister-state.ts';
import { Falling } from './falling.ts';
import { Freed, type Lack, type LiveBounds, LivePlaces } from './live-places.ts';
import { LruList, lruNodeOf } from './lru-list.ts';
import { type Need, needOfAll } from './need.ts';
import { Relief } from './relief.ts';
import type { StateChanges } from './tasks.ts';
import { TickCrowd } from './tick-crowd.ts';
import { TickGate } from './tick-gate.ts';
import { isFree, PATIENCE_MS, Turns } from './turns.ts';
import { type Lane, LANES, WAITING_FOR, WakingLine } from './waking-line.ts';
import { Waking } from './waking.ts';
import type { Execution } from '../execution/index.ts';
import { LARGE_HEAP_BYTES } from '../ic/index.ts';

export type EvictionOptions = LiveBounds;

interface EvictionNeeds {
  readonly clock: Clock;
  readonly port: CanisterPort;
  readonly changes: Pick<StateChanges, 'awake' | 'wakeFailed'>;
  readonly log: Pick<Logger, 'warn'> | undefined;
}

/** The time that heartbeats and timers wait for an idle canister before they stand in line with others. */
const TICK_PATIENCE_MS = 1_000;
/**
 * Wakes of one canister that may be lost with their executors in a row. The death of an executor is no reason to refuse
 * the tasks that wait, because the next executor wakes the canister; unless waking it is what executors die of.
 */
const LOST_WAKES_MAX = 3;
/** After a failure, what must not be refused is tried again; heartbeats and timers wait as long. */
const RETRY_MS = 5_000;

/** Who gives way, and what is lacking all the same. */
interface Plan {
  readonly victims: ReadonlySet<ScheduledCanister>;
  readonly lack: Lack | undefined;
}

/** A waking that a gate bounds, and those that sleep for it. */
interface Gated {
  readonly gate: TickGate;
  readonly fallen: Promise<unknown>;
}

export class Eviction {
  /** Number of canisters that were put to sleep; the next field counts those that were woken. */
  evictions = 0;
  wakeUps = 0;
  /** Number of composite queries of clients so far, which is the ticket of the newest. */
  tickets = 0;
  readonly isBounded: boolean;
  readonly #clock: Clock;
  readonly #changes: EvictionNeeds['changes'];
  readonly #places: LivePlaces;
  readonly #turns: Turns;
  /** In the order they were woken. */
  readonly #awake = new Set<ScheduledCanister>();
  /** In the order in which somebody used them; heartbeats and timers of them may be under way. */
  readonly #idle = new LruList<ScheduledCanister>();
  readonly #wanted = new WakingLine();
  readonly #ticking = new WakingLine();
  /** The things that waiting canisters lack, each with the first canister that lacks it. */
  readonly #lacks = new Map<Lack, ScheduledCanister>();
  readonly #gates: Readonly<Record<Lane, TickGate>>;
  readonly #gated = new Map<ScheduledCanister, Gated>();
  /** Counts what was done that is no heartbeat and no timer. */
  #uses = 0;
  readonly #crowd: TickCrowd;
  readonly #falling: Falling;
  readonly #waking: Waking;
  readonly #relief: Relief | undefined;
  #patience: Disposable | undefined;

  /** `execution`: given if canisters can sleep; it is told which of them to put to sleep for want of memory. */
  constructor(
    options: EvictionOptions,
    { clock, port, changes, log }: EvictionNeeds,
    execution?: Pick<Execution, 'memory' | 'trim' | 'attendMemory'>,
  ) {
    this.#places = new LivePlaces(options, ({ handle }) => port.loader.bytesOf(handle));
    const { cap, bytesMax } = this.#places;
    this.isBounded = cap > 0 || bytesMax > 0 || execution !== undefined;
    this.#clock = clock;
    this.#turns = new Turns(clock);
    this.#changes = changes;
    this.#crowd = new TickCrowd(this.#places, clock, log);
    const newGate = (): TickGate =>
      new TickGate(
        clock,
        () => (this.#wanted.size > 0 ? ++this.#uses : this.#uses),
        () => this.#advance(),
      );
    const fitting = newGate();
    this.#gates = { small: fitting, large: fitting, oversized: newGate() };
    if (execution !== undefined)
      this.#relief = new Relief(clock, execution, {
        coldest: (mayGo) => this.#coldest(mayGo),
        putToSleep: (canister) => this.#putToSleep(canister),
        bytesOf: ({ handle }) => port.loader.bytesOf(handle),
      });
    this.#falling = new Falling(port, this.#relief);
    this.#waking = new Waking(clock, port, execution?.memory, this.#relief, this.#falling);
  }

  get liveCount(): number {
    return this.#awake.size;
  }

  /** Returns the one that nobody has used for longest, of those that are idle and for which `mayGo` is true. */
  #coldest(mayGo: (canister: ScheduledCanister) => boolean): ScheduledCanister | undefined {
    for (const canister of this.#idle.fromColdest()) if (canister.isIdle && mayGo(canister)) return canister;
    return undefined;
  }

  /** A canister that is awake from the beginning. */
  admitted(canister: ScheduledCanister): void {
    canister.expect('begin awake', 'live');
    this.#awake.add(canister);
    this.#places.take(canister);
    // Nobody is put to sleep for it now: whoever made it is not done with it.
    this.#idle.touch(canister);
  }

  /** Something is about to be done with it: it is no victim. */
  keep(canister: ScheduledCanister): void {
    const node = canister.lruNode;
    if (node === undefined) return;
    this.#idle.remove(canister);
    node.isUsed = true;
  }

  forget(canister: ScheduledCanister): void {
    this.#idle.remove(canister);
    this.#wanted.remove(canister);
    this.#ticking.remove(canister);
    if (!this.#waking.has(canister)) this.#ungate(canister);
    if (!this.#awake.delete(canister)) return;
    this.#places.release(canister);
    this.#advance();
  }

  /** Notes that the canister's executor has died, and the canister with it. */
  lost(canister: ScheduledCanister): void {
    // A canister that is being woken goes to another executor, or fails.
    if (canister.state.kind === 'live') this.#fallAsleep(canister);
  }

  /** Requeues a canister that was evicted while messages waited. */
  wantsStill(canister: ScheduledCanister): void {
    this.wants(canister, needOfAll(canister.work));
  }

  /** Puts a canister to sleep that is about to leave. Resolves when its executor has dropped it. */
  async sleepNow(canister: ScheduledCanister): Promise<void> {
    if (canister.state.kind !== 'live') return await this.#falling.settled(canister);
    this.evictions++;
    this.#fallAsleep(canister);
    await this.#falling.begin(canister, () => this.#advance()).finally(() => this.#advance());
  }

  /** Notes that the canister has something to do. */
  wants(canister: ScheduledCanister, need: Need): void {
    if (canister.workIfAny?.isLeaving === true) return;
    if (need === 'tick') this.#crowd.saw(canister);
    else this.#uses++;
    if (canister.state.kind === 'live' && need !== 'tick') this.keep(canister);
    if (canister.state.kind !== 'evicted' || (need !== 'now' && this.#falling.has(canister))) return;
    if (need === 'now') {
      this.#wanted.remove(canister);
      this.#ticking.remove(canister);
      void this.#sleepAll(this.#planFor(canister));
      this.#wake(canister);
    } else if (!this.#wanted.has(canister)) {
      this.#standInLine(canister, need);
    }
  }

  #standInLine(canister: ScheduledCanister, need: Need): void {
    if (need !== 'tick') {
      this.#ticking.remove(canister);
      this.#wanted.add(canister, this.#laneOf(canister));
    } else if (!this.#ticking.has(canister)) {
      this.#ticking.add(canister, this.#laneOf(canister), this.#clock.nowMs());
    }
    this.#advance();
  }

  #laneOf(canister: ScheduledCanister): Lane {
    if (this.#places.isOversized(this.#places.bytesOf(canister))) return 'oversized';
    return this.#waking.isLarge(canister) ? 'large' : 'small';
  }

  /** Something of it has ended: it may be idle now, and the warmest of those that are used. */
  stepEnded(canister: ScheduledCanister): void {
    if (!this.isBounded || canister.state.kind !== 'live') return;
    this.#places.recount(canister);
    const work = canister.workIfAny;
    if (canister.isGivingWay && work !== undefined && work.pins > 0) canister.keepPlace();
    if (canister.isGivingWay && work?.isQuiet !== false) {
      void this.#putToSleep(canister);
      // Before the canister itself, which may need no place: who waits has waited for this one.
      this.#advance();
      if (work !== undefined && work.waiting > 0) this.wantsStill(canister);
      this.#advance();
      return;
    }
    if (!canister.isIdle) return;
    const node = lruNodeOf(canister);
    if (node.isUsed) this.#idle.touch(canister);
    else if (node.colder === undefined) this.#idle.addColdest(canister);
    node.isUsed = false;
    this.#advance();
  }

  /** Wakes those for whom there is a place, and makes sure that not more are awake than may be. */
  #advance(): void {
    this.#lacks.clear();
    if (this.#wanted.size > 0) this.#serve();
    else if (this.#ticking.size > 0) this.#serveTicks(new Set());
    if (this.#lacks.size > 0) return;
    for (let lack = this.#places.excess; lack !== undefined; lack = this.#places.excess) {
      const victim = this.#coldestThatHelps(lack);
      if (victim === undefined) return;
      void this.#putToSleep(victim);
    }
  }

  #coldestThatHelps(lack: Lack): ScheduledCanister | undefined {
    for (const canister of this.#idle.fromColdest())
      if (canister.isIdle && this.#places.helps(lack, canister)) return canister;
    return undefined;
  }

  #serve(): void {
    const closed = new Set<Lane>();
    for (let next = this.#wanted.first(closed); next !== undefined; next = this.#wanted.first(closed)) {
      if (this.#waking.isFull) return;
      const plan = this.#planFor(next.canister);
      void this.#sleepAll(plan);
      if (plan.lack === undefined) {
        this.#wanted.remove(next.canister);
        this.#wake(next.canister);
        continue;
      }
      this.#lacks.set(plan.lack, next.canister);
      for (const lane of WAITING_FOR[plan.lack]) closed.add(lane);
    }
    this.#serveTicks(closed);
    if (this.#lacks.size > 0) this.#bePatient();
  }

  // In place of idle ones alone, if they suffice. Where somebody waits for more than is free, that was given up for it:
  // the gate counts whoever takes it.
  #serveTicks(closed: Set<Lane>): void {
    for (let next = this.#ticking.first(closed); next !== undefined; next = this.#ticking.first(closed)) {
      if (this.#waking.isFull) return;
      const { canister, lane } = next;
      const gate = this.#gates[lane];
      const plan = this.#planFor(canister, gate.isOpen);
      const isTaken = plan.victims.size > 0 || this.#lacks.size > 0;
      if (plan.lack !== undefined || (isTaken && !gate.isOpen)) {
        for (const other of LANES) if (this.#gates[other] === gate) closed.add(other);
        if (gate.isOpen) this.#bePatient();
        continue;
      }
      this.#ticking.remove(canister);
      if (isTaken) this.#gate(canister, gate, this.#sleepAll(plan));
      this.#wake(canister);
    }
  }

  #gate(canister: ScheduledCanister, gate: TickGate, fallen: Promise<unknown>): void {
    gate.close();
    this.#gated.set(canister, { gate, fallen });
  }

  /** The waking of a canister has ended, or will not be. */
  #ungate(canister: ScheduledCanister): void {
    const gated = this.#gated.get(canister);
    if (gated === undefined) return;
    this.#gated.delete(canister);
    void gated.fallen.then(() => gated.gate.ended());
  }

  #lackFor(next: ScheduledCanister, bytes: number, freed: Freed): Lack | undefined {
    return (
      this.#places.lackFor(bytes, freed) ?? (this.#waking.lacksMemory(next, freed.largeBytes) ? 'memory' : undefined)
    );
  }

  /** Who has to give way to one more; nobody if `mayEvict` is false. */
  #planFor(next: ScheduledCanister, mayEvict = true): Plan {
    return this.#plan(next, new Freed(), mayEvict ? () => this.#idle.fromColdest() : () => [], (each) =>
      this.#turns.isIdle(each),
    );
  }

  /** Some of the candidates, in their order, that help with what is lacking, until nothing is. */
  #plan(
    next: ScheduledCanister,
    freed: Freed,
    candidates: () => Iterable<ScheduledCanister>,
    mayGo: (canister: ScheduledCanister) => boolean,
  ): Plan {
    const victims = new Set<ScheduledCanister>();
    const bytes = this.#places.bytesOf(next);
    let lack = this.#lackFor(next, bytes, freed);
    // Who did not help with one lack may help with the next.
    for (let before: Lack | undefined; lack !== undefined && lack !== before;) {
      before = lack;
      for (const canister of candidates()) {
        if (victims.has(canister) || !mayGo(canister) || !this.#helps(lack, canister)) continue;
        victims.add(canister);
        this.#free(canister, freed);
        lack = this.#lackFor(next, bytes, freed);
        if (lack === undefined) break;
      }
    }
    return { victims, lack };
  }

  #helps(lack: Lack, canister: ScheduledCanister): boolean {
    if (lack === 'memory') return this.#waking.bytesOf(canister) >= LARGE_HEAP_BYTES;
    return this.#places.helps(lack, canister);
  }

  #free(canister: ScheduledCanister, freed: Freed): void {
    this.#places.free(canister, freed);
    const bytes = this.#waking.bytesOf(canister);
    if (bytes >= LARGE_HEAP_BYTES) freed.largeBytes += bytes;
  }

  #sleepAll({ victims }: Plan): Promise<unknown> {
    return Promise.allSettled([...victims].map((victim) => this.#putToSleep(victim)));
  }

  /** Resolves when its executor has dropped it. */
  #putToSleep(canister: ScheduledCanister): Promise<void> {
    assert(canister.workIfAny?.isQuiet !== false, 'a canister of which something executes cannot be put to sleep');
    this.evictions++;
    this.#fallAsleep(canister);
    const fallen = this.#falling.begin(canister, () => this.#advance());
    canister.shrink();
    void fallen.then(() => this.#fell(canister));
    return fallen;
  }

  #fell(canister: ScheduledCanister): void {
    const work = canister.workIfAny;
    if (canister.state.kind === 'evicted' && work !== undefined && work.waiting > 0) this.wantsStill(canister);
  }

  #fallAsleep(canister: ScheduledCanister): void {
    canister.expect('fall asleep', 'live');
    this.#idle.remove(canister);
    if (this.#awake.delete(canister)) this.#places.release(canister);
    canister.enter(EVICTED);
  }

  /** `lostWakes`: executors in a row that have died while it woke. */
  #wake(canister: ScheduledCanister, lostWakes = 0): void {
    canister.enter({ kind: 'loading', isStatusNew: false, lostWakes });
    this.#places.take(canister);
    this.#gated.get(canister)?.gate.started();
    const sinceMs = this.#clock.nowMs();
    this.#waking.begin(canister, (problem) => {
      this.#places.release(canister);
      if (problem === undefined) this.#woken(canister, sinceMs);
      else this.#failed(canister, problem);
    });
  }

  #woken(canister: ScheduledCanister, sinceMs: number): void {
    // The canister may have been deleted meanwhile.
    const state = canister.expect('be awake', 'loading', 'deleted');
    if (state.kind === 'loading') {
      this.wakeUps++;
      canister.enter(LIVE);
      this.#awake.add(canister);
      this.#places.take(canister);
      this.#turns.begin(canister, sinceMs);
      this.#changes.awake(canister, state.isStatusNew);
      this.stepEnded(canister);
    }
    this.#ungate(canister);
    this.#advance();
  }

  #failed(canister: ScheduledCanister, error: Error): void {
    const state = canister.expect('fail to wake', 'loading', 'deleted');
    if (state.kind === 'loading') {
      const hasDied = error instanceof ServerError && error.code === 'executor-stopped';
      if (hasDied && state.lostWakes < LOST_WAKES_MAX) {
        canister.enter(EVICTED);
        // The canister still has its place.
        this.#wake(canister, state.lostWakes + 1);
        return;
      }
      const isMissing = error instanceof ServerError && error.kind === 'missing';
      if (isMissing) canister.enter({ kind: 'unloadable', problem: error });
      else canister.enter({ kind: 'evicted', pause: this.#clock.after(RETRY_MS, () => this.#retry(canister)) });
      this.#changes.wakeFailed(canister, error);
    }
    this.#ungate(canister);
    this.#advance();
  }

  #retry(canister: ScheduledCanister): void {
    canister.endPause();
    const work = canister.workIfAny;
    if (work !== undefined && work.waiting > 0) this.wantsStill(canister);
    else canister.shrink();
  }

  /** Sees to it that each canister that waits for a place gets one in the end. */
  #bePatient(): void {
    if (this.#patience !== undefined) return;
    this.#patience = this.#clock.after(PATIENCE_MS, () => {
      this.#patience = undefined;
      this.#lineUpTicks();
      this.#advance();
      // They may lack something else when the first have been asked.
      const lacks = Array.from(this.#lacks);
      for (const [lack, canister] of lacks) this.#askToGiveWay(lack, canister);
    });
  }

  #lineUpTicks(): void {
    for (const lane of LANES) {
      const gate = this.#gates[lane];
      const head = this.#ticking.headOf(lane);
      if (head === undefined || gate.openMs(head.sinceMs) < TICK_PATIENCE_MS) continue;
      this.#ticking.remove(head.canister);
      this.#gate(head.canister, gate, Promise.resolve());
      this.#wanted.add(head.canister, lane);
    }
  }

  /** Lets canisters that have been awake for longest start nothing more, until there is room for the one that waits. */
  #askToGiveWay(lack: Lack, next: ScheduledCanister): void {
    if (!this.#wanted.has(next)) return;
    const freed = new Freed();
    for (const canister of this.#awake) if (canister.isGivingWay) this.#free(canister, freed);
    const mayGo = (canister: ScheduledCanister, isSoon = false): boolean =>
      this.#turns.isOver(canister) && !canister.isGivingWay && isFree(canister, isSoon);
    const { victims, lack: left } = this.#plan(
      next,
      freed,
      () => this.#awake,
      (canister) => mayGo(canister),
    );
    for (const canister of victims) canister.requestEviction(this.tickets);
    // Canisters with composite queries under way take longer: they are asked only where the others do not suffice.
    const mayGoSoon = (canister: ScheduledCanister): boolean => left !== undefined && mayGo(canister, true);
    const suspended = this.#plan(next, freed, () => this.#awake, mayGoSoon).victims;
    for (const canister of suspended) canister.requestEviction(this.tickets);
    for (const canister of [...victims, ...suspended]) this.stepEnded(canister);
    // There may be garbage that nobody has seen to.
    if (lack === 'memory') void this.#relief?.makeRoom(this.#waking.bytesOf(next)).then(() => this.#advance());
  }
}
