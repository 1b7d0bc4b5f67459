/** Executor thread, within a message: stable memory. Touches the canister's own, through its journal. */
import { ServerError } from '../../../../kernel/index.ts';
import { HostTrap } from '../fault.ts';
import { PAGE_BYTES } from '../../../bytes/index.ts';
import { GROW_AGAIN, ROOM } from '../../../instrument/abi/index.ts';
import { WASM_PAGE_BYTES } from '../../../ic/index.ts';
import { STABLE_PAGES_MAX, type StableMemory } from '../../memory/stable-memory.ts';
import type { CurrentExecution } from './current-execution.ts';

/** Instructions for each 4 KiB of stable memory that a message is the first to write. */
const DIRTY_GRANULE_INSTRUCTIONS = 1000;
/** 4 GiB: the most that the 32-bit imports can address. */
const NARROW_PAGES_MAX = 65_536;

/** Imports for stable memory: the 64-bit ones, and the older ones that stop at 4 GiB. */
export function stableMemoryImports(execution: CurrentExecution) {
  const read = (name: string, stable: StableMemory, destination: number, offset: number, size: number): void => {
    if (size === 0) return;
    checkStableRange(name, stable, offset, size);
    const memory = execution.memory;
    const heap = memory.heap();
    execution.checkHeapRange(name, heap, destination, size);
    memory.charge(size);
    execution.copyToHeap(destination, size, (from, length) =>
      stable.read(offset + from, memory.heap(), destination + from, length),
    );
  };
  const write = (name: string, stable: StableMemory, offset: number, source: number, size: number): void => {
    if (size === 0) return;
    checkStableRange(name, stable, offset, size);
    const memory = execution.memory;
    const heap = memory.heap();
    execution.checkHeapRange(name, heap, source, size);
    const clean = stable.cleanGranules(offset, size);
    const dirty = stable.dirtyGranules.length + clean;
    if (dirty > execution.stableGranulesMax) throw tooManyDirty(name, execution.stableGranulesMax);
    memory.charge(size + clean * DIRTY_GRANULE_INSTRUCTIONS);
    const noRoom = (error: unknown): unknown =>
      error instanceof ServerError ? memory.control.message.stop(`ic0.${name}: ${error.message}`) : error;
    const take = (pages: number): boolean =>
      memory.control.message.take(pages, `ic0.${name}: stable memory cannot be written`, true) === ROOM.GRANTED;
    const copy = (from: number, length: number): void => {
      try {
        stable.write(offset + from, memory.heap(), source + from, length);
      } catch (error) {
        throw noRoom(error);
      }
    };
    let isClaimed = clean === 0;
    // Room for all pieces is claimed at once.
    const hasRoom = (): boolean => {
      try {
        return (isClaimed ||= stable.claim(clean, take));
      } catch (error) {
        throw noRoom(error);
      }
    };
    memory.control.copyInPieces(size, copy, hasRoom);
  };
  const grow = (stable: StableMemory, pages: number, pagesMax: number): number => {
    // Stable memory beyond its maximum does not grow anyway.
    if (pages > pagesMax - stable.pages) return -1;
    const answer = execution.memory.control.message.growStable(pages * WASM_PAGE_BYTES, stable.roomBytes);
    if (answer === ROOM.LATER) return GROW_AGAIN;
    return answer === ROOM.GRANTED ? stable.grow(pages, pagesMax) : -1;
  };
  return {
    stable64_size: () => execution.canister.stable.pages,
    stable64_grow: (pages: number) => grow(execution.canister.stable, pages, STABLE_PAGES_MAX),
    stable64_write: (offset: number, source: number, size: number) =>
      write('stable64_write', execution.canister.stable, offset, source, size),
    stable64_read: (destination: number, offset: number, size: number) =>
      read('stable64_read', execution.canister.stable, destination, offset, size),

    stable_size: () => narrow('stable_size', execution.canister.stable).pages,
    stable_grow: (pages: number) => grow(narrow('stable_grow', execution.canister.stable), pages, NARROW_PAGES_MAX),
    stable_write: (offset: number, source: number, size: number) =>
      write('stable_write', narrow('stable_write', execution.canister.stable), offset, source, size),
    stable_read: (destination: number, offset: number, size: number) =>
      read('stable_read', narrow('stable_read', execution.canister.stable), destination, offset, size),
  };
}

function checkStableRange(name: string, stable: StableMemory, offset: number, size: number): void {
  if (!stable.contains(offset, size))
    throw new HostTrap(
      `ic0.${name}: stable memory out of bounds: ${size} bytes at offset ${offset} of ${stable.bytes} bytes`,
    );
}

function narrow(name: string, stable: StableMemory): StableMemory {
  if (stable.pages > NARROW_PAGES_MAX)
    throw new HostTrap(
      `ic0.${name}: stable memory is larger than 4 GiB (${stable.pages} pages); use the 64-bit stable memory imports`,
    );
  return stable;
}

function tooManyDirty(name: string, granulesMax: number): HostTrap {
  const mebibytes = (granulesMax * PAGE_BYTES) / (1 << 20);
  return new HostTrap(
    `ic0.${name}: memory access limit exceeded: one message may write at most ${mebibytes} MiB of stable memory pages`,
  );
}
