/**
 * One seed of a host with more actors than may be live: the shipped scheduler over executors and loads whose times a
 * clock decides. Actors' sizes lie on both sides of the bound; clients call in closed loops, actors call each other,
 * and some have heartbeats and timers. The simulation watches how long anybody waits for a place, how long heartbeats
 * do, and the share of time that loads for heartbeats and timers take alone.
 */
import assert from 'node:assert/strict';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { type EndedStep, idToText, type Step, type Task } from '../../subsystems/ic/index.ts';
import { NO_LISTENER } from '../../subsystems/scheduler/canister-port.ts';
import { RoundScheduler } from '../../subsystems/scheduler/round-scheduler.ts';
import { callOf, endedStep, HeldExecution, idOf, MODULE, REPLY, STEP } from '../subsystems/scheduler/held-execution.ts';
import { FakeClock } from '../support/fake-clock.ts';
import { seeded } from '../support/seeded.ts';
import { RecordingJournal } from './recording-journal.ts';

const STEP_MS = 5;
const LIFE_MS = 10_000;
/** One host in this many lives until each actor must have had its heartbeat. */
const LONG_LIVES = 6;
/** Interval of heartbeats; timers come five times as often. */
const BEAT_MS = 1000;
const TIMER_NS = 200_000_000n;
/** Duration longer than a slice, and longer than a busy actor is left awake. */
const LONG_MS = 400;
const LOAD_MS_A_UNIT = 2;
/** Storing what an actor has changed takes longer than reading it, for an actor that has changed everything. */
const FALL_MS_A_UNIT = 12;
const BYTES_MAX = 100;
/**
 * Parts of the bounds, together with those of scheduler/eviction.ts: the time for which an actor that is awake keeps a
 * place, and the time for which heartbeats wait for one.
 */
const SLOT_MS = 200;
/** Maximum of rounds that an actor waits: just behind all others, and behind a heartbeat that has stood in line. */
const ROUNDS_MAX = 1.5;
const TICK_PATIENCE_MS = 1_000;
const TICK_PAUSES = 7;
const CALLER = Uint8Array.of(4);

type Draw = (below: number) => number;

interface Actor {
  readonly handle: number;
  readonly bytes: number;
  readonly loadMs: number;
  /** Time from when the actor is put to sleep until its executor has dropped it. */
  readonly fallMs: number;
  falling: Promise<void>;
  readonly thinkMs: number;
  readonly hasClient: boolean;
  readonly hasHeartbeat: boolean;
  readonly hasTimer: boolean;
  /** Time since which a client's message waits for the actor to be live. */
  waitsSinceMs: number | undefined;
  messages: number;
  beats: number;
  beatMs: number;
}

export interface Crowd {
  readonly actors: number;
  readonly oversized: number;
  readonly isCapped: boolean;
  readonly answers: number;
  readonly loads: number;
  readonly tickLoads: number;
  readonly slept: number;
}

/** Executors whose tasks take time, one task at a time each. */
class TimedExecution extends HeldExecution {
  readonly #clock: FakeClock;
  readonly #freeMs: number[];
  readonly #durationOf: (handle: number, task: Task) => number;
  readonly #stepOf: (handle: number, task: Task) => Step;

  constructor(
    lanes: number,
    clock: FakeClock,
    durationOf: (handle: number, task: Task) => number,
    stepOf: (handle: number, task: Task) => Step,
  ) {
    super(lanes);
    this.#clock = clock;
    this.#freeMs = new Array<number>(lanes).fill(0);
    this.#durationOf = durationOf;
    this.#stepOf = stepOf;
    this.memory.bytesMax = this.memory.bytesHigh = Number.MAX_SAFE_INTEGER;
  }

  override run(handle: number, task: Task, ended: (ended: EndedStep) => void): void {
    const lane = this.executorOf(handle);
    const nowMs = this.#clock.nowMs();
    const endMs = Math.max(nowMs, this.#freeMs[lane] ?? 0) + this.#durationOf(handle, task);
    this.#freeMs[lane] = endMs;
    this.#clock.after(endMs - nowMs, () => ended(endedStep(this.#stepOf(handle, task))));
  }
}

class CrowdedHost {
  readonly #draw: Draw;
  readonly #clock = new FakeClock(0);
  readonly #actors: readonly Actor[];
  readonly #cap: number;
  readonly #bytesMax: number;
  readonly #hasCalls: boolean;
  /** True if it takes time to put some of the actors to sleep. */
  readonly #hasFalls: boolean;
  readonly #journal = new RecordingJournal<undefined>(undefined);
  readonly #scheduler: RoundScheduler;
  #answers = 0;
  #loads = 0;
  #slept = 0;
  /** In this step: evicted actors, loads for waiting messages, and loads for ticks alone. */
  #sleeps = 0;
  #wantedLoads = 0;
  #loadsForTicks: number[] = [];
  #tickLoads = 0;
  #tickLoadMs = 0;
  #isOver = false;

  constructor(draw: Draw) {
    this.#draw = draw;
    this.#cap = draw(3) === 0 ? 0 : 1 + draw(4);
    this.#bytesMax = this.#cap === 0 || draw(2) === 0 ? BYTES_MAX : 0;
    this.#hasCalls = draw(2) === 0;
    this.#hasFalls = draw(2) === 0;
    this.#actors = Array.from({ length: 2 + draw(8) }, (_, handle) => this.#newActor(handle));
    const lanes = 1 + draw(2);
    const execution = new TimedExecution(
      lanes,
      this.#clock,
      (_, task) => this.#durationOf(task),
      (handle, task) => this.#stepOf(handle, task),
    );
    this.#scheduler = new RoundScheduler(
      { execution, clock: this.#clock, storage: this.#journal },
      {
        heartbeatMs: BEAT_MS,
        timerMs: 100,
        queryInstructionsMax: 1000,
        liveCap: this.#cap,
        liveBytes: this.#bytesMax,
      },
    );
    this.#scheduler.attachCanisters(
      {
        wake: (handle) => this.#load(this.#actorAt(handle)),
        sleep: (handle) => this.#fall(this.#actorAt(handle)),
        bytesOf: (handle) => this.#actorAt(handle).bytes,
        heapBytesOf: () => 0,
        storedStableBytesOf: () => 0,
      },
      NO_LISTENER,
    );
    for (const actor of this.#actors) {
      const hidden = [
        ...(actor.hasHeartbeat ? [] : ['canister_heartbeat']),
        ...(actor.hasTimer ? [] : ['canister_global_timer']),
      ];
      const entries = new Map([...MODULE.entries].filter(([name]) => !hidden.includes(name)));
      const module = { ...MODULE, entries };
      const timerMs = actor.hasTimer ? draw(1000) : undefined;
      this.#scheduler.admit(actor.handle, idToText(idOf(actor.handle)), { module, timerMs, isAsleep: true });
    }
  }

  #newActor(handle: number): Actor {
    const draw = this.#draw;
    // Sizes of a few units; most of the bound; all of it; several times the bound.
    const bytes = [1 + draw(20), 60 + draw(40), BYTES_MAX, BYTES_MAX + 1 + draw(900)][draw(4)] ?? 1;
    const hasTicks = draw(2) === 0;
    return {
      handle,
      bytes,
      loadMs: bytes * LOAD_MS_A_UNIT,
      fallMs: this.#hasFalls && draw(3) > 0 ? bytes * FALL_MS_A_UNIT : 0,
      falling: Promise.resolve(),
      thinkMs: [0, 5, 50, 2000][draw(4)] ?? 0,
      hasClient: draw(4) > 0,
      hasHeartbeat: hasTicks && draw(3) > 0,
      hasTimer: hasTicks && draw(3) > 0,
      waitsSinceMs: undefined,
      messages: 0,
      beats: 0,
      beatMs: 0,
    };
  }

  #actorAt(handle: number): Actor {
    return this.#actors[handle] ?? assert.fail(`there is no actor ${handle}`);
  }

  #durationOf(task: Task): number {
    if (task.kind === 'update' && this.#draw(50) === 0) return LONG_MS;
    return STEP_MS * this.#draw(3);
  }

  #stepOf(handle: number, task: Task): Step {
    if (task.kind === 'system') {
      if (task.entry === 2) this.#beat(this.#actorAt(handle));
      const timerNs = task.entry === 3 ? BigInt(this.#clock.nowMs()) * 1_000_000n + TIMER_NS : undefined;
      return { ...STEP, timerNs, calls: this.#hasCalls && this.#draw(4) === 0 ? [this.#newCall()] : [] };
    }
    const mayCall = task.kind === 'update' && task.argument[0] === 0;
    if (mayCall && this.#hasCalls && this.#draw(3) === 0) return { ...STEP, calls: [this.#newCall()] };
    return REPLY;
  }

  #beat(actor: Actor): void {
    this.#checkBeat(actor);
    actor.beats++;
    actor.beatMs = this.#clock.nowMs();
  }

  #checkBeat({ handle, beatMs }: Actor): void {
    const gapMs = this.#clock.nowMs() - beatMs;
    const mostMs = this.#tickRoundMs;
    assert.ok(gapMs <= mostMs, `actor ${handle} had no heartbeat for ${gapMs} ms of at most ${mostMs}: ${this.#told}`);
  }

  #newCall(): ReturnType<typeof callOf> {
    return callOf(idOf(this.#draw(this.#actors.length)), { payload: Uint8Array.of(1) });
  }

  async #load(actor: Actor): Promise<void> {
    this.#loads++;
    if (actor.messages === 0 && !this.#hasCalls) this.#loadsForTicks.push(actor.loadMs);
    else this.#wantedLoads++;
    // As the shipped loader does.
    await actor.falling;
    await this.#passed(actor.loadMs);
  }

  #fall(actor: Actor): Promise<void> {
    this.#slept++;
    this.#sleeps++;
    return (actor.falling = this.#passed(actor.fallMs));
  }

  async #passed(ms: number): Promise<void> {
    if (ms > 0) await new Promise<void>((resolve) => this.#clock.after(ms, resolve));
  }

  /**
   * Counts the loads for ticks in this step, less those for which there was room: evictions may have been made for
   * others.
   */
  #countTickLoads(): void {
    const costly = this.#loadsForTicks
      .toSorted((a, b) => a - b)
      .slice(0, Math.max(0, this.#sleeps - this.#wantedLoads));
    this.#tickLoads += costly.length;
    this.#tickLoadMs += costly.reduce((sum, ms) => sum + ms, 0);
    this.#sleeps = this.#wantedLoads = 0;
    this.#loadsForTicks = [];
  }

  /** Milliseconds of a round: the load, a place's minimum time and a long message of each actor. */
  get #roundMs(): number {
    return this.#actors.reduce((sum, { loadMs }) => sum + loadMs + SLOT_MS + LONG_MS, 0);
  }

  #checkWait(actor: Actor): void {
    const { handle, messages } = actor;
    const nowMs = this.#clock.nowMs();
    if (messages === 0 || !this.#scheduler.stateOf(handle).isAsleep) {
      actor.waitsSinceMs = undefined;
      return;
    }
    actor.waitsSinceMs ??= nowMs;
    const waitedMs = nowMs - actor.waitsSinceMs;
    // Nobody waits for the end of another's fall, but for that of an actor that it has called.
    const fallMs = this.#hasCalls ? this.#longestFallMs : actor.fallMs;
    assert.ok(
      waitedMs <= ROUNDS_MAX * this.#roundMs + fallMs,
      `actor ${handle} waited ${waitedMs} ms for its turn: ${this.#told}`,
    );
  }

  get #longestFallMs(): number {
    return Math.max(...this.#actors.map(({ fallMs }) => fallMs));
  }

  get #told(): string {
    const actors = this.#actors.map(
      ({ bytes, fallMs, hasClient, thinkMs, hasHeartbeat, hasTimer }) =>
        `${bytes}${fallMs > 0 ? ' falls' : ''}${hasClient ? ` client/${thinkMs}` : ''}` +
        `${hasHeartbeat ? ' beats' : ''}${hasTimer ? ' timer' : ''}`,
    );
    return `cap ${this.#cap}, bytes ${this.#bytesMax}, round ${this.#roundMs} ms, ${actors.join('; ')}`;
  }

  async #client(actor: Actor): Promise<void> {
    while (!this.#isOver) {
      const isQuery = this.#draw(2) === 0;
      actor.messages++;
      const [kind, method] = isQuery ? (['query', 'q'] as const) : (['update', 'm'] as const);
      const outcome = await this.#scheduler.deliver(actor.handle, {
        kind,
        method,
        caller: CALLER,
        argument: Uint8Array.of(0),
      });
      assert.equal(outcome.kind, 'reply');
      actor.messages--;
      this.#answers++;
      await new Promise<void>((resolve) => this.#clock.after(actor.thinkMs, resolve));
    }
  }

  async run(): Promise<Crowd> {
    this.#scheduler.beginTicking();
    for (const actor of this.#actors) if (actor.hasClient) void this.#client(actor);
    const lifeMs = this.#draw(LONG_LIVES) === 0 ? Math.max(LIFE_MS, 2 * this.#tickRoundMs) : LIFE_MS;
    while (this.#clock.nowMs() < lifeMs) {
      this.#clock.advance(STEP_MS);
      await nextTurn();
      this.#journal.seal(() => undefined);
      this.#journal.commit(this.#journal.pending);
      this.#countTickLoads();
      for (const actor of this.#actors) this.#checkWait(actor);
    }
    this.#isOver = true;
    this.#checkTicks(lifeMs);
    return {
      actors: this.#actors.length,
      oversized: this.#actors.filter(({ bytes }) => this.#bytesMax > 0 && bytes > this.#bytesMax).length,
      isCapped: this.#cap > 0,
      answers: this.#answers,
      loads: this.#loads,
      tickLoads: this.#tickLoads,
      slept: this.#slept,
    };
  }

  /**
   * Returns the time in which each actor has had its heartbeat once, with the pauses between them, and each has stood
   * in line with those that clients want.
   */
  get #tickRoundMs(): number {
    const ticking = this.#actors.filter(({ hasHeartbeat, hasTimer }) => hasHeartbeat || hasTimer);
    // A pause is as long as the load, or as the falls of those that gave way for it.
    const pauseMs = (loadMs: number): number => TICK_PAUSES * Math.max(loadMs, this.#longestFallMs);
    const turnMs = (loadMs: number): number => loadMs + pauseMs(loadMs) + TICK_PATIENCE_MS + this.#roundMs;
    return BEAT_MS + ticking.reduce((sum, { loadMs, fallMs: ownMs }) => sum + ownMs + turnMs(loadMs), 0);
  }

  #checkTicks(lifeMs: number): void {
    for (const actor of this.#actors) if (actor.hasHeartbeat) this.#checkBeat(actor);
    const isUsed = this.#actors.some(({ hasClient, thinkMs }) => hasClient && thinkMs < 1000);
    // There is a gate for actors that fit and one for actors that do not. Nobody has used an actor before the first
    // load at each gate, and the last one has no pause yet.
    const longestMs = Math.max(...this.#actors.map(({ loadMs }) => loadMs));
    const mostMs = 2 * (lifeMs / (1 + TICK_PAUSES) + 2 * longestMs);
    // While one that clients want falls, there is room for heartbeats.
    if (isUsed && !this.#hasFalls)
      assert.ok(this.#tickLoadMs <= mostMs, `${this.#tickLoadMs} ms of ${lifeMs} for ticks: ${this.#told}`);
  }
}

/** Runs one seed; rejects with its findings. */
export async function simulateCrowd(seed: number): Promise<Crowd> {
  const random = seeded(seed);
  return await new CrowdedHost((below) => random.below(below)).run();
}
