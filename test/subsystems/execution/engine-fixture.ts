/** Canisters from text, and an engine to run them in the test's own thread. */
import { createHash } from 'node:crypto';
import wabt from 'wabt';
import type { MeteringPolicy } from '../../../subsystems/metering/index.ts';
import type { CanisterState } from '../../../subsystems/execution/canister-state.ts';
import { ControlMemory } from '../../../subsystems/execution/control-memory.ts';
import { Engine, type EngineResult } from '../../../subsystems/execution/engine.ts';
import type { CallKind, CanisterSpec } from '../../../subsystems/execution/index.ts';
import type { Instance } from '../../../subsystems/execution/instance.ts';
import { loadModule } from '../../../subsystems/execution/load-module.ts';
import type { LoadedModule } from '../../../subsystems/execution/module-loader.ts';

export type Width = 32 | 64;
export const WIDTHS: readonly Width[] = [32, 64];
export const ANONYMOUS = new Uint8Array([4]);
export const EMPTY_ARGS = new Uint8Array([0x44, 0x49, 0x44, 0x4c, 0, 0]);
export const STACK_BYTES = 4 << 20;

export const POLICY: MeteringPolicy = {
  isEnabled: true,
  startingCycles: 100_000_000_000_000n,
  cyclesPerMessage: 590_000,
  cyclesPer10Instructions: 4,
  instructionLimit: 40_000_000_000,
};

const features = {
  memory64: true,
  bulk_memory: true,
  multi_value: true,
  sign_extension: true,
  mutable_globals: true,
} as const;
const assembler = await wabt();

/** Text to bytes. `PTR` stands for the pointer type, `%index` for what a memory or table of that width says before its limits. */
export function assemble(width: Width, text: string): Uint8Array {
  const module = assembler.parseWat(
    'test.wat',
    text.replaceAll('PTR', `i${width}`).replaceAll('%index', width === 64 ? 'i64' : ''),
    features,
  );
  try {
    return module.toBinary({ write_debug_names: true }).buffer;
  } finally {
    module.destroy();
  }
}

export function load(bytes: Uint8Array): LoadedModule {
  return loadModule(bytes, createHash('sha256').update(bytes).digest('hex'), { wasmStackBytes: STACK_BYTES });
}

/** An engine whose host bugs fail the test that caused them. */
export function newEngine(policy: Partial<MeteringPolicy> = {}, stableBytesMax = 256 << 20): Engine {
  return new Engine({
    policy: { ...POLICY, ...policy },
    control: new ControlMemory({ stackBytes: STACK_BYTES, journalBytesMax: 256 << 20 }),
    stableBytesMax,
    reportBug: (message, cause) => {
      throw new Error(`a bug of the host: ${message}`, { cause });
    },
  });
}

export interface Sample {
  readonly bytes: Uint8Array;
  readonly policy?: Partial<MeteringPolicy>;
  readonly spec?: Partial<CanisterSpec>;
  readonly argument?: Uint8Array;
  readonly stableBytesMax?: number;
}

export const CANISTER_ID = new Uint8Array([0x80, 0, 0, 0, 0, 0x10, 0, 1, 1, 1]);

/** One installed canister and short ways to call it. */
export class TestCanister {
  readonly engine: Engine;
  readonly state: CanisterState;
  readonly module: LoadedModule;
  readonly installed: EngineResult;
  caller = ANONYMOUS;
  nowMs = 1_800_000_000_000;

  constructor(sample: Sample) {
    this.engine = newEngine(sample.policy, sample.stableBytesMax);
    this.module = load(sample.bytes);
    this.state = this.engine.createCanister({
      id: CANISTER_ID,
      balance: POLICY.startingCycles,
      controllers: [ANONYMOUS],
      env: new Map(),
      ...sample.spec,
    });
    this.installed = this.install(sample.argument);
  }

  install(argument: Uint8Array = EMPTY_ARGS, module: LoadedModule = this.module): EngineResult {
    return this.engine.install(this.state, module.code, { argument, caller: this.caller, nowMs: this.nowMs });
  }

  get instance(): Instance {
    const instance = this.state.installed?.instance;
    if (instance === undefined) throw new Error(`not installed: ${JSON.stringify(this.installed.outcome)}`);
    return instance;
  }

  run(kind: CallKind, method: string, argument: Uint8Array = EMPTY_ARGS): EngineResult {
    const entry = this.module.entries.get(method);
    if (entry === undefined) throw new Error(`no method ${method}`);
    return this.engine.execute(this.state, { entry, kind, caller: this.caller, argument, nowMs: this.nowMs });
  }

  update(method: string, argument?: Uint8Array): EngineResult {
    return this.run('update', method, argument);
  }

  query(method: string, argument?: Uint8Array): EngineResult {
    return this.run('query', method, argument);
  }

  /** Everything a message may change: heap, globals, stable memory, and the state beside them. */
  fingerprint(): string {
    const hash = createHash('sha256');
    hash.update(this.instance.heap()).update(this.instance.saveGlobals());
    const { stable, certifiedData, version } = this.state;
    hash.update(`${this.instance.heapBytes} ${stable.pages} ${version} `).update(certifiedData);
    const part = new Uint8Array(1 << 16);
    for (let page = 0; page < Math.min(stable.pages, 256); page++) {
      stable.read(page * part.length, part, 0, part.length);
      hash.update(part);
    }
    return hash.digest('hex');
  }
}

/** The reply's bytes, or an error that shows what came instead. */
export function replyOf(result: EngineResult): Uint8Array {
  const { outcome } = result;
  if (outcome.kind !== 'reply') throw new Error(`expected a reply, got ${outcome.kind}: ${outcome.message}`);
  return outcome.data;
}

/** The message of an outcome that is not a reply. */
export function faultOf(result: EngineResult, kind: string): string {
  const { outcome } = result;
  if (outcome.kind === 'reply') throw new Error(`expected ${kind}, got a reply of ${outcome.data.length} bytes`);
  if (outcome.kind !== kind) throw new Error(`expected ${kind}, got ${outcome.kind}: ${outcome.message}`);
  return outcome.message;
}

export function littleEndian(bytes: Uint8Array): bigint {
  return bytes.reduceRight((value, byte) => (value << 8n) | BigInt(byte), 0n);
}
