/**
 * A minimal system API that runs a canister's module, for tests and benchmarks of the engine's core: an argument, a
 * caller, replies, traps, debug prints and a flat stable memory. One implementation serves both widths and plain as
 * well as instrumented modules; plain ones get their pointers as they are, so everything is converted here.
 */
import { ControlMemory } from '../../subsystems/execution/memory/control-memory.ts';
import { HostTrap } from '../../subsystems/execution/engine/fault.ts';
import type { Ic0Imports, InstrumentedCode } from '../../subsystems/execution/wire/instrumented-code.ts';
import { Instance } from '../../subsystems/execution/engine/instance.ts';
import { instrument, type InstrumentOptions } from '../../subsystems/instrument/index.ts';
import {
  decodeModule,
  IC0_SIGNATURES,
  type HostType,
  ic0Signature,
  validateCanister,
} from '../../subsystems/wasm/index.ts';

const WASM_PAGE_BYTES = 65_536;
export const CONTROL_OPTIONS = { stackBytes: 512 * 1024, journalBytesMax: 1 << 30 } as const;

/** Prepares an uploaded module as executors get it. */
export function prepare(bytes: Uint8Array, options: InstrumentOptions = {}): InstrumentedCode {
  const module = decodeModule(bytes);
  validateCanister(module);
  const { bytes: code, layout } = instrument(module, options);
  return { module: new WebAssembly.Module(code), layout };
}

/** The canister's side of its host: the argument and caller that it reads, the replies and prints that it makes. */
export class BareHost {
  argument: Uint8Array = new Uint8Array(0);
  reply: number[] = [];
  readonly prints: string[] = [];
  stable = new Uint8Array(0);
  /** Returns the canister's heap; set once the heap exists. */
  heap: () => Uint8Array = () => new Uint8Array(0);
  /** Called before the host writes to the heap. */
  touch: (address: number, length: number) => void = () => undefined;
  /** Charges instructions for copied bytes. */
  charge: (instructions: number) => void = () => undefined;
  performanceCounter: () => number = () => 0;

  readonly functions: Readonly<Record<string, (...args: number[]) => number | bigint | void>> = {
    msg_arg_data_size: () => this.argument.length,
    msg_arg_data_copy: (to = 0, offset = 0, size = 0) => this.#write(to, this.argument.subarray(offset, offset + size)),
    msg_caller_size: () => 1,
    msg_caller_copy: (to = 0) => this.#write(to, Uint8Array.of(4)),
    msg_reply_data_append: (from = 0, size = 0) => {
      this.charge(size);
      for (const byte of this.#read(from, size)) this.reply.push(byte);
    },
    debug_print: (from = 0, size = 0) => {
      this.prints.push(new TextDecoder().decode(this.#read(from, size)));
    },
    trap: (from = 0, size = 0) => {
      throw new HostTrap(new TextDecoder().decode(this.#read(from, size)));
    },
    canister_self_size: () => 10,
    canister_self_copy: (to = 0) => this.#write(to, new Uint8Array(10)),
    canister_status: () => 1,
    is_controller: () => 1,
    time: () => 1_700_000_000_000_000_000n,
    performance_counter: () => this.performanceCounter(),
    stable64_size: () => this.stable.length / WASM_PAGE_BYTES,
    stable64_grow: (pages = 0) => {
      const before = this.stable;
      this.stable = new Uint8Array(before.length + pages * WASM_PAGE_BYTES);
      this.stable.set(before);
      return before.length / WASM_PAGE_BYTES;
    },
    stable64_read: (to = 0, offset = 0, size = 0) => this.#write(to, this.stable.subarray(offset, offset + size)),
    stable64_write: (offset = 0, from = 0, size = 0) => {
      this.charge(size);
      this.stable.set(this.#read(from, size), offset);
    },
  };

  #read(from: number, size: number): Uint8Array {
    return this.heap().slice(from, from + size);
  }

  #write(to: number, bytes: Uint8Array): void {
    this.charge(bytes.length);
    this.touch(to, bytes.length);
    this.heap().set(bytes, to);
  }

  /** Imports for an instrumented module. Calls that are missing here do nothing and answer 0. */
  get imports(): Ic0Imports {
    const imports: Record<string, (...args: never[]) => unknown> = {};
    for (const [name, { result }] of Object.entries(IC0_SIGNATURES)) {
      const zero = result === 'i64' ? 0n : 0;
      imports[name] = this.functions[name] ?? (() => zero);
    }
    return imports;
  }

  /** Returns imports for the plain module of this width. */
  plainImports(pointerWidth: 32 | 64): Ic0Imports {
    const imports: Record<string, (...args: never[]) => unknown> = {};
    const isBig = (type: HostType | undefined): boolean =>
      type === 'i64' || type === 'u64' || (pointerWidth === 64 && (type === 'I' || type === 'bits'));
    for (const [name, host] of Object.entries(this.imports)) {
      const signature = ic0Signature(name);
      const call = host as (...args: unknown[]) => unknown;
      imports[name] = (...args: unknown[]) => {
        const numbers = args.map((value, k) => {
          const type = signature?.params[k];
          if (type === 'I') return typeof value === 'bigint' ? Number(BigInt.asUintN(64, value)) : Number(value) >>> 0;
          return type === 'u64' ? Number(BigInt.asUintN(64, value as bigint)) : value;
        });
        const answer = call(...numbers);
        return isBig(signature?.result) ? BigInt(answer as number) : answer;
      };
    }
    return imports;
  }
}

/** A canister that is called directly, message by message. */
export interface BareCanister {
  readonly host: BareHost;
  /** Runs an entry point as a message of its own and commits; throws what it traps with. */
  readonly call: (name: string, argument?: Uint8Array) => Uint8Array;
}

const LIMIT = 2 ** 50;

/** Starts and initialises an instrumented module. */
export function startCanister(
  code: InstrumentedCode,
  control = new ControlMemory(CONTROL_OPTIONS),
): BareCanister & { readonly instance: Instance } {
  const host = new BareHost();
  const instance = Instance.create(code, host.imports, control);
  host.heap = () => instance.heap();
  host.touch = (address, length) => instance.touch(address, length);
  host.charge = (instructions) => instance.charge(instructions);
  host.performanceCounter = () => instance.instructionsUsed();
  const run = (name: string): void => {
    const entry = instance.entry(name);
    if (entry === undefined) return;
    const fault = instance.run(entry);
    if (fault === undefined) return;
    instance.rollback();
    throw new Error(`${fault.kind}: ${fault.message}`, { cause: fault.cause });
  };
  const call = (name: string, argument: Uint8Array = new Uint8Array(0)): Uint8Array => {
    host.argument = argument;
    host.reply = [];
    instance.begin(LIMIT);
    run(name);
    instance.commit();
    return Uint8Array.from(host.reply);
  };
  instance.begin(LIMIT);
  run('start');
  instance.commit();
  return { host, instance, call };
}

/** Starts the module as its compiler made it, without instrumentation: its speed in V8 is the floor. */
export function startPlainCanister(
  bytes: Uint8Array,
): BareCanister & { readonly exports: Readonly<Record<string, unknown>> } {
  const host = new BareHost();
  const { pointerWidth } = decodeModule(bytes);
  // The start function may already call the host.
  const started: { memory?: WebAssembly.Memory } = {};
  host.heap = () => new Uint8Array(started.memory?.buffer ?? new ArrayBuffer(0));
  const { exports } = new WebAssembly.Instance(new WebAssembly.Module(bytes), { ic0: host.plainImports(pointerWidth) });
  started.memory = (exports['memory'] ?? exports['mem']) as WebAssembly.Memory;
  return {
    host,
    exports,
    call: (name: string, argument: Uint8Array = new Uint8Array(0)): Uint8Array => {
      host.argument = argument;
      host.reply = [];
      (exports[name] as () => void)();
      return Uint8Array.from(host.reply);
    },
  };
}

/** `DIDL` with no types and no values. */
export const NO_ARGUMENTS = Uint8Array.of(0x44, 0x49, 0x44, 0x4c, 0, 0);
