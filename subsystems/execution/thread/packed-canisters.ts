/**
 * The sleeping canisters that an executor keeps packed (persistence/packed-canister.ts): as many as fit, preferring
 * those that fell asleep last. All of their state is stored as well, so dropped ones are read from there.
 *
 * Executor thread; takes from the budget that all threads share, and gives all of it back when others need the memory
 * (`clear`).
 */
import { PAGE_BYTES } from '../../bytes/index.ts';
import { areSameNumbers } from '../../ic/index.ts';
import type { HeapTemplates } from '../memory/heap-template.ts';
import { letGoOf } from '../memory/packed-memory.ts';
import type { MemoryBudget } from '../memory/memory-budget.ts';
import type { InstrumentedCode } from '../wire/instrumented-code.ts';
import type { RouseRecord } from '../wire/sleep-record.ts';
import type { PackedCanister } from '../persistence/packed-canister.ts';

/**
 * Most bytes in all threads together, and their share of all actors' memory: ten thousand small Motoko actors take 10
 * to 30 MiB.
 */
const PACKED_BYTES_MAX = 256 * 2 ** 20;
const PACKED_SHARE = 1 / 8;
const NS_PER_MS = 1_000_000n;

export class PackedCanisters {
  readonly #bytesMax: number;
  readonly #budget: MemoryBudget;
  /** Packed canisters by handle, in the order in which they fell asleep. */
  readonly #packed = new Map<number, PackedCanister>();
  readonly #templates: HeapTemplates;
  /** Bytes of the packed canisters without their templates. */
  #bytes = 0;
  #pages = 0;

  constructor(bytesMax: number, templates: HeapTemplates, budget: MemoryBudget) {
    this.#bytesMax = bytesMax;
    this.#templates = templates;
    this.#budget = budget;
  }

  get count(): number {
    return this.#packed.size;
  }

  /** Bytes that the budget counts for packed canisters. */
  get countedBytes(): number {
    return this.#pages * PAGE_BYTES;
  }

  /** Keeps a canister, and drops others for it. Returns false if there is no room for it. */
  add(handle: number, canister: PackedCanister): boolean {
    // Before the older one goes: a template goes with the last that is packed with it.
    if (canister.memory.heap !== undefined) this.#templates.hold(canister.memory.heap.template);
    this.drop(handle);
    this.#packed.set(handle, canister);
    this.#bytes += canister.bytes;
    while (this.#allBytes > this.#bytesMax || !this.#isPaid()) {
      const oldest = this.#packed.keys().next();
      if (oldest.done === true) break;
      this.drop(oldest.value);
    }
    return this.#packed.has(handle);
  }

  /**
   * Removes and returns a packed canister, whose bytes stay readable until `letGo`; undefined: it is not kept. The
   * bytes are not counted any more: the woken canister needs the room.
   */
  take(handle: number): PackedCanister | undefined {
    const canister = this.#packed.get(handle);
    if (canister === undefined) return undefined;
    this.#packed.delete(handle);
    this.#bytes -= canister.bytes;
    this.#isPaid();
    return canister;
  }

  /** Gives back the memory of a canister that was taken. */
  letGo({ memory: { heap, stable } }: PackedCanister): void {
    letGoOf(stable);
    if (heap === undefined) return;
    letGoOf(heap.changes);
    this.#templates.release(heap.template);
    this.#isPaid();
  }

  drop(handle: number): void {
    const canister = this.take(handle);
    if (canister !== undefined) this.letGo(canister);
  }

  /** Drops the canisters that have a module. */
  forget(code: InstrumentedCode): void {
    for (const [handle, canister] of this.#packed) if (canister.code === code) this.drop(handle);
  }

  /** Drops all of them. */
  clear(): void {
    for (const handle of this.#packed.keys()) this.drop(handle);
  }

  get #allBytes(): number {
    return this.#bytes + this.#templates.bytes;
  }

  /** Updates the budget's count to the bytes that are kept. Returns false if the budget does not have that many. */
  #isPaid(): boolean {
    const more = Math.ceil(this.#allBytes / PAGE_BYTES) - this.#pages;
    if (more > this.#budget.pagesLeft) return false;
    this.#budget.add(more);
    this.#pages += more;
    return true;
  }
}

/** Returns the bound for one of `threads` threads, as its part of the memory of all actors. */
export function packedBytesMax(threads: number, memoryBytesMax: number): number {
  return Math.min(PACKED_BYTES_MAX, PACKED_SHARE * memoryBytesMax) / threads;
}

/**
 * Returns true if the host knows the canister as it was packed. Once the host has changed settings or certificates, the
 * host does not ask for the packed canister any more (executor-pool.ts).
 */
export function isAsPacked(
  { spec, settings, heapBytes, stablePages }: PackedCanister,
  facts: Pick<RouseRecord, 'numbers' | 'balance' | 'heapBytes' | 'stablePages'>,
): boolean {
  return (
    spec.balance === facts.balance &&
    areSameNumbers(settings, facts.numbers) &&
    heapBytes === facts.heapBytes &&
    stablePages === facts.stablePages
  );
}

/**
 * Returns true if both deadlines are equal within the host's precision: the host has deadlines as milliseconds in a
 * double.
 */
export function isSameTimer(exact: bigint, rounded: bigint): boolean {
  const difference = exact - rounded;
  return difference < NS_PER_MS && difference > -NS_PER_MS;
}
