/**
 * Common to all kinds of execution: the tools of one engine, and the end of an execution.
 * Executor thread; touches the engine that it belongs to, and the canister whose message runs.
 */
import {
  REJECT_CODE,
  CallbackBuffer,
  type OutputLine,
  type RejectCode,
  type Response,
  type Step,
  type StoredAs,
  type StepFault,
} from '../../ic/index.ts';
import type { MeteringPolicy } from '../../metering/index.ts';
import { sliceBytes, PAGE_BYTES } from '../../bytes/index.ts';
import type { CanisterState, EntryRole } from './canister-state.ts';
import type { ControlMemory } from '../memory/control-memory.ts';
import { type Fault, LONG } from './fault.ts';
import type { HeapPool } from '../memory/heap-pool.ts';
import { LOOK_MS, QUESTIONS_MAX, WAIT_MS } from '../memory/message-memory.ts';
import type { Instance } from './instance.ts';
import { ChangeRecorder } from '../persistence/change-recorder.ts';
import type { AheadStore } from '../persistence/ahead-store.ts';
import { inPlacePagesMax, payloadBytesMax, PIECE_SIZES, type PieceSizes } from '../persistence/piece-sizes.ts';
import type { Pieces } from '../memory/pieces.ts';
import type { StableMemory, StablePagePool } from '../memory/stable-memory.ts';
import type { SuspendedFrames } from './suspended-frames.ts';
import { payloadSlice } from '../wire/ring-bytes.ts';
import { CurrentExecution, createSystemApi, type SystemApi } from './system-api/index.ts';
import { NO_CALLS } from './system-api/outgoing-draft.ts';

/** Result of a task, with what the host is told of it. */
export interface EngineResult {
  readonly step: Step;
  /** Lines that were printed, in order; the last is the reason of a fault. */
  readonly debug: readonly OutputLine[];
  /** True if the balance changed by more than the charge. */
  readonly isBalanceMoved: boolean;
  /** Operations for storage, in pieces; undefined: none, or the canister lives in memory only. */
  changes?: readonly Uint8Array[] | undefined;
}

/** Wasm to run: an instance that has been told its entry point. Or nothing: a pause in which other work runs. */
export type Runnable = Pick<Instance, 'runToEnd' | 'runSuspendable'>;

/**
 * Work that stops wherever wasm is to run. The driver runs what the generator yields, in one go or suspendable, and
 * resumes the generator with the outcome. So each kind of execution is written once, for both.
 */
export type Running<T> = Generator<Runnable, T, Fault | undefined>;

/** Drives work in one go. */
export function runToEnd<T>(running: Running<T>): T {
  let next = running.next();
  while (next.done !== true) next = running.next(next.value.runToEnd());
  return next.value;
}

/** Drives work whose messages may be suspended. */
export async function runSuspendable<T>(running: Running<T>): Promise<T> {
  let next = running.next();
  while (next.done !== true) next = running.next(await next.value.runSuspendable());
  return next.value;
}

const NO_LINES: readonly OutputLine[] = Object.freeze([]);

/** Number of copies that are made of a heap on its way to the disk, if it is stored as a whole. */
const IMAGE_COPIES = 4;
const IMAGE_PAGES_UNASKED = (16 * 2 ** 20) / PAGE_BYTES;

interface PartsOptions {
  readonly policy: MeteringPolicy;
  readonly control: ControlMemory;
  readonly pool: StablePagePool;
  readonly heaps: HeapPool;
  readonly frames: SuspendedFrames;
  readonly reportBug: (message: string, cause: unknown) => void;
  readonly ahead?: AheadStore | undefined;
  readonly certify?: Certify | undefined;
  readonly pieceSizes?: PieceSizes | undefined;
}

/**
 * Asks for a certificate of the canister's data, for a query of that instant. Resolves to true when the answer is
 * there, to false if the query is recalled.
 */
export type Certify = (canister: CanisterState, nowMs: number) => Promise<boolean>;

export class EngineRuntime {
  readonly policy: MeteringPolicy;
  readonly control: ControlMemory;
  readonly pool: StablePagePool;
  readonly heaps: HeapPool;
  readonly frames: SuspendedFrames;
  /** The execution in progress, as the imports see it. */
  readonly execution: CurrentExecution;
  readonly imports: SystemApi;
  /** The functions of the callback in progress. */
  readonly callbacks = new CallbackBuffer();
  /** Records what steps change, for storage. */
  readonly changes: ChangeRecorder;
  readonly ahead: AheadStore | undefined;
  readonly #certify: Certify | undefined;
  readonly pieceSizes: PieceSizes;
  readonly #reportBug: PartsOptions['reportBug'];
  readonly pause: Runnable = {
    runToEnd: () => undefined,
    runSuspendable: async () => {
      await this.control.pause();
      return undefined;
    },
  };
  /** Lets others go on while the message waits for memory; ends as `LONG` if it is recalled, or cannot wait here. */
  readonly waiting: Runnable = {
    runToEnd: () => LONG,
    runSuspendable: async () => ((await this.control.pause(true)) ? undefined : LONG),
  };
  /**
   * Has all recorded changes stored, and waits until they and what came before are; ends as `LONG` if the message is
   * recalled meanwhile. In one go it does nothing: the changes go with the step.
   */
  readonly storing: Runnable = {
    runToEnd: () => undefined,
    runSuspendable: async () => {
      const store = this.ahead?.store;
      return store === undefined || (await store(this.changes.take() ?? [])) ? undefined : LONG;
    },
  };
  /**
   * Waits until what came before is durable; a message that counts already is not recalled any more. In one go it does
   * nothing.
   */
  readonly standing: Runnable = {
    runToEnd: () => undefined,
    runSuspendable: async () => {
      await this.ahead?.store?.([]);
      return undefined;
    },
  };

  constructor({
    policy,
    control,
    pool,
    heaps,
    frames,
    reportBug,
    ahead,
    certify,
    pieceSizes = PIECE_SIZES,
  }: PartsOptions) {
    this.policy = policy;
    this.control = control;
    this.pool = pool;
    this.heaps = heaps;
    this.frames = frames;
    this.#reportBug = reportBug;
    this.ahead = ahead;
    this.#certify = certify;
    this.pieceSizes = pieceSizes;
    this.changes = new ChangeRecorder(pieceSizes);
    const isStoredElsewhere = ahead !== undefined && ahead.store === undefined;
    this.execution = new CurrentExecution(policy, isStoredElsewhere ? payloadBytesMax(pieceSizes) : Infinity);
    this.imports = createSystemApi(this.execution);
  }

  /**
   * Gives memory back that the thread does not use, until so many pages have room, and then waits until idle canisters
   * have given way for them, or cannot. Nobody is asked where they can never fit beside `beside`, which the canister
   * keeps meanwhile. Ends as `LONG` where the thread would stand still.
   */
  *roomFor(pages: number, beside?: Instance): Running<Fault | undefined> {
    const { budget } = this.control.message;
    yield* this.inPieces(budget.givingBack(pages));
    const untilMs = performance.now() + WAIT_MS;
    const canFit = (pages + (beside?.countedPages ?? 0)) * PAGE_BYTES <= budget.bytesMax;
    for (let inVain = 0; inVain < QUESTIONS_MAX && !budget.hasRoom(pages);) {
      const question = canFit && performance.now() <= untilMs ? budget.ask(pages) : 0;
      if (question === 0) break;
      while (!budget.isAnswered(question, LOOK_MS)) {
        const fault = yield this.waiting;
        if (fault !== undefined) return fault;
      }
      if (budget.wasInVain(question)) inVain++;
    }
    return undefined;
  }

  /** Does work that pauses while there is no memory for it. Ends as `roomFor` does. */
  *waitingIn(pieces: Pieces): Running<Fault | undefined> {
    for (const _ of pieces) {
      const fault = yield this.waiting;
      if (fault !== undefined) return fault;
    }
    return undefined;
  }

  /**
   * Keeps room for writing `granules` clean granules of stable memory until the message ends, and ends as `roomFor`
   * does. Throws as `StableMemory.reserve`.
   */
  *reserving(stable: StableMemory, granules: number): Running<Fault | undefined> {
    const { budget } = this.control.message;
    let missing = 0;
    const take = (pages: number): boolean => {
      if (budget.take(pages)) return true;
      missing = pages;
      return false;
    };
    // Others may take what was free while this waits.
    for (let tries = 0; tries < QUESTIONS_MAX; tries++) {
      if (stable.claim(granules, take)) return undefined;
      const fault = yield* this.roomFor(missing);
      if (fault !== undefined) return fault;
      if (!budget.hasRoom(missing)) break;
    }
    stable.reserve(granules);
    return undefined;
  }

  /** Waits for the certificate of the canister's data; ends as `LONG` if the query is recalled, or cannot wait here. */
  certifying(canister: CanisterState, nowMs: number): Runnable {
    const certify = this.#certify;
    return {
      runToEnd: () => LONG,
      runSuspendable: async () => (certify !== undefined && (await certify(canister, nowMs)) ? undefined : LONG),
    };
  }

  /** Keeps memory and effects of a replicated execution that returned, all but its cycles. */
  commit(canister: CanisterState, instance: Instance): void {
    if (canister.frames !== undefined) this.frames.preserve(canister, instance);
    if (canister.persistence !== undefined) this.changes.beforeCommit(canister, instance);
    this.#keep(canister, instance);
  }

  /** Does the same as `commit`, with pauses for other work: the canister's message ends only afterwards. */
  *committing(canister: CanisterState, instance: Instance): Running<void> {
    if (canister.frames !== undefined) this.frames.preserve(canister, instance);
    yield* this.inPieces(this.changes.beforeCommitInPieces(canister, instance));
    yield* this.inPieces(canister.stable.commitInPieces());
    this.#keep(canister, instance);
  }

  /** Keeps the effects of a message that can no longer fail. */
  #keep(canister: CanisterState, instance: Instance): void {
    const { execution } = this;
    const { persistence } = canister;
    instance.commit();
    canister.stable.commit();
    canister.version++;
    if (execution.certifiedData !== undefined) {
      canister.certifiedData = execution.certifiedData;
      this.changes.certifiedData(canister);
    }
    if (execution.timerNs !== undefined) canister.timerNs = execution.timerNs;
    if (persistence?.isLogged === false) this.changes.globals(canister, persistence, instance);
  }

  rollback(canister: CanisterState, instance: Instance): void {
    instance.rollback();
    canister.stable.rollback();
  }

  /** Does the same as `rollback`, with pauses for other work. */
  *rollingBack(canister: CanisterState, instance: Instance): Running<void> {
    yield* this.inPieces(instance.rollbackInPieces());
    yield* this.inPieces(canister.stable.rollbackInPieces());
  }

  /** Runs work of the host's own, with pauses for other work. */
  *inPieces<T>(pieces: Generator<void, T, void>): Running<T> {
    for (;;) {
      const next = pieces.next();
      if (next.done === true) return next.value;
      yield this.pause;
    }
  }

  /**
   * Applies the cycles that a replicated execution accepted, burned and put on calls, after it returned; returns true
   * if there were any.
   */
  moveCycles(canister: CanisterState): boolean {
    const { execution } = this;
    if (execution.cyclesGained === 0n || !this.policy.isEnabled) return false;
    canister.account.add(execution.cyclesGained);
    return true;
  }

  /** Returns the fault of a heap that is larger than the canister's limit; undefined: the heap may be kept. */
  heapFault(canister: CanisterState, instance: Instance): Fault | undefined {
    const { heapBytes } = instance;
    if (heapBytes <= canister.heapBytesMax) return undefined;
    const message = `Canister exceeded its current Wasm memory limit of ${canister.heapBytesMax} bytes. The peak Wasm memory usage was ${heapBytes} bytes. The limit is the canister's setting wasm_memory_limit: its controllers can raise it.`;
    return { kind: 'trap', message };
  }

  /**
   * Returns the fault of a heap that has to be stored at once and is too large for that; undefined: it can be stored.
   * Waits for room, and ends, as `roomFor` does.
   */
  *imageFault({ persistence }: CanisterState, instance: Instance): Running<Fault | undefined> {
    const { usedPages } = instance;
    const { budget } = this.control.message;
    if (persistence === undefined || usedPages <= IMAGE_PAGES_UNASKED) return undefined;
    // Stored a piece at a time.
    if (this.ahead !== undefined && usedPages > inPlacePagesMax(this.pieceSizes)) return undefined;
    const pages = usedPages * IMAGE_COPIES;
    const fault = yield* this.roomFor(pages, instance);
    if (fault !== undefined || budget.hasRoom(pages)) return fault;
    budget.refused();
    const bytes = pages * PAGE_BYTES;
    return { kind: 'trap', message: budget.explain(`storing the new heap takes ${bytes} bytes for a while`) };
  }

  /** Returns the answer that the execution gave to its call. */
  answer(): Response | undefined {
    const { execution } = this;
    switch (execution.answer) {
      case 'reply':
        return replyOf(this.#reply(), execution.replyStoredAs);
      case 'reject':
        return { kind: 'reject', code: REJECT_CODE.CANISTER_REJECT, message: execution.rejectText };
      case 'none':
        return undefined;
    }
  }

  #reply(): Uint8Array {
    const { reply, replyLength, context } = this.execution;
    return context.keepsAnswer === true ? payloadSlice(reply, 0, replyLength) : sliceBytes(reply, 0, replyLength);
  }

  /**
   * Returns the reason why the execution did not return, as text, and adds it to the canister's log. `instructionLimit`
   * is the execution's limit; `isPoor` is true if the balance paid for no more.
   */
  explain(fault: Fault, instructionLimit: number, isPoor: boolean): StepFault {
    const { stack } = fault;
    if (fault.kind === 'limit' && isPoor) {
      const message = `the canister is out of cycles: its balance paid for ${instructionLimit} instructions, which the message used up`;
      return this.#concluded({ kind: 'outOfCycles', code: REJECT_CODE.SYS_TRANSIENT, message, stack });
    }
    if (fault.kind === 'limit') {
      const message = `Canister exceeded the limit of ${instructionLimit} instructions for single message execution.`;
      return this.#concluded({ kind: 'limit', code: REJECT_CODE.CANISTER_ERROR, message, stack });
    }
    const { kind, message } = fault;
    if (kind === 'noCallback') return { kind, code: REJECT_CODE.CANISTER_ERROR, message };
    if (kind === 'host') this.#reportBug(message, fault.cause);
    const told = kind === 'calledTrap' ? kind : 'trap';
    return this.#concluded({ kind: told, code: REJECT_CODE.CANISTER_ERROR, message, stack }, fault.record);
  }

  #concluded(fault: StepFault, record?: string): StepFault {
    const { message, stack } = fault;
    // The words of the Internet Computer.
    this.execution.debug.conclude(stack ? `${message}\nCanister Backtrace:\n${stack}` : message, record);
    return fault;
  }

  /** Ends an execution that has been undone and will begin again elsewhere: nothing is told of it. */
  needsOwnStack(): EngineResult {
    this.execution.debug.take();
    this.execution.end();
    return TOO_LONG;
  }

  /**
   * Result of a task for an entry point that its kind cannot reach. The host has a bug, which must not harm the
   * canister.
   */
  unreachable(kind: string, entry: number, role: EntryRole | undefined): EngineResult {
    const message = `internal error: ${kind} cannot reach entry point ${entry}, which is for ${role ?? 'nothing'}`;
    this.#reportBug(message, undefined);
    return nothingRan('trap', REJECT_CODE.CANISTER_ERROR, message);
  }

  /** Result for a canister whose balance does not pay for any message. */
  dry(): EngineResult {
    return nothingRan(
      'outOfCycles',
      REJECT_CODE.SYS_TRANSIENT,
      `the canister is out of cycles: a message costs at least ${this.policy.cyclesPerMessage}`,
    );
  }
}

/** Nearly no reply is stored already, and the others keep their shape. */
function replyOf(data: Uint8Array, storedAs: StoredAs | undefined): Response {
  return storedAs === undefined ? { kind: 'reply', data } : { kind: 'reply', data, storedAs };
}

/**
 * Stands in for a result: the task used up its first slice where it could not be suspended, and has changed nothing.
 */
export const TOO_LONG: EngineResult = Object.freeze({
  step: Object.freeze(
    faultyStep({ kind: 'unavailable', code: REJECT_CODE.SYS_TRANSIENT, message: 'begun again' }, 0, 0),
  ),
  debug: NO_LINES,
  isBalanceMoved: false,
});

/** Returns the step of an execution that did not return: it has no effects. */
export function faultyStep(fault: StepFault, instructions: number, charge: number): Step {
  return {
    fault,
    answer: undefined,
    calls: NO_CALLS,
    cyclesAccepted: 0n,
    timerNs: undefined,
    isAccepted: false,
    frame: 0,
    instructions,
    charge,
  };
}

/** Returns the result of a task for which nothing was run. */
export function nothingRan(
  kind: StepFault['kind'],
  code: RejectCode,
  message: string,
  isBalanceMoved = false,
): EngineResult {
  return { step: faultyStep({ kind, code, message }, 0, 0), debug: NO_LINES, isBalanceMoved };
}

/** Returns the result of a task for a canister without code. */
export function emptyCanister(isBalanceMoved = false): EngineResult {
  return nothingRan('unavailable', REJECT_CODE.CANISTER_ERROR, 'the canister contains no Wasm module', isBalanceMoved);
}
