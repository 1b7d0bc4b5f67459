/**
 * The scheduler over an execution whose steps are drawn: calls, traps, stops, upgrades, deletions and deaths in any order.
 * Whatever happens, each client gets one answer, cycles are neither made nor lost, calls between two actors keep their
 * order, and in the end nothing is left open. A failing seed is named in the message: run it alone to see it again.
 */
import assert from 'node:assert/strict';
import { mock, test } from 'node:test';
import type { Execution, Outcome } from '../../subsystems/execution/index.ts';
import type { SystemCall } from '../../subsystems/scheduler/index.ts';
import { RoundScheduler } from '../../subsystems/scheduler/round-scheduler.ts';
import { NoStorage } from '../../subsystems/storage/no-storage.ts';
import { seeded } from '../support/seeded.ts';
import { type Draw, SimulatedExecution, simulatedId, simulatedModule } from './simulated-execution.ts';

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
}

interface Waiting {
  readonly finish: () => void;
}

class World {
  readonly #draw: Draw;
  readonly #mix: Mix;
  readonly execution: SimulatedExecution;
  readonly scheduler: RoundScheduler;
  readonly #outcomes: (Outcome | undefined)[] = [];
  readonly #promises: Promise<unknown>[] = [];
  /** Calls at the management canister. */
  readonly #atSystem: Waiting[] = [];
  readonly #gone = new Set<number>();
  readonly #lost = new Set<number>();
  #nowMs = 1000;
  minted = 0n;

  constructor(draw: Draw, mix: Mix) {
    this.#draw = draw;
    this.#mix = mix;
    this.execution = new SimulatedExecution(draw, { lanes: mix.lanes, hasTimeouts: mix.hasTimeouts === true });
    const execution = this.execution as unknown as Execution;
    const granted = { execution, clock: { nowMs: () => this.#nowMs }, storage: new NoStorage() };
    this.scheduler = new RoundScheduler(granted, { heartbeatMs: 50, timerMs: 10, queryInstructionsMax: 1000 });
    this.scheduler.attach({
      call: (call: SystemCall) =>
        new Promise((resolve) => {
          const response = { kind: 'reply', data: new Uint8Array(0) } as const;
          this.#atSystem.push({ finish: () => resolve({ response, refunded: call.cycles }) });
        }),
    });
  }

  async run(operations: number): Promise<void> {
    for (let n = 0; n < 6; n++) this.#create();
    this.scheduler.beginTicking();
    await this.#settle();
    for (let n = 0; n < operations; n++) {
      this.#act();
      for (let steps = this.#draw(8); steps > 0; steps--) this.execution.advance();
      if (this.#draw(3) === 0) this.#pass(this.#draw(40));
      if (this.#draw(4) === 0) await turn();
    }
    if (this.#mix.isDrained === true) await this.#drain();
    else await this.#rest();
  }

  #create(): void {
    const handle = this.execution.create(BALANCE);
    this.minted += BALANCE;
    this.scheduler.admit(handle, simulatedId(handle));
    this.#change(handle);
  }

  #change(handle: number): void {
    const change = { mode: 'install', argument: new Uint8Array(0), caller: CALLER } as const;
    this.#promises.push(this.scheduler.change(handle, simulatedModule(), change));
  }

  get #handles(): number[] {
    return this.execution.canisters.map(({ handle }) => handle).filter((handle) => !this.#gone.has(handle));
  }

  #act(): void {
    const handles = this.#handles;
    const handle = handles[this.#draw(handles.length)] ?? 0;
    const what = this.#draw(this.#mix.hasChanges === true ? 100 : 88);
    // Now and then more than an executor's window holds: then messages wait in the actors' own queues.
    if (what < 86) for (let n = this.#draw(50) === 0 ? 150 : 1; n > 0; n--) this.#deliver(handle, what);
    else if (what < 88) {
      if (this.#mix.hasDeaths === true && this.#draw(10) === 0) this.#kill();
    } else if (this.#lost.has(handle)) return;
    else if (what < 91) void this.scheduler.stop(handle).catch(() => undefined);
    else if (what < 94) this.scheduler.start(handle);
    else if (what < 97) this.#change(handle);
    else if (what < 98) this.scheduler.uninstall(handle);
    else if (this.scheduler.statusOf(handle) === 'stopped') {
      this.scheduler.withdraw(handle);
      this.execution.remove(handle);
      this.#gone.add(handle);
      this.#create();
    }
  }

  #deliver(handle: number, what: number): void {
    const at = this.#outcomes.push(undefined) - 1;
    const argument = Uint8Array.of(1 + this.#draw(3));
    const message =
      what < 60
        ? ({ kind: 'update', method: 'm' } as const)
        : ({ kind: 'query', method: what < 75 ? 'q' : 'c' } as const);
    const outcome = this.scheduler.deliver({ handle, ...message, caller: CALLER, argument });
    this.#promises.push(outcome.then((each) => (this.#outcomes[at] = each)));
  }

  #kill(): void {
    for (const handle of this.execution.kill(this.#draw(this.#mix.lanes))) {
      this.#lost.add(handle);
      this.scheduler.lost(handle);
    }
    this.#create();
  }

  #pass(ms: number): void {
    this.#nowMs += ms;
    mock.timers.tick(ms);
    if (this.#atSystem.length > 0) this.#atSystem.splice(this.#draw(this.#atSystem.length), 1)[0]?.finish();
  }

  /** Lets everything end that can, without time passing. */
  async #settle(): Promise<void> {
    for (let quiet = 0; quiet < 3; quiet++) {
      while (!this.execution.isIdle) {
        quiet = 0;
        this.execution.advance();
      }
      for (const { finish } of this.#atSystem.splice(0)) {
        quiet = 0;
        finish();
      }
      await turn();
    }
  }

  async #rest(): Promise<void> {
    await this.#settle();
    // Stopped by all, so that heartbeats and timers end; deadlines pass.
    const stopped = this.#handles.map((handle) => this.scheduler.stop(handle));
    if (this.#mix.hasTimeouts === true) this.#pass(10_000);
    await this.#settle();
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
    if (this.#mix.hasDeaths === true) return;
    const total = this.execution.balances + this.execution.destroyed;
    if (this.#mix.hasTimeouts === true)
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

async function simulate(mix: Mix): Promise<void> {
  let steps = 0;
  for (let seed = 1; seed <= SEEDS; seed++) {
    mock.timers.enable({ apis: ['setInterval', 'setTimeout'] });
    const random = seeded(seed);
    try {
      const world = new World((below) => random.below(below), mix);
      await world.run(OPERATIONS);
      steps += world.execution.steps;
    } catch (error) {
      throw new Error(`seed ${seed}: ${error instanceof Error ? error.message : String(error)}`, { cause: error });
    } finally {
      mock.timers.reset();
    }
  }
  assert.ok(steps > SEEDS * OPERATIONS, `only ${steps} steps: too little happened to say anything`);
}

test('calls between actors: one answer each, cycles conserved, order kept, nothing left open', () =>
  simulate({ lanes: 2 }));

test('with best-effort calls: deadlines end them, no cycles are made', () => simulate({ lanes: 2, hasTimeouts: true }));

test('with stops, upgrades, uninstallations and deletions: cycles conserved, nothing left open', () =>
  simulate({ lanes: 2, hasChanges: true }));

test('with dying executors: everybody is answered, nothing is left open', () =>
  simulate({ lanes: 3, hasChanges: true, hasTimeouts: true, hasDeaths: true }));

test('a drain in the middle of everything answers everybody', () =>
  simulate({ lanes: 2, hasChanges: true, hasTimeouts: true, hasDeaths: true, isDrained: true }));
