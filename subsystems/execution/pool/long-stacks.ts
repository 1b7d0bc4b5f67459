/**
 * The stacks that long messages have of their own (WebAssembly JavaScript Promise Integration); see ADR 21.
 * Main thread, before the first executor starts: sets flags of the whole process.
 */
import { setFlagsFromString } from 'node:v8';

/** Enough for most messages; 256 such stacks are used again. */
const INITIAL_KIB = 16;

/**
 * Sets the size to which such a stack may grow, in this process, for messages that begin from now on. Stacks begin
 * small: V8 14.6 keeps 4 MiB of stacks to be used again and unmaps none, so every stack beyond them leaves its address
 * space behind, and each stack of full size would be beyond (257 MiB a message: 128 TiB are used up after half a
 * million). Only touched memory is ever resident.
 *
 * `--stack-size` is where growing ends. Running threads have read it already, and Node itself gives new threads their
 * limit (`stackSizeMb`), so nothing else changes.
 */
export function sizeLongStacks(bytesMax: number): void {
  setFlagsFromString('--experimental-wasm-growable-stacks');
  setFlagsFromString(`--wasm-stack-switching-stack-size=${INITIAL_KIB}`);
  setFlagsFromString(`--stack-size=${Math.ceil(bytesMax / 1024)}`);
}
