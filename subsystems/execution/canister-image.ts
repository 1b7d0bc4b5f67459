/** A canister's whole state, out and in again: for snapshots, and for moving. */
import { messageOf } from '../../kernel/index.ts';
import { WASM_PAGE_BYTES } from '../metering/instrument/index.ts';
import type { CanisterState } from './canister-state.ts';
import type { EngineParts } from './engine-parts.ts';
import { rolesOf } from './entry-roles.ts';
import type { CanisterImage } from './index.ts';
import { Instance, type InstrumentedCode } from './instance.ts';
import { STABLE_PAGE_BYTES, STABLE_PAGES_MAX, StableMemory } from './stable-memory.ts';

/** Stable memory leaves in pieces of at most this. */
const RUN_BYTES_MAX = 1 << 20;

/** A copy of the state that goes with the code. */
export function captureState({ installed: code, stable, certifiedData }: CanisterState): Omit<CanisterImage, 'module'> {
  return {
    heap: code === undefined ? new Uint8Array(0) : code.instance.heap().slice(),
    globals: code === undefined ? new Uint8Array(0) : code.instance.saveGlobals(),
    stable: stable.contents(RUN_BYTES_MAX),
    stablePages: stable.pages,
    certifiedData: certifiedData.slice(),
  };
}

/**
 * Puts code and state in place of what there is; no hook runs. Timer, version and open calls stay.
 * Why it cannot be, in words, or undefined when it is done.
 */
export function restoreState(
  parts: EngineParts,
  canister: CanisterState,
  code: InstrumentedCode | undefined,
  image: Omit<CanisterImage, 'module'>,
): string | undefined {
  const problem = problemOf(code, image);
  if (problem !== undefined) return problem;
  const stable = new StableMemory(parts.pool);
  let instance: Instance | undefined;
  try {
    stable.grow(image.stablePages);
    for (const { offset, bytes } of image.stable) stable.write(offset, bytes, 0, bytes.length);
    stable.commit();
    if (code !== undefined) {
      instance = Instance.onCopy(code, parts.imports, parts.control, image.heap);
      instance.loadGlobals(image.globals);
    }
  } catch (error) {
    stable.clear();
    return messageOf(error);
  }
  parts.frames.dropAll(canister);
  canister.stable.clear();
  canister.stable = stable;
  canister.certifiedData = image.certifiedData.slice();
  canister.installed = code === undefined || instance === undefined ? undefined : { instance, roles: rolesOf(code) };
  return undefined;
}

function problemOf(
  code: InstrumentedCode | undefined,
  { heap, globals, stable, stablePages }: Omit<CanisterImage, 'module'>,
): string | undefined {
  const pages = heap.length / WASM_PAGE_BYTES;
  if (!Number.isInteger(pages)) return `a heap of ${heap.length} bytes is not a number of pages of ${WASM_PAGE_BYTES}`;
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
    if (offset + bytes.length > stablePages * STABLE_PAGE_BYTES)
      return `stable memory of ${stablePages} pages has no ${bytes.length} bytes at offset ${offset}`;
  return undefined;
}
