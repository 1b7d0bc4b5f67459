/**
 * An engine without code: the effects of its canisters' messages are drawn at random, and so are their durations and
 * the sizes of their payloads. The shipped threads drive this engine as they drive the real one.
 *
 * The engine checks the rules on which the real one relies. A canister has one message at a time, from whatever source;
 * nothing comes between a message that was too long and its second try; work for a canister is done completely and in
 * the order in which it came; an engine has one message at a time, since it has one journal. `RandomSteps` decides what
 * a message does.
 */
import assert from 'node:assert/strict';
import { type CanisterState, CanisterState as State } from '../../subsystems/execution/engine/canister-state.ts';
import {
  type EngineResult,
  type Runnable,
  type Running,
  runToEnd,
  type SharedStores,
  TOO_LONG,
} from '../../subsystems/execution/engine/engine.ts';
import type { ThreadEngine, Yields } from '../../subsystems/execution/thread/thread-engine.ts';
import { type Fault, faultOf } from '../../subsystems/execution/engine/fault.ts';
import type { CanisterImage, CanisterSettings, CanisterSpec, CodeChange } from '../../subsystems/execution/index.ts';
import type { Task } from '../../subsystems/ic/index.ts';
import type { InstrumentedCode } from '../../subsystems/execution/wire/instrumented-code.ts';
import { isPacked } from '../../subsystems/execution/memory/packed-memory.ts';
import type { PackedCanister } from '../../subsystems/execution/persistence/packed-canister.ts';
import type { StoredCanisterState } from '../../subsystems/execution/persistence/wake-canister.ts';
import type { MeteringPolicy } from '../../subsystems/metering/index.ts';
import { STOP } from '../../subsystems/instrument/index.ts';
import { Books, type Change, encodeChanges } from './books.ts';
import { fromCode } from './random-modules.ts';
import { type EngineHost, RandomSteps } from './random-steps.ts';
import { type Entry, Subject, type ThreadNotes } from './random-subject.ts';
import { drawBytes, seal, unseal } from './sealed.ts';
import { KILLED } from './stepped-threads.ts';

export const POLICY: MeteringPolicy = {
  isEnabled: true,
  startingCycles: 0n,
  cyclesPerMessage: 0,
  cyclesPer10Instructions: 0,
  instructionLimit: 2 ** 40,
};

/** Instructions of a slice of fuel. */
const SLICE = 2 ** 20;
/** Sizes of journals: an engine whose journal exceeds 64 MiB is not used again. */
const JOURNAL_BYTES_MAX = 2 ** 27;
const NO_BYTES = new Uint8Array(0);

export class RandomEngine implements ThreadEngine {
  readonly #yields: Yields;
  readonly #shared: SharedStores;
  readonly #thread: ThreadNotes;
  readonly #host: EngineHost;
  readonly #steps: RandomSteps;
  /** Canister whose message the engine runs. */
  #open: Subject | undefined;
  /** Canister with changes to be told. */
  #told: Subject | undefined;
  #journalBytes = 0;

  constructor(yields: Yields, shared: SharedStores, thread: ThreadNotes, host: EngineHost) {
    this.#yields = yields;
    this.#shared = shared;
    this.#thread = thread;
    this.#host = host;
    this.#steps = new RandomSteps(host, (subject, change) => this.#change(subject, change));
  }

  // ---- canisters

  createCanister(spec: CanisterSpec): CanisterState {
    const state = new State(spec, POLICY, this.#shared.pool, this.#shared.environment);
    const handle = this.#host.handleOf(spec.id);
    const subject = new Subject(handle, state, this.#thread, this);
    subject.books.balance = spec.balance;
    this.#thread.subjects.set(state, subject);
    subject.isAwake = this.#thread.next(handle) === 'create';
    if (subject.isAwake) this.#thread.begun(handle, 'create');
    this.#host.arrived(subject);
    return state;
  }

  removeCanister(state: CanisterState): void {
    const subject = this.#subjectOf(state);
    // A canister that could not be woken is given up by this.
    if (subject.isAwake) {
      this.#enter(subject, 'remove');
      this.#host.removed(subject);
    }
    subject.isGone = true;
  }

  putToSleep(state: CanisterState): PackedCanister | undefined {
    const subject = this.#subjectOf(state);
    this.#enter(subject, 'sleep');
    assert.equal(subject.frames.size, 0, 'no query waits in what is put to sleep');
    this.#perhapsTell(subject);
    subject.isGone = true;
    return this.#host.draw(2) === 0 ? undefined : this.#packed(subject);
  }

  /** Returns the state that the executor may keep: the told state, with the pending change set counted. */
  #packed({ state, books }: Subject): PackedCanister {
    const kept = books.copy();
    if (this.#told !== undefined) kept.told++;
    const { id, account, settings } = state;
    const { controllers, env } = settings;
    return {
      spec: {
        id,
        balance: account.balance,
        controllers,
        env,
        snapshotBelowBytes: state.persistence?.snapshotBelowBytes,
      },
      settings,
      timerNs: state.timerNs,
      code: books.version === undefined ? undefined : this.#thread.codeOf(books.version),
      heapBytes: 0,
      stablePages: 0,
      memory: { isPacked: true, heap: undefined, stable: [] },
      copy: 0,
      globals: kept.encode(drawBytes(this.#host.draw)),
      certifiedData: NO_BYTES,
      bytes: this.#host.draw(4) * 2 ** 26,
    };
  }

  isHomeOf(state: CanisterState): boolean {
    return this.#subjectOf(state).home === this;
  }

  adopt(state: CanisterState): void {
    const subject = this.#subjectOf(state);
    if (subject.home === this) return;
    assert.ok(!state.isInMessage, 'a canister leaves an engine between its messages');
    subject.home = this;
  }

  dispose(): void {}

  get journalBytes(): number {
    return this.#journalBytes;
  }

  // ---- messages

  /** True now and then: a message of those is a long one from the beginning. */
  carriesMuch(state: CanisterState, task: Task): boolean {
    return task.kind === 'update' && this.#subjectOf(state).again === undefined && this.#host.draw(50) === 0;
  }

  execute(state: CanisterState, task: Task, nowMs: number): EngineResult {
    return runToEnd(this.executing(state, task, nowMs));
  }

  *executing(state: CanisterState, task: Task, nowMs: number, isAgain = false): Running<EngineResult> {
    const subject = this.#subjectOf(state);
    assert.equal(subject.again !== undefined, isAgain, 'who is begun again is told so');
    return yield* this.#message(subject, task.kind, nowMs, {
      // A response's effects are the canister's before anything runs, and stay so.
      begun: () => (task.kind === 'callback' ? this.#steps.respond(subject, task) : undefined),
      run: (instructions) => this.#steps.run(subject, task, instructions),
    });
  }

  change(state: CanisterState, code: InstrumentedCode, change: CodeChange, nowMs: number): EngineResult {
    return runToEnd(this.changing(state, code, change, nowMs));
  }

  *changing(state: CanisterState, code: InstrumentedCode, change: CodeChange, nowMs: number): Running<EngineResult> {
    const subject = this.#subjectOf(state);
    this.#thread.seen(code);
    return yield* this.#message(subject, 'install', nowMs, {
      begun: () => void unseal(change.argument, 'the argument of an installation'),
      run: (instructions) => this.#steps.install(subject, fromCode(code), change, instructions),
    });
  }

  *#message(
    subject: Subject,
    kind: Entry,
    nowMs: number,
    work: { readonly begun: () => void; readonly run: (instructions: number) => EngineResult },
  ): Running<EngineResult> {
    const { state, again } = subject;
    if (again === undefined) {
      this.#enter(subject, kind, nowMs);
      work.begun();
    } else assert.equal(again.nowMs, nowMs, 'what was too long is begun again before anything else');
    subject.again = undefined;
    const slices = again?.slices ?? this.#drawSlices(subject);
    this.#begin(subject);
    try {
      const fault = yield this.#slices(subject, slices);
      if (fault?.kind === 'long') {
        this.#told = undefined;
        if (this.#yields.canSuspend === true) {
          assert.ok(this.#host.isDoomed(subject.handle), 'nothing but a deletion ends what executes');
          this.#host.tally.endedByForce++;
          return TOO_LONG;
        }
        assert.equal(again, undefined, 'what is begun again can be suspended');
        subject.again = { nowMs, slices };
        this.#host.tally.tooLong++;
        return TOO_LONG;
      }
      // Changes that the message's first try has made are told with the second.
      if (subject.untold.length > 0) this.#tell(subject);
      state.instant(nowMs);
      const result = work.run(slices === 0 ? 1 + this.#host.draw(1000) : slices * SLICE);
      this.#thread.ended(subject.handle, nowMs);
      return { ...result, changes: this.takeChanges() };
    } finally {
      this.#end(subject);
    }
  }

  #begin(subject: Subject): void {
    assert.equal(this.#open, undefined, 'an engine has one message at a time');
    this.adopt(subject.state);
    subject.state.isInMessage = true;
    this.#open = subject;
  }

  #end(subject: Subject): void {
    subject.state.isInMessage = false;
    this.#open = undefined;
  }

  /** Draws the number of slices that a message needs after its first; 0: the first is enough. */
  #drawSlices({ longOneIn }: Subject): number {
    const { draw, tally } = this.#host;
    if (draw(longOneIn) > 0) return 0;
    tally.long++;
    if (draw(24) > 0) return 1 + draw(draw(4) === 0 ? 40 : 4);
    tally.endless++;
    return 200 + draw(800);
  }

  #slices(subject: Subject, slices: number): Runnable {
    const { onYield = (): undefined => undefined, canSuspend = false } = this.#yields;
    const { draw, tally } = this.#host;
    const thread = this.#thread;
    return {
      runToEnd: () => {
        assert.ok(!canSuspend, 'an engine of long messages runs no others');
        try {
          for (let n = 0; n < slices; n++) onYield();
          return undefined;
        } catch (error) {
          return faultOf(error, STOP.NONE);
        }
      },
      runSuspendable: async () => {
        assert.ok(canSuspend, 'an engine of short messages runs no others');
        if (draw(60) === 0) this.#journalBytes = Math.max(this.#journalBytes, draw(JOURNAL_BYTES_MAX));
        let isSuspended = false;
        for (let n = 0; n < slices; n++) {
          const waiting = yieldOrFault(onYield);
          if (waiting instanceof Promise) {
            if (!isSuspended) tally.suspended++;
            isSuspended = true;
            thread.suspended++;
            if (thread.suspended > 1) tally.suspendedTogether++;
            const fault = await waiting.then(nothing, (error: unknown) => faultOf(error, STOP.NONE));
            thread.suspended--;
            if (subject.isAwake) this.#mayDie(1);
            assert.equal(this.#open, subject, 'an engine goes on with the message that it has begun');
            if (fault !== undefined) return fault;
          } else if (waiting !== undefined) return waiting;
        }
        return undefined;
      },
    };
  }

  // ---- between messages

  uninstall(state: CanisterState): void {
    const subject = this.#subjectOf(state);
    this.#enter(subject, 'uninstall');
    subject.dropFrames();
    this.#change(subject, { kind: 'code', version: undefined, by: 'operator' });
    this.#change(subject, { kind: 'emptied' });
  }

  configure(state: CanisterState, settings: CanisterSettings): void {
    const subject = this.#subjectOf(state);
    this.#enter(subject, 'configure');
    state.configure(settings);
    this.#perhapsTell(subject);
  }

  addCycles(state: CanisterState, amount: bigint): bigint {
    const subject = this.#subjectOf(state);
    this.#enter(subject, 'addCycles');
    this.#change(subject, { kind: 'balance', by: amount });
    return state.account.balance;
  }

  // oxlint-disable-next-line require-yield -- driven as the engine's
  *capturing(state: CanisterState): Running<Omit<CanisterImage, 'module'>> {
    const subject = this.#subjectOf(state);
    this.#enter(subject, 'capture');
    const heap = seal(Buffer.from(JSON.stringify([subject.handle, subject.books.memory])), drawBytes(this.#host.draw));
    return { heap, globals: NO_BYTES, stable: [], stablePages: 0, certifiedData: NO_BYTES };
  }

  // oxlint-disable-next-line require-yield -- driven as the engine's
  *restoring(
    state: CanisterState,
    code: InstrumentedCode | undefined,
    image: Omit<CanisterImage, 'module'>,
  ): Running<string | undefined> {
    const subject = this.#subjectOf(state);
    this.#enter(subject, 'restore');
    this.#thread.seen(code);
    const [handle, memory] = JSON.parse(unseal(image.heap, 'an image').toString()) as [number, number];
    assert.equal(handle, subject.handle, 'the image is its own');
    if (this.#host.draw(6) === 0) return 'the image does not fit';
    subject.dropFrames();
    this.#change(subject, { kind: 'memory', value: memory });
    const version = code === undefined ? undefined : fromCode(code).version;
    this.#change(subject, { kind: 'code', version, by: 'snapshot' });
    if (code !== undefined) subject.longOneIn = fromCode(code).longOneIn;
    return undefined;
  }

  /** Prepares a checkpoint, or sleep, which follows at once if there is little to write. */
  prepareCheckpoint(state: CanisterState): boolean {
    const isReady = this.#host.draw(3) > 0;
    const subject = this.#subjectOf(state);
    const isSleep = this.#thread.next(subject.handle, true) === 'sleep';
    if (isSleep && isReady) return true;
    this.#checkpoint(subject, isSleep ? 'sleep' : 'checkpoint');
    return isReady;
  }

  checkpoint(state: CanisterState): void {
    this.#checkpoint(this.#subjectOf(state), 'checkpoint');
  }

  #checkpoint(subject: Subject, kind: 'sleep' | 'checkpoint'): void {
    this.#enter(subject, kind);
    this.#perhapsTell(subject);
  }

  *waking(
    state: CanisterState,
    code: InstrumentedCode | undefined,
    stored: StoredCanisterState,
  ): Running<string | number> {
    const subject = this.#subjectOf(state);
    try {
      return yield* this.#waking(subject, code, stored);
    } catch (error) {
      // A thread reports an error here as the reason why the canister cannot be woken.
      this.#host.problem(error);
      throw error;
    }
  }

  *#waking(
    subject: Subject,
    code: InstrumentedCode | undefined,
    { log, globals, settings, memory }: StoredCanisterState,
  ): Running<string | number> {
    const { state } = subject;
    this.#thread.seen(code);
    this.#enter(subject, isPacked(memory) ? 'rouse' : 'wake');
    if (isPacked(memory)) this.#host.tally.roused++;
    const books = Books.decode(log === undefined ? globals : log.records.bytes);
    if (code !== undefined) subject.longOneIn = fromCode(code).longOneIn;
    this.#begin(subject);
    try {
      const fault = yield this.#slices(subject, log === undefined ? 0 : this.#drawSlices(subject));
      assert.equal(fault, undefined, 'nothing is woken where it cannot be suspended');
    } finally {
      this.#end(subject);
    }
    if (this.#host.hasFailures && this.#host.draw(8) === 0) return 'it does not fit';
    assert.equal(books.version, code === undefined ? undefined : fromCode(code).version, 'it is woken with its code');
    assert.equal(books.balance, state.account.balance, 'it is woken with its balance');
    subject.books = books;
    state.configure(settings);
    subject.isAwake = true;
    this.#perhapsTell(subject);
    return log?.records.ends.length ?? 0;
  }

  // ---- changes that are told

  takeChanges(): readonly Uint8Array[] | undefined {
    const subject = this.#told;
    this.#told = undefined;
    if (subject === undefined) return undefined;
    const changes = subject.untold.splice(0);
    if (subject.state.persistence === undefined) return undefined;
    const { handle, books } = subject;
    const { draw, tally } = this.#host;
    const pieces: Uint8Array[] = [];
    do {
      const some = changes.splice(0, draw(4) === 0 ? 1 : changes.length);
      const bytes = encodeChanges({ handle, number: ++books.told, changes: some }, drawBytes(draw));
      tally.payload('changes', bytes.length);
      pieces.push(bytes);
    } while (changes.length > 0);
    return pieces;
  }

  #change(subject: Subject, change: Change): void {
    const { books, state, untold } = subject;
    this.#tell(subject);
    books.apply(change);
    untold.push(change);
    if (change.kind === 'balance') state.account.add(change.by);
    assert.equal(state.account.balance, books.balance, 'account and books agree');
  }

  /** Sometimes tells of a change that changes nothing, as checkpoints do. */
  #perhapsTell(subject: Subject): void {
    if (this.#host.draw(2) === 0) this.#tell(subject);
  }

  #tell(subject: Subject): void {
    assert.ok((this.#told ?? subject) === subject, 'what is told at once is of one canister');
    this.#told = subject;
  }

  // ---- the one check that everything passes

  #enter(subject: Subject, kind: Entry, nowMs?: number): void {
    const { state, handle } = subject;
    if (subject.isAwake) this.#mayDie();
    assert.ok(!state.isInMessage, `canister ${handle}: ${kind} while a message of its is under way`);
    // A message that was undone to be begun again was ended by a deletion.
    if (this.#host.isDoomed(handle)) subject.again = undefined;
    assert.equal(subject.again, undefined, `canister ${handle}: ${kind} before its message was begun again`);
    assert.ok(!subject.isGone, `canister ${handle}: ${kind} after it has gone`);
    this.#thread.begun(handle, kind, nowMs);
    this.#host.tally.entries++;
  }

  #mayDie(suspended = 0): void {
    if (!this.#host.dies()) return;
    this.#host.tally.diedSuspended += suspended;
    throw new Error(KILLED);
  }

  #subjectOf(state: CanisterState): Subject {
    const subject = this.#thread.subjects.get(state);
    assert.ok(subject, 'it is a canister of this thread');
    return subject;
  }
}

const nothing = (): undefined => undefined;

/** Calls `onYield`; returns its promise, which suspends the message, or its fault, which ends the message. */
function yieldOrFault(onYield: () => unknown): Promise<unknown> | Fault | undefined {
  try {
    const waiting = onYield();
    return waiting instanceof Promise ? waiting : undefined;
  } catch (error) {
    return faultOf(error, STOP.NONE);
  }
}
