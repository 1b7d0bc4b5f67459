/** Canisters from text, and an engine that runs them in the test's own thread. */
import { createHash } from 'node:crypto';
import wabt from 'wabt';
import type { MeteringPolicy } from '../../../subsystems/metering/index.ts';
import type { CanisterState } from '../../../subsystems/execution/engine/canister-state.ts';
import { ControlMemory } from '../../../subsystems/execution/memory/control-memory.ts';
import { MemoryBudget } from '../../../subsystems/execution/memory/memory-budget.ts';
import { createStores, Engine, type EngineResult } from '../../../subsystems/execution/engine/engine.ts';
import {
  type CallKind,
  type ContextView,
  FULL_LIMIT,
  outcomeKindOf,
  type OutgoingCall,
  type RejectCode,
  type Response,
  type StepFault,
  type Task,
} from '../../../subsystems/ic/index.ts';
import type { CanisterSpec, CodeChange } from '../../../subsystems/execution/index.ts';
import type { Instance } from '../../../subsystems/execution/engine/instance.ts';
import { loadModule } from '../../../subsystems/execution/thread/load-module.ts';
import type { LoadedModule } from '../../../subsystems/execution/pool/module-loader.ts';

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

/**
 * Assembles a text. `PTR` stands for the pointer type, `%index` for the word in front of the limits of a memory or
 * table of that width.
 */
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

const loaded = new WeakMap<Uint8Array, LoadedModule>();

/** Returns the same array for the same bytes, as canisters of a thread share a module. */
export function load(bytes: Uint8Array): LoadedModule {
  const known = loaded.get(bytes);
  if (known !== undefined) return known;
  const hash = createHash('sha256').update(bytes).digest('hex');
  const module = loadModule(bytes, hash, { wasmStackBytes: STACK_BYTES });
  loaded.set(bytes, module);
  return module;
}

/** Makes an engine whose host bugs fail the test that caused them. */
export function newEngine(
  policy: Partial<MeteringPolicy> = {},
  stableBytesMax = 256 << 20,
  frameBytesMax = 16 << 20,
  budget = MemoryBudget.unbounded(),
): Engine {
  return new Engine({
    policy: { ...POLICY, ...policy },
    control: new ControlMemory({ stackBytes: STACK_BYTES, journalBytesMax: 256 << 20, budget }),
    shared: createStores({ stableBytesMax, frameBytesMax, budget }),
    reportBug: (message, cause) => {
      throw new Error(`a bug of the host: ${message}`, { cause });
    },
  });
}

/** Result of a step as its caller would be told. */
type Outcome = { readonly instructions: number; readonly charge: number } & (
  | { readonly kind: 'reply'; readonly data: Uint8Array }
  | { readonly kind: 'reject' | 'noReply' | StepFault['kind']; readonly code: RejectCode; readonly message: string }
);
export interface TestResult extends Omit<EngineResult, 'debug'> {
  readonly outcome: Outcome;
  readonly debug: readonly string[];
  /** Entries for the canister's log. */
  readonly records: readonly string[];
}

export function withOutcome(ended: EngineResult, nothing?: Outcome): TestResult {
  const { fault, answer, instructions, charge } = ended.step;
  const rest = { instructions, charge };
  const debug = ended.debug.map(({ text }) => text);
  const records = ended.debug.flatMap(({ record }) => record ?? []);
  const result = { ...ended, debug, records };
  if (fault !== undefined) return { ...result, outcome: { ...fault, kind: outcomeKindOf(fault.kind), ...rest } };
  if (answer !== undefined) return { ...result, outcome: { ...answer, ...rest } };
  return {
    ...result,
    outcome: nothing ?? { kind: 'noReply', code: 5, message: 'the canister did not reply to the call', ...rest },
  };
}

/** Makes the context of a call from outside. */
export function contextOf(caller: Uint8Array, changes: Partial<ContextView> = {}): ContextView {
  return { caller, deadlineNs: 0n, canAnswer: true, cyclesAvailable: 0n, instructions: 0, ...changes };
}

export interface Sample {
  readonly bytes: Uint8Array;
  readonly policy?: Partial<MeteringPolicy>;
  readonly spec?: Partial<CanisterSpec>;
  readonly argument?: Uint8Array;
  readonly stableBytesMax?: number;
  readonly frameBytesMax?: number;
}

export const CANISTER_ID = new Uint8Array([0x80, 0, 0, 0, 0, 0x10, 0, 1, 1, 1]);

/** An installed canister with short ways to call it. */
export class TestCanister {
  readonly engine: Engine;
  readonly state: CanisterState;
  module: LoadedModule;
  readonly installed: TestResult;
  caller = ANONYMOUS;
  nowMs = 1_800_000_000_000;

  constructor(sample: Sample) {
    this.engine = newEngine(sample.policy, sample.stableBytesMax, sample.frameBytesMax);
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

  install(argument: Uint8Array = EMPTY_ARGS, module: LoadedModule = this.module): TestResult {
    return this.change({ mode: 'reinstall', argument, caller: this.caller }, module);
  }

  change(change: CodeChange, module: LoadedModule = this.module): TestResult {
    const result = this.engine.change(this.state, module.code, change, this.nowMs);
    if (result.step.fault === undefined) this.module = module;
    const { instructions, charge } = result.step;
    return withOutcome(result, { kind: 'reply', data: new Uint8Array(0), instructions, charge });
  }

  upgrade(
    options: Partial<Extract<CodeChange, { readonly mode: 'upgrade' }>> & { readonly module?: LoadedModule } = {},
  ): TestResult {
    const { module = this.module, ...rest } = options;
    const change = { keepsHeap: false, skipsPreUpgrade: false, argument: EMPTY_ARGS, caller: this.caller, ...rest };
    return this.change({ ...change, mode: 'upgrade' }, module);
  }

  get instance(): Instance {
    const instance = this.state.installed?.instance;
    if (instance === undefined) throw new Error(`not installed: ${JSON.stringify(this.installed.outcome)}`);
    return instance;
  }

  /** Returns the number of an entry point by its export name. */
  entry(exported: string): number {
    const entry = this.module.info.entries.get(exported);
    if (entry === undefined) throw new Error(`no export ${exported}`);
    return entry;
  }

  execute(task: Task): TestResult {
    return withOutcome(this.engine.execute(this.state, task, this.nowMs));
  }

  run(
    kind: CallKind,
    method: string,
    argument: Uint8Array = EMPTY_ARGS,
    context: Partial<ContextView> = {},
    instructionsMax = FULL_LIMIT,
  ): TestResult {
    const entry = this.entry(`canister_${this.module.info.methods.get(method) ?? 'update'} ${method}`);
    return this.execute({ kind, entry, argument, context: contextOf(this.caller, context), instructionsMax });
  }

  /** Hands in the response to a call of this canister. */
  respond(
    call: OutgoingCall,
    response: Response,
    rest: { readonly refunded?: bigint; readonly frame?: number; readonly context?: Partial<ContextView> } = {},
  ): TestResult {
    const { refunded = 0n, frame = 0, context = {} } = rest;
    return this.execute({
      kind: 'callback',
      callbacks: call.callbacks,
      response,
      refunded,
      frame,
      context: contextOf(this.caller, context),
      instructionsMax: FULL_LIMIT,
    });
  }

  system(exported: string): TestResult {
    return this.execute({ kind: 'system', entry: this.entry(exported) });
  }

  update(method: string, argument?: Uint8Array): TestResult {
    return this.run('update', method, argument);
  }

  query(method: string, argument?: Uint8Array): TestResult {
    return this.run('query', method, argument);
  }

  /**
   * Returns a digest of everything that a message may change: heap, globals, stable memory, and the state beside them.
   */
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

/** Returns the reply's bytes; throws an error that shows any other outcome. */
export function replyOf(result: TestResult): Uint8Array {
  const { outcome } = result;
  if (outcome.kind !== 'reply') throw new Error(`expected a reply, got ${outcome.kind}: ${outcome.message}`);
  return outcome.data;
}

/** Returns the message of an outcome that is not a reply. */
export function faultOf(result: TestResult, kind: string): string {
  const { outcome } = result;
  if (outcome.kind === 'reply') throw new Error(`expected ${kind}, got a reply of ${outcome.data.length} bytes`);
  if (outcome.kind !== kind) throw new Error(`expected ${kind}, got ${outcome.kind}: ${outcome.message}`);
  return outcome.message;
}

export function littleEndian(bytes: Uint8Array): bigint {
  return bytes.reduceRight((value, byte) => (value << 8n) | BigInt(byte), 0n);
}
