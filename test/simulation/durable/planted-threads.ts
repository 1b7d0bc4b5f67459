/**
 * The mistake that once let a message run inside another one of the same actor, planted again: a gate that admits work
 * too large for the ring while a message is under way. It is tried with the shipped engine, which asserts that no
 * message is under way, and with one that does not, so that the simulator has to find the consequences. Also mistakes
 * in the kept state of sleeping actors.
 */
import type { CanisterState } from '../../../subsystems/execution/engine/canister-state.ts';
import {
  Engine,
  type EngineOptions,
  type EngineResult,
  type Running,
} from '../../../subsystems/execution/engine/engine.ts';
import type { HeapTemplate } from '../../../subsystems/execution/memory/heap-template.ts';
import type { PackedHeap, PackedPages } from '../../../subsystems/execution/memory/packed-memory.ts';
import type { PackedCanister } from '../../../subsystems/execution/persistence/packed-canister.ts';
import type { StoreAhead } from '../../../subsystems/execution/persistence/ahead-store.ts';
import { META, metaKey } from '../../../subsystems/storage/keyspace.ts';
import { applyWriteBatch, joinPieces, WriteBatch } from '../../../subsystems/storage/write-batch.ts';
import type { Task } from '../../../subsystems/ic/index.ts';
import { LeakyGate } from '../observed-gate.ts';
import type { PlantedThreads } from './simulated-threads.ts';

/** An engine that ignores a message under way: another one gets its instance. */
class CarelessEngine extends Engine {
  override execute(canister: CanisterState, task: Task, nowMs: number): EngineResult {
    letGo(canister);
    return super.execute(canister, task, nowMs);
  }

  override *executing(canister: CanisterState, task: Task, nowMs: number, isAgain = false): Running<EngineResult> {
    letGo(canister);
    return yield* super.executing(canister, task, nowMs, isAgain);
  }
}

/** Ends the message under way: an instance can leave the journal of its message only then. */
function letGo(canister: CanisterState): void {
  if (canister.isInMessage) canister.installed?.instance.commit();
  canister.isInMessage = false;
}

/** An engine that keeps too little of a sleeping canister: the last pages in which it differs from others are lost. */
class ForgetfulEngine extends Engine {
  override putToSleep(canister: CanisterState): PackedCanister | undefined {
    const packed = super.putToSleep(canister);
    const heap = packed?.memory.heap;
    if (packed === undefined || heap === undefined) return packed;
    return { ...packed, memory: { ...packed.memory, heap: { ...heap, changes: heap.changes.slice(0, -1) } } };
  }
}

/** An engine that keeps the globals that a canister had when it fell asleep for the first time. */
class StaleEngine extends Engine {
  readonly #globals = new Map<string, Uint8Array>();

  override putToSleep(canister: CanisterState): PackedCanister | undefined {
    const packed = super.putToSleep(canister);
    if (packed === undefined) return undefined;
    const key = Buffer.from(canister.id).toString('hex');
    const globals = this.#globals.get(key) ?? packed.globals;
    this.#globals.set(key, globals);
    return { ...packed, globals };
  }
}

/** An engine that keeps the empty heap of a canister as a list into which the pages of the next canister go. */
class SharingEngine extends Engine {
  readonly #templates = new WeakSet<HeapTemplate>();
  #pages: PackedPages[number][] = [];

  override putToSleep(canister: CanisterState): PackedCanister | undefined {
    const packed = super.putToSleep(canister);
    if (packed === undefined) return undefined;
    const { heap, stable } = packed.memory;
    return { ...packed, memory: { ...packed.memory, stable: this.#listOf(stable), heap: heap && this.#heap(heap) } };
  }

  #heap(heap: PackedHeap): PackedHeap {
    // A heap from which the template was made has no pages of its own.
    const isFirst = !this.#templates.has(heap.template);
    this.#templates.add(heap.template);
    return isFirst ? heap : { ...heap, changes: this.#listOf(heap.changes) };
  }

  #listOf(pages: PackedPages): PackedPages {
    const list = this.#pages;
    list.push(...pages);
    if (list.length > 0) this.#pages = [];
    return list;
  }
}

/**
 * Returns an engine that stores the pieces of a change of code ahead as `change` alters them; undefined drops a piece.
 */
function telling(
  options: EngineOptions,
  change: (changes: Uint8Array, isFirst: boolean) => Uint8Array | undefined,
): Engine {
  const store = options.ahead?.store;
  if (store === undefined) return new Engine(options);
  let stored = 0;
  const wrong: StoreAhead = async (changes) => {
    const told = change(joinPieces(changes), stored++ % 2 === 0);
    return told === undefined || (await store([told]));
  };
  return new Engine({ ...options, ahead: { store: wrong } });
}

/** Returns true if the piece belongs to a payload, false if it belongs to memory. */
function hasPayload(changes: Uint8Array): boolean {
  let found = false;
  applyWriteBatch(changes, {
    put: (family) => (found ||= family === 'queue'),
    delete: () => undefined,
    clear: () => undefined,
    patch: () => undefined,
  });
  return found;
}

/** Makes the written copy the current one from its first piece on. */
function countsAtOnce(changes: Uint8Array): Uint8Array {
  const set = new WriteBatch();
  set.append(changes.slice());
  applyWriteBatch(changes, {
    put: (family, key, value) => {
      if (family === 'meta' && key[0] === META.ahead.charCodeAt(0))
        set.put('meta', metaKey(META.copy, key.slice(1)), value);
    },
    delete: () => undefined,
    clear: () => undefined,
    patch: () => undefined,
  });
  return set.take();
}

export const PLANTED_THREADS: Readonly<Record<string, PlantedThreads>> = {
  'a gate that lets in what is large': { createGate: (seen) => new LeakyGate(seen) },
  'such a gate, and an engine that does not notice': {
    createGate: (seen) => new LeakyGate(seen),
    createEngine: (options) => new CarelessEngine(options),
    isSilent: true,
  },
  'sleeping actors of which not everything is kept': { createEngine: (options) => new ForgetfulEngine(options) },
  'sleeping actors of which something old is kept': { createEngine: (options) => new StaleEngine(options) },
  'sleeping actors that get what is kept of the next': { createEngine: (options) => new SharingEngine(options) },
  'new memory of which a piece is lost': {
    createEngine: (options) =>
      telling(options, (changes, isKept) => (isKept || hasPayload(changes) ? changes : undefined)),
  },
  'payloads of which a piece is lost': {
    createEngine: (options) =>
      telling(options, (changes, isKept) => (isKept || !hasPayload(changes) ? changes : undefined)),
  },
  'new memory that counts before all of it is there': {
    createEngine: (options) => telling(options, countsAtOnce),
  },
};

/** The careless engine with the shipped gate: no mistake, so nothing may be found. */
export const CARELESS: PlantedThreads = { createEngine: (options) => new CarelessEngine(options) };
