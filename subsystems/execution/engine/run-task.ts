/**
 * Methods, system tasks and inspection.
 *
 *   1. A dry balance ends a task before it begins. Otherwise the instruction limit is the least of
 *      `--instruction-limit`, what the balance pays for, and what the task brings (the rest of a composite query).
 *   2. The instance opens a transaction (`begin`), the `CurrentExecution` is set up for the imports, the entry point
 *      runs. Whatever goes wrong in there comes back as a `Fault`.
 *   3. Heap, globals and stable memory are kept only after an update method or system task that returned; after
 *      queries, also those run as updates, after inspection and after faults they are taken back byte for byte. The
 *      buffered effects follow them, except cycles: they count wherever a replicated execution returned.
 *   4. Updates and system tasks pay for the instructions used, faulty or not.
 *
 * A message costs the host a few hundred nanoseconds besides the guest's own code. To keep it there, no code on the way
 * of a method allocates closures, touches BigInts, or looks up names: an entry point is a number.
 *
 * Executor thread; touches the one canister whose task it runs.
 */
import { REJECT_CODE, NOTHING_RAN, type RunKind, type Step, type Task } from '../../ic/index.ts';
import { hookContext, SYSTEM_CONTEXT } from './call-context.ts';
import type { CanisterState, EntryRole } from './canister-state.ts';
import {
  emptyCanister,
  type EngineRuntime,
  type EngineResult,
  faultyStep,
  type Running,
  TOO_LONG,
} from './engine-runtime.ts';
import { type Fault, LONG } from './fault.ts';
import { Instance } from './instance.ts';
import type { Mode } from './system-api/contexts.ts';
import { hasLargePayloads, storePayloads } from '../persistence/store-payloads.ts';
import { NO_BYTES } from '../../bytes/index.ts';

type MethodTask = TaskOf<RunKind>;
type TaskOf<Kind extends Task['kind']> = Extract<Task, { readonly kind: Kind }>;

const encoder = new TextEncoder();

/** Runs a method. */
export function* runMethod(
  runtime: EngineRuntime,
  canister: CanisterState,
  task: MethodTask,
  nowMs: number,
): Running<EngineResult> {
  const instance = beginMethod(runtime, canister, task, nowMs);
  if (!(instance instanceof Instance)) return instance;
  const runFault = faultOf(runtime, canister, instance, yield instance.calling(task.entry));
  const fault = runFault ?? (yield* storePayloads(runtime, canister));
  const isWaiting = fault === undefined && waits(runtime);
  const frame = isWaiting ? runtime.frames.save(canister, instance, 0) : 0;
  if (fault !== undefined || runtime.execution.mode !== 'U') yield* runtime.rollingBack(canister, instance);
  else {
    runtime.execution.discardDraft();
    yield* runtime.committing(canister, instance);
  }
  return endMethod(runtime, canister, task, instance, fault, isWaiting, frame);
}

/** Runs a query. One that finds no certificate of the canister's data is undone, waits for it, and begins again. */
export function* runQuery(
  runtime: EngineRuntime,
  canister: CanisterState,
  task: MethodTask,
  nowMs: number,
): Running<EngineResult> {
  for (;;) {
    if (canister.certificate?.isWanted === true) {
      const fault = yield runtime.certifying(canister, canister.instant(nowMs));
      if (fault !== undefined) return TOO_LONG;
    }
    const result = yield* runMethod(runtime, canister, task, nowMs);
    if (result !== TOO_LONG || canister.certificate?.isWanted !== true) return result;
  }
}

/**
 * Does the same as `runMethod` in one go. Nearly every message comes this way, and a generator would cost it 0.1 µs and
 * 400 bytes.
 */
export function runMethodToEnd(
  runtime: EngineRuntime,
  canister: CanisterState,
  task: MethodTask,
  nowMs: number,
): EngineResult {
  const instance = beginMethod(runtime, canister, task, nowMs);
  if (!(instance instanceof Instance)) return instance;
  const runFault = faultOf(runtime, canister, instance, instance.run(task.entry));
  const fault = runFault ?? (hasLargePayloads(runtime) ? LONG : undefined);
  const isWaiting = fault === undefined && waits(runtime);
  const frame = isWaiting ? runtime.frames.save(canister, instance, 0) : 0;
  if (fault !== undefined || runtime.execution.mode !== 'U') runtime.rollback(canister, instance);
  else {
    runtime.execution.discardDraft();
    runtime.commit(canister, instance);
  }
  return endMethod(runtime, canister, task, instance, fault, isWaiting, frame);
}

/** Begins the method's message. Returns the instance whose entry point has to run, or the result if nothing can run. */
function beginMethod(
  runtime: EngineRuntime,
  canister: CanisterState,
  task: MethodTask,
  nowMs: number,
): Instance | EngineResult {
  const installed = canister.installed;
  if (installed === undefined) return emptyCanister();
  const isCharged = task.kind === 'update';
  const mode = methodMode(installed.roles[task.entry], task.kind);
  if (mode === undefined) return runtime.unreachable(task.kind, task.entry, installed.roles[task.entry]);
  const { account } = canister;
  if (account.isDry) return runtime.dry();

  const { execution, policy } = runtime;
  const { instance } = installed;
  const affordable = isCharged ? account.instructionsAllowed : policy.instructionLimit;
  const limit = affordable < task.instructionsMax ? affordable : task.instructionsMax;
  execution.begin(mode, instance, canister, task.context, task.argument, canister.instant(nowMs), isCharged, limit);
  instance.begin(limit);
  return instance;
}

/**
 * Returns the fault for which the method's message is undone: its own, or that of the heap it leaves; undefined: none.
 */
function faultOf(
  runtime: EngineRuntime,
  canister: CanisterState,
  instance: Instance,
  runFault: Fault | undefined,
): Fault | undefined {
  return runFault ?? (runtime.execution.mode === 'U' ? runtime.heapFault(canister, instance) : undefined);
}

/** Returns true if the task is a composite query that has not answered, and waits for calls. */
function waits({ execution }: EngineRuntime): boolean {
  return execution.mode === 'CQ' && execution.calls.length > 0 && execution.answer === 'none';
}

/** Returns the result of the method's message, whose memory is committed or rolled back. */
function endMethod(
  runtime: EngineRuntime,
  canister: CanisterState,
  task: MethodTask,
  instance: Instance,
  fault: Fault | undefined,
  isWaiting: boolean,
  frame: number,
): EngineResult {
  const { execution, policy } = runtime;
  const { account } = canister;
  const { mode, instructionLimit: limit } = execution;
  const isCharged = task.kind === 'update';
  const instructions = fault?.kind === 'limit' ? limit : instance.instructionsUsed();

  if (fault !== undefined) {
    execution.withdrawCalls();
    if (fault.kind === 'long') return runtime.needsOwnStack();
    const charge = isCharged ? account.charge(instructions) : 0;
    const step = faultyStep(
      runtime.explain(fault, limit, limit < task.instructionsMax && limit < policy.instructionLimit),
      instructions,
      charge,
    );
    return finished(runtime, step, false);
  }
  let { calls } = execution;
  if (mode === 'CQ' && calls.length > 0) {
    execution.withdrawCalls();
    if (isWaiting && frame === 0) return finished(runtime, noRoomForFrame(runtime, instructions), false);
    // A query that has answered waits for nothing.
    if (!isWaiting) calls = execution.calls;
  }
  const isBalanceMoved = isCharged && runtime.moveCycles(canister);
  const step: Step = {
    fault: undefined,
    answer: runtime.answer(),
    calls,
    cyclesAccepted: execution.cyclesAccepted,
    timerNs: execution.timerNs,
    isAccepted: false,
    frame,
    instructions,
    charge: isCharged ? account.charge(instructions) : 0,
  };
  return finished(runtime, step, isBalanceMoved);
}

/**
 * Runs the heartbeat, the global timer's hook, or the low memory hook. The timer is switched off before its hook
 * begins, however the hook ends.
 */
export function* runSystemTask(
  runtime: EngineRuntime,
  canister: CanisterState,
  task: TaskOf<'system'>,
  nowMs: number,
): Running<EngineResult> {
  const installed = canister.installed;
  if (installed === undefined) return emptyCanister();
  const role = installed.roles[task.entry];
  if (role !== 'timer' && role !== 'task') return runtime.unreachable(task.kind, task.entry, role);
  if (role === 'timer') canister.timerNs = 0n;
  const { account } = canister;
  if (account.isDry) return runtime.dry();

  const { execution } = runtime;
  const { instance } = installed;
  const limit = account.instructionsAllowed;
  execution.begin('T', instance, canister, SYSTEM_CONTEXT, NO_BYTES, canister.instant(nowMs), true, limit);
  instance.begin(limit);
  const fault = (yield instance.calling(task.entry)) ?? (yield* storePayloads(runtime, canister));
  const instructions = fault?.kind === 'limit' ? limit : instance.instructionsUsed();
  if (fault !== undefined) {
    yield* runtime.rollingBack(canister, instance);
    execution.withdrawCalls();
    if (fault.kind === 'long') return runtime.needsOwnStack();
    const charge = account.charge(instructions);
    const reason = runtime.explain(fault, limit, limit < runtime.policy.instructionLimit);
    return finished(runtime, faultyStep(reason, instructions, charge), false);
  }
  execution.discardDraft();
  yield* runtime.committing(canister, instance);
  const isBalanceMoved = runtime.moveCycles(canister);
  const step: Step = {
    fault: undefined,
    answer: undefined,
    calls: execution.calls,
    cyclesAccepted: 0n,
    timerNs: execution.timerNs,
    isAccepted: false,
    frame: 0,
    instructions,
    charge: account.charge(instructions),
  };
  return finished(runtime, step, isBalanceMoved);
}

/** Asks the canister whether it takes a message from outside. All of the execution's changes are undone. */
export function* runInspection(
  runtime: EngineRuntime,
  canister: CanisterState,
  task: TaskOf<'inspect'>,
  nowMs: number,
): Running<EngineResult> {
  const installed = canister.installed;
  if (installed === undefined) return emptyCanister();
  const role = installed.roles[task.entry];
  if (role !== 'inspect') return runtime.unreachable(task.kind, task.entry, role);
  if (canister.account.isDry) return runtime.dry();

  const { execution } = runtime;
  const { instance } = installed;
  const limit = runtime.policy.instructionLimit;
  const context = hookContext(task.caller);
  execution.begin('F', instance, canister, context, task.argument, canister.instant(nowMs), false, limit);
  execution.methodName = encoder.encode(task.method);
  instance.begin(limit);
  const fault = yield instance.calling(task.entry);
  const instructions = fault?.kind === 'limit' ? limit : instance.instructionsUsed();
  yield* runtime.rollingBack(canister, instance);
  execution.methodName = NO_BYTES;
  if (fault?.kind === 'long') return runtime.needsOwnStack();
  if (fault !== undefined)
    return finished(runtime, faultyStep(runtime.explain(fault, limit, false), instructions, 0), false);
  const step: Step = {
    fault: undefined,
    answer: undefined,
    calls: execution.calls,
    cyclesAccepted: 0n,
    timerNs: undefined,
    isAccepted: execution.isAccepted,
    frame: 0,
    instructions,
    charge: 0,
  };
  return finished(runtime, step, false);
}

const DROPPED: EngineResult = { step: NOTHING_RAN, debug: [], isBalanceMoved: false };

/** Gives up a composite query that waits. Runs nothing. */
// oxlint-disable-next-line require-yield -- one of the kinds of task, which all are driven alike
export function* dropFrame(runtime: EngineRuntime, frame: number): Running<EngineResult> {
  runtime.frames.take(frame);
  return DROPPED;
}

/** Ends the execution. */
export function finished(runtime: EngineRuntime, step: Step, isBalanceMoved: boolean): EngineResult {
  const debug = runtime.execution.debug.take();
  runtime.execution.end();
  return { step, debug, isBalanceMoved };
}

/** Returns the step of a composite query whose frame would have to be kept and cannot be: it names both bounds. */
export function noRoomForFrame(runtime: EngineRuntime, instructions: number): Step {
  const { bytes, bytesMax } = runtime.frames;
  const { bytesUsed, bytesMax: memoryMax } = runtime.control.message.budget;
  const message =
    `composite queries that wait for their calls hold ${bytes} of at most ${bytesMax} bytes in one executor thread, and ` +
    `${bytesUsed} of the ${memoryMax} bytes that all actors may have together (--memory-bytes) are in use: this one no longer fits`;
  runtime.execution.debug.conclude(message);
  return faultyStep({ kind: 'unavailable', code: REJECT_CODE.SYS_TRANSIENT, message }, instructions, 0);
}

function methodMode(role: EntryRole | undefined, kind: RunKind): Mode | undefined {
  if (role === 'query') return kind === 'update' ? 'RQ' : kind === 'query' ? 'NRQ' : 'TQ';
  if (role === 'update' && kind === 'update') return 'U';
  if (role === 'composite_query' && kind === 'query') return 'CQ';
  return undefined;
}
