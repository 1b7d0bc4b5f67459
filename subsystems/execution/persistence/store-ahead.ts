/**
 * Stores what a change of code makes of a canister's memory ahead of the unit that makes it true: all of it in one unit would
 * hold up everybody's commits for seconds (ADR 74).
 *
 *     new memory    to the copy that does not count (`memoryId`), piece by piece, each durable before the next is made;
 *                   META.ahead says so until the change's own unit, which makes that copy count and gives up the other one
 *     memory kept   as a checkpoint, if the hooks have changed much of it (`prepareCheckpoint`)
 *
 * Until that unit the stored canister is what it was. What a crash leaves in the other copy is deleted at the next start
 * (canisters/left-ahead.ts), what a message leaves that is recalled with its canister or when that copy is written to again.
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

/** A stable memory so many times as large as the new heap is not copied for it. */
const COPIED_FACTOR = 4;

/**
 * Stores new memory ahead, if it is much. `LONG`: not here, or the message was recalled; then nothing of it counts, and the caller
 * takes the change back.
 */
export function* storeAhead(
  parts: EngineRuntime,
  canister: CanisterState,
  coming: ComingMemory,
): Running<Fault | undefined> {
  const { ahead, changes } = parts;
  const { kept } = canister;
  if (kept === undefined || ahead === undefined || !isMuch(coming, parts.pieceSizes)) return undefined;
  if (ahead.store === undefined) return LONG;
  for (const _ of changes.copyAhead(canister, kept, coming)) {
    const fault = yield changes.hasPiece ? parts.storing : parts.pause;
    if (fault === undefined) continue;
    // What has been stored so far is known by META.ahead.
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

/** Stores what hooks have changed of memory that is kept ahead, but for a rest. The change counts already: it is not recalled any more. */
export function* storeChangedAhead(
  { ahead, changes, storing }: EngineRuntime,
  canister: CanisterState,
  kept: PersistenceState,
): Running<void> {
  if (ahead?.store === undefined) return;
  while (!changes.prepareCheckpoint(canister, kept)) if ((yield storing) !== undefined) return;
}
