/**
 * Stepped threads with engines without code, and the canisters' state as the main thread was told: that state is
 * stored, and canisters that slept or whose executor died are woken with it.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import assert from 'node:assert/strict';
import { type Clock, type Logger, ServerError } from '../../kernel/index.ts';
import type { CanisterGate } from '../../subsystems/execution/thread/canister-gate.ts';
import type { Work } from '../../subsystems/execution/thread/executor-thread.ts';
import type {
  CodeChange,
  ExecutionListener,
  ModuleInfo,
  Recall,
  SleepingCanister,
} from '../../subsystems/execution/index.ts';
import { type EndedStep, NO_NUMBERS, TAKEN_BACK, type Task, type CanisterStatus } from '../../subsystems/ic/index.ts';
import { INLINE_BYTES_MAX } from '../../subsystems/execution/wire/ring-bytes.ts';
import type { StoredPages } from '../../subsystems/storage/index.ts';
import { Books, decodeChanges } from './books.ts';
import { bytesOf, ObservedGate, type WorkSeen } from './observed-gate.ts';
import { POLICY, RandomEngine } from './random-engine.ts';
import { randomModule } from './random-modules.ts';
import { type Subject, ThreadNotes } from './random-subject.ts';
import { checkLines, type EngineHost, simulatedId } from './random-steps.ts';
import { type Draw, drawBytes } from './sealed.ts';
import { drawPassedMs, type SteppedParts, SteppedThreads } from './stepped-threads.ts';
import type { AMID, Tally } from './tally.ts';

/** One canister as the main thread knows it. */
interface RandomCanister {
  readonly handle: number;
  /** State by all change sets told so far. */
  told: Books;
  /** Cycles that operators have added. */
  added: bigint;
  /** The canister in its executor, or as it was when it left. */
  subject: Subject | undefined;
  isAsleep: boolean;
  isRemoved: boolean;
  /** True if the canister's executor has died with it. */
  isLost: boolean;
  /** Number of given tasks that have not ended. */
  underWay: number;
  /** True while the calls of one of the canister's messages are being sent. */
  isSending: boolean;
  /** Number of tasks and changes of code that its executor was given. */
  given: number;
  /** Notes of that executor: one that dies while the canister sleeps tells nobody. */
  givenTo: ThreadNotes | undefined;
}

export interface RandomThreadsOptions {
  readonly lanes: number;
  readonly draw: Draw;
  /** As in `EngineHost`. */
  readonly drawBurst: Draw | undefined;
  readonly tally: Tally;
  readonly clock: Clock;
  readonly isKept: boolean;
  readonly hasTimeouts: boolean;
  readonly hasFailures: boolean;
  /** Returns the number of the next call; numbers are never reused. */
  readonly nextNumber: () => number;
  /** Numbers of calls that got replies without any bytes. */
  readonly emptyReplies: Set<number>;
  /** Reports a problem. */
  readonly problem: (error: unknown) => void;
  /** Called when changes were told that are to be stored. */
  readonly touched: () => void;
  /** Makes a gate with a bug, in place of the shipped one. */
  readonly createGate?: ((seen: WorkSeen) => CanisterGate<Work>) | undefined;
  /** Wraps the function that is called when a task has ended, to plant a bug. */
  readonly plant?: ((task: Task, ended: Done, isRecalled: () => boolean) => Done) | undefined;
}

/** Function that is called when a task has ended; a returned promise means that its step is still being handled. */
export type Done = (ended: EndedStep) => Promise<void> | void;

export class RandomThreads extends SteppedThreads {
  readonly canisters: readonly RandomCanister[];
  readonly #canisters: RandomCanister[];
  readonly #options: RandomThreadsOptions;
  readonly #notes: ThreadNotes[];
  readonly #world: {
    isStopping: boolean;
    deathIn: number;
    destroyed: bigint;
    /** Canisters with tasks that are being taken back. */
    readonly recalled: Set<number>;
    /** Canisters that are to be deleted. */
    readonly doomed: Set<number>;
  };

  constructor(options: RandomThreadsOptions) {
    const notes: ThreadNotes[] = [];
    const world = {
      isStopping: false,
      deathIn: Number.POSITIVE_INFINITY,
      destroyed: 0n,
      recalled: new Set<number>(),
      doomed: new Set<number>(),
    };
    const canisters: RandomCanister[] = [];
    const { lanes, draw, tally, clock, createGate = (seen) => new ObservedGate(seen) } = options;
    const host = hostOf(options, canisters, world);
    const log = logTo(options.problem);
    super({
      lanes,
      policy: POLICY,
      clock,
      log,
      wasmStackBytes: 0,
      passMs: () => drawPassedMs(draw),
      isHeard: () => draw(2) === 0,
      loader: LOADER,
      partsOf: ({ executorIndex }): SteppedParts => {
        const thread = new ThreadNotes(
          () => world.isStopping,
          (handle) => world.recalled.has(handle),
        );
        const before = notes[executorIndex];
        notes[executorIndex] = thread;
        if (before !== undefined) {
          before.isDead = true;
          tally.deaths++;
          tally.diedSuspended += before.suspended;
        }
        return {
          createEngine: (yields, shared) => new RandomEngine(yields, shared, thread, host),
          // There are no heaps.
          heapGarbage: { check: () => undefined, collect: () => undefined, bytes: 0 },
          gate: createGate((handle, work, isAdmitted) => {
            thread.arrived(handle, work);
            if (isAdmitted) return;
            tally.waited++;
            if (bytesOf(work) > INLINE_BYTES_MAX) tally.waitedLarge++;
            if ('kind' in work) tally.commandWaited(work.kind);
          }),
        };
      },
    });
    this.#options = options;
    this.#notes = notes;
    this.#world = world;
    this.canisters = canisters;
    this.#canisters = canisters;
  }

  // ---- the simulation's interface

  /** Cycles of canisters that were deleted. */
  get destroyed(): bigint {
    return this.#world.destroyed;
  }

  /** Sum of the balances of all canisters, in executors and in the store. */
  get balances(): bigint {
    return this.canisters.reduce((sum, { subject, told, isRemoved }) => {
      if (isRemoved) return sum;
      return sum + (subject === undefined || subject.isGone ? told : subject.books).balance;
    }, 0n);
  }

  get isIdle(): boolean {
    return !this.#isSending && this.#notes.every((_, lane) => !this.canExecute(lane) && !this.canTell(lane));
  }

  /** Lets one thread work, or tells the main thread its results. */
  async advance(): Promise<void> {
    const { draw } = this.#options;
    const lane = draw(this.executorCount);
    if (draw(2) === 0) {
      if (this.canTell(lane)) this.tell(lane);
      // The calls of a message are being sent, over turns of the event loop.
      if (this.#isSending || this.canTell(lane)) await nextTurn();
    } else if (this.canExecute(lane)) {
      this.execute(lane);
      await this.turnOf(lane);
    }
  }

  /** Number of suspended messages. */
  get suspended(): number {
    return this.#notes.reduce((sum, { suspended }) => sum + suspended, 0);
  }

  /** Makes a thread die soon, in the middle of its work: unpublished results are lost. */
  doom(): void {
    this.#world.deathIn = 1 + this.#options.draw(20);
  }

  /** Adds a new canister. */
  add(balance: bigint): number {
    const canister = this.#add();
    canister.told.balance = balance;
    const spec = { ...this.#specOf(canister), balance };
    assert.equal(this.create(spec), canister.handle);
    return canister.handle;
  }

  /** Adds a canister of an earlier life. */
  addAsleep(told: Books, added: bigint): number {
    const canister = this.#add();
    Object.assign(canister, { told: told.copy(), added, isAsleep: true });
    assert.equal(this.createAsleep(0), canister.handle);
    return canister.handle;
  }

  #add(): RandomCanister {
    const canister: RandomCanister = {
      handle: this.canisters.length,
      told: new Books(),
      added: 0n,
      subject: undefined,
      isAsleep: false,
      isRemoved: false,
      isLost: false,
      underWay: 0,
      isSending: false,
      given: 0,
      givenTo: undefined,
    };
    this.#canisters.push(canister);
    return canister;
  }

  #specOf({ handle, told }: RandomCanister): SleepingCanister['spec'] {
    return {
      id: simulatedId(handle),
      balance: told.balance,
      controllers: [],
      env: new Map(),
      snapshotBelowBytes: this.#options.isKept ? 0 : undefined,
    };
  }

  /** Wakes a canister with its told state. */
  async wakeAsTold(handle: number, status: CanisterStatus, module: ModuleInfo | undefined): Promise<void> {
    const canister = this.#canisterAt(handle);
    assert.ok(canister.isAsleep, 'it is woken once');
    const { told } = canister;
    const { draw, tally } = this.#options;
    const facts = {
      spec: this.#specOf(canister),
      settings: { ...NO_NUMBERS, controllers: [], env: new Map(), status, heapBytesMax: Number.POSITIVE_INFINITY },
      timerNs: 0n,
      instantMs: 0,
      heapBytes: 0,
      stablePages: 0,
      module,
      openCalls: [],
    };
    // Rouses the canister as the host does, but also if its executor keeps nothing of it.
    if (draw(8) > 0 && (await this.rouse(handle, facts))) {
      canister.isAsleep = false;
      return;
    }
    const isLogged = draw(3) === 0;
    const books = told.encode(drawBytes(draw));
    if (isLogged) tally.replays++;
    const replayed = await this.wake(handle, {
      ...facts,
      memory: { heap: NO_PAGES(), stable: NO_PAGES() },
      copy: 0,
      globals: isLogged ? new Uint8Array(0) : books,
      certifiedData: new Uint8Array(0),
      log: isLogged
        ? { checkpoint: new Uint8Array(0), records: { bytes: books, ends: Uint32Array.of(books.length) } }
        : undefined,
    });
    if (isLogged) assert.equal(replayed?.balance, told.balance, 'who asked and who was told know the same');
    canister.isAsleep = false;
  }

  // ---- checks of tasks and steps on their way

  override run(handle: number, task: Task, done: Done): void {
    const canister = this.#canisterAt(handle);
    assert.ok(!canister.isAsleep, 'a sleeping canister gets no tasks');
    assert.ok(!this.#world.recalled.has(handle), 'nothing is given while something is taken back');
    canister.underWay++;
    const told = this.#toldOf(canister);
    const { plant = (_task, end) => end } = this.#options;
    const end = (ended: EndedStep): Promise<void> | void => {
      told(ended);
      canister.underWay--;
      return this.#watchSending(canister, done(ended));
    };
    const ended = plant(task, end, () => this.#world.recalled.has(handle));
    super.run(handle, task, ended);
  }

  get #isSending(): boolean {
    return this.canisters.some(({ isSending }) => isSending);
  }

  async #watchSending(canister: RandomCanister, sent: Promise<void> | void): Promise<void> {
    if (sent === undefined) return;
    this.#options.tally.inTurns++;
    canister.isSending = true;
    await sent;
    canister.isSending = false;
  }

  /** Counts an event that comes while calls of a message are being sent: of that canister, or of any. */
  cameAmid(what: (typeof AMID)[number], handle?: number): void {
    const { tally } = this.#options;
    if (this.canisters.some((each) => each.isSending && (handle === undefined || each.handle === handle)))
      tally.amid[what]++;
  }

  /** Returns a check of the result of the canister's next task. */
  #toldOf(canister: RandomCanister): (ended: EndedStep) => void {
    const { handle } = canister;
    const notes = this.#notes[this.executorOf(handle)];
    if (canister.givenTo !== notes) canister.given = 0;
    canister.givenTo = notes;
    const place = canister.given++;
    const { problem, tally } = this.#options;
    return (ended) => {
      const { step } = ended;
      this.#checkEnded(canister, ended);
      const isTakenBack = step === TAKEN_BACK;
      if (isTakenBack) tally.takenBack++;
      if (notes?.isDead !== false || (step.fault?.kind === 'unavailable' && !isTakenBack)) return;
      try {
        notes.told(handle, place, isTakenBack);
      } catch (error) {
        problem(error);
      }
    };
  }

  override recall(handle: number, recall: Recall): void {
    const { recalled, doomed } = this.#world;
    if (recall === 'nothing') recalled.delete(handle);
    else recalled.add(handle);
    if (recall === 'everything') doomed.add(handle);
    super.recall(handle, recall);
  }

  override change(handle: number, module: ModuleInfo, change: CodeChange, done: Done): void {
    const canister = this.#canisterAt(handle);
    canister.underWay++;
    // A sleeping canister has no executor to ask.
    const told = canister.isAsleep ? undefined : this.#toldOf(canister);
    super.change(handle, module, change, (ended) => {
      if (told === undefined) this.#checkEnded(canister, ended);
      else told(ended);
      canister.underWay--;
      void done(ended);
    });
  }

  override async sleep(handle: number): Promise<void> {
    const canister = this.#canisterAt(handle);
    assert.ok(!canister.isAsleep, 'it sleeps once');
    assert.equal(canister.underWay, 0, 'what sleeps has nothing to do');
    canister.isAsleep = true;
    await super.sleep(handle);
  }

  override remove(handle: number): void {
    this.#canisterAt(handle).isRemoved = true;
    super.remove(handle);
  }

  override refuseNew(): void {
    this.#world.isStopping = true;
    super.refuseNew();
  }

  #canisterAt(handle: number): RandomCanister {
    const canister = this.canisters[handle];
    assert.ok(canister !== undefined && !canister.isRemoved, `there is a canister ${handle}`);
    return canister;
  }

  /** Notes what is thrown: it would end the process from inside of a callback. */
  #checked(check: () => void): void {
    try {
      check();
    } catch (error) {
      this.#options.problem(error);
    }
  }

  #checkEnded(canister: RandomCanister, ended: EndedStep): void {
    // Nobody hears of what becomes of a canister that is gone.
    if (ended.isReturned || canister.isRemoved) return;
    this.#checkChanges(canister, ended.changes);
    this.#checked(() => {
      checkLines([...ended.lines]);
      this.#checkBalance(canister, ended.balance);
    });
  }

  #checkChanges(canister: RandomCanister, pieces: readonly Uint8Array[]): void {
    for (const piece of pieces)
      this.#checked(() => {
        const { handle, number, changes } = decodeChanges(piece);
        assert.equal(handle, canister.handle, 'changes come to whom they are of');
        assert.equal(number, ++canister.told.told, 'all changes come, in order');
        for (const change of changes) canister.told.apply(change);
        this.#options.touched();
      });
  }

  #checkBalance({ told }: RandomCanister, balance: bigint | undefined): void {
    if (this.#options.isKept && balance !== undefined) assert.equal(balance, told.balance, 'what is told adds up');
  }

  override attend(listener: ExecutionListener): void {
    const heard = (handle: number): RandomCanister | undefined => {
      const canister = this.canisters[handle];
      return canister?.isRemoved === false ? canister : undefined;
    };
    super.attend({
      changed: (handle, changes) => {
        const canister = heard(handle);
        if (canister !== undefined) this.#checkChanges(canister, changes);
        listener.changed(handle, changes);
      },
      settled: () => listener.settled(),
      credited: (handle, balance) => {
        const canister = heard(handle);
        if (canister !== undefined) this.#checked(() => this.#checkBalance(canister, balance));
        listener.credited(handle, balance);
      },
      lost: (handle) => {
        const { isKept } = this.#options;
        const canister = this.canisters[handle];
        if (canister !== undefined) Object.assign(canister, { given: 0, isAsleep: isKept, isLost: !isKept });
        listener.lost(handle);
      },
    });
  }
}

const NO_PAGES = (): StoredPages => ({ numbers: new Uint32Array(0), chunks: [] });

const LOADER = {
  prepare: () => undefined,
  load: (bytes: Uint8Array) => Promise.resolve(randomModule(bytes)),
  describe: () => Promise.resolve(undefined),
  storedIs: () => undefined,
  forget: () => Promise.resolve(),
  close: () => Promise.resolve(),
};

function hostOf(
  { draw, drawBurst, tally, hasTimeouts, hasFailures, nextNumber, emptyReplies, problem }: RandomThreadsOptions,
  canisters: RandomCanister[],
  world: { deathIn: number; destroyed: bigint; readonly doomed: ReadonlySet<number> },
): EngineHost {
  return {
    draw,
    drawBurst,
    tally,
    hasTimeouts,
    hasFailures,
    emptyReplies,
    get count() {
      return canisters.length;
    },
    nextNumber,
    handleOf: ([high = 0, low = 0]) => high * 256 + low,
    dies: () => {
      if (--world.deathIn > 0) return false;
      world.deathIn = Number.POSITIVE_INFINITY;
      return true;
    },
    arrived: (subject) => {
      const canister = canisters[subject.handle];
      assert.ok(canister, 'it is a canister of the simulation');
      const before = canister.subject;
      const isFree = before === undefined || before.isGone || before.thread.isDead;
      assert.ok(isFree, `canister ${subject.handle} is in one executor at a time`);
      canister.subject = subject;
    },
    isDoomed: (handle) => world.doomed.has(handle),
    removed: ({ books }) => {
      world.destroyed += books.balance;
    },
    problem,
  };
}

/** Returns a logger that reports every problem of the host. */
function logTo(problem: (error: unknown) => void): Logger {
  const nothing = (): void => undefined;
  const wrong = (text: string, cause?: unknown): void =>
    problem(cause instanceof Error ? cause : new ServerError('invalid', 'reported', text));
  return { event: nothing, debug: nothing, info: nothing, warn: wrong, error: wrong, announce: wrong };
}
