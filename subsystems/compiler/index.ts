import { defineCapability } from '../../kernel/index.ts';
import type { SourceClosure } from './closure.ts';
import type { SourceReader } from './source-reader.ts';

export type { NamedImport, SourceClosure, UnusableImport } from './closure.ts';
export { decodeSource, motokoFilesIn, readBounded, type SourceReader, treeIn } from './source-reader.ts';

export interface CompiledActor {
  readonly wasm: Uint8Array;
  /** The service's Candid interface, .did text. */
  readonly candid: string;
  /** The stable signature (`.most` text). */
  readonly stableTypes: string;
  /** Warnings of the compiler, formatted as on a terminal (file:line.column, message, the line and a caret). */
  readonly warnings: readonly string[];
  /** True if the module came from the cache. */
  readonly isCached: boolean;
}

/** An actor that a source imports by name: where it is and what it offers. */
export interface ActorReference {
  /** The actor's id as text. */
  readonly principal: string;
  /** .did text. */
  readonly candid: string;
}

export interface CompileOptions {
  /** Name of the actor in progress lines; the file's name without `.mo` if left out. */
  readonly name?: string;
  /**
   * Finds an actor that the source imports as `canister:<name>`; asked once a name, before anything is compiled. A
   * ServerError it rejects with is shown at the place of the import. Left out, there is no actor to import.
   */
  readonly importActor?: (name: string) => Promise<ActorReference>;
}

/** Files and actors that the compiler would read for an actor. */
export interface ActorSources {
  /**
   * Absolute paths: the main file, all that it imports, and those that are missing but would be imported if they were
   * there. One with a slash at its end is a folder of which any file may become a part.
   */
  readonly files: readonly string[];
  /** The actors that are imported by name. */
  readonly actors: readonly string[];
}

/** Motoko source to a module. The same source gives the same bytes on every machine and in any order of compilation. */
export interface Compiler {
  /**
   * Compiles the actor in `mainFile` (absolute path) with its relative imports, the packages and the actors it imports.
   * Rejects with a ServerError of kind `invalid`; its message holds the diagnostics with file, line and caret.
   */
  compile(mainFile: string, options?: CompileOptions): Promise<CompiledActor>;
  /**
   * Returns what the actor in `mainFile` (absolute path) is made of now, as far as that can be found out; compiles
   * nothing.
   */
  sourcesOf(mainFile: string): Promise<ActorSources>;
  /**
   * Returns everything that `mainFile` (absolute path) depends on, as `compile` would see it, read by `reader` alone.
   * Rejects with a ServerError: `source-unreadable` without a main file, `source-too-large`, `mops-invalid`, what the
   * reader rejects with.
   */
  closureOf(mainFile: string, reader: SourceReader, options: ClosureOfOptions): Promise<ClosureWithLibrary>;
  /**
   * Compares two stable signatures, which may be any text. Never rejects: what keeps the compiler from comparing is
   * `unknown`. For a comparison a process of its own is kept for a while; compilations do not hold it up.
   */
  compareStable(before: string, after: string): Promise<StableVerdict>;
}

export interface ClosureOfOptions {
  /** The folder above which no `mops.toml` is looked for. */
  readonly ceiling: string;
}

export interface ClosureWithLibrary {
  readonly closure: SourceClosure;
  /** The part of the compiler's library that the closure needs: texts by path in the package. */
  readonly library: { readonly version: string; readonly files: ReadonlyMap<string, string> };
  /** Modules that the library does not have, as they are imported. */
  readonly unknownModules: readonly { readonly url: string; readonly from: string }[];
}

/** Verdict on whether a program with the second signature takes over the variables of one with the first. */
export type StableVerdict =
  /** `message`: warnings, if there are any. */
  | { readonly kind: 'compatible'; readonly message: string | undefined }
  | { readonly kind: 'incompatible'; readonly message: string }
  /** The comparison was impossible; `reason` is the end of a sentence that says why. */
  | { readonly kind: 'unknown'; readonly reason: string };

export const Compiler = defineCapability<Compiler>('compiler');

/** One line of progress; compilation takes seconds, so a person should see that something happens. */
export interface CompileProgress {
  readonly phase: 'compiling' | 'compiled' | 'failed';
  readonly name: string;
  /** Absolute path of the main file. */
  readonly file: string;
  /** Ready to print: `compiling counter (src/Counter.mo) …`, `compiled counter in 1.2 s`. */
  readonly text: string;
}
