/** Processes of the management canister, one after the other on the same state. */
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { ServerError } from '../../../kernel/index.ts';
import { SeededRandom } from '../../support/kernel.ts';
import { RecordedStorage } from '../../support/recorded-storage.ts';
import { type FakeCanister, FakeHost, moduleOf } from './fake-host.ts';
import { base64, ManagementBench, text } from './management-bench.ts';

export const PAGE = 65_536;
export const MIB = 1 << 20;
export const WASM = moduleOf({ 'icp:private globals': 'i32,i64,f32,f64,v128' });

export interface Taken {
  readonly id: string;
  readonly total_size: number;
}

/** Processes over one host, which keeps its canisters by itself. */
export class Lives {
  storage = new RecordedStorage();
  readonly host: FakeHost;
  bench: ManagementBench;
  #random = 5;
  damaged: ReadonlyMap<unknown, ServerError> = new Map();

  constructor(host = new FakeHost()) {
    this.host = host;
    this.bench = this.#bench();
  }

  #bench(): ManagementBench {
    // Each process has other random numbers.
    const random = new SeededRandom(this.#random++);
    return new ManagementBench({ seed: undefined }, { storage: this.storage, host: this.host, random });
  }

  /**
   * Ends the process as a crash would, after the turn of the event loop with the last answer; or after `units` units.
   */
  async restart(units?: number): Promise<ManagementBench> {
    await nextTurn();
    this.storage = this.storage.restart(units);
    this.bench = this.#bench();
    this.damaged = await this.bench.management.restore();
    return this.bench;
  }
}

export function stateOf({ heap, stable, stablePages, globals, certifiedData, code }: FakeCanister) {
  const flat = new Uint8Array(stablePages * PAGE);
  for (const [offset, bytes] of stable) flat.set(bytes, offset);
  return structuredClone({ heap, flat, globals, certifiedData, hash: code?.module.hash });
}

/** Makes a canister whose snapshot has some content in every part. */
export async function filled(
  bench: ManagementBench,
  heapBytes = 2 * PAGE,
): Promise<{ canister: FakeCanister; id: string }> {
  const canister = bench.canister();
  const id = text(canister.id);
  await bench.ok('install_code', { canister_id: id, mode: { install: null }, wasm_module: base64(WASM), arg: '' });
  canister.heap = Uint8Array.from({ length: heapBytes }, (_, index) => (index * 7 + (index >> 8)) & 0xff);
  canister.stablePages = 40;
  for (const [offset, fill] of [
    [4096, 7],
    [8192, 8],
    [PAGE - 4096, 9],
    [39 * PAGE, 10],
  ] as const)
    canister.stable.set(offset, new Uint8Array(4096).fill(fill));
  canister.certifiedData = Uint8Array.of(1, 2, 3);
  canister.timerNs = 123n;
  canister.globals = canister.globals.map((_, index) => index + 200);
  await bench.ok('upload_chunk', { canister_id: id, chunk: base64('chunk') });
  return { canister, id };
}
