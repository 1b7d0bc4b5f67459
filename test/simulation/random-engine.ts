/**
 * An engine without code: what the messages of its canisters do is drawn at random, and so is how long they take and how
 * large their payloads are. The shipped threads drive it as they drive the real one.
 *
 * It checks what the real one relies on. A canister has one message at a time, whoever brings it; nothing gets in between
 * one that was too long and its second try; what has come for a canister is done in the order in which it came, and all of
 * it; an engine has one message at a time, for it has one journal. `RandomSteps` has what a message does.
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
/** Sizes of journals: an engine with more than 64 MiB of it is not used again. */
const JOURNAL_BYTES_MAX = 2 ** 27;
const NO_BYTES = new Uint8Array(0);

export class RandomEngine implements ThreadEngine {
  readonly #yields: Yields;
  readonly #shared: SharedStores;
  readonly #thread: ThreadNotes;
  readonly #host: EngineHost;
  readonly #steps: RandomSteps;
  /** Whose message it has. */
  #open: Subject | undefined;
  /** Of whom something is to be told. */
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
    // One that could not be woken is given up with that.
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

  /** What its executor may keep of it: what is told of it, when all of it is. */
  #packed({ state, books }: Subject): PackedCanister {
    const kept = books.copy();
    if (this.#told !== undefined) kept.told++;
    const { id, account, settings } = state;
    const { controllers, env } = settings;
    return {
      spec: { id, balance: account.balance, controllers, env, snapshotBelowBytes: state.kept?.snapshotBelowBytes },
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

  execute(state: CanisterState, task: Task, nowMs: number): EngineResult {
    return runToEnd(this.executing(state, task, nowMs));
  }

  *executing(state: CanisterState, task: Task, nowMs: number, isAgain = false): Running<EngineResult> {
    const subject = this.#subjectOf(state);
    assert.equal(subject.again !== undefined, isAgain, 'who is begun again is told so');
    return yield* this.#message(subject, task.kind, nowMs, {
      // What a response brings is the canister's before anything runs, and stays so.
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
      // What its first try has taken in is told with it.
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

  /** What is left of a message when it has used up its first slice; 0: it has not. */
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

  /** Of a checkpoint, or before sleep, which follows at once if there is little to write. */
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
      // A thread answers what goes wrong here with the reason why it cannot be woken.
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

  // ---- what is told

  takeChanges(): readonly Uint8Array[] | undefined {
    const subject = this.#told;
    this.#told = undefined;
    if (subject === undefined) return undefined;
    const changes = subject.untold.splice(0);
    if (subject.state.kept === undefined) return undefined;
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

  /** Something that changes nothing, as checkpoints do. */
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
    // One that was undone to be begun again has been ended by a deletion.
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

/** A promise suspends the message; a fault ends it. */
function yieldOrFault(onYield: () => unknown): Promise<unknown> | Fault | undefined {
  try {
    const waiting = onYield();
    return waiting instanceof Promise ? waiting : undefined;
  } catch (error) {
    return faultOf(error, STOP.NONE);
  }
}
