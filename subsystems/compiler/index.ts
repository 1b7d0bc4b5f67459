import { defineCapability } from '../../kernel/index.ts';

export interface CompiledActor {
  readonly wasm: Uint8Array;
  /** The service's Candid interface, .did text. */
  readonly candid: string;
  /** The stable signature (`.most` text). */
  readonly stableTypes: string;
  /** Warnings of the compiler, formatted as on a terminal (file:line.column, message, the line and a caret). */
  readonly warnings: readonly string[];
  /** Whether the module came from the cache. */
  readonly isCached: boolean;
}

/** Motoko source to a module. */
export interface Compiler {
  /**
   * Compiles the actor in `mainFile` (absolute path) with its relative imports and `mo:core`.
   * Rejects with a ServerError of kind `invalid`; its message holds the diagnostics with file, line and caret.
   */
  compile(mainFile: string): Promise<CompiledActor>;
}
export const Compiler = defineCapability<Compiler>('compiler');
