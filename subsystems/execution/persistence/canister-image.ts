/**
 * A canister's whole state, out and in again: for snapshots, and for moving.
 * Executor thread, between two messages of the canister that it touches.
 */
import { messageOf, ServerError } from '../../../kernel/index.ts';
import { WASM_PAGE_BYTES } from '../../ic/index.ts';
import { CHUNK_PAGES, release, type StoredMemory, type StoredPages } from '../../storage/index.ts';
import type { CanisterState } from '../engine/canister-state.ts';
import type { EngineRuntime, Running } from '../engine/engine-runtime.ts';
import { pagesOfCopy } from '../engine/change-code.ts';
import { type Fault, TooLong } from '../engine/fault.ts';
import { rolesOf } from '../engine/entry-roles.ts';
import type { CanisterImage, SleepingCanister } from '../index.ts';
import { Instance } from '../engine/instance.ts';
import type { InstrumentedCode } from '../wire/instrumented-code.ts';
import { PAGE_BYTES, sharedBytes } from '../../bytes/index.ts';
import { isPacked, type PackedMemory, type PackedPages, pagesOf, readPacked } from '../memory/packed-memory.ts';
import { copyBytesInPieces, type Pieces, Recalled, unlessRecalled } from '../memory/pieces.ts';
import { countedPagesOf } from '../memory/heap-tally.ts';
import { storeAhead } from './store-ahead.ts';
import { STABLE_PAGES_MAX, StableMemory } from '../memory/stable-memory.ts';

/** Stable memory leaves in pieces of at most this size. */
const RUN_BYTES_MAX = 1 << 20;

/** A state that goes with the code. */
type State = Omit<CanisterImage, 'module'>;

/**
 * Returns a copy of the state, for which idle canisters give way. Throws OutOfMemory if there is no room for it,
 * Recalled once `isRecalled` returns true, and TooLong where the thread would stand still until there is memory. This
 * thread does not count the copy any longer: the host bounds snapshots (management/stored-bytes.ts).
 */
export function* captureState(
  runtime: EngineRuntime,
  canister: CanisterState,
  isRecalled: () => boolean,
): Running<State> {
  const { budget } = runtime.control.message;
  const instance = canister.installed?.instance;
  const pages = Math.ceil((instance?.heapBytes ?? 0) / PAGE_BYTES);
  yield* awaitMemory(runtime.roomFor(pages, instance), isRecalled);
  budget.demand(pages, 'there is no room for a copy of the state now');
  budget.free(pages);
  return yield* runtime.inPieces(unlessRecalled(copyOfState(canister), isRecalled));
}

/** Waits as `waiting` does, and throws if that ends early. */
function* awaitMemory(waiting: Running<Fault | undefined>, isRecalled: () => boolean): Running<void> {
  if ((yield* waiting) !== undefined) throw isRecalled() ? new Recalled() : new TooLong();
}

/** Returns a copy of the state that other threads may have without copying it again: the main thread hands it on. */
export function* copyOfState({ installed: code, stable, certifiedData }: CanisterState): Generator<void, State, void> {
  const heap = code === undefined ? new Uint8Array(0) : sharedBytes(code.instance.heapBytes);
  if (code !== undefined) {
    const from = (): Uint8Array => code.instance.heap();
    yield* copyBytesInPieces(heap.length, from, () => heap);
  }
  return {
    heap,
    globals: code === undefined ? new Uint8Array(0) : code.instance.saveGlobals(),
    stable: yield* stable.contents(RUN_BYTES_MAX),
    stablePages: stable.pages,
    certifiedData: certifiedData.slice(),
  };
}

/**
 * Replaces code and state; no hook runs. Timer, version and open calls stay. Returns the reason for a refusal, or
 * undefined if it is done. Throws if there is no memory for it (`isLackOfMemory`), Recalled once `isRecalled` returns
 * true, and TooLong where the thread would stand still until there is memory; the canister is as it was then.
 */
export function* restoreState(
  runtime: EngineRuntime,
  canister: CanisterState,
  code: InstrumentedCode | undefined,
  image: State,
  isRecalled: () => boolean,
): Running<string | undefined> {
  const problem = problemOf(code, image);
  if (problem !== undefined) return problem;
  const stable = new StableMemory(runtime.pool);
  let instance: Instance | undefined;
  try {
    stable.grow(image.stablePages);
    yield* awaitMemory(runtime.reserving(stable, granulesOf(image.stable)), isRecalled);
    yield* runtime.inPieces(unlessRecalled(copyStable(stable, image), isRecalled));
    stable.commit();
    if (code !== undefined) {
      const pages = pagesOfCopy(code, image.heap.length);
      yield* awaitMemory(runtime.roomFor(pages, canister.installed?.instance), isRecalled);
      const copying = Instance.onCopy(code, runtime.imports, runtime.control, image.heap, runtime.heaps);
      instance = yield* runtime.inPieces(unlessRecalled(copying, isRecalled));
      instance.loadGlobals(image.globals);
    }
  } catch (error) {
    stable.clear();
    if (isLackOfMemory(error) || error instanceof Recalled || error instanceof TooLong) throw error;
    return messageOf(error);
  }
  if ((yield* storeAhead(runtime, canister, { instance, stable, isStableNew: true })) !== undefined) {
    instance?.release();
    stable.clear();
    throw new Recalled();
  }
  runtime.frames.dropAll(canister);
  canister.installed?.instance.release();
  canister.stable.clear();
  canister.stable = stable;
  canister.certifiedData = image.certifiedData.slice();
  canister.installed = code === undefined || instance === undefined ? undefined : { instance, roles: rolesOf(code) };
  if (canister.persistence !== undefined)
    yield* runtime.inPieces(runtime.changes.newCode(canister, canister.persistence, 'new'));
  return undefined;
}

function granulesOf(runs: CanisterImage['stable']): number {
  return runs.reduce((sum, { bytes }) => sum + Math.ceil(bytes.length / PAGE_BYTES), 0);
}

function* copyStable(stable: StableMemory, image: Pick<CanisterImage, 'stable'>): Pieces {
  for (const { offset, bytes } of image.stable) {
    stable.write(offset, bytes, 0, bytes.length);
    yield;
  }
  yield* stable.commitInPieces();
}

/** A stored canister's parts, for `wakeState`: as in `SleepingCanister`, or packed. */
export type StoredState = Pick<SleepingCanister, 'heapBytes' | 'stablePages' | 'copy' | 'globals' | 'certifiedData'> & {
  readonly memory: StoredMemory | PackedMemory;
};

/**
 * Puts stored code and state into a canister that has none. Returns the reason for a refusal, or undefined if it is
 * done. Throws as `restoreState` does.
 */
export function* wakeState(
  runtime: EngineRuntime,
  canister: CanisterState,
  code: InstrumentedCode | undefined,
  { heapBytes, stablePages, memory, copy, globals, certifiedData }: StoredState,
): Running<string | undefined> {
  if (stablePages > STABLE_PAGES_MAX) return `${stablePages} pages of stable memory are more than ${STABLE_PAGES_MAX}`;
  const { stable } = canister;
  try {
    stable.grow(stablePages);
    const written = isPacked(memory) ? pagesOf(memory.stable) : memory.stable.numbers.length;
    const missing = written - stable.roomBytes / PAGE_BYTES;
    if (missing > 0) yield* runtime.inPieces(runtime.control.message.budget.makingRoomToWake(missing));
    const problem = isPacked(memory)
      ? unpackStable(stable, memory.stable)
      : yield* runtime.inPieces(placeStable(stable, memory.stable));
    if (problem !== undefined) return problem;
    yield* runtime.inPieces(stable.commitInPieces());
    stable.commit();
    if (code !== undefined) {
      const pages = heapBytes / WASM_PAGE_BYTES;
      const { heapPagesMax, globalsBytes } = code.layout;
      if (!Number.isInteger(pages) || pages > heapPagesMax)
        return `a heap of ${heapBytes} bytes does not fit the module, which takes at most ${heapPagesMax} pages`;
      if (globals.length !== globalsBytes)
        return `there are ${globals.length} bytes of globals, the module has ${globalsBytes}`;
      const instance = yield* runtime.inPieces(onHeap(runtime, code, heapBytes, memory));
      if (typeof instance === 'string') return instance;
      instance.loadGlobals(globals);
      canister.installed = { instance, roles: rolesOf(code) };
    }
  } catch (error) {
    if (isLackOfMemory(error)) throw error;
    return messageOf(error);
  }
  canister.certifiedData = certifiedData;
  if (canister.persistence !== undefined) {
    canister.persistence.globals = globals;
    canister.persistence.copy = copy;
    // The other copy's content is not known any more.
    canister.persistence.stales[copy === 0 ? 1 : 0].isWhole = true;
    canister.persistence.stales[copy === 0 ? 0 : 1].isWhole = false;
  }
  return undefined;
}

function* onHeap(
  { imports, control, heaps }: EngineRuntime,
  code: InstrumentedCode,
  heapBytes: number,
  memory: StoredMemory | PackedMemory,
): Generator<void, Instance | string, void> {
  const { budget } = control.message;
  if (!isPacked(memory)) {
    yield* budget.makingRoomToWake(countedPagesOf(heapBytes, memory.heap.numbers.length));
    return yield* Instance.onPages(code, imports, control, heapBytes, memory.heap, heaps);
  }
  const { heap } = memory;
  if (heap === undefined) return 'it was packed without code';
  yield* budget.makingRoomToWake(countedPagesOf(heapBytes, heap.template.numbers.length + pagesOf(heap.changes)));
  return Instance.onPacked(code, imports, control, heapBytes, heap, heaps);
}

function* placeStable(
  stable: StableMemory,
  { numbers, chunks }: StoredPages,
): Generator<void, string | undefined, void> {
  stable.reserve(numbers.length);
  for (const [k, chunk] of chunks.entries()) {
    if (k > 0) yield;
    for (const [at, granule] of numbers.subarray(k * CHUNK_PAGES, (k + 1) * CHUNK_PAGES).entries()) {
      const offset = granule * PAGE_BYTES;
      if (!stable.contains(offset, PAGE_BYTES)) return `granule ${granule} lies beyond the stable memory`;
      stable.write(offset, chunk, at * PAGE_BYTES, PAGE_BYTES);
    }
    release(chunk);
  }
  return undefined;
}

function unpackStable(stable: StableMemory, packed: PackedPages): string | undefined {
  stable.reserve(pagesOf(packed));
  let problem: string | undefined;
  readPacked(packed, (granule, offset, bytes) => {
    const at = granule * PAGE_BYTES + offset;
    if (stable.contains(at, bytes.length)) stable.write(at, bytes, 0, bytes.length);
    else problem = `granule ${granule} lies beyond the stable memory`;
  });
  return problem;
}

/** Returns true if the error means that the stored state is sound, but that there is no room for it now. */
export function isLackOfMemory(error: unknown): boolean {
  return error instanceof RangeError || (error instanceof ServerError && error.code === 'stable-memory-exhausted');
}

function problemOf(
  code: InstrumentedCode | undefined,
  { heap, globals, stable, stablePages }: State,
): string | undefined {
  const pages = heap.length / WASM_PAGE_BYTES;
  if (!Number.isInteger(pages))
    return `a heap of ${heap.length} bytes is not a whole number of pages of ${WASM_PAGE_BYTES} bytes`;
  if (code === undefined) {
    if (heap.length > 0 || globals.length > 0) return 'there is a heap or globals, but no module that they belong to';
  } else {
    const { heapPagesInitial, heapPagesMax, globalsBytes } = code.layout;
    if (pages < heapPagesInitial || pages > heapPagesMax)
      return `the heap has ${pages} pages, the module takes ${heapPagesInitial} to ${heapPagesMax}`;
    if (globals.length !== globalsBytes)
      return `there are ${globals.length} bytes of globals, the module has ${globalsBytes}`;
  }
  if (stablePages > STABLE_PAGES_MAX) return `${stablePages} pages of stable memory are more than ${STABLE_PAGES_MAX}`;
  for (const { offset, bytes } of stable)
    if (offset + bytes.length > stablePages * WASM_PAGE_BYTES)
      return `${bytes.length} bytes at offset ${offset} lie beyond a stable memory of ${stablePages} pages`;
  return undefined;
}
