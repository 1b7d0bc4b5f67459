import type { Diagnostic } from './diagnostics.ts';

/**
 * How an actor's variables survive upgrades: `enhanced` keeps the 64-bit heap (what Motoko does by default),
 * `classical` writes them to stable memory and runs on a 32-bit heap.
 */
export type Persistence = 'enhanced' | 'classical';

/** An actor that the source imports as `canister:<name>`. */
export interface ImportedActor {
  readonly name: string;
  /** Its id as text. */
  readonly principal: string;
  /** .did text. */
  readonly candid: string;
}

/** Sent to the compiler's thread: all it may see. */
export interface MocRequest {
  /** Where the compiler's program lies. */
  readonly program: string;
  readonly main: string;
  /** Texts by path, the library's included. */
  readonly files: ReadonlyMap<string, string>;
  readonly persistence: Persistence;
  readonly actors: readonly ImportedActor[];
}

export type MocResponse =
  | {
      readonly kind: 'compiled';
      readonly wasm: Uint8Array<ArrayBuffer>;
      readonly candid: string;
      /** Null if the main file holds a library and no actor. */
      readonly stableTypes: string | null;
      readonly diagnostics: readonly Diagnostic[];
    }
  | { readonly kind: 'refused'; readonly diagnostics: readonly Diagnostic[] }
  /** The compiler gave up by itself: its stack overflowed, or it has a bug. */
  | { readonly kind: 'crashed'; readonly reason: string };
