/** Engines with bounded memory, for tests: those of one thread, and a log that is run again in another thread. */
import assert from 'node:assert/strict';
import { copyOfState } from '../../../subsystems/execution/persistence/canister-image.ts';
import type { CanisterState } from '../../../subsystems/execution/engine/canister-state.ts';
import { ControlMemory } from '../../../subsystems/execution/memory/control-memory.ts';
import { inOneGo } from '../../../subsystems/execution/memory/pieces.ts';
import {
  createStores,
  Engine,
  type EngineResult,
  type SharedStores,
} from '../../../subsystems/execution/engine/engine.ts';
import type { CanisterImage } from '../../../subsystems/execution/index.ts';
import { FULL_LIMIT } from '../../../subsystems/ic/index.ts';
import type { InstrumentedCode } from '../../../subsystems/execution/wire/instrumented-code.ts';
import { MemoryBudget } from '../../../subsystems/execution/memory/memory-budget.ts';
import { META } from '../../../subsystems/storage/index.ts';
import { RecordPacker } from '../../../subsystems/storage/record-packer.ts';
import { PageCollector } from '../../../subsystems/storage/stored-pages.ts';
import { applyWriteBatch } from '../../../subsystems/storage/write-batch.ts';
import { hogModule } from '../../e2e/memory/hog.ts';
import { ANONYMOUS, CANISTER_ID, contextOf, load, POLICY, STACK_BYTES } from './engine-fixture.ts';

export const MIB = 2 ** 20;
export const PAGE = 4096;

/** A thread's engine with memory of its own. */
export class Thread {
  readonly budget: MemoryBudget;
  readonly stores: SharedStores;
  readonly control: ControlMemory;
  readonly engine: Engine;
  nowMs = 1_800_000_000_000;
  #collectedBytes = 0;

  constructor(bytesMax: number, Budget: typeof MemoryBudget = MemoryBudget) {
    this.budget = new Budget(MemoryBudget.table(bytesMax, 1), 0);
    const { budget } = this;
    this.stores = createStores({ stableBytesMax: 1 << 30, budget });
    this.control = new ControlMemory({ stackBytes: STACK_BYTES, journalBytesMax: 1 << 30, budget });
    this.engine = this.engineOn(this.control);
  }

  /** Returns another engine of the thread. */
  engineOn(control: ControlMemory): Engine {
    return new Engine({
      policy: POLICY,
      control,
      shared: this.stores,
      reportBug: (message, cause) => {
        throw new Error(`a bug of the host: ${message}`, { cause });
      },
    });
  }

  create(snapshotBelowBytes?: number): CanisterState {
    const spec = { id: CANISTER_ID, balance: POLICY.startingCycles, controllers: [], env: new Map<string, string>() };
    return this.engine.createCanister({ ...spec, snapshotBelowBytes });
  }

  install(code: InstrumentedCode, canister = this.create()): CanisterState {
    const rest = { argument: new Uint8Array(0), caller: ANONYMOUS };
    const { step } = this.engine.change(canister, code, { mode: 'reinstall', ...rest }, this.nowMs++);
    assert.ok(step.fault === undefined, step.fault?.message ?? '');
    return canister;
  }

  upgrade(canister: CanisterState, code: InstrumentedCode, keepsHeap: boolean): EngineResult {
    const rest = { argument: new Uint8Array(0), caller: ANONYMOUS, skipsPreUpgrade: false, keepsHeap };
    return this.engine.change(canister, code, { mode: 'upgrade', ...rest }, this.nowMs++);
  }

  run(canister: CanisterState, method: string, step = 16, most = 0xffff_ffff, engine = this.engine): EngineResult {
    const entries = canister.installed?.instance.code.layout.entries ?? [];
    const entry = entries.findIndex((name) => name.split(' ')[1] === method);
    const kind = entries[entry]?.startsWith('canister_query') === true ? 'query' : 'update';
    const argument = new Uint8Array(Uint32Array.of(step, most).buffer);
    const task = { kind, entry, argument, context: contextOf(ANONYMOUS), instructionsMax: FULL_LIMIT } as const;
    return engine.execute(canister, task, this.nowMs++);
  }

  /** Returns the u64 of the method's reply. */
  ask(canister: CanisterState, method: string, step?: number, most?: number): number {
    const { fault, answer } = this.run(canister, method, step, most).step;
    assert.ok(fault === undefined, fault?.message ?? '');
    assert.ok(answer?.kind === 'reply');
    return Number(Buffer.from(answer.data).readBigUInt64LE());
  }

  /** Returns the reason of the method's trap. */
  fault(canister: CanisterState, method: string, step?: number, most?: number): string {
    const { fault } = this.run(canister, method, step, most).step;
    assert.ok(fault !== undefined, `${method} did not fail`);
    return fault.message;
  }

  /** Does the work of a garbage collection. */
  collect(): void {
    const { droppedBytes } = this.stores.heaps;
    this.budget.free((droppedBytes - this.#collectedBytes) / PAGE);
    this.#collectedBytes = droppedBytes;
  }

  /** Returns the bytes that should be counted while no message is under way. */
  expected(canisters: readonly CanisterState[]): number {
    let pages = 0;
    for (const { installed, stable } of canisters) {
      pages += installed?.instance.countedPages ?? 0;
      pages += stable.tableBytes / PAGE;
    }
    const { heaps, pool } = this.stores;
    pages += (heaps.countedBytes + heaps.droppedBytes - this.#collectedBytes) / PAGE + pool.slabPages;
    return pages * PAGE + this.control.grownBytes;
  }
}

export function stateOf(canister: CanisterState): Omit<CanisterImage, 'module'> {
  return inOneGo(copyOfState(canister));
}

export const HOGS = { 32: load(hogModule(32)).code, 64: load(hogModule(64)).code } as const;

/** Log of a canister's steps, from which the canister is restored in another thread. */
export class Log {
  readonly #records: Uint8Array[] = [];
  #checkpoint: Uint8Array | undefined;

  keep(changes: readonly Uint8Array[] | undefined): void {
    const ignore = (): void => undefined;
    for (const piece of changes ?? [])
      applyWriteBatch(piece, {
        put: (family, key, value) => {
          if (family === 'log') this.#records.push(value.slice());
          else if (String.fromCharCode(key[0] ?? 0) === META.checkpoint) this.#checkpoint = value.slice();
        },
        delete: ignore,
        clear: ignore,
        patch: ignore,
      });
  }

  /** Runs the log in a thread with so much memory, on the canister's state before the log. */
  replayed(
    bytesMax: number,
    first: CanisterImage,
    code: InstrumentedCode,
    of: CanisterState,
  ): Thread & { state: CanisterState } {
    const thread = new Thread(bytesMax);
    const packer = new RecordPacker();
    for (const record of this.#records) packer.add(record);
    const state = thread.create(0);
    const heap = new PageCollector();
    for (let page = 0; page * PAGE < first.heap.length; page++)
      heap.add(page, first.heap.subarray(page * PAGE, (page + 1) * PAGE));
    assert.ok(this.#checkpoint !== undefined);
    const outcome = thread.engine.wake(state, code, {
      settings: of.settings,
      timerNs: of.timerNs,
      instantMs: of.instantMs,
      heapBytes: first.heap.length,
      stablePages: first.stablePages,
      memory: { heap: heap.take(), stable: new PageCollector().take() },
      copy: 0,
      globals: first.globals,
      certifiedData: first.certifiedData,
      openCalls: [],
      log: { checkpoint: this.#checkpoint, records: packer.take() },
    });
    assert.equal(outcome, this.#records.length);
    return Object.assign(thread, { state });
  }
}
