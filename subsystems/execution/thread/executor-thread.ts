/**
 * An executor thread: takes tasks from its ring, runs each on its canister, and sends the steps back.
 *
 * The thread never returns to the event loop. While there is nothing to do, it sleeps in `Atomics.wait` (after it has
 * polled for a moment, if that pays: see spin-gate.ts). Messages by the port are fetched when a record in the ring says
 * so. Steps are published at once when the main thread is awake. Otherwise they are published when the ring is empty,
 * after PUBLISH_EVERY of them, or when they have taken about a millisecond, so that a burst costs the main thread one
 * wake-up, and an answer does not wait for its neighbours' work.
 *
 * A message runs on the thread's own stack at first, by the engine that is home to all canisters. Nearly all messages
 * are done within their first slice of fuel, a million instructions. Any other is undone and begins again as a long
 * message (`TOO_LONG`, long-messages.ts): it has an engine and a stack of its own, takes turns with the other long
 * ones, and short messages go on meanwhile. The next messages of that canister are taken for long ones at once, until a
 * number of them in a row were short (`CanisterState.isLong`). Work for a canister whose message is suspended waits at
 * the gate.
 *
 * This class does not depend on the thread in which it runs, nor on who wakes it: executor-worker.ts serves a ring with
 * it, and simulations call `advance` when they please.
 */
import { type MessagePort } from 'node:worker_threads';
import { messageOf } from '../../../kernel/index.ts';
import type { OutgoingCall, Task } from '../../ic/index.ts';
import { release } from '../../storage/index.ts';
import { postInOrder, receiveDue, RingConsumer, RingProducer, SpinGate } from '../../threads/index.ts';
import { CanisterGate } from './canister-gate.ts';
import type { CanisterState } from '../engine/canister-state.ts';
import {
  type Certify,
  createStores,
  type EngineResult,
  type Running,
  runSuspendable,
  runToEnd,
  type SharedStores,
  TOO_LONG,
} from '../engine/engine.ts';
import { Environment } from '../engine/environment.ts';
import { TooLong } from '../engine/fault.ts';
import { ExecutorBook, MEMORY_KINDS, type MemoryKind } from '../wire/executor-book.ts';
import { HeapGarbage } from './heap-garbage.ts';
import { heapPoolLimits } from '../memory/heap-pool.ts';
import { heapsMade } from '../engine/instance.ts';
import { allowStacks } from '../engine/wasm-stack.ts';
import type { InstrumentedCode } from '../wire/instrumented-code.ts';
import { PAGE_BYTES } from '../../bytes/index.ts';
import { MemoryBudget } from '../memory/memory-budget.ts';
import type { PageReturns } from '../memory/page-returns.ts';
import { AheadLine } from './ahead-line.ts';
import { CertificateDesk } from './certificate-desk.ts';
import { LongMessages } from './long-messages.ts';
import { type CreateEngine, engineOf, type ThreadEngine } from './thread-engine.ts';
import { NO_PROBLEM, type Problem, problemOf } from './problem.ts';
import { atOnce, isMovedAtOnce, movingState, type StateCommand } from './moving-state.ts';
import { SpareMemory } from './spare-memory.ts';
import { isAsPacked, isSameTimer, packedBytesMax, PackedCanisters } from './packed-canisters.ts';
import type { PackedFacts } from '../index.ts';
import { PIECE_SIZES, type PieceSizes } from '../persistence/piece-sizes.ts';
import type { StoreAhead } from '../persistence/ahead-store.ts';
import { replayedIn, type StoredCanisterState } from '../persistence/wake-canister.ts';
import { unavailableStep } from '../wire/unavailable-step.ts';
import { Recalls } from '../wire/recalls.ts';
import type { CanisterCommand, Command, ExecutorOptions, HostCommand, PortMessage } from '../wire/port-messages.ts';
import { COMMAND, MESSAGE, ROUSE, SLEEP, TASK } from '../wire/wire.ts';
import {
  readRouse,
  readSleep,
  type RestAnswer,
  type RouseRecord,
  type SleepRecord,
  writeRest,
} from '../wire/sleep-record.ts';
import { ownTask, readTask, type TaskRecord } from '../wire/task-record.ts';
import { INLINE_BYTES_MAX } from '../wire/ring-bytes.ts';
import { writeCall, writeChanges, writeStep } from '../wire/step-record.ts';
import { writeDebug } from '../wire/debug-record.ts';

const PUBLISH_EVERY = 16;
/** Instructions after which steps are published: about a millisecond. */
const PUBLISH_INSTRUCTIONS = 1_000_000;
/** Approximate cost of a wake-up on each side if it crosses cores; the way through the main thread takes less. */
const SPIN_US = 30;
/**
 * Polling time if nothing is expected: the time that the main thread takes from an answer to the next message, and not
 * much more.
 */
const BRIEF_SPIN_US = 15;
/** Interval at which a thread without pauses writes down its memory. */
const NOTE_MS = 100;
/** Time that short messages have the thread while long ones wait for their turn; exceeded by one message at most. */
const SHORT_MS_MAX = 4;
/** Short messages between two looks at the clock while nothing else waits. */
const LOOK_EVERY = 64;
/** Written stable memory of all canisters of one thread. */
const STABLE_BYTES_MAX = 4 * 2 ** 30;

const TOO_LONG_ERROR = new TooLong();
/** Result of tasks that come while the server stops. */
const NOT_STARTED: EngineResult = { step: unavailableStep('the server is stopping'), debug: [], isBalanceMoved: false };

/** Work that passes the gate. */
export type Work = TaskRecord | CanisterCommand;

/** Work that is to run as a long message: a task, or a change of the code. */
interface LongWork {
  readonly call: number;
  readonly handle: number;
  readonly canister: CanisterState;
  readonly task: Task | undefined;
  /** True if the first slice of the work has run, and was undone. */
  readonly hasBegun: boolean;
  readonly work: (engine: ThreadEngine) => Running<EngineResult>;
}

/** Parts that a thread may be given: figures of its surroundings, and replacements that a simulation uses. */
export interface ThreadParts {
  /** See `Surroundings` of long-messages.ts; `nowMs` by default. */
  readonly cpuMs?: () => number;
  readonly createEngine?: CreateEngine;
  readonly heapGarbage?: Pick<HeapGarbage, 'check' | 'bytes' | 'collect'>;
  readonly returns?: PageReturns;
  readonly gate?: CanisterGate<Work>;
  readonly outbox?: RingProducer;
}

export class ExecutorThread {
  readonly #nowMs: () => number;
  readonly #inbox: RingConsumer;
  readonly #outbox: RingProducer;
  readonly #port: MessagePort;
  readonly #canisters: (CanisterState | undefined)[] = [];
  readonly #stores: SharedStores;
  /** Home of all canisters but those whose messages are long. */
  readonly #home: ThreadEngine;
  readonly #long: LongMessages<ThreadEngine>;
  readonly #gate: CanisterGate<Work>;
  readonly #packed: PackedCanisters;
  readonly #modules = new Map<string, InstrumentedCode>();
  readonly #heapGarbage: Pick<HeapGarbage, 'check' | 'bytes' | 'collect'>;
  readonly #spare: SpareMemory;
  readonly #spinGate = new SpinGate();
  readonly #book: ExecutorBook;
  readonly #executorIndex: number;
  readonly #recalls: Recalls;
  readonly #pieceSizes: PieceSizes;
  /** True if there was something to do when the thread last looked. */
  #isBusy = false;
  #lookedMs = 0;
  /** Time at which the thread last wrote down its memory; and true if work has been done since. */
  #notedMs = 0;
  #isNoteDue = true;
  #unpublished = 0;
  #unpublishedInstructions = 0;
  /** True if a step of this burst made calls to canisters. */
  #isMoreExpected = false;
  /** Time at which short messages make room for long ones. */
  #shortUntilMs = 0;
  /** Number of pieces of work that were taken from the ring. */
  #taken = 0;
  readonly #ahead = new AheadLine((ticket, handle, changes) => this.#tell({ kind: 'ahead', ticket, handle, changes }));
  readonly #certificates = new CertificateDesk((ticket, id, data) => this.#tell({ kind: 'certify', ticket, id, data }));

  /** `nowMs` returns milliseconds that never go back. */
  constructor(options: ExecutorOptions, nowMs: () => number, parts: ThreadParts = {}) {
    const { createEngine = engineOf(options), cpuMs = nowMs } = parts;
    this.#nowMs = nowMs;
    this.#inbox = new RingConsumer(options.inbox);
    this.#gate = parts.gate ?? new CanisterGate(ownWork);
    this.#outbox = parts.outbox ?? new RingProducer(options.outbox);
    this.#port = options.port;
    this.#book = new ExecutorBook(options.book, options.executorIndex);
    this.#executorIndex = options.executorIndex;
    this.#recalls = new Recalls(options.recalls);
    this.#pieceSizes = options.pieceSizes ?? PIECE_SIZES;
    const budget = new MemoryBudget(options.memory, options.executorIndex);
    this.#stores = createStores({
      stableBytesMax: STABLE_BYTES_MAX,
      heaps: heapPoolLimits(options.executors, budget.bytesMax),
      ...(parts.returns !== undefined && { returns: parts.returns }),
      budget,
    });
    const { templates } = this.#stores;
    this.#packed = new PackedCanisters(packedBytesMax(options.executors, budget.bytesMax), templates, budget);
    const reportBug = (message: string, cause: unknown): void =>
      this.#sendByPort({ kind: 'bug', message: `${message}: ${messageOf(cause)}` });
    this.#home = createEngine({ onYield: endTooLong }, this.#stores, reportBug);
    this.#long = new LongMessages({
      nowMs,
      cpuMs,
      createEngine: ({ onYield, park }) => {
        const store: StoreAhead = (changes) => this.#ahead.store(changes, park);
        const certify: Certify = (canister, atMs) => this.#certificates.certify(canister, atMs, park);
        return createEngine({ onYield, canSuspend: true, store, certify }, this.#stores, reportBug);
      },
      dropEngine: (engine) => {
        this.#leave(engine);
        engine.dispose();
      },
      hasOthers: () => this.#inbox.hasMore || this.#gate.hasDue || this.#spare.hasWork,
      // Answers of earlier messages do not wait for the end of this one.
      onYield: () => {
        this.#publish();
        this.#look(nowMs());
      },
    });
    const counts = {
      made: heapsMade,
      live: () => this.heapsLive,
      droppedBytes: () => this.#stores.heaps.droppedBytes,
      collected: (bytes: number) => budget.free(bytes / PAGE_BYTES),
    };
    this.#heapGarbage = parts.heapGarbage ?? new HeapGarbage(counts, options.executors, undefined, budget.bytesMax);
    const garbage = this.#heapGarbage;
    this.#spare = new SpareMemory({ long: this.#long, packed: this.#packed, stores: this.#stores, garbage });
  }

  /** Works for ever. Rejects with an error of the host's own: then no part of this thread can be relied on. */
  async serve(): Promise<never> {
    const lookBriefly = (): boolean => this.#inbox.spin(BRIEF_SPIN_US);
    for (;;) {
      if (await this.advance()) continue;
      // After a call, the callee's task or the callback follows soon; each one found that way is a reason to look
      // again.
      if (this.#isMoreExpected ? this.#inbox.spin(SPIN_US) : this.#spinGate.try(lookBriefly)) continue;
      this.#isMoreExpected = false;
      this.#note();
      this.#inbox.wait();
    }
  }

  /**
   * Does the work that has come, for SHORT_MS_MAX while long messages wait, and then gives one of those a turn. Returns
   * false if there is nothing to do.
   */
  advance(): boolean | Promise<boolean> {
    const nowMs = this.#nowMs();
    this.#look(nowMs);
    this.#shortUntilMs = nowMs + SHORT_MS_MAX;
    if (this.#isRecalling) this.#long.hurryRecalled();
    let isBusy = this.#inbox.drain(this.#take, this.#isEnough) > 0;
    // Does one piece at least: the thread may have been held up since it looked at the clock, and sleeps if nothing was
    // done.
    while (this.#gate.hasDue) {
      this.#gate.work(this.#begin);
      isBusy = true;
      if (this.#isEnough()) break;
    }
    if (isBusy) this.#publish();
    if (this.#spare.hasWork) {
      this.#spare.work();
      this.#publish();
      isBusy = true;
    }
    const { hasReady } = this.#long;
    this.#isBusy = isBusy || hasReady;
    return hasReady ? this.#turn() : isBusy;
  }

  /** Enters the time since the last look as busy time, if there was something to do; the clock has just been read. */
  #look(nowMs: number): void {
    if (this.#isBusy) {
      this.#book.wasBusy(nowMs - this.#lookedMs);
      this.#isNoteDue = true;
      if (nowMs - this.#notedMs >= NOTE_MS) {
        this.#notedMs = nowMs;
        this.#note();
      }
    }
    this.#lookedMs = nowMs;
    allowStacks(nowMs);
  }

  /** Writes down the thread's memory by kind. */
  #note(): void {
    if (!this.#isNoteDue) return;
    this.#isNoteDue = false;
    const { pool, heaps, frames } = this.#stores;
    const book = this.#book;
    book.has(KIND.stable, pool.slabPages * PAGE_BYTES);
    book.has(KIND.journals, this.#home.journalBytes + this.#long.journalBytes);
    book.has(KIND.queries, frames.bytes);
    book.has(KIND.spare, heaps.countedBytes + this.#packed.countedBytes);
    book.has(KIND.garbage, this.#heapGarbage.bytes);
  }

  async #turn(): Promise<true> {
    await this.#long.turn();
    this.#publish();
    return true;
  }

  /** True if work waits or is under way. */
  get hasWork(): boolean {
    return this.#inbox.hasMore || this.hasTaken;
  }

  /** True for work that has left the ring; no producer will wake the thread for it. */
  get hasTaken(): boolean {
    return this.#gate.hasDue || this.#long.hasReady;
  }

  /** Number of heaps in use, in the pool, and on their way back to the machine. */
  get heapsLive(): number {
    const inUse = this.#canisters.reduce((count, each) => count + (each?.installed === undefined ? 0 : 1), 0);
    return inUse + this.#stores.heaps.count + this.#stores.heaps.returns.count;
  }

  /** Returns the executor's state of a canister; undefined: the canister sleeps, or is not here. */
  stateOf(handle: number): CanisterState | undefined {
    return this.#canisters[handle];
  }

  /** Moves canisters that are not in a message home from an engine that is about to be dropped. */
  #leave(engine: ThreadEngine): void {
    for (const canister of this.#canisters) {
      if (canister !== undefined && !canister.isInMessage && engine.isHomeOf(canister)) this.#home.adopt(canister);
    }
  }

  /** Returns true if short messages have had their time: others wait, or nobody has looked after the thread. */
  readonly #isEnough = (): boolean => {
    const isAwaited = this.#long.hasReady || this.#gate.hasDue || this.#spare.hasWork;
    return (isAwaited || ++this.#taken % LOOK_EVERY === 0) && this.#nowMs() >= this.#shortUntilMs;
  };

  readonly #take = (type: number, at: number): void => {
    if (type === TASK) {
      this.#enter(readTask(this.#inbox, this.#port, at));
    } else if (type === COMMAND) {
      const command = receiveDue(this.#port) as Command;
      if ('handle' in command) this.#enter(command);
      else this.#obey(command);
    } else if (type === SLEEP) {
      this.#enter(readSleep(this.#inbox, at));
    } else if (type === ROUSE) {
      this.#enter(readRouse(this.#inbox, at));
    }
    this.#heapGarbage.check();
  };

  #enter(work: Work): void {
    const { handle } = work;
    if (this.#gate.admits(handle, work) && !this.#begin(work)) this.#gate.close(handle);
  }

  #obey(command: HostCommand): void {
    switch (command.kind) {
      case 'module':
        this.#modules.set(command.hash, command.code);
        return;
      case 'forgetModule': {
        const code = this.#modules.get(command.hash);
        if (code !== undefined) {
          this.#stores.heaps.forget(code);
          this.#packed.forget(code);
        }
        this.#modules.delete(command.hash);
        return;
      }
      case 'stored':
        this.#ahead.stored(command.ticket);
        return;
      case 'certified':
        this.#certificates.came(command.ticket, command.answer);
        return;
      case 'environment':
        this.#stores.environment = new Environment(command.variables);
        return;
      case 'trim':
        this.#spare.giveBack(() => this.#sendByPort({ kind: 'trimmed', call: command.call }));
    }
  }

  /** Does work for a canister that is open to it. Returns false if the work is a long message, which has not ended. */
  readonly #begin = (work: Work): boolean => {
    if (!('kind' in work)) return this.#execute(work);
    switch (work.kind) {
      case 'install':
        return this.#install(work);
      case 'wake':
        return this.#wake(work);
      case 'rouse':
        this.#rouse(work);
        return true;
      case 'capture':
      case 'restore':
        return this.#moveState(work);
      default:
        this.#command(work);
        return true;
    }
  };

  #moveState(command: StateCommand): boolean {
    const { handle } = command;
    const canister = this.#canisterAt(handle);
    const code = command.kind === 'restore' ? this.#codeOf(command.hash) : undefined;
    const isRecalled = (): boolean => this.#recalls.isAllWanted(handle);
    const moving = (engine: ThreadEngine): Running<PortMessage> =>
      movingState(engine, canister, code, command, isRecalled);
    const answer = isMovedAtOnce(canister, command, this.#pieceSizes) ? atOnce(moving(this.#home)) : undefined;
    if (answer !== undefined) {
      this.#sendByPort(answer);
      return true;
    }
    const run = async (engine: ThreadEngine): Promise<void> => {
      this.#sendByPort(await runSuspendable(moving(engine)));
      this.#gate.ended(handle);
    };
    this.#long.add({ canister, handle }, run, isRecalled);
    return false;
  }

  #command(command: Exclude<CanisterCommand, StateCommand | { readonly kind: 'install' | 'wake' | 'rouse' }>): void {
    const { handle } = command;
    const engine = this.#home;
    switch (command.kind) {
      case 'create':
        this.#canisters[handle] = engine.createCanister(command.spec);
        return;
      case 'uninstall':
        engine.uninstall(this.#canisterAt(handle));
        this.#sendDone(command.call, handle);
        return;
      case 'configure': {
        // This may follow a `rouse` or `wake` that failed. The next `wake` then hands over the settings of its moment.
        const canister = this.#canisters[handle];
        if (canister === undefined) return;
        engine.configure(canister, command.settings);
        const changes = engine.takeChanges();
        if (changes !== undefined) this.#sendByPort({ kind: 'changes', handle, changes });
        return;
      }
      case 'giveFacts': {
        const canister = this.#canisters[handle];
        if (canister !== undefined) canister.facts = command.facts;
        return;
      }
      case 'addCycles': {
        const balance = engine.addCycles(this.#canisterAt(handle), command.amount);
        const { call } = command;
        this.#sendByPort({ kind: 'balance', call, handle, balance, changes: engine.takeChanges() });
        return;
      }
      case 'remove': {
        // A sleeping canister is not here.
        const canister = this.#canisters[handle];
        if (canister !== undefined) engine.removeCanister(canister);
        this.#packed.drop(handle);
        this.#canisters[handle] = undefined;
        return;
      }
      case 'sleep':
        this.#sleep(command);
        return;
      case 'checkpoint': {
        // The canister may have been deleted between two pieces: then there is nothing left to write.
        const canister = this.#canisters[handle];
        let isReady = true;
        if (canister !== undefined) {
          if (command.isPreparing) isReady = engine.prepareCheckpoint(canister);
          else engine.checkpoint(canister);
        }
        this.#sendDone(command.call, handle, isReady);
      }
    }
  }

  #sleep({ call, handle, isPreparing }: SleepRecord): void {
    const canister = this.#canisters[handle];
    const isReady = canister === undefined || !isPreparing || this.#home.prepareCheckpoint(canister);
    let answer: RestAnswer = isReady ? 'asleep' : 'unready';
    if (canister !== undefined && isReady) {
      const packed = this.#home.putToSleep(canister);
      if (packed !== undefined && this.#packed.add(handle, packed)) answer = 'packed';
      this.#canisters[handle] = undefined;
    }
    const changes = this.#home.takeChanges();
    if (changes === undefined) this.#sendRest(call, answer);
    else this.#sendByPort({ kind: 'asleep', call, handle, changes, answer });
  }

  #rouse({ call, handle, status, timerNs: hostTimerNs, instantMs, ...facts }: RouseRecord): void {
    const packed = this.#packed.take(handle);
    if (packed === undefined || !isAsPacked(packed, facts)) {
      if (packed !== undefined) this.#packed.letGo(packed);
      this.#sendRest(call, 'notPacked');
      return;
    }
    const settings = { ...packed.settings, status };
    const timerNs = isSameTimer(packed.timerNs, hostTimerNs) ? packed.timerNs : hostTimerNs;
    this.#wakeAtOnce(call, handle, packed.code, {
      ...packed,
      settings,
      timerNs,
      instantMs,
      openCalls: [],
      log: undefined,
    });
    this.#packed.letGo(packed);
  }

  /**
   * Wakes a canister. If its log has to be run again, or its memory is more than one chunk of heap and one of stable
   * memory, that is a long message.
   */
  #wake(command: Extract<CanisterCommand, { readonly kind: 'wake' }>): boolean {
    const { call, handle, hash, canister: stored } = command;
    const { memory, log } = stored;
    const letGoOfRead = (): void => {
      // The bytes that were read are not needed any more. They may be as large as the canister, so they do not wait for
      // their collection.
      for (const bytes of [...memory.heap.chunks, ...memory.stable.chunks]) release(bytes);
      if (log !== undefined) release(log.records.bytes);
    };
    this.#packed.drop(handle);
    const code = this.#codeOf(hash);
    const isSmall = memory.heap.chunks.length <= 1 && memory.stable.chunks.length <= 1;
    const isReplayed = (log?.records.ends.length ?? 0) > 0;
    if (isSmall && !isReplayed) {
      this.#wakeAtOnce(call, handle, code, stored);
      letGoOfRead();
      return true;
    }
    const canister = this.#home.createCanister(stored.spec);
    const run = async (engine: ThreadEngine): Promise<void> => {
      const outcome = await runSuspendable(engine.waking(canister, code, stored)).catch(problemOf);
      letGoOfRead();
      this.#awake(call, handle, engine, canister, outcome);
      this.#gate.ended(handle);
    };
    if (isReplayed) this.#long.add({ canister, handle }, run);
    else this.#long.addHostWork({ canister, handle }, run);
    return false;
  }

  #wakeAtOnce(
    call: number,
    handle: number,
    code: InstrumentedCode | undefined,
    stored: StoredCanisterState & Pick<PackedFacts, 'spec'>,
  ): void {
    const canister = this.#home.createCanister(stored.spec);
    let outcome: string | number | Problem;
    try {
      outcome = runToEnd(this.#home.waking(canister, code, stored));
    } catch (error) {
      outcome = problemOf(error);
    }
    this.#awake(call, handle, this.#home, canister, outcome);
  }

  /**
   * Ends a wake. `outcome` is the reason why the canister cannot be woken, or the number of records that were run
   * again.
   */
  #awake(
    call: number,
    handle: number,
    engine: ThreadEngine,
    canister: CanisterState,
    outcome: string | number | Problem,
  ): void {
    const changes = engine.takeChanges();
    if (typeof outcome !== 'number') {
      // Changes of a canister that could not be woken are not stored.
      engine.removeCanister(canister);
      const problem = typeof outcome === 'string' ? { problem: outcome, isShort: false } : outcome;
      this.#sendByPort({ kind: 'awake', call, handle, ...problem, replayed: undefined, changes: undefined });
      return;
    }
    this.#canisters[handle] = canister;
    const replayed = outcome === 0 ? undefined : replayedIn(canister, outcome);
    if (replayed === undefined && changes === undefined) this.#sendRest(call, 'awake');
    else this.#sendByPort({ kind: 'awake', call, handle, ...NO_PROBLEM, replayed, changes });
  }

  #execute({ call, handle, task, nowMs }: TaskRecord): boolean {
    const canister = this.#canisterAt(handle);
    if (this.#isRecalling && this.#recalls.isUnbegunWanted(handle)) {
      this.#giveBack(call, task);
      return true;
    }
    const isAgain = !canister.isLong && !this.#home.carriesMuch(canister, task);
    if (isAgain) {
      const result = this.#inbox.isStopping ? NOT_STARTED : this.#home.execute(canister, task, nowMs);
      if (this.#isAnswered(call, handle, canister, result)) return true;
    }
    const own = ownTask(task);
    const work = (engine: ThreadEngine): Running<EngineResult> => engine.executing(canister, own, nowMs, isAgain);
    this.#runLong({ call, handle, canister, task: own, hasBegun: isAgain, work });
    return false;
  }

  #install({ call, handle, hash, change, nowMs }: Extract<CanisterCommand, { readonly kind: 'install' }>): boolean {
    const code = this.#moduleOf(hash);
    const canister = this.#canisterAt(handle);
    if (this.#recalls.isAllWanted(handle)) {
      this.#giveBack(call, undefined);
      return true;
    }
    const isAgain = !canister.isLong;
    if (isAgain) {
      const result = this.#inbox.isStopping ? NOT_STARTED : this.#home.change(canister, code, change, nowMs);
      if (this.#isAnswered(call, handle, canister, result)) return true;
    }
    const work = (engine: ThreadEngine): Running<EngineResult> => engine.changing(canister, code, change, nowMs);
    this.#runLong({ call, handle, canister, task: undefined, hasBegun: isAgain, work });
    return false;
  }

  #isAnswered(call: number, handle: number, canister: CanisterState, result: EngineResult): boolean {
    if (result === TOO_LONG) return false;
    this.#answer(call, handle, canister, result);
    return true;
  }

  #runLong({ call, handle, canister, task, hasBegun, work }: LongWork): void {
    if (hasBegun && canister.certificate?.isWanted !== true) canister.expectLong();
    const recalls = this.#recalls;
    // A change of the code is recalled only with all of the canister's work: others may wait for it to be done.
    let isStarted = hasBegun || task === undefined;
    const isRecalled = (): boolean => (isStarted ? recalls.isAllWanted(handle) : recalls.isUnbegunWanted(handle));
    const run = async (engine: ThreadEngine): Promise<void> => {
      const mayStart = hasBegun || !this.#inbox.isStopping;
      let result = isRecalled() ? TOO_LONG : NOT_STARTED;
      if (result !== TOO_LONG && mayStart) {
        isStarted = true;
        result = await runSuspendable(work(engine));
      }
      if (result === TOO_LONG) {
        // Payloads that were stored ahead go with their message.
        const changes = engine.takeChanges();
        if (changes !== undefined) this.#sendByPort({ kind: 'changes', handle, changes });
        this.#giveBack(call, task);
      } else {
        canister.ranLong(result.step.instructions);
        this.#answer(call, handle, canister, result);
      }
      this.#gate.ended(handle);
    };
    this.#long.add({ canister, handle }, run, isRecalled);
  }

  get #isRecalling(): boolean {
    return this.#recalls.isAny(this.#executorIndex);
  }

  /**
   * Returns work to the main thread that has not begun, or was undone as if it had not; with its argument if that was
   * handed over.
   */
  #giveBack(call: number, task: Task | undefined): void {
    const argument = task !== undefined && 'argument' in task ? task.argument : undefined;
    if (argument === undefined || argument.length <= INLINE_BYTES_MAX) this.#sendRest(call, 'takenBack');
    else this.#sendByPort({ kind: 'takenBack', call, argument });
  }

  #answer(call: number, handle: number, canister: CanisterState, result: EngineResult): void {
    const outbox = this.#outbox;
    const port = this.#port;
    const { step, changes, debug } = result;
    for (const line of debug) while (!writeDebug(outbox, port, handle, line)) outbox.waitForRoom();
    if (!this.#isMoreExpected) this.#isMoreExpected = step.calls.some(isToCanister);
    for (const piece of changes ?? []) while (!writeChanges(outbox, port, piece)) outbox.waitForRoom();
    for (const outgoing of step.calls) while (!writeCall(outbox, port, outgoing)) outbox.waitForRoom();
    const record = {
      call,
      handle,
      step,
      heapBytes: canister.installed?.instance.heapBytes ?? 0,
      stableBytes: canister.stable.bytes,
      numbers: canister,
      balance: result.isBalanceMoved ? canister.account.balance : undefined,
      instantMs: canister.instantMs,
      loggedInstructions: canister.persistence?.instructions ?? 0,
    };
    while (!writeStep(outbox, port, record)) outbox.waitForRoom();
    this.#book.ended(step.instructions);
    this.#unpublishedInstructions += step.instructions;
    const isMuch = ++this.#unpublished >= PUBLISH_EVERY || this.#unpublishedInstructions > PUBLISH_INSTRUCTIONS;
    if (isMuch || this.#outbox.isHeard) this.#publish();
  }

  /** Reports that a command is done, with its changes. */
  #sendDone(call: number, handle: number, isReady = true): void {
    this.#sendByPort({ kind: 'done', call, handle, changes: this.#home.takeChanges(), isReady });
  }

  #sendRest(call: number, answer: RestAnswer): void {
    while (!writeRest(this.#outbox, call, answer)) this.#outbox.waitForRoom();
  }

  /**
   * Sends a message by the port. The marker comes first: the message must not be read before its turn, but may be
   * posted before the marker is published.
   */
  #sendByPort(message: PortMessage): void {
    const given = ('changes' in message ? (message.changes ?? []) : []).map(({ buffer }) => buffer as ArrayBuffer);
    while (!postInOrder(this.#outbox, this.#port, MESSAGE, message, given)) this.#outbox.waitForRoom();
  }

  #tell(message: PortMessage): void {
    this.#sendByPort(message);
    this.#publish();
  }

  #publish(): void {
    this.#unpublished = 0;
    this.#unpublishedInstructions = 0;
    this.#outbox.publish();
  }

  #canisterAt(handle: number): CanisterState {
    const canister = this.#canisters[handle];
    if (canister === undefined) throw new Error(`no canister ${handle} in this executor`);
    return canister;
  }

  #codeOf(hash: string | undefined): InstrumentedCode | undefined {
    return hash === undefined ? undefined : this.#moduleOf(hash);
  }

  #moduleOf(hash: string): InstrumentedCode {
    const code = this.#modules.get(hash);
    if (code === undefined) throw new Error(`no module ${hash} in this executor`);
    return code;
  }
}

/** Place of each kind of memory in the book. */
const KIND = Object.fromEntries(MEMORY_KINDS.map((kind, at) => [kind, at])) as Readonly<Record<MemoryKind, number>>;

/**
 * Returns true if the callee is a canister. Answers of the management canister take longer than a poll, those of
 * outcalls most of all.
 */
function isToCanister({ callee }: OutgoingCall): boolean {
  return callee.length > 0;
}

/** Returns the same work with bytes of its own. */
export function ownWork(work: Work): Work {
  return 'kind' in work ? work : { ...work, task: ownTask(work.task) };
}

function endTooLong(): never {
  throw TOO_LONG_ERROR;
}
