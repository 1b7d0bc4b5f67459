/**
 * One seed of the scheduler's simulation: the real scheduler over the shipped executors, whose engines draw the effects
 * of messages; clients, operators, deaths of executors and crashes of the host.
 *
 * If state is kept, the host also crashes: before or after any unit that nobody was told of. The next life goes on with
 * the durable state under the same rules; in the end the store is empty.
 */
import assert from 'node:assert/strict';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { messageOf, ServerError } from '../../kernel/index.ts';
import {
  type NotedMessage,
  type Outcome,
  type Response,
  type CanisterStatus,
  idToText,
} from '../../subsystems/ic/index.ts';
import { NO_LISTENER } from '../../subsystems/scheduler/canister-port.ts';
import type { AsScheduled, SystemCall } from '../../subsystems/scheduler/index.ts';
import type { Entry } from '../../subsystems/storage/index.ts';
import { RoundScheduler } from '../../subsystems/scheduler/round-scheduler.ts';
import { NoStorage } from '../../subsystems/storage/no-storage.ts';
import { FakeClock } from '../support/fake-clock.ts';
import { seeded } from '../support/seeded.ts';
import type { Books } from './books.ts';
import { burstsOf, type Mix, type Planted } from './random-mix.ts';
import { RandomOperators } from './random-operators.ts';
import { checkEcho, sealArgument, sealEcho, simulatedId } from './random-steps.ts';
import { RandomThreads } from './random-threads.ts';
import { RecordingJournal } from './recording-journal.ts';
import { type Draw, drawBytes, unseal } from './sealed.ts';
import { CannotWait } from './stepped-threads.ts';
import { Tally } from './tally.ts';

const BALANCE = 1000n;
const CALLER = Uint8Array.of(4);
/** Maximum of turns for any work. */
const TURNS_MAX = 200_000;
/** Rests at the end until all actors have stopped; together they take less time than stopping may. */
const RESTS_MAX = 1000;

/** State in a unit besides the scheduler's. */
type State = readonly {
  readonly books: Books;
  readonly added: bigint;
  readonly status: CanisterStatus;
  readonly timerMs: number | undefined;
}[];

/** Outcome of a message that a crash has lost. */
const CRASHED: Outcome = { kind: 'unavailable', code: 2, message: 'crashed', instructions: 0, charge: 0 };
const LATE = { kind: 'update', method: 'm', caller: CALLER, argument: sealArgument(1, 0, 0, 0) } as const;

interface Waiting {
  readonly finish: () => void;
}

class World {
  readonly #draw: Draw;
  readonly #drawBurst: Draw | undefined;
  readonly #mix: Mix;
  readonly #planted: Planted;
  readonly tally = new Tally();
  #threads: RandomThreads;
  #scheduler: RoundScheduler;
  #operators: RandomOperators;
  #journal: RecordingJournal<State> | undefined;
  #outcomes: (Outcome | undefined)[] = [];
  #promises: Promise<unknown>[] = [];
  /** Calls to the management canister. */
  #atSystem: Waiting[] = [];
  /** Actors that are about to be awake. */
  #wakes: Waiting[] = [];
  #versions = 0;
  #numbers = 0;
  readonly #emptyReplies = new Set<number>();
  /** Messages whose answers are known. */
  readonly #known = new WeakSet<NotedMessage>();
  /** True if actors were deleted with calls open: cycles that would have come back to them are gone. */
  #hasEnded = false;
  #problems: unknown[] = [];
  readonly #clock = new FakeClock(1000);
  #ticks = 0;
  #minted = 0n;

  constructor(draw: Draw, drawBurst: Draw | undefined, mix: Mix, planted: Planted) {
    this.#draw = draw;
    this.#drawBurst = drawBurst;
    this.#mix = mix;
    this.#planted = planted;
    this.#journal = mix.isKept === true ? this.#newJournal([]) : undefined;
    this.#threads = this.#newThreads();
    this.#scheduler = this.#newScheduler();
    this.#operators = this.#newOperators();
  }

  #newJournal(state: State, entries?: readonly Entry[]): RecordingJournal<State> {
    const journal = new RecordingJournal(state, entries);
    if (this.#planted.sealsAmid === true) journal.holdUnit = () => () => undefined;
    return journal;
  }

  #newOperators(): RandomOperators {
    const minted = (amount: bigint): void => void (this.#minted += amount);
    return new RandomOperators({
      draw: this.#draw,
      tally: this.tally,
      threads: this.#threads,
      scheduler: this.#scheduler,
      minted,
      planted: this.#planted.operators,
    });
  }

  #newThreads(): RandomThreads {
    const { lanes, hasTimeouts = false, hasFailures = false, isKept = false } = this.#mix;
    const clock = this.#clock;
    const journal = this.#journal;
    const problems = this.#problems;
    return new RandomThreads({
      createGate: this.#planted.createGate,
      plant: this.#planted.plant,
      lanes,
      draw: this.#draw,
      drawBurst: this.#drawBurst,
      tally: this.tally,
      // No two tasks have the same instant, so that an instant identifies a task in an executor.
      clock: {
        nowMs: () => clock.nowMs() + ++this.#ticks / 2 ** 30,
        after: (ms, work) => clock.after(ms, work),
        every: (ms, work) => clock.every(ms, work),
      },
      isKept,
      hasTimeouts,
      hasFailures,
      nextNumber: () => ++this.#numbers,
      emptyReplies: this.#emptyReplies,
      problem: (error) => problems.push(error),
      touched: () => journal?.markDirty(),
    });
  }

  #newScheduler(): RoundScheduler {
    const threads = this.#threads;
    const problems = this.#problems;
    const storage = this.#journal ?? new NoStorage();
    const scheduler = new RoundScheduler(
      { execution: threads, clock: this.#clock, storage },
      { heartbeatMs: 50, timerMs: 10, queryInstructionsMax: 2 ** 50, liveCap: this.#mix.liveCap ?? 0 },
    );
    scheduler.attach({
      call: (call: SystemCall) =>
        new Promise((resolve) => {
          const response = { kind: 'reply', data: this.#systemReply(call) } as const;
          this.#atSystem.push({ finish: () => resolve({ response, refunded: call.cycles }) });
        }),
    });
    /** Canisters whose eviction is under way. */
    const falling = new Map<number, Promise<void>>();
    scheduler.attachCanisters(
      {
        wake: (handle, scheduled) => this.#wake(handle, threads, scheduled, falling),
        sleep: (handle) => void falling.set(handle, threads.sleep(handle)),
        bytesOf: () => 0,
        heapBytesOf: () => 0,
        storedStableBytesOf: () => 0,
      },
      { ...NO_LISTENER, answered: (_handle, noted) => this.#answered(noted, problems) },
    );
    return scheduler;
  }

  #systemReply({ argument }: SystemCall): Uint8Array {
    if (argument.length === 0) return sealEcho(0, 0);
    return sealEcho(unseal(argument, 'an argument for the system').readUInt32LE(8), drawBytes(this.#draw));
  }

  async #wake(
    handle: number,
    threads: RandomThreads,
    scheduled: AsScheduled,
    falling: ReadonlyMap<number, Promise<void>>,
  ): Promise<void> {
    await new Promise<void>((resolve) => this.#wakes.push({ finish: resolve }));
    await falling.get(handle);
    if (this.#mix.hasFailures === true && this.#draw(8) === 0)
      throw new ServerError('unavailable', 'wake-failed', 'not now');
    const version = threads.canisters[handle]?.told.version;
    const module = version === undefined ? undefined : await this.#operators.moduleOf(version);
    try {
      await threads.wakeAsTold(handle, scheduled.status, module);
    } catch (error) {
      if (error instanceof ServerError) throw new ServerError('unavailable', 'wake-failed', error.message);
      this.#problems.push(error);
      throw error;
    }
  }

  // ---- units and crashes

  #state(): State {
    return this.#threads.canisters.map(({ handle, told, added }) => ({
      books: told.copy(),
      added,
      status: this.#scheduler.stateOf(handle).status,
      timerMs: this.#scheduler.stateOf(handle).storedTimerMs,
    }));
  }

  /** Ends one turn of the event loop. */
  async #endTurn(): Promise<void> {
    await nextTurn();
    this.#journal?.seal(() => this.#state());
    const [problem] = this.#problems;
    if (problem !== undefined) throw problem instanceof Error ? problem : new Error(messageOf(problem));
  }

  async #crash(): Promise<void> {
    const journal = this.#journal;
    if (journal === undefined) return;
    const { entries, state } = journal.crash(this.#draw(journal.pending + 1));
    this.tally.crashes++;
    this.#threads.cameAmid('crash');
    this.tally.diedSuspended += this.#threads.suspended;
    this.#leave();
    this.#clock.dropTimers();
    this.#outcomes = this.#outcomes.map((outcome) => outcome ?? CRASHED);
    this.#promises = [];
    this.#atSystem = [];
    this.#wakes = [];
    // Reports of the old host do not count any more.
    this.#problems = [];
    this.#journal = this.#newJournal(state, entries);
    this.#threads = this.#newThreads();
    this.#scheduler = this.#newScheduler();
    this.#operators = this.#newOperators();
    this.#minted = 0n;
    for (const { books, added, status, timerMs } of state) {
      this.#minted += BALANCE + added;
      const handle = this.#threads.addAsleep(books, added);
      const module = books.version === undefined ? undefined : await this.#operators.moduleOf(books.version);
      this.#scheduler.admit(handle, idToText(simulatedId(handle)), { status, timerMs, module, isAsleep: true });
    }
    this.#scheduler.restore(entries);
    this.#scheduler.beginTicking();
  }

  #leave(): void {
    this.tally.evictions += this.#scheduler.live.evictions;
    this.tally.wakeUps += this.#scheduler.live.wakeUps;
    this.#threads.abandon();
  }

  // ---- a life

  async run(operations: number): Promise<void> {
    try {
      await this.#live(operations);
    } finally {
      this.#leave();
    }
  }

  async #live(operations: number): Promise<void> {
    for (let n = 0; n < 6; n++) await this.#create();
    this.#scheduler.beginTicking();
    await this.#settle();
    for (let n = 0; n < operations; n++) {
      await this.#act();
      for (let steps = this.#draw(8); steps > 0; steps--) await this.#threads.advance();
      if (this.#draw(3) === 0) this.#pass(this.#draw(40));
      if (this.#draw(4) === 0 || this.#journal !== undefined) await this.#endTurn();
      if (this.#journal === undefined) continue;
      if (this.#draw(3) === 0) this.#journal.commit(this.#draw(this.#journal.pending + 1));
      if (this.#draw(40) === 0) await this.#crash();
    }
    if (this.#mix.isDrained === true) await this.#drain();
    if (this.#mix.isDrained === true && this.#journal !== undefined) {
      assert.equal(this.#journal.pending, 0, 'what has been drained is durable');
      await this.#crash();
    }
    if (this.#mix.isDrained !== true || this.#journal !== undefined) await this.#rest();
  }

  async #create(): Promise<void> {
    const handle = this.#threads.add(BALANCE);
    this.#minted += BALANCE;
    this.#scheduler.admit(handle, idToText(simulatedId(handle)));
    // The unit has to record the canister's existence with whatever else it holds of it.
    this.#journal?.markDirty();
    await this.#change(handle);
  }

  async #change(handle: number, how: 'install' | 'upgrade' | 'reinstall' = 'install'): Promise<void> {
    const module = await this.#operators.moduleOf(++this.#versions);
    // The canister may have been deleted meanwhile.
    if (this.#threads.canisters[handle]?.isRemoved === true) return;
    this.#journal?.markDirty();
    this.#threads.cameAmid('change', handle);
    // A composite query is then likely to wait for others.
    if (how !== 'install' && this.#threads.canisters[handle]?.isLost !== true) this.#deliver(handle, 80);
    this.#promises.push(this.#watched(this.#operators[how](handle, module)));
  }

  get #handles(): number[] {
    return this.#threads.canisters.filter(({ isRemoved }) => !isRemoved).map(({ handle }) => handle);
  }

  async #act(): Promise<void> {
    const handles = this.#handles;
    const handle = handles[this.#draw(handles.length)] ?? 0;
    // A deleted canister leaves nothing that a crash could bring back.
    const changes = this.#journal === undefined ? 18 : 15;
    const what = this.#draw(this.#mix.hasChanges === true ? 96 + changes : 96);
    // Sometimes sends more messages than an executor's window holds, so that some wait in the actors' own queues.
    if (what < 86) for (let n = this.#draw(50) === 0 ? 150 : 1; n > 0; n--) this.#deliver(handle, what);
    else if (what < 88) {
      if (this.#mix.hasDeaths === true && this.#draw(4) === 0) await this.#kill();
    } else if (this.#threads.canisters[handle]?.isLost === true) return;
    else if (what < 96) this.#promises.push(this.#watched(this.#operators.runErrand(handle, what)));
    else if (what < 99) this.#stop(handle);
    else if (what < 102) this.#scheduler.start(handle);
    else if (what < 104) await this.#change(handle);
    else if (what < 107) await this.#change(handle, 'upgrade');
    else if (what < 110) await this.#change(handle, 'reinstall');
    else if (what < 111) this.#promises.push(this.#watched(this.#operators.uninstall(handle)));
    else this.#promises.push(this.#watched(this.#remove(handle)));
  }

  #stop(handle: number): void {
    this.#threads.cameAmid('stop', handle);
    void this.#scheduler.stop(handle).catch(() => undefined);
  }

  async #remove(handle: number): Promise<void> {
    const endsCalls = this.#scheduler.stateOf(handle).storedStatus !== 'stopped';
    if (endsCalls && this.#draw(2) === 0) return;
    this.#hasEnded ||= endsCalls;
    this.#threads.cameAmid('deletion', handle);
    if (await this.#operators.remove(handle, endsCalls)) await this.#create();
  }

  #deliver(handle: number, what: number): void {
    const number = ++this.#numbers;
    const isEmpty = what < 6;
    const argument = isEmpty ? new Uint8Array(0) : sealArgument(1 + this.#draw(3), 0, number, drawBytes(this.#draw));
    this.tally.payload('argument', argument.length);
    const message =
      what < 60
        ? ({ kind: 'update', method: isEmpty ? 'n' : 'm' } as const)
        : ({ kind: 'query', method: what < 75 ? 'q' : 'c' } as const);
    const at = this.#outcomes.push(undefined) - 1;
    const outcomes = this.#outcomes;
    const answered = (outcome: Outcome): void => {
      outcomes[at] = outcome;
      checkEcho(answerOf(outcome), isEmpty ? 0 : number, isEmpty || this.#emptyReplies.has(number));
    };
    const noted = { ...message, caller: CALLER, argument, argumentBytes: argument.length, startedMs: 0 };
    const delivered = this.#scheduler.deliver(handle, { ...message, caller: CALLER, argument, noted });
    this.#promises.push(this.#watched(delivered.then(answered)));
  }

  /** Returns a function that reports a problem when a client is answered twice. */
  #answered(noted: NotedMessage, problems: unknown[]): void {
    if (this.#known.has(noted)) problems.push(new Error('a client was answered twice'));
    this.#known.add(noted);
  }

  /** Reports an error as a problem of the present host. */
  #watched(promise: Promise<void>): Promise<void> {
    const problems = this.#problems;
    return promise.catch((error: unknown) => void problems.push(error));
  }

  async #kill(): Promise<void> {
    this.#threads.cameAmid('death');
    if (this.#draw(2) === 0) this.#threads.doom();
    else this.#threads.kill(this.#draw(this.#mix.lanes));
    if (this.#journal === undefined) await this.#create();
  }

  #pass(ms: number): void {
    this.#clock.advance(ms);
    for (const waiting of [this.#atSystem, this.#wakes]) {
      if (waiting.length > 0) waiting.splice(this.#draw(waiting.length), 1)[0]?.finish();
    }
  }

  /** Lets all possible work end without time passing. */
  async #settle(): Promise<void> {
    let turns = 0;
    for (let quiet = 0; quiet < 3; quiet++) {
      while (!this.#threads.isIdle) {
        quiet = 0;
        assert.ok(++turns < TURNS_MAX, 'the host does not come to rest');
        await this.#threads.advance();
      }
      for (const { finish } of [...this.#atSystem.splice(0), ...this.#wakes.splice(0)]) {
        quiet = 0;
        finish();
      }
      await this.#endTurn();
      this.#journal?.commit(this.#journal.pending);
    }
  }

  // ---- the end

  async #rest(): Promise<void> {
    await this.#settle();
    // All actors are stopped, so that heartbeats and timers end; deadlines pass.
    const stopped = this.#handles.map((handle) => this.#scheduler.stop(handle));
    if (this.#mix.hasTimeouts === true) this.#pass(10_000);
    await this.#settle();
    const open = (): number[] => this.#handles.filter((handle) => this.#scheduler.stateOf(handle).status !== 'stopped');
    if (this.#journal !== undefined) {
      // Canisters that could not be woken are tried again; those that wait for a place get it one after the other.
      for (let n = 0; n < 20; n++) await this.#restFor(6_000);
      for (let n = 0; n < RESTS_MAX && open().length > 0; n++) await this.#restFor(150);
    }
    assert.deepEqual(open(), [], 'no call context is left');
    await Promise.all(stopped);
    await Promise.all(this.#promises);
    await this.#endTurn();
    assert.ok(
      this.#outcomes.every((outcome) => outcome !== undefined),
      'every client has an answer',
    );
    this.#checkCanisters();
    this.#checkCycles();
  }

  async #restFor(ms: number): Promise<void> {
    this.#pass(ms);
    await this.#settle();
  }

  #checkCanisters(): void {
    for (const { handle, subject, told, isAsleep, isRemoved, isLost } of this.#threads.canisters) {
      if (isRemoved || isLost || isAsleep) continue;
      assert.equal(subject?.frames.size, 0, `canister ${handle} keeps no frames`);
      assert.equal(subject.again, undefined, `canister ${handle} has no message under way`);
      if (this.#journal !== undefined) assert.deepEqual(told, subject.books, `canister ${handle}: all has been told`);
    }
    if (this.#journal === undefined) return;
    assert.deepEqual(this.#journal.entries(), [], 'nothing is left in the store');
    for (const { told } of this.#threads.canisters) assert.equal(told.openCalls.size, 0, 'all calls are answered');
    const cap = this.#mix.liveCap ?? Number.POSITIVE_INFINITY;
    assert.ok(this.#scheduler.live.liveCount <= cap, `${this.#scheduler.live.liveCount} are live`);
  }

  #checkCycles(): void {
    if (this.#journal === undefined && this.#mix.hasDeaths === true) return;
    const total = this.#threads.balances + this.#threads.destroyed;
    if (this.#mix.hasTimeouts === true || this.#hasEnded)
      assert.ok(total <= this.#minted, `${total} of ${this.#minted}: made from nothing`);
    else assert.equal(total, this.#minted, 'cycles are neither made nor lost');
  }

  async #drain(): Promise<void> {
    let isDrained = false;
    this.#threads.cameAmid('drain');
    const drained = this.#scheduler.drain().then(() => (isDrained = true));
    const late = await this.#scheduler.deliver(this.#handles[0] ?? 0, LATE);
    assert.equal(late.kind, 'unavailable');
    await this.#settle();
    assert.ok(isDrained, 'drained when nothing executes');
    await drained;
    await this.#endTurn();
    assert.ok(
      this.#outcomes.every((outcome) => outcome !== undefined),
      'every client has an answer',
    );
  }
}

function answerOf(outcome: Outcome): Response {
  if (outcome.kind === 'reply') return { kind: 'reply', data: outcome.data };
  return { kind: 'reject', code: outcome.code, message: outcome.message };
}

/** Runs one seed; throws its findings. */
export async function simulateScheduler(
  seed: number,
  mix: Mix,
  operations: number,
  planted: Planted = {},
): Promise<Tally> {
  const random = seeded(seed);
  const world = new World((below) => random.below(below), burstsOf(seed), mix, planted);
  try {
    await world.run(operations);
  } catch (error) {
    if (!(error instanceof CannotWait))
      throw new Error(`seed ${seed}: ${error instanceof Error ? error.message : String(error)}`, { cause: error });
    world.tally.cutShort++;
  }
  return world.tally;
}
