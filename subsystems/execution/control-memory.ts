import { CONTROL, WASM_PAGE_BYTES } from '../metering/instrument/abi.ts';

/** Options of a thread's control memory. */
export interface ControlMemoryOptions {
  /** Bytes of stack a message may use (`SVC_WASM_STACK`). */
  readonly stackBytes: number;
  /** Bytes of pre-images one message may cause; beyond, it traps. */
  readonly journalBytesMax: number;
}

/** The control memory of one executor thread: fuel, stack budget, saved globals and the undo journal of the running message. */
export class ControlMemory {
  readonly memory: WebAssembly.Memory;
  readonly stackBytes: number;

  constructor(options: ControlMemoryOptions) {
    this.stackBytes = options.stackBytes;
    const initial = Math.ceil(CONTROL.PRE_IMAGES / WASM_PAGE_BYTES) + 64;
    const maximum = Math.min(65536, initial + Math.ceil(options.journalBytesMax / WASM_PAGE_BYTES));
    this.memory = new WebAssembly.Memory({ initial, maximum });
  }
}
