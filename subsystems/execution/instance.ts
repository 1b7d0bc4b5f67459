import type { ModuleLayout } from '../metering/instrument/abi.ts';
import type { ControlMemory } from './control-memory.ts';
import type { Fault } from './fault.ts';

/** A module as the executors get it: instrumented, compiled, structured-cloneable. */
export interface InstrumentedCode {
  readonly module: WebAssembly.Module;
  readonly layout: ModuleLayout;
}

/** The system API as import functions by name; the same object may serve all instances of a thread. */
export type Ic0Imports = Readonly<Record<string, (...args: never[]) => unknown>>;

/** TYPES ONLY FOR NOW; the implementation replaces this within minutes, with the same public signatures. */
export declare class Instance {
  constructor(code: InstrumentedCode, imports: Ic0Imports, control: ControlMemory, heap: WebAssembly.Memory);
  /** A heap from scratch with the module's data in it. The start function has not run: run entry `start`. */
  static create(code: InstrumentedCode, imports: Ic0Imports, control: ControlMemory): Instance;
  readonly code: InstrumentedCode;
  /** Size of the heap in bytes. */
  get heapBytes(): number;
  /** The heap, as it is now; do not keep it beyond a call that may grow memory. */
  heap(): Uint8Array;
  /** Index of an entry point such as `canister_update inc` or `start`, or undefined. */
  entry(name: string): number | undefined;
  /** Starts a message with a number of instructions. One message at a time per control memory. */
  begin(instructionLimit: number): void;
  /** Says that the host is about to write `length` bytes at `address`, which must lie in the heap. */
  touch(address: number, length: number): void;
  /** Charges a system call for `instructions`; throws OutOfInstructions when they are not left. */
  charge(instructions: number): void;
  /** Runs an entry point within the message. */
  run(entry: number): Fault | undefined;
  /** Runs a function of the table within the message; an index or type that does not fit is a trap. */
  runCallback(fun: number, env: number | bigint): Fault | undefined;
  /** Instructions used since `begin`; exact inside system calls and after a normal return. */
  instructionsUsed(): number;
  /** 4 KiB pages that may differ from the message's beginning, ascending; to be asked before commit or rollback. */
  dirtyPages(): Uint32Array;
  /** Keeps what the message did. */
  commit(): void;
  /** Takes back what the message did; never fails. */
  rollback(): void;
  /** The mutable globals' bytes as they are now (outside a message). */
  saveGlobals(): Uint8Array;
  loadGlobals(bytes: Uint8Array): void;
  /** The interface text that `get_candid_pointer` points to, or undefined. Run it on a throw-away instance. */
  candidText(instructionLimit: number): string | undefined;
}
