/** What the engines of one thread know of its canisters, and of the work that has come for them. */
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
  /** One in so many messages of its code is long. */
  longOneIn = 1;
  /** Calls of its composite queries that are not answered. */
  readonly queryCalls = new Set<number>();
  /** Suspended composite queries, each with the number of its open calls. */
  readonly frames = new Map<number, number>();
  /** Those that went with their code. */
  readonly lostFrames = new Set<number>();
  /** Its message that was too long, until that is begun again. */
  again: { readonly nowMs: number; readonly slices: number } | undefined = undefined;
  /** The engine that it lives in. */
  home: object;
  /** What is to be told of it, perhaps nothing but that. */
  untold: Change[] = [];
  /** What it was woken with is there. */
  isAwake = false;
  isGone = false;

  constructor(handle: number, state: CanisterState, thread: ThreadNotes, home: object) {
    this.handle = handle;
    this.state = state;
    this.thread = thread;
    this.home = home;
  }

  /** Its composite queries have lost what they waited with. */
  dropFrames(): void {
    for (const frame of this.frames.keys()) this.lostFrames.add(frame);
    this.frames.clear();
  }
}

/** Work that has come to a thread. */
interface Arrival {
  readonly kind: Entry;
  readonly nowMs: number | undefined;
  /** `leftOut`: something that came later has begun. */
  fate: 'waiting' | 'begun' | 'ended' | 'leftOut' | 'takenBack';
}
export type Entry = Task['kind'] | Extract<Work, { readonly kind: string }>['kind'];

/** What is asked of a canister that is not there, too, and comes to nothing then. */
const OF_ANY: readonly Entry[] = ['sleep', 'rouse', 'checkpoint', 'remove'];

/** What the engines of one thread have in common. */
export class ThreadNotes {
  readonly subjects = new WeakMap<CanisterState, Subject>();
  isDead = false;
  /** Messages that are suspended now. */
  suspended = 0;
  /** Returns whether the thread starts nothing new: work that has come may be answered without having begun. */
  readonly isStopping: () => boolean;
  /** Returns whether work of a canister that has not begun is taken back, or was a moment ago. */
  readonly isRecalled: (handle: number) => boolean;
  /** Code that has come, by version. */
  readonly #codes = new Map<number, InstrumentedCode>();
  /** Work that has not begun, by canister. */
  readonly #arrivals = new Map<number, Arrival[]>();
  /** All tasks and changes of code, by canister, in the order in which they were given. */
  readonly #tasks = new Map<number, Arrival[]>();

  constructor(isStopping: () => boolean, isRecalled: (handle: number) => boolean) {
    this.isStopping = isStopping;
    this.isRecalled = isRecalled;
  }

  /** Code that has come, or none. */
  seen(code: InstrumentedCode | undefined): void {
    if (code !== undefined) this.#codes.set(fromCode(code).version, code);
  }

  codeOf(version: number): InstrumentedCode {
    const code = this.#codes.get(version);
    assert.ok(code, `the code of version ${version} has come`);
    return code;
  }

  /** Work has come to the gate. */
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

  /** The main thread has been told of the nth of a canister's tasks. */
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

  /** It begins. */
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

  /** What comes next for a canister; unless `ofAny`, of what cannot come to nothing. */
  next(handle: number, ofAny = false): Entry | undefined {
    return this.#arrivals.get(handle)?.find(({ kind }) => ofAny || !OF_ANY.includes(kind))?.kind;
  }
}

function append(lists: Map<number, Arrival[]>, handle: number, arrival: Arrival): void {
  const list = lists.get(handle) ?? [];
  lists.set(handle, list);
  list.push(arrival);
}
