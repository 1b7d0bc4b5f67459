/**
 * Where state is kept, the host also crashes: after any unit that nobody was told of, or before it. What comes after goes on
 * with what was durable, and the same holds; in the end nothing is left in the store.
 *
 * The scheduler over an execution whose steps are drawn: calls, traps, stops, upgrades, deletions and deaths in any order.
 * Whatever happens, each client gets one answer, cycles are neither made nor lost, calls between two actors keep their
 * order, and in the end nothing is left open. A failing seed is named in the message: run it alone to see it again.
 */
import assert from 'node:assert/strict';
import { mock, test } from 'node:test';
import { ServerError } from '../../kernel/index.ts';
import type { Execution, ModuleInfo, Outcome } from '../../subsystems/execution/index.ts';
import { type CanisterStatus, idToText, type SystemCall } from '../../subsystems/scheduler/index.ts';
import { RoundScheduler } from '../../subsystems/scheduler/round-scheduler.ts';
import { NoStorage } from '../../subsystems/storage/no-storage.ts';
import { seeded } from '../support/seeded.ts';
import { RecordingJournal } from './recording-journal.ts';
import { type Books, type Draw, SimulatedExecution, simulatedId, simulatedModule } from './simulated-execution.ts';

const BALANCE = 1000n;
const CALLER = Uint8Array.of(4);

interface Mix {
  readonly lanes: number;
  /** Best-effort calls, whose cycles may be lost. */
  readonly hasTimeouts?: boolean;
  /** Stops, starts, code changes, uninstallations, deletions. */
  readonly hasChanges?: boolean;
  /** Executors die. */
  readonly hasDeaths?: boolean;
  /** The end is a drain instead of rest. */
  readonly isDrained?: boolean;
  /** State is kept, and the host crashes. */
  readonly isKept?: boolean;
  /** Actors that are live at most. */
  readonly liveCap?: number;
  /** Actors cannot always be woken. */
  readonly hasFailures?: boolean;
}

/** What a unit holds besides what the scheduler says. */
type State = readonly {
  readonly books: Books;
  readonly status: CanisterStatus;
  readonly timerMs: number | undefined;
}[];

/** An answer that a crash has swallowed. */
const CRASHED: Outcome = { kind: 'unavailable', code: 2, message: 'crashed', instructions: 0, charge: 0 };

interface Waiting {
  readonly finish: () => void;
}

class World {
  readonly #draw: Draw;
  readonly #mix: Mix;
  execution: SimulatedExecution;
  scheduler: RoundScheduler;
  #journal: RecordingJournal<State> | undefined;
  #outcomes: (Outcome | undefined)[] = [];
  #promises: Promise<unknown>[] = [];
  /** Calls at the management canister. */
  #atSystem: Waiting[] = [];
  /** Actors that are about to be awake. */
  #wakes: Waiting[] = [];
  readonly #modules = new Map<number, ModuleInfo>();
  readonly #gone = new Set<number>();
  readonly #lost = new Set<number>();
  /** Whose calls are being ended: one change at a time. */
  readonly #ending = new Set<number>();
  /** Some were deleted with calls open: what would have come back to them is gone. */
  #hasEnded = false;
  #nowMs = 1000;
  minted = 0n;
  steps = 0;
  crashes = 0;
  readonly live = { evictions: 0, wakeUps: 0 };

  constructor(draw: Draw, mix: Mix) {
    this.#draw = draw;
    this.#mix = mix;
    this.#journal = mix.isKept === true ? new RecordingJournal<State>([]) : undefined;
    this.execution = new SimulatedExecution(draw, { lanes: mix.lanes, hasTimeouts: mix.hasTimeouts === true });
    this.scheduler = this.#newScheduler();
  }

  #newScheduler(): RoundScheduler {
    const simulated = this.execution;
    const execution = simulated as unknown as Execution;
    const storage = this.#journal ?? new NoStorage();
    const scheduler = new RoundScheduler(
      { execution, clock: { nowMs: () => this.#nowMs }, storage },
      { heartbeatMs: 50, timerMs: 10, queryInstructionsMax: 1000, liveCap: this.#mix.liveCap ?? 0 },
    );
    scheduler.attach({
      call: (call: SystemCall) =>
        new Promise((resolve) => {
          const response = { kind: 'reply', data: new Uint8Array(0) } as const;
          this.#atSystem.push({ finish: () => resolve({ response, refunded: call.cycles }) });
        }),
    });
    scheduler.attachHost({
      wake: async (handle) => {
        await new Promise<void>((resolve) => this.#wakes.push({ finish: resolve }));
        if (this.#mix.hasFailures === true && this.#draw(8) === 0) {
          throw new ServerError('unavailable', 'wake-failed', 'not now');
        }
        simulated.wake(handle);
      },
      sleep: (handle) => simulated.sleep(handle),
      bytesOf: () => 0,
      changed: () => undefined,
    });
    return scheduler;
  }

  // ---- units and crashes

  #state(): State {
    return this.execution.canisters.map(({ handle, told }) => ({
      books: told.copy(),
      status: this.scheduler.statusOf(handle),
      timerMs: this.scheduler.storedTimerOf(handle),
    }));
  }

  /** The end of one turn of the event loop. */
  async #endTurn(): Promise<void> {
    await turn();
    this.#journal?.seal(() => this.#state());
  }

  #crash(): void {
    const journal = this.#journal;
    if (journal === undefined) return;
    this.crashes++;
    const { entries, state } = journal.crash(this.#draw(journal.pending + 1));
    this.#leave();
    mock.timers.reset();
    mock.timers.enable({ apis: ['setInterval', 'setTimeout'] });
    this.#outcomes = this.#outcomes.map((outcome) => outcome ?? CRASHED);
    this.#promises = [];
    this.#atSystem = [];
    this.#wakes = [];
    const { calls } = this.execution;
    const { lanes, hasTimeouts = false } = this.#mix;
    this.execution = new SimulatedExecution(this.#draw, { lanes, hasTimeouts, firstCall: calls });
    this.#journal = new RecordingJournal(state, entries);
    this.scheduler = this.#newScheduler();
    this.minted = BALANCE * BigInt(state.length);
    for (const { books, status, timerMs } of state) {
      const handle = this.execution.add(books, true);
      const module = books.version === undefined ? undefined : this.#modules.get(books.version);
      this.scheduler.admit(handle, idToText(simulatedId(handle)), { status, timerMs, module, isAsleep: true });
    }
    this.scheduler.restore(entries);
    this.scheduler.beginTicking();
  }

  #leave(): void {
    this.steps += this.execution.steps;
    this.live.evictions += this.scheduler.live.evictions;
    this.live.wakeUps += this.scheduler.live.wakeUps;
  }

  async run(operations: number): Promise<void> {
    for (let n = 0; n < 6; n++) this.#create();
    this.scheduler.beginTicking();
    await this.#settle();
    for (let n = 0; n < operations; n++) {
      this.#act();
      for (let steps = this.#draw(8); steps > 0; steps--) this.execution.advance();
      if (this.#draw(3) === 0) this.#pass(this.#draw(40));
      if (this.#draw(4) === 0 || this.#journal !== undefined) await this.#endTurn();
      if (this.#journal === undefined) continue;
      if (this.#draw(3) === 0) this.#journal.commit(this.#draw(this.#journal.pending + 1));
      if (this.#draw(40) === 0) this.#crash();
    }
    if (this.#mix.isDrained === true) await this.#drain();
    if (this.#mix.isDrained === true && this.#journal !== undefined) {
      assert.equal(this.#journal.pending, 0, 'what has been drained is durable');
      this.#crash();
    }
    if (this.#mix.isDrained !== true || this.#journal !== undefined) await this.#rest();
    this.#leave();
  }

  #create(): void {
    const handle = this.execution.create(BALANCE);
    this.minted += BALANCE;
    this.scheduler.admit(handle, idToText(simulatedId(handle)));
    this.#change(handle);
  }

  #change(handle: number): void {
    const change = { mode: 'install', argument: new Uint8Array(0), caller: CALLER } as const;
    const module = simulatedModule();
    this.#modules.set(module.version, module);
    this.#journal?.touch();
    this.#promises.push(this.scheduler.change(handle, module, change));
  }

  get #handles(): number[] {
    return this.execution.canisters.map(({ handle }) => handle).filter((handle) => !this.#gone.has(handle));
  }

  #act(): void {
    const handles = this.#handles;
    const handle = handles[this.#draw(handles.length)] ?? 0;
    // What is uninstalled or deleted leaves calls without callbacks, which the books do not tell from lost ones.
    const changes = this.#journal === undefined ? 12 : 9;
    const what = this.#draw(this.#mix.hasChanges === true ? 88 + changes : 88);
    // Now and then more than an executor's window holds: then messages wait in the actors' own queues.
    if (what < 86) for (let n = this.#draw(50) === 0 ? 150 : 1; n > 0; n--) this.#deliver(handle, what);
    else if (what < 88) {
      if (this.#mix.hasDeaths === true && this.#draw(10) === 0) this.#kill();
    } else if (this.#lost.has(handle) || this.#ending.has(handle)) return;
    else if (what < 91) void this.scheduler.stop(handle).catch(() => undefined);
    else if (what < 94) this.scheduler.start(handle);
    else if (what < 97) this.#change(handle);
    else if (what < 98) void this.scheduler.uninstall(handle).catch(() => undefined);
    else if (this.scheduler.statusOf(handle) === 'stopped') this.#remove(handle);
    else if (this.#draw(2) === 0) this.#endAndRemove(handle);
  }

  #remove(handle: number): void {
    this.scheduler.withdraw(handle);
    this.execution.remove(handle);
    this.#gone.add(handle);
    this.#create();
  }

  #endAndRemove(handle: number): void {
    const letGo = this.scheduler.hold(handle);
    this.#ending.add(handle);
    this.#hasEnded = true;
    const ended = this.scheduler.endCalls(handle).then(
      () => this.#remove(handle),
      // Its executor has died.
      () => undefined,
    );
    this.#promises.push(
      ended.finally(() => {
        this.#ending.delete(handle);
        letGo();
      }),
    );
  }

  #deliver(handle: number, what: number): void {
    const at = this.#outcomes.push(undefined) - 1;
    const argument = Uint8Array.of(1 + this.#draw(3));
    const message =
      what < 60
        ? ({ kind: 'update', method: 'm' } as const)
        : ({ kind: 'query', method: what < 75 ? 'q' : 'c' } as const);
    const outcome = this.scheduler.deliver({ handle, ...message, caller: CALLER, argument });
    const outcomes = this.#outcomes;
    this.#promises.push(outcome.then((each) => (outcomes[at] = each)));
  }

  #kill(): void {
    const isKept = this.#journal !== undefined;
    for (const handle of this.execution.kill(this.#draw(this.#mix.lanes), isKept)) {
      if (!isKept) this.#lost.add(handle);
      this.scheduler.lost(handle);
    }
    if (!isKept) this.#create();
  }

  #pass(ms: number): void {
    this.#nowMs += ms;
    mock.timers.tick(ms);
    for (const waiting of [this.#atSystem, this.#wakes]) {
      if (waiting.length > 0) waiting.splice(this.#draw(waiting.length), 1)[0]?.finish();
    }
  }

  /** Lets everything end that can, without time passing. */
  async #settle(): Promise<void> {
    for (let quiet = 0; quiet < 3; quiet++) {
      while (!this.execution.isIdle) {
        quiet = 0;
        this.execution.advance();
      }
      for (const { finish } of [...this.#atSystem.splice(0), ...this.#wakes.splice(0)]) {
        quiet = 0;
        finish();
      }
      await this.#endTurn();
      this.#journal?.commit(this.#journal.pending);
    }
  }

  async #rest(): Promise<void> {
    await this.#settle();
    // Stopped by all, so that heartbeats and timers end; deadlines pass.
    const stopped = this.#handles.map((handle) => this.scheduler.stop(handle));
    if (this.#mix.hasTimeouts === true) this.#pass(10_000);
    await this.#settle();
    // Those that could not be woken are tried again; those that wait for a place have patience.
    for (let n = this.#journal === undefined ? 0 : 20; n > 0; n--) {
      this.#pass(6_000);
      await this.#settle();
    }
    const open = this.#handles.filter((handle) => this.scheduler.statusOf(handle) !== 'stopped');
    assert.deepEqual(open, [], 'no call context is left');
    await Promise.all(stopped);
    await Promise.all(this.#promises);
    assert.ok(
      this.#outcomes.every((outcome) => outcome !== undefined),
      'every client has an answer',
    );
    for (const { handle, frames, lane, isRemoved } of this.execution.canisters) {
      if (lane.isAlive && !isRemoved) assert.equal(frames.size, 0, `canister ${handle} keeps no frames`);
    }
    if (this.#journal !== undefined) {
      assert.deepEqual(this.#journal.entries(), [], 'nothing is left in the store');
      for (const { books } of this.execution.canisters) assert.equal(books.openCalls.size, 0, 'all calls are answered');
      const cap = this.#mix.liveCap ?? Number.POSITIVE_INFINITY;
      assert.ok(this.scheduler.live.liveCount <= cap, `${this.scheduler.live.liveCount} are live`);
    } else if (this.#mix.hasDeaths === true) return;
    const total = this.execution.balances + this.execution.destroyed;
    if (this.#mix.hasTimeouts === true || this.#hasEnded)
      assert.ok(total <= this.minted, `${total} of ${this.minted}: made from nothing`);
    else assert.equal(total, this.minted, 'cycles are neither made nor lost');
  }

  async #drain(): Promise<void> {
    let isDrained = false;
    const drained = this.scheduler.drain().then(() => (isDrained = true));
    const late = await this.scheduler.deliver({ handle: this.#handles[0] ?? 0, ...LATE });
    assert.equal(late.kind, 'unavailable');
    await this.#settle();
    assert.ok(isDrained, 'drained when nothing executes');
    await drained;
    await Promise.all(this.#promises);
    assert.ok(
      this.#outcomes.every((outcome) => outcome !== undefined),
      'every client has an answer',
    );
  }
}

const LATE = { kind: 'update', method: 'm', caller: CALLER, argument: Uint8Array.of(1) } as const;

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

const SEEDS = 25;
const OPERATIONS = 250;

interface Totals {
  readonly crashes: number;
  readonly evictions: number;
  readonly wakeUps: number;
}

async function simulate(mix: Mix): Promise<Totals> {
  let steps = 0;
  const totals = { crashes: 0, evictions: 0, wakeUps: 0 };
  for (let seed = 1; seed <= SEEDS; seed++) {
    mock.timers.enable({ apis: ['setInterval', 'setTimeout'] });
    const random = seeded(seed);
    try {
      const world = new World((below) => random.below(below), mix);
      await world.run(OPERATIONS);
      steps += world.steps;
      totals.crashes += world.crashes;
      totals.evictions += world.live.evictions;
      totals.wakeUps += world.live.wakeUps;
    } catch (error) {
      throw new Error(`seed ${seed}: ${error instanceof Error ? error.message : String(error)}`, { cause: error });
    } finally {
      mock.timers.reset();
    }
  }
  assert.ok(steps > SEEDS * OPERATIONS, `only ${steps} steps: too little happened to say anything`);
  return totals;
}

test('calls between actors: one answer each, cycles conserved, order kept, nothing left open', async () => {
  await simulate({ lanes: 2 });
});

test('with best-effort calls: deadlines end them, no cycles are made', async () => {
  await simulate({ lanes: 2, hasTimeouts: true });
});

test('with stops, upgrades, uninstallations and deletions: cycles conserved, nothing left open', async () => {
  await simulate({ lanes: 2, hasChanges: true });
});

test('with dying executors: everybody is answered, nothing is left open', async () => {
  await simulate({ lanes: 3, hasChanges: true, hasTimeouts: true, hasDeaths: true });
});

test('a drain in the middle of everything answers everybody', async () => {
  await simulate({ lanes: 2, hasChanges: true, hasTimeouts: true, hasDeaths: true, isDrained: true });
});

test('with crashes of the host: calls happen once, cycles conserved, nothing left open or stored', async () => {
  const { crashes } = await simulate({ lanes: 2, isKept: true });
  assert.ok(crashes > SEEDS);
});

test('with a drain and a start after it: clients are answered, and what they left goes on', async () => {
  await simulate({ lanes: 2, isKept: true, hasChanges: true, hasDeaths: true, isDrained: true });
});

test('with crashes, stops and upgrades: calls happen once, cycles conserved, nothing left open or stored', async () => {
  await simulate({ lanes: 2, isKept: true, hasChanges: true });
});

test('with crashes, dying executors, a live cap and failing wakes: the same', async () => {
  const { evictions, wakeUps } = await simulate({
    lanes: 3,
    isKept: true,
    hasDeaths: true,
    liveCap: 2,
    hasFailures: true,
  });
  assert.ok(evictions > SEEDS && wakeUps > SEEDS, `${evictions} evictions, ${wakeUps} wake-ups`);
});

test('with crashes and best-effort calls under a live cap: no cycles are made', async () => {
  await simulate({ lanes: 2, isKept: true, hasTimeouts: true, liveCap: 1 });
});
