/** Types of a closure of sources. */
import type { ImportParser } from './import-parser.ts';
import type { ImportPlace, ProblemList } from './import-problems.ts';
import type { CompilerArgs } from './mops/compiler-args.ts';
import type { FileNote, MopsOptions, MopsPackage } from './mops/mops-packages.ts';

/** Everything one actor is compiled from. */
export interface SourceClosure {
  /**
   * The folder that all files of the project share; paths below are relative to it, so that nothing depends on where
   * a project lies.
   */
  readonly root: string;
  readonly main: string;
  /** Texts by path, in the order in which they are met; paths of packages that mops has fetched begin with `mo:`. */
  readonly files: ReadonlyMap<string, string>;
  /** Files that are imported as bytes (`blob:file:`), by path as above. */
  readonly blobs: ReadonlyMap<string, Uint8Array>;
  /** Place of each file in `files` and `blobs`, and of interfaces of imported principals. */
  readonly places: ReadonlyMap<string, FilePlace>;
  /** Folders of the packages that are imported, by name. */
  readonly packages: ReadonlyMap<string, string>;
  /** The modules of the bundled `mo:core` it imports by name, each with where that was first. */
  readonly coreModules: ReadonlyMap<string, ImportPlace>;
  /** Imports of the bundled `mo:core`. */
  readonly coreImports: readonly CoreImport[];
  /** The actors it imports by name (`canister:ledger`), each with where that was first. */
  readonly actors: ReadonlyMap<string, ImportPlace>;
  /** Interfaces of what is imported by principal (`ic:aaaaa-aa`), by that: .did text. */
  readonly principals: ReadonlyMap<string, string>;
  /** Facts that `--actor-alias` tells of imported actors which nobody else knows, by name. */
  readonly aliases: ReadonlyMap<string, { readonly principal: string; readonly candid: string }>;
  /** Reasons why that flag is of no use for a name. */
  readonly unknownAliases: ReadonlyMap<string, string>;
  /** Imports of other things than files: `canister:`, `ic:`. */
  readonly external: readonly NamedImport[];
  /** Imports that find nothing. */
  readonly missing: readonly NamedImport[];
  /** Imports that find a file which cannot be used. */
  readonly unusable: readonly UnusableImport[];
  /** Imports that cannot be resolved, for a person. */
  readonly problems: ProblemList;
  /** Notes for a person, about other files. */
  readonly notes: readonly FileNote[];
}

export interface FilePlace {
  /** Absolute. */
  readonly path: string;
  /** The package that it belongs to; undefined: the project itself. */
  readonly package: MopsPackage | undefined;
}

/** An import as written, and the file, of `files`, that has it; of a file that has it twice once. */
export interface NamedImport {
  readonly url: string;
  readonly from: string;
}

export interface CoreImport extends NamedImport {
  /** The module, as in `coreModules`. */
  readonly module: string;
}

export interface UnusableImport extends NamedImport {
  readonly place: FilePlace;
  /** A sentence, with the file's path in it. */
  readonly reason: string;
}

export interface ClosureOptions {
  /** Parser that decides what a file imports; the scanner alone, if left out. */
  readonly parser?: ImportParser;
  readonly mops?: MopsOptions;
  /** Arguments that the project gives for compilations. */
  readonly args?: CompilerArgs;
  /** Interfaces of principals that need no file: .did text. */
  readonly builtIn?: ReadonlyMap<string, string>;
}
