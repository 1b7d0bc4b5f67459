import type { Diagnostic } from './diagnostics.ts';

/**
 * The way in which an actor's variables survive upgrades: `enhanced` keeps the 64-bit heap (Motoko's default),
 * `classical` writes them to stable memory and runs on a 32-bit heap.
 */
export type Persistence = 'enhanced' | 'classical';

/** An actor that the source imports as `canister:<name>`, or as `ic:<principal>`. */
export interface ImportedActor {
  /** Undefined if the actor has no name. */
  readonly name?: string;
  /** The actor's id as text. */
  readonly principal: string;
  /** .did text. */
  readonly candid: string;
}

/** Ordinary projects overflow V8's default stack of 1 MB: the compiler is written in recursive OCaml. */
export const MOC_STACK_MB = 64;
/** A source file cannot take the machine with it: past this its compilation ends. */
export const MOC_MEMORY_MB = 3072;

/** Sent to the compiler's process: all it may see. */
export type MocRequest = CompileRequest | ImportsRequest | StableRequest | WarmRequest;

export interface ImportsRequest {
  readonly kind: 'imports';
  /** Path of the compiler's program. */
  readonly program: string;
  /** Texts of Motoko files, or of their heads. */
  readonly texts: readonly string[];
}

/** A main file with all that it needs. */
export interface SourceParts {
  readonly main: string;
  /** Texts by path, the library's included. */
  readonly files: ReadonlyMap<string, string>;
  /** Files that are no sources, by path. */
  readonly blobs: ReadonlyMap<string, Uint8Array>;
  /** Folders of packages among `files`, by the names they are imported by; the library is not named here. */
  readonly packages: ReadonlyMap<string, string>;
  readonly actors: readonly ImportedActor[];
}

/** Everything that a compilation's result is a function of. */
export interface Compilation extends SourceParts {
  readonly persistence: Persistence;
  /** Flags that say which warnings there are, and what `actor` means. */
  readonly flags: readonly string[];
  /** The garbage collector of a classical module; undefined: the compiler's choice. */
  readonly collector: string | undefined;
  /** Names of metadata that everybody may read. */
  readonly publicMetadata: readonly string[];
}

export interface CompileRequest extends Compilation {
  readonly kind: 'compile';
  /** Path of the compiler's program. */
  readonly program: string;
}

/** Question whether one stable signature may follow another. */
export interface StableRequest {
  readonly kind: 'stable';
  readonly program: string;
  readonly before: string;
  readonly after: string;
}

/** Whatever can be done before there is a source: the next compilation takes so much less time. */
export interface WarmRequest {
  readonly kind: 'warm';
  readonly program: string;
  /** The source that was compiled last; the next one will be like it. */
  readonly like: Compilation | undefined;
}

/** An import as the compiler's parser read it: the text between the quotes. */
export interface ParsedImport {
  readonly url: string;
  /** Start of the declaration: line from 1, and bytes in that line. */
  readonly line: number;
  readonly byte: number;
}

export type MocResponse = CompileResponse | ImportsResponse | ComparedResponse | WarmResponse | CrashedResponse;

interface ImportsResponse {
  readonly kind: 'imports';
  /** Imports of each text; null where the parser refuses the text. */
  readonly imports: readonly (readonly ParsedImport[] | null)[];
}

/** The compiler gave up by itself: its stack overflowed, or it has a bug. */
export interface CrashedResponse {
  readonly kind: 'crashed';
  readonly reason: string;
  /** The flag that it does not take. */
  readonly flag?: string;
}

/** Messages that the compiler's process sends for each request; after a failure the process ends. */
export type MocReply =
  | { readonly response: MocResponse }
  /** The compiler is loaded, and the comparison begins. */
  | { readonly response: 'begun' }
  /** Reason why the thread has ended; `memory` if it needed more memory than it may have. */
  | { readonly failure: 'memory' | { readonly reason: string } };

interface WarmResponse {
  readonly kind: 'warm';
}

interface ComparedResponse {
  readonly kind: 'compared';
  /** Diagnostics of the comparison; without an error the second signature may follow the first. */
  readonly diagnostics: readonly Diagnostic[];
}

export type CompileResponse =
  | {
      readonly kind: 'compiled';
      readonly wasm: Uint8Array<ArrayBuffer>;
      readonly candid: string;
      /** Null if the main file holds a library and no actor. */
      readonly stableTypes: string | null;
      readonly diagnostics: readonly Diagnostic[];
    }
  | { readonly kind: 'refused'; readonly diagnostics: readonly Diagnostic[] };
