/** Both sides: plain data that crosses from the module worker over the main thread to executors. */
import type { ModuleLayout } from '../../instrument/abi/index.ts';

/** A module as the executors get it: instrumented, compiled, structured-cloneable. */
export interface InstrumentedCode {
  readonly module: WebAssembly.Module;
  readonly layout: ModuleLayout;
}

/** The system API as import functions by name; the same object serves all instances on an engine. */
export type Ic0Imports = Readonly<Record<string, (...args: never[]) => unknown>>;
