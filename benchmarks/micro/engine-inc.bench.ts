/**
 * Measures a short message inside an executor, without HTTP and without the way between threads.
 *
 * `inc` (an update that is committed) and `get` (a query that is rolled back) of a Motoko counter, through
 * `Engine.execute` with everything on: metering, journal, stack counter, charge, reply. For comparison the same module
 * runs on V8 alone, with imports that do as little as they can and no rollback: the cost of the canister's own code.
 */
import { bench, do_not_optimize, group, run } from 'mitata';
import { ControlMemory } from '../../subsystems/execution/memory/control-memory.ts';
import { createStores, Engine } from '../../subsystems/execution/engine/engine.ts';
import { FULL_LIMIT } from '../../subsystems/ic/index.ts';
import { loadModule } from '../../subsystems/execution/thread/load-module.ts';
import { IC0_SIGNATURES } from '../../subsystems/wasm/index.ts';
import { compileMotoko } from '../../test/support/motoko.ts';
import { report } from '../figures.ts';
import { optionsOf } from '../options.ts';

optionsOf({});

const SOURCE = `persistent actor Counter {
  var n : Nat = 0;
  public func inc() : async Nat { n += 1; n };
  public query func get() : async Nat { n };
};`;
const EMPTY_ARGS = new Uint8Array([0x44, 0x49, 0x44, 0x4c, 0, 0]);
const CALLER = new Uint8Array([4]);
const STACK_BYTES = 4 << 20;
const NOW_MS = Date.now();

function engineCounter(wasm: Uint8Array): { inc: () => unknown; get: () => unknown } {
  const engine = new Engine({
    policy: {
      isEnabled: true,
      startingCycles: 10n ** 14n,
      cyclesPerMessage: 590_000,
      cyclesPer10Instructions: 4,
      instructionLimit: 40_000_000_000,
    },
    control: new ControlMemory({ stackBytes: STACK_BYTES, journalBytesMax: 256 << 20 }),
    shared: createStores({ stableBytesMax: 1 << 30 }),
    reportBug: (message) => {
      throw new Error(message);
    },
  });
  const module = loadModule(wasm, 'counter', { wasmStackBytes: STACK_BYTES });
  // Enough cycles for the whole benchmark: a dry canister would look very fast.
  const canister = engine.createCanister({
    id: new Uint8Array(10),
    balance: 10n ** 24n,
    controllers: [],
    env: new Map(),
  });
  const installation = { mode: 'install', argument: EMPTY_ARGS, caller: CALLER } as const;
  const installed = engine.change(canister, module.code, installation, NOW_MS);
  if (installed.step.fault !== undefined) throw new Error(installed.step.fault.message);
  const entry = (exported: string): number => {
    const index = module.info.entries.get(exported);
    if (index === undefined) throw new Error(`no export ${exported}`);
    return index;
  };
  const context = { caller: CALLER, deadlineNs: 0n, canAnswer: true, cyclesAvailable: 0n, instructions: 0 };
  const rest = { argument: EMPTY_ARGS, context, instructionsMax: FULL_LIMIT };
  const inc = { ...rest, kind: 'update', entry: entry('canister_update inc') } as const;
  const get = { ...rest, kind: 'query', entry: entry('canister_query get') } as const;
  const check = (result: ReturnType<Engine['execute']>): unknown => {
    if (result.step.answer?.kind !== 'reply') throw new Error(result.step.fault?.message ?? 'no reply');
    return result;
  };
  return {
    inc: () => check(engine.execute(canister, inc, NOW_MS)),
    get: () => check(engine.execute(canister, get, NOW_MS)),
  };
}

/** The module as the compiler made it, on imports that only move the necessary bytes. */
function plainCounter(wasm: Uint8Array): { inc: () => unknown } {
  const module = new WebAssembly.Module(new Uint8Array(wasm));
  const wide = WebAssembly.Module.exports(module).some(
    ({ name }) => name === '__motoko_gc_trigger' || name.includes('stabilize'),
  );
  const size = (bytes: number): number | bigint => (wide ? BigInt(bytes) : bytes);
  const live: { memory?: WebAssembly.Memory } = {};
  let reply = 0;
  const imports: Record<string, (...values: (number | bigint)[]) => number | bigint | undefined> = {};
  for (const { name } of WebAssembly.Module.imports(module)) {
    const result = Object.hasOwn(IC0_SIGNATURES, name)
      ? IC0_SIGNATURES[name as keyof typeof IC0_SIGNATURES].result
      : undefined;
    imports[name] = () => (result === 'I' ? size(0) : result === 'i64' || result === 'u64' ? 0n : 0);
  }
  imports['msg_arg_data_size'] = () => size(EMPTY_ARGS.length);
  imports['msg_arg_data_copy'] = (to, from, n) => {
    const heap = new Uint8Array(live.memory?.buffer ?? new ArrayBuffer(0));
    for (let i = 0; i < Number(n); i++) heap[Number(to) + i] = EMPTY_ARGS[Number(from) + i] ?? 0;
    return undefined;
  };
  imports['msg_reply_data_append'] = (from, n) => {
    reply = Number(from) + Number(n);
    return undefined;
  };
  const { exports } = new WebAssembly.Instance(module, { ic0: imports });
  const found = Object.values(exports).find((value) => value instanceof WebAssembly.Memory);
  if (!(found instanceof WebAssembly.Memory)) throw new Error('the module exports no memory');
  live.memory = found;
  const call = (name: string): void => {
    const entry = exports[name];
    if (typeof entry !== 'function') throw new Error(`no export ${name}`);
    (entry as () => void)();
  };
  call('canister_init');
  return {
    inc: () => {
      call('canister_update inc');
      return reply;
    },
  };
}

for (const persistence of ['classical', 'enhanced'] as const) {
  const { wasm } = await compileMotoko(SOURCE, { persistence });
  const engine = engineCounter(wasm);
  const plain = plainCounter(wasm);
  const bits = persistence === 'classical' ? '32-bit' : '64-bit';
  group(`Motoko counter, ${bits}`, () => {
    bench(`inc in the executor, ${bits}`, () => do_not_optimize(engine.inc()));
    bench('get in the engine', () => do_not_optimize(engine.get()));
    bench('inc on V8 alone', () => do_not_optimize(plain.inc()));
  });
}
const { benchmarks } = await run();
console.log('');
for (const { alias, runs } of benchmarks) {
  const stats = runs[0]?.stats;
  if (alias.startsWith('inc in the executor') && stats !== undefined)
    report({ panel: 'time', name: alias, value: stats.p50 / 1000, unit: 'µs', reach: 3, note: 'median' });
}
