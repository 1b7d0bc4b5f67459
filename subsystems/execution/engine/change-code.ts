/**
 * Changes a canister's code, all or nothing: installation, reinstallation, upgrade, removal.
 *
 * An upgrade has two messages, each with an instruction limit and a price of its own: `canister_pre_upgrade` on the old
 * instance, then start function and `canister_post_upgrade` on the new one. Both are one transaction all the same:
 *
 *   heap kept    the new instance works on the very memory of the old one, within the journal that the old one has
 *                begun: one undo takes back both. A memory whose maximum is not the new module's is copied instead.
 *   heap fresh   the old heap is not needed any more, so it is undone right after the hook and kept in case the
 *                upgrade fails.
 *
 * Stable memory has a journal of its own, which ends with the transaction; effects of the hook (certified data, burned
 * cycles) are carried over, all but the timer.
 *
 * Executor thread; touches the one canister whose code changes, between two of its messages.
 */
import { numbersOf, REJECT_CODE, takeNumbers, WASM_PAGE_BYTES } from '../../ic/index.ts';
import { messageOf } from '../../../kernel/index.ts';
import { hookContext } from './call-context.ts';
import type { CanisterState } from './canister-state.ts';
import {
  type EngineRuntime,
  type EngineResult,
  emptyCanister,
  faultyStep,
  nothingRan,
  type Running,
  TOO_LONG,
} from './engine-runtime.ts';
import { rolesOf } from './entry-roles.ts';
import { type Fault, TooLong } from './fault.ts';
import type { CodeChange } from '../index.ts';
import { Instance } from './instance.ts';
import type { InstrumentedCode } from '../wire/instrumented-code.ts';
import type { MemoryOfNewCode } from '../persistence/change-recorder.ts';
import { finished } from './run-task.ts';
import { START_ENTRY } from '../../instrument/abi/index.ts';
import { countedPagesOf, dataPagesOf } from '../memory/heap-tally.ts';
import { inOneGo, type Pieces } from '../memory/pieces.ts';
import { storeAhead, storeChangedAhead } from '../persistence/store-ahead.ts';
import { StableMemory } from '../memory/stable-memory.ts';
import { NO_BYTES, PAGE_BYTES } from '../../bytes/index.ts';
type Installation = Exclude<CodeChange, { readonly mode: 'upgrade' }>;
type Upgrade = Extract<CodeChange, { readonly mode: 'upgrade' }>;

/**
 * Runs the hooks of a change. A step without fault means that the change is done; after a step with a fault the
 * canister is as it was, less the charge.
 */
export function* changeCode(
  runtime: EngineRuntime,
  canister: CanisterState,
  code: InstrumentedCode,
  change: CodeChange,
  nowMs: number,
): Running<EngineResult> {
  if (canister.account.isDry) return runtime.dry();
  return change.mode === 'upgrade'
    ? yield* upgrade(runtime, canister, code, change, nowMs)
    : yield* install(runtime, canister, code, change, nowMs);
}

function* install(
  runtime: EngineRuntime,
  canister: CanisterState,
  code: InstrumentedCode,
  change: Installation,
  nowMs: number,
): Running<EngineResult> {
  const { execution } = runtime;
  const { stable: stableBefore, timerNs: timerBefore } = canister;
  const numbersBefore = numbersOf(canister);
  let instance: Instance;
  try {
    if ((yield* runtime.roomFor(firstPagesOf(code), canister.installed?.instance)) !== undefined) return TOO_LONG;
    instance = Instance.create(code, runtime.imports, runtime.control, runtime.heaps);
  } catch (error) {
    return noRoomForHeap(error);
  }
  const stable = new StableMemory(runtime.pool);
  canister.stable = stable;
  canister.version++;
  canister.timerNs = 0n;
  const limit = canister.account.instructionsAllowed;
  execution.begin(
    's',
    instance,
    canister,
    hookContext(change.caller),
    change.argument,
    canister.instant(nowMs),
    true,
    limit,
  );
  instance.begin(limit);
  const fault =
    instantiationFault(code, true) ??
    (yield* runHooks(runtime, instance, 'canister_init')) ??
    runtime.heapFault(canister, instance) ??
    (yield* runtime.imageFault(canister, instance));
  const instructions = fault?.kind === 'limit' ? limit : instance.instructionsUsed();
  /** Restores the state before the installation. */
  const giveUp = (): void => {
    instance.release();
    stable.clear();
    canister.stable = stableBefore;
    takeNumbers(canister, numbersBefore);
    canister.timerNs = timerBefore;
  };
  if (fault !== undefined) {
    yield* runtime.inPieces(instance.rollbackInPieces());
    yield* runtime.inPieces(stable.rollbackInPieces());
    giveUp();
    if (fault.kind === 'long') return runtime.needsOwnStack();
    const charge = canister.account.charge(instructions);
    const reason = runtime.explain(fault, limit, limit < runtime.policy.instructionLimit);
    return finished(runtime, faultyStep(reason, instructions, charge), false);
  }
  instance.commit();
  yield* runtime.inPieces(stable.commitInPieces());
  if ((yield* storeAhead(runtime, canister, { instance, stable, isStableNew: true })) !== undefined) {
    giveUp();
    return runtime.needsOwnStack();
  }
  stableBefore.clear();
  if (change.endsCalls === true) canister.openCalls.clear();
  canister.certifiedData = NO_BYTES;
  const isBalanceMoved = runtime.moveCycles(canister);
  const charge = canister.account.charge(instructions);
  return yield* installed(runtime, canister, instance, 'new', instructions, charge, isBalanceMoved);
}

function* upgrade(
  runtime: EngineRuntime,
  canister: CanisterState,
  code: InstrumentedCode,
  change: Upgrade,
  nowMs: number,
): Running<EngineResult> {
  const old = canister.installed?.instance;
  if (old === undefined) return emptyCanister();
  const { execution, policy } = runtime;
  const { account, stable, timerNs: timerBefore } = canister;
  const numbersBefore = numbersOf(canister);
  const context = hookContext(change.caller);
  const instant = canister.instant(nowMs);

  // The old code's hook.
  const preLimit = account.instructionsAllowed;
  const preEntry = change.skipsPreUpgrade ? undefined : old.entry('canister_pre_upgrade');
  execution.begin('G', old, canister, context, NO_BYTES, instant, true, preLimit);
  old.begin(preLimit);
  let fault = preEntry === undefined ? undefined : yield old.calling(preEntry);
  if (fault?.kind === 'long') {
    yield* runtime.rollingBack(canister, old);
    return runtime.needsOwnStack();
  }
  let instructions = fault?.kind === 'limit' ? preLimit : old.instructionsUsed();
  let charge = preEntry === undefined ? 0 : account.charge(instructions);
  if (fault !== undefined) {
    yield* runtime.rollingBack(canister, old);
    const reason = runtime.explain(fault, preLimit, preLimit < policy.instructionLimit);
    return finished(runtime, faultyStep(reason, instructions, charge), false);
  }
  const { certifiedData, cyclesGained } = execution;
  let isBalanceMoved = runtime.moveCycles(canister);

  /** Restores the state before the upgrade, after a fault of the second part. */
  const giveUp = (): void => {
    stable.rollback();
    takeNumbers(canister, numbersBefore);
    canister.timerNs = timerBefore;
    if (isBalanceMoved) account.add(-cyclesGained);
  };

  // A heap that is already over its limit may be kept: an upgrade is how it gets smaller.
  const heapBytesKept = change.keepsHeap ? old.heapBytes : 0;

  // The new code's place and hooks.
  canister.version++;
  canister.timerNs = 0n;
  let place: NewPlace;
  try {
    place = yield* newPlace(runtime, old, code, change.keepsHeap);
  } catch (error) {
    yield* runtime.rollingBack(canister, old);
    giveUp();
    if (error instanceof TooLong) {
      account.add(BigInt(charge));
      return runtime.needsOwnStack();
    }
    const { step } = noRoomForHeap(error);
    return finished(runtime, { ...step, instructions, charge }, false);
  }
  if (typeof place === 'string') {
    yield* runtime.rollingBack(canister, old);
    giveUp();
    const reason = runtime.explain({ kind: 'trap', message: place }, 0, false);
    return finished(runtime, faultyStep(reason, instructions, charge), false);
  }
  const { instance, isShared } = place;
  const limit = account.instructionsAllowed;
  execution.begin('s', instance, canister, context, change.argument, instant, true, limit);
  execution.certifiedData = certifiedData;
  if (isShared) instance.resume(limit);
  else instance.begin(limit);
  fault = instantiationFault(code, !change.keepsHeap) ?? (yield* runHooks(runtime, instance, 'canister_post_upgrade'));
  if (instance.heapBytes > heapBytesKept) fault ??= runtime.heapFault(canister, instance);
  if (!isShared) fault ??= yield* runtime.imageFault(canister, instance);
  const used = fault?.kind === 'limit' ? limit : instance.instructionsUsed();
  instructions += used;
  const isCommitted = fault === undefined && !isShared;
  if (isCommitted) {
    // No other thread or store has it yet: it may still be given up.
    instance.commit();
    fault = yield* storeAhead(runtime, canister, { instance, stable, isStableNew: false });
  }
  if (fault !== undefined) {
    if (!isCommitted) yield* runtime.inPieces((isShared ? old : instance).rollbackInPieces());
    yield* runtime.inPieces(stable.rollbackInPieces());
    instance.release();
    giveUp();
    if (fault.kind === 'long') {
      account.add(BigInt(charge));
      return runtime.needsOwnStack();
    }
    charge += account.charge(used);
    const reason = runtime.explain(fault, limit, limit < policy.instructionLimit);
    return finished(runtime, faultyStep(reason, instructions, charge), false);
  }
  yield* runtime.inPieces(toldOfUpgrade(runtime, canister, isShared ? instance : undefined));
  if (isShared) instance.commit();
  yield* runtime.inPieces(stable.commitInPieces());
  isBalanceMoved = runtime.moveCycles(canister) || isBalanceMoved;
  charge += account.charge(used);
  const memory = isShared ? 'kept' : 'heap-new';
  return yield* installed(runtime, canister, instance, memory, instructions, charge, isBalanceMoved);
}

/** Records what an upgrade has changed in storage: stable memory, and the heap if `keeping` has kept it. */
function* toldOfUpgrade({ changes }: EngineRuntime, canister: CanisterState, keeping: Instance | undefined): Pieces {
  const { persistence } = canister;
  // All of the canister's state is already stored ahead, where it will stay.
  if (persistence === undefined || persistence.isAhead) return;
  if (keeping !== undefined) yield* changes.beforeCommitInPieces(canister, keeping);
  else yield* changes.beforeStableCommitInPieces(canister, persistence);
}

/**
 * The new instance, and whether it works on the old one's memory within the old one's journal; or the reason why the
 * heap cannot be kept.
 */
type NewPlace = { readonly instance: Instance; readonly isShared: boolean } | string;

/** Makes the new instance. May throw RangeError: no room; and TooLong, as `roomFor`. */
function* newPlace(
  runtime: EngineRuntime,
  old: Instance,
  code: InstrumentedCode,
  keepsHeap: boolean,
): Running<NewPlace> {
  const { imports, control, heaps } = runtime;
  if (!keepsHeap) {
    yield* roomFor(runtime, firstPagesOf(code), old);
    // If there is no room for it, the old instance's message is still open, for the caller to roll back.
    const instance = Instance.create(code, imports, control, heaps);
    yield* runtime.inPieces(old.rollbackInPieces());
    return { instance, isShared: false };
  }
  const { layout } = code;
  const { layout: oldLayout } = old.code;
  if (layout.pointerWidth !== oldLayout.pointerWidth)
    return `the heap of a ${oldLayout.pointerWidth}-bit module cannot be kept for a ${layout.pointerWidth}-bit one`;
  const pages = old.heapBytes / WASM_PAGE_BYTES;
  if (pages > layout.heapPagesMax)
    return `the heap of ${pages} pages cannot be kept: the new module takes at most ${layout.heapPagesMax}`;
  if (layout.heapPagesMax === oldLayout.heapPagesMax) {
    const growing = old.growingTo(layout.heapPagesInitial * WASM_PAGE_BYTES);
    if ((yield* runtime.waitingIn(growing)) !== undefined) throw new TooLong();
    old.keepGlobals();
    return { instance: Instance.onSameHeap(code, imports, control, old), isShared: true };
  }
  yield* roomFor(runtime, pagesOfCopy(code, old.heapBytes), old);
  const instance = yield* runtime.inPieces(Instance.onCopy(code, imports, control, old.heap(), heaps));
  yield* runtime.inPieces(old.rollbackInPieces());
  return { instance, isShared: false };
}

/** Waits for the memory of a new heap. Throws TooLong where the thread would stand still, or if it is recalled. */
function* roomFor(runtime: EngineRuntime, pages: number, old: Instance): Running<void> {
  if ((yield* runtime.roomFor(pages, old)) !== undefined) throw new TooLong();
}

/** Returns the pages of 4 KiB that the budget counts for a new heap of the module. */
function firstPagesOf({ layout }: InstrumentedCode): number {
  return countedPagesOf(layout.heapPagesInitial * WASM_PAGE_BYTES, dataPagesOf(layout));
}

/** Returns the pages of 4 KiB that `Instance.onCopy` takes at most. */
export function pagesOfCopy({ layout }: InstrumentedCode, heapBytes: number): number {
  return Math.max(layout.heapPagesInitial * WASM_PAGE_BYTES, heapBytes) / PAGE_BYTES;
}

/** Returns the fault of an active segment that does not fit. Data is placed only in a new heap. */
function instantiationFault({ layout }: InstrumentedCode, isHeapNew: boolean): Fault | undefined {
  const { elements, data } = layout.segmentTraps;
  const message = elements ?? (isHeapNew ? data : undefined);
  return message === undefined ? undefined : { kind: 'trap', message };
}

/** Runs the start function and one hook, as far as the module has them. */
function* runHooks({ execution }: EngineRuntime, instance: Instance, hook: string): Running<Fault | undefined> {
  const start = instance.entry(START_ENTRY);
  const fault = start === undefined ? undefined : yield instance.calling(start);
  if (fault !== undefined) return fault;
  execution.enterMode('I');
  const entry = instance.entry(hook);
  return entry === undefined ? undefined : yield instance.calling(entry);
}

/** Puts new code in place whose memory is committed. */
function* installed(
  runtime: EngineRuntime,
  canister: CanisterState,
  instance: Instance,
  memory: MemoryOfNewCode,
  instructions: number,
  charge: number,
  isBalanceMoved: boolean,
): Running<EngineResult> {
  const { execution } = runtime;
  runtime.frames.dropAll(canister);
  canister.installed?.instance.release();
  canister.installed = { instance, roles: rolesOf(instance.code) };
  if (execution.certifiedData !== undefined) canister.certifiedData = execution.certifiedData;
  canister.timerNs = execution.timerNs ?? 0n;
  const { persistence } = canister;
  if (persistence !== undefined) {
    if (memory === 'kept') yield* storeChangedAhead(runtime, canister, persistence);
    yield* runtime.inPieces(runtime.changes.newCode(canister, persistence, memory));
  }
  const step = {
    fault: undefined,
    answer: undefined,
    calls: execution.calls,
    cyclesAccepted: 0n,
    timerNs: canister.timerNs,
    isAccepted: false,
    frame: 0,
    instructions,
    charge,
  };
  return finished(runtime, step, isBalanceMoved);
}

/** Result if the machine has no room for a heap: not the module's fault, and the canister stays as it was. */
function noRoomForHeap(error: unknown): EngineResult {
  if (!(error instanceof RangeError)) throw error;
  return nothingRan(
    'unavailable',
    REJECT_CODE.SYS_TRANSIENT,
    `the canister's heap cannot be allocated: ${messageOf(error)}`,
  );
}

/** Gives back what a canister holds, when it is evicted or deleted. */
export function dropState(runtime: EngineRuntime, canister: CanisterState): void {
  runtime.frames.dropAll(canister);
  canister.installed?.instance.release();
  canister.installed = undefined;
  canister.stable.clear();
  canister.openCalls.clear();
}

/** Drops code and state; balance, settings and version stay the canister's. */
export function uninstallCode(runtime: EngineRuntime, canister: CanisterState): void {
  dropState(runtime, canister);
  canister.certifiedData = NO_BYTES;
  canister.timerNs = 0n;
  canister.version++;
  // Nothing is left to write.
  if (canister.persistence !== undefined) inOneGo(runtime.changes.newCode(canister, canister.persistence, 'new'));
}
