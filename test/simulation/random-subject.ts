/** Notes of one thread's engines about its canisters and the work that has come for them. */
import assert from 'node:assert/strict';
import type { CanisterState } from '../../subsystems/execution/engine/canister-state.ts';
import type { Work } from '../../subsystems/execution/thread/executor-thread.ts';
import type { InstrumentedCode } from '../../subsystems/execution/wire/instrumented-code.ts';
import type { Task } from '../../subsystems/ic/index.ts';
import { Books, type Change } from './books.ts';
import { fromCode } from './random-modules.ts';

/** One canister in one executor. */
export class Subject {
  readonly handle: number;
  readonly state: CanisterState;
  readonly thread: ThreadNotes;
  books = new Books();
  /** One message in this many is long. */
  longOneIn = 1;
  /** Unanswered calls of the canister's composite queries. */
  readonly queryCalls = new Set<number>();
  /** Suspended composite queries, each with its number of open calls. */
  readonly frames = new Map<number, number>();
  /** Composite queries that were dropped with their code. */
  readonly lostFrames = new Set<number>();
  /** The canister's message that was too long, until it is begun again. */
  again: { readonly nowMs: number; readonly slices: number } | undefined = undefined;
  /** The engine that has the canister. */
  home: object;
  /** Changes to be told, possibly none. */
  untold: Change[] = [];
  /** True if the canister has the state with which it was woken. */
  isAwake = false;
  isGone = false;

  constructor(handle: number, state: CanisterState, thread: ThreadNotes, home: object) {
    this.handle = handle;
    this.state = state;
    this.thread = thread;
    this.home = home;
  }

  /** Drops the composite queries that wait. */
  dropFrames(): void {
    for (const frame of this.frames.keys()) this.lostFrames.add(frame);
    this.frames.clear();
  }
}

/** Work that has come to a thread. */
interface Arrival {
  readonly kind: Entry;
  readonly nowMs: number | undefined;
  /** `leftOut`: work that came later has begun. */
  fate: 'waiting' | 'begun' | 'ended' | 'leftOut' | 'takenBack';
}
export type Entry = Task['kind'] | Extract<Work, { readonly kind: string }>['kind'];

/** Work that may also be requested for a canister that is not there, and then has no effect. */
const OF_ANY: readonly Entry[] = ['sleep', 'rouse', 'checkpoint', 'remove'];

/** Notes that the engines of one thread share. */
export class ThreadNotes {
  readonly subjects = new WeakMap<CanisterState, Subject>();
  isDead = false;
  /** Number of suspended messages. */
  suspended = 0;
  /** Returns true if the thread starts nothing new: work that has come may be answered without having begun. */
  readonly isStopping: () => boolean;
  /** Returns true if work of a canister that has not begun is taken back, or was a moment ago. */
  readonly isRecalled: (handle: number) => boolean;
  /** Code received so far, by version. */
  readonly #codes = new Map<number, InstrumentedCode>();
  /** Work that has not begun, by canister. */
  readonly #arrivals = new Map<number, Arrival[]>();
  /** All tasks and changes of code, by canister, in the order in which they were given. */
  readonly #tasks = new Map<number, Arrival[]>();

  constructor(isStopping: () => boolean, isRecalled: (handle: number) => boolean) {
    this.isStopping = isStopping;
    this.isRecalled = isRecalled;
  }

  /** Notes received code, if any. */
  seen(code: InstrumentedCode | undefined): void {
    if (code !== undefined) this.#codes.set(fromCode(code).version, code);
  }

  codeOf(version: number): InstrumentedCode {
    const code = this.#codes.get(version);
    assert.ok(code, `the code of version ${version} has come`);
    return code;
  }

  /** Notes work that has come to the gate. */
  arrived(handle: number, work: Work): void {
    const kind = 'kind' in work ? work.kind : work.task.kind;
    const nowMs = 'nowMs' in work ? work.nowMs : undefined;
    const arrival: Arrival = { kind, nowMs, fate: 'waiting' };
    append(this.#arrivals, handle, arrival);
    if (nowMs !== undefined) append(this.#tasks, handle, arrival);
  }

  /** Notes that the work of a canister that began last is done. */
  ended(handle: number, nowMs: number): void {
    const arrival = this.#tasks.get(handle)?.findLast((each) => each.nowMs === nowMs);
    assert.ok(arrival, `canister ${handle}: what has ended had come`);
    assert.equal(arrival.fate, 'begun', `canister ${handle}: it ends once`);
    arrival.fate = 'ended';
  }

  /** Notes that the main thread has been told the result of the nth task of a canister. */
  told(handle: number, place: number, isTakenBack: boolean): void {
    const arrival = this.#tasks.get(handle)?.[place];
    assert.ok(arrival, `canister ${handle}: what is told of had come`);
    const { kind, fate } = arrival;
    if (!isTakenBack) assert.equal(fate, 'ended', `canister ${handle}: ${kind} has ended where a step tells so`);
    else {
      assert.notEqual(fate, 'ended', `canister ${handle}: ${kind} that is taken back has not been executed`);
      arrival.fate = 'takenBack';
    }
  }

  /** Notes that work begins. */
  begun(handle: number, kind: Entry, nowMs?: number): void {
    const arrivals = this.#arrivals.get(handle) ?? [];
    for (;;) {
      const next = arrivals.shift();
      assert.ok(next, `canister ${handle}: ${kind} has come`);
      if (next.kind === kind && next.nowMs === nowMs) {
        assert.equal(next.fate, 'waiting', `canister ${handle}: ${kind} begins, and was ${next.fate}`);
        next.fate = 'begun';
        return;
      }
      const isTakenBack = next.fate === 'takenBack' || (next.nowMs !== undefined && this.isRecalled(handle));
      const mayBeLeftOut = this.isStopping() || OF_ANY.includes(next.kind) || isTakenBack;
      assert.ok(mayBeLeftOut, `canister ${handle}: ${kind} begins before ${next.kind}, which came earlier`);
      if (next.fate === 'waiting') next.fate = 'leftOut';
    }
  }

  /** Returns the kind of the next work for a canister; unless `ofAny`, only of work that always takes effect. */
  next(handle: number, ofAny = false): Entry | undefined {
    return this.#arrivals.get(handle)?.find(({ kind }) => ofAny || !OF_ANY.includes(kind))?.kind;
  }
}

function append(lists: Map<number, Arrival[]>, handle: number, arrival: Arrival): void {
  const list = lists.get(handle) ?? [];
  lists.set(handle, list);
  list.push(arrival);
}
