/**
 * Stores new memory of a change of code ahead of the unit that makes the change true: all of it in one unit would hold
 * up everybody's commits for seconds (ADR 74).
 *
 *     new memory    to the copy that does not count (`memoryId`), piece by piece, each durable before the next is made;
 *                   META.ahead says so until the change's own unit, which makes that copy count and gives up the
 *                   other one
 *     memory kept   as a checkpoint, if the hooks have changed much of it (`prepareCheckpoint`)
 *
 * Until that unit the stored canister is what it was. Pages that a crash leaves in the other copy are deleted at the
 * next start (canisters/left-ahead.ts); pages that a recalled message leaves are deleted with its canister or when that
 * copy is written to again.
 *
 * Executor thread; touches the canister whose code changes, while its gate is closed.
 */
import { PAGE_BYTES } from '../../bytes/index.ts';
import type { CanisterState } from '../engine/canister-state.ts';
import type { EngineRuntime, Running } from '../engine/engine-runtime.ts';
import { type Fault, LONG } from '../engine/fault.ts';
import type { PersistenceState } from './persistence-state.ts';
import type { ComingMemory } from './ahead-store.ts';
import { inPlacePagesMax, type PieceSizes } from './piece-sizes.ts';

/** A stable memory this many times as large as the new heap is not copied for it. */
const COPIED_FACTOR = 4;

/**
 * Stores new memory ahead, if it is much. Returns `LONG` if this cannot be done here, or the message was recalled; then
 * none of it counts, and the caller takes the change back.
 */
export function* storeAhead(
  runtime: EngineRuntime,
  canister: CanisterState,
  coming: ComingMemory,
): Running<Fault | undefined> {
  const { ahead, changes } = runtime;
  const { persistence } = canister;
  if (persistence === undefined || ahead === undefined || !isMuch(coming, runtime.pieceSizes)) return undefined;
  if (ahead.store === undefined) return LONG;
  for (const _ of changes.copyAhead(canister, persistence, coming)) {
    const fault = yield changes.hasPiece ? runtime.storing : runtime.pause;
    if (fault === undefined) continue;
    // META.ahead tells of the pages that have been stored so far.
    changes.take();
    return fault;
  }
  return undefined;
}

function isMuch({ instance, stable, isStableNew }: ComingMemory, sizes: PieceSizes): boolean {
  const heapPages = instance?.imagePages ?? 0;
  const stablePages = stable.storedBytes / PAGE_BYTES;
  if (isStableNew) return heapPages + stablePages > sizes.atOncePages;
  if (heapPages <= sizes.atOncePages) return false;
  return heapPages > inPlacePagesMax(sizes) || stablePages <= COPIED_FACTOR * heapPages;
}

/**
 * Stores the changes of hooks to kept memory ahead, but for a rest. The change counts already: it is not recalled any
 * more.
 */
export function* storeChangedAhead(
  { ahead, changes, storing }: EngineRuntime,
  canister: CanisterState,
  persistence: PersistenceState,
): Running<void> {
  if (ahead?.store === undefined) return;
  while (!changes.prepareCheckpoint(canister, persistence)) if ((yield storing) !== undefined) return;
}
