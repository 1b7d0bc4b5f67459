/**
 * Callbacks: a response has come for a call that the canister made.
 *
 * The refund is the canister's before anything runs, and stays so. Then the reply or reject callback runs, looked up in
 * the table of the module that is installed now. If the callback does not return, it is undone, and the cleanup
 * callback runs on the state before it. The cleanup's effects are kept; if the cleanup traps as well, it is undone and
 * otherwise ignored.
 *
 * One part in twenty of the message's instructions is kept back for the cleanup: a callback that runs into the limit
 * must not leave behind what only the cleanup can release. A callback that answers a call of an update runs even on a
 * dry balance, with at least that reserve: its canister has been waiting for it, and its locks would stay locked. This
 * cannot go on for ever, since `call_perform` refuses a canister that could not pay for the next response.
 *
 * In a composite query the state before the callback is the query's frame, laid over the committed state.
 *
 * Executor thread; touches the one canister whose callback it runs.
 */
import {
  REJECT_CODE,
  CLEANUP,
  CLEANUP_SHARE,
  REJECT,
  REPLY,
  type Which,
  type Step,
  type StepFault,
  type Task,
} from '../../ic/index.ts';
import type { CanisterState } from './canister-state.ts';
import {
  emptyCanister,
  type EngineRuntime,
  type EngineResult,
  faultyStep,
  nothingRan,
  type Running,
} from './engine-runtime.ts';
import type { Fault } from './fault.ts';
import type { Instance } from './instance.ts';
import { finished, noRoomForFrame } from './run-task.ts';
import type { SuspendedFrame } from './suspended-frames.ts';
import { ServerError } from '../../../kernel/index.ts';
import { storePayloads } from '../persistence/store-payloads.ts';
import { NO_BYTES } from '../../bytes/index.ts';

type CallbackTask = Extract<Task, { readonly kind: 'callback' }>;

const encoder = new TextEncoder();

/**
 * Runs a callback. `isAgain`: the response has been taken in already, by a first try that used up its slice
 * (`TOO_LONG`).
 */
export function* runCallback(
  runtime: EngineRuntime,
  canister: CanisterState,
  task: CallbackTask,
  nowMs: number,
  isAgain: boolean,
): Running<EngineResult> {
  runtime.callbacks.read(task.callbacks);
  if (task.frame !== 0) return yield* runCompositeCallback(runtime, canister, task, nowMs);

  const { account } = canister;
  const isRefunded = task.refunded !== 0n && runtime.policy.isEnabled;
  if (!isAgain) {
    if (isRefunded) account.add(task.refunded);
    canister.openCalls.lower(runtime.callbacks.slot);
  }
  const { installed } = canister;
  if (installed === undefined) return emptyCanister(isRefunded);

  const { execution, policy } = runtime;
  const { instance } = installed;
  const instant = canister.instant(nowMs);
  const affordable = Math.max(account.instructionsAllowed, Math.floor(policy.instructionLimit * CLEANUP_SHARE));
  const limits = shared(Math.min(affordable, task.instructionsMax));
  const isReply = task.response.kind === 'reply';
  setResponse(runtime, task);
  execution.begin(
    isReply ? 'Ry' : 'Rt',
    instance,
    canister,
    task.context,
    argumentOf(task),
    instant,
    true,
    limits.total,
  );
  instance.begin(limits.callback);
  const runFault = yield inTable(runtime, instance, isReply ? REPLY : REJECT);
  const fault = runFault ?? (yield* storePayloads(runtime, canister));
  const used = usedBy(instance, fault, limits.callback);

  let step: Step;
  let isBalanceMoved = isRefunded;
  if (fault === undefined) {
    execution.discardDraft();
    yield* runtime.committing(canister, instance);
    isBalanceMoved = runtime.moveCycles(canister) || isRefunded;
    step = {
      fault: undefined,
      answer: runtime.answer(),
      calls: execution.calls,
      cyclesAccepted: execution.cyclesAccepted,
      timerNs: execution.timerNs,
      isAccepted: false,
      frame: 0,
      instructions: used,
      charge: account.charge(used),
    };
  } else {
    yield* runtime.rollingBack(canister, instance);
    execution.withdrawCalls();
    if (fault.kind === 'long') return needsOwnStack(runtime);
    const isPoor = affordable < policy.instructionLimit && affordable <= task.instructionsMax;
    let reason = runtime.explain(fault, limits.callback, isPoor);
    let total = used;
    let timerNs: bigint | undefined;
    if (runtime.callbacks.hasCleanup) {
      execution.beginCleanup('C', used);
      instance.begin(limits.cleanup);
      const cleanupFault = yield inTable(runtime, instance, CLEANUP);
      total += usedBy(instance, cleanupFault, limits.cleanup);
      if (cleanupFault === undefined) {
        yield* runtime.committing(canister, instance);
        isBalanceMoved = runtime.moveCycles(canister) || isRefunded;
        timerNs = execution.timerNs;
      } else {
        yield* runtime.rollingBack(canister, instance);
        if (cleanupFault.kind === 'long') return needsOwnStack(runtime);
        reason = alsoFailed(reason, runtime.explain(cleanupFault, limits.cleanup, isPoor));
      }
    }
    step = { ...faultyStep(reason, total, account.charge(total)), timerNs };
  }
  forgetResponse(runtime);
  return finished(runtime, step, isBalanceMoved);
}

function* runCompositeCallback(
  runtime: EngineRuntime,
  canister: CanisterState,
  task: CallbackTask,
  nowMs: number,
): Running<EngineResult> {
  const { installed } = canister;
  const frame = runtime.frames.take(task.frame);
  if (installed === undefined) return emptyCanister();
  if (frame === undefined || frame.canister !== canister)
    return nothingRan(
      'unavailable',
      REJECT_CODE.SYS_TRANSIENT,
      'the state that the composite query waited with is gone: its canister has new code, or the executor needed the room',
    );
  if (canister.account.isDry) return runtime.dry();
  const { instance } = installed;
  if (instance.heapBytes > frame.heapBytes)
    return nothingRan(
      'unavailable',
      REJECT_CODE.SYS_TRANSIENT,
      'the heap of the canister has grown while its composite query waited for a call',
    );

  const { execution } = runtime;
  const limits = shared(Math.min(runtime.policy.instructionLimit, task.instructionsMax));
  const isReply = task.response.kind === 'reply';
  setResponse(runtime, task);
  execution.begin(
    isReply ? 'CRy' : 'CRt',
    instance,
    canister,
    task.context,
    argumentOf(task),
    canister.instant(nowMs),
    false,
    limits.callback,
  );
  instance.begin(limits.callback);
  const fault =
    (yield* layOver(runtime, canister, instance, frame)) ??
    (yield inTable(runtime, instance, isReply ? REPLY : REJECT));
  const used = usedBy(instance, fault, limits.callback);

  let step: Step;
  if (fault === undefined) {
    // A query without new calls may still wait for calls that it made before.
    const isWaiting = execution.answer === 'none';
    const number = isWaiting ? runtime.frames.save(canister, instance, frame.number) : 0;
    const performed = execution.calls;
    execution.withdrawCalls();
    yield* runtime.rollingBack(canister, instance);
    if (isWaiting && number === 0) step = noRoomForFrame(runtime, used);
    else
      step = {
        fault: undefined,
        answer: runtime.answer(),
        calls: isWaiting ? performed : execution.calls,
        cyclesAccepted: 0n,
        timerNs: undefined,
        isAccepted: false,
        frame: number,
        instructions: used,
        charge: 0,
      };
  } else {
    yield* runtime.rollingBack(canister, instance);
    execution.withdrawCalls();
    if (fault.kind === 'long') return needsOwnStack(runtime, frame);
    let reason = runtime.explain(fault, limits.callback, false);
    let total = used;
    if (runtime.callbacks.hasCleanup) {
      // The cleanup's changes are not kept: it runs for what it prints, and because the specification has it run.
      execution.beginCleanup('CC', used);
      instance.begin(limits.cleanup);
      const cleanupFault =
        (yield* layOver(runtime, canister, instance, frame)) ?? (yield inTable(runtime, instance, CLEANUP));
      total += usedBy(instance, cleanupFault, limits.cleanup);
      yield* runtime.rollingBack(canister, instance);
      if (cleanupFault?.kind === 'long') return needsOwnStack(runtime, frame);
      if (cleanupFault !== undefined) reason = alsoFailed(reason, runtime.explain(cleanupFault, limits.cleanup, false));
    }
    step = faultyStep(reason, total, 0);
  }
  forgetResponse(runtime);
  return finished(runtime, step, false);
}

/** Joins two faults: the caller gets the callback's code and both messages. */
function alsoFailed(reason: StepFault, cleanup: StepFault): StepFault {
  return { ...reason, message: `${reason.message}\n\ncall_on_cleanup also failed:\n\n${cleanup.message}` };
}

function setResponse({ execution }: EngineRuntime, { response, refunded }: CallbackTask): void {
  execution.cyclesRefunded = refunded;
  execution.rejectCode = response.kind === 'reply' ? 0 : response.code;
  execution.rejectMessage = response.kind === 'reply' ? NO_BYTES : encoder.encode(response.message);
}

function forgetResponse({ execution }: EngineRuntime): void {
  execution.cyclesRefunded = 0n;
  execution.rejectCode = 0;
  execution.rejectMessage = NO_BYTES;
}

function argumentOf({ response }: CallbackTask): Uint8Array {
  return response.kind === 'reply' ? response.data : NO_BYTES;
}

function shared(total: number): { readonly total: number; readonly callback: number; readonly cleanup: number } {
  const cleanup = Math.floor(total * CLEANUP_SHARE);
  return { total, callback: total - cleanup, cleanup };
}

function inTable({ callbacks }: EngineRuntime, instance: Instance, which: Which): Instance {
  return instance.callingBack(callbacks.fun(which), callbacks.env(which, instance.code.layout.pointerWidth));
}

/** Ends a callback as too long. The frame of a query that waited is kept for the next try. */
function needsOwnStack(runtime: EngineRuntime, frame?: SuspendedFrame): EngineResult {
  forgetResponse(runtime);
  if (frame !== undefined) runtime.frames.putBack(frame);
  return runtime.needsOwnStack();
}

function usedBy(instance: Instance, fault: Fault | undefined, limit: number): number {
  return fault?.kind === 'limit' ? limit : instance.instructionsUsed();
}

/** Begins the callback's work with the state that its query waited with; waits for the memory of that. */
function* layOver(
  runtime: EngineRuntime,
  { stable }: CanisterState,
  instance: Instance,
  { heapBytes, pages, globals, stablePages, granules }: SuspendedFrame,
): Running<Fault | undefined> {
  try {
    const fault =
      (yield* runtime.waitingIn(instance.growingTo(heapBytes))) ??
      instance.layOver(pages, globals) ??
      (yield* runtime.reserving(stable, granules.size));
    if (fault === undefined) stable.layOver(stablePages, granules);
    return fault;
  } catch (error) {
    if (error instanceof ServerError) return { kind: 'trap', message: error.message };
    if (error instanceof RangeError) return { kind: 'trap', message: `the heap cannot be grown: ${error.message}` };
    throw error;
  }
}
