import { basename, posix, relative } from 'node:path';
import { cwd } from 'node:process';
import { messageOf, ServerError } from '../../kernel/index.ts';
import { NAMED_MANAGEMENT_DID } from '../management/index.ts';
import { CompileCache } from './compile-cache.ts';
import type { CacheEntry } from './compile-cache.ts';
import { CORE_ROOT, mocProgramFile, readCorePackage } from './core-package.ts';
import type { CorePackage } from './core-package.ts';
import { renderDiagnostic, renderDiagnostics } from './diagnostics.ts';
import type { Diagnostic, SourceView } from './diagnostics.ts';
import { compareStable, COMPARISON_PROCESSES } from './compare-stable.ts';
import type {
  ActorSources,
  ClosureOfOptions,
  ClosureWithLibrary,
  CompiledActor,
  CompileOptions,
  CompileProgress,
  Compiler,
  StableVerdict,
} from './index.ts';
import { ImportProblems, joined, type ProblemList } from './import-problems.ts';
import { importedActors, NO_ACTORS } from './imported-actors.ts';
import { inInterfaces } from './interface-faults.ts';
import { interfaceFile, isStackOverflow } from './moc-instance.ts';
import { MOC_STACK_MB } from './moc-protocol.ts';
import type { Compilation, CompileResponse, CrashedResponse, ImportedActor, Persistence } from './moc-protocol.ts';
import { isClosed, MOC_PROCESSES_DEFAULTS, MocProcesses } from './moc-processes.ts';
import type { MocProcessesOptions } from './moc-processes.ts';
import { CompilerImportParser, type ImportParser } from './import-parser.ts';
import { type CompilerArgs, WARNINGS_ARE_ERRORS, WARNINGS_ARE_HIDDEN, flagRefused } from './mops/compiler-args.ts';
import type { MopsOptions } from './mops/mops-packages.ts';
import { collectClosure } from './source-closure.ts';
import type { SourceClosure } from './closure.ts';
import { argsFor, keyOf, modeOf, partsOf } from './compilation.ts';
import { diskSources, memorySources, NotedSources } from './source-reader.ts';
import type { SourceReader } from './source-reader.ts';
import { linesByFile } from './text-lines.ts';

export type { Persistence } from './moc-protocol.ts';

export interface MotokoCompilerOptions extends Partial<MocProcessesOptions> {
  /** Directory of compiled modules; without it nothing is kept. It is created when needed. */
  readonly cacheDirectory: string | undefined;
  /** Directory of modules that other servers compiled, too; looked at behind the first. */
  readonly sharedCacheDirectory?: string | undefined;
  /** Directories of compiled modules that are only read, and asked where the others have nothing. */
  readonly shippedDirectories?: readonly string[] | undefined;
  /**
   * True if sources are compiled again and again, as with `--watch`: the next compilation is prepared while there is
   * nothing to compile, and processes stay for ten minutes after the last one unless `idleMs` is given.
   */
  readonly isKeptWarm?: boolean;
  readonly onProgress?: (progress: CompileProgress) => void;
  /** Places of packages; only a project's own `.mops`, if left out. */
  readonly mops?: MopsOptions;
  /** Called once if the cache cannot be written; compilation goes on without it. */
  readonly onCacheFailure?: (message: string) => void;
}

interface MotokoCompileOptions extends CompileOptions {
  /**
   * Persistence of the actor; without it the project's `mops.toml` decides, and else Motoko's default, which is
   * `enhanced`.
   */
  readonly persistence?: Persistence;
}

/** The compiler of the npm package `motoko`, in processes of its own, with a cache on disk. */
export interface MotokoCompiler extends Compiler {
  compile(mainFile: string, options?: MotokoCompileOptions): Promise<CompiledActor>;
  /** Compiles files that are in memory, by path (`Main.mo`, `lib/Text.mo`); the first one is the main file. */
  compileText(files: ReadonlyMap<string, string>, options?: MotokoCompileOptions): Promise<CompiledActor>;
  /** The compiler's own parser, for closures. */
  readonly imports: ImportParser;
  /** Ends the processes; what is being compiled is given up. Closing twice is fine. */
  close(): Promise<void>;
}

export function createCompiler(options: MotokoCompilerOptions): MotokoCompiler {
  return new CachingCompiler(options);
}

interface Source {
  readonly name: string;
  readonly importActor: NonNullable<CompileOptions['importActor']>;
  readonly mainFile: string;
  readonly reader: SourceReader;
  /** Returns a file's name for people. */
  readonly displayName: (absolutePath: string) => string;
}

/** Inputs that a module is a function of, together with the compiler's version. */
interface NotedView extends SourceView {
  /** Notes for a person, such as why a lock was not used. */
  readonly notes: readonly string[];
}

interface Prepared {
  readonly closure: SourceClosure;
  readonly actors: readonly ImportedActor[];
  readonly persistence: Persistence;
  readonly args: CompilerArgs;
  readonly view: NotedView;
  /** Key of the module in the cache. */
  readonly key: string;
}

/**
 * Milliseconds for which a process stays: people who edit save again within that time. An idle process holds some 160
 * MB, for two minutes some 800 where it keeps memory.
 */
const WARM_IDLE_MS = 10 * 60_000;
/** Milliseconds between a compilation and the preparation of the next one: by then the compiled module is served. */
const WARM_AFTER_MS = 1000;
/** Milliseconds of a compilation above which the source is not compiled ahead again. */
const WARM_LIKE_MS_MAX = 10_000;
const NO_SIGNATURE = '// Version: 1.0.0\nactor {\n};\n';
const NO_MOPS: MopsOptions = { stores: [], environment: 'local' };
/** Interfaces that need no file. */
const BUILT_IN: ReadonlyMap<string, string> = new Map([['aaaaa-aa', NAMED_MANAGEMENT_DID]]);

class CachingCompiler implements MotokoCompiler {
  readonly imports: ImportParser;
  readonly #processes: MocProcesses;
  readonly #comparisons: MocProcesses;
  readonly #cache: CompileCache | undefined;
  readonly #shipped: readonly CompileCache[];
  readonly #options: MotokoCompilerOptions;
  /** Two actors from one source are compiled once. */
  readonly #running = new Map<string, Promise<CacheEntry>>();
  #hasReportedCache = false;
  #isWarm = false;
  #isClosed = false;
  /** Compilations under way: they need the processes. */
  #compiling = 0;
  #warming: NodeJS.Timeout | undefined;
  /** The last compilation that was quick. */
  #last: Compilation | undefined;

  constructor(options: MotokoCompilerOptions) {
    this.#options = options;
    const idleMs = options.isKeptWarm === true ? WARM_IDLE_MS : MOC_PROCESSES_DEFAULTS.idleMs;
    this.#processes = new MocProcesses({ ...MOC_PROCESSES_DEFAULTS, idleMs, ...options });
    this.imports = new CompilerImportParser(this.#processes);
    this.#comparisons = new MocProcesses(
      options.isKeptWarm === true ? { ...COMPARISON_PROCESSES, idleMs: WARM_IDLE_MS } : COMPARISON_PROCESSES,
    );
    this.#cache = [options.sharedCacheDirectory, options.cacheDirectory].reduce<CompileCache | undefined>(
      (behind, directory) => (directory === undefined ? behind : new CompileCache(directory, behind)),
      undefined,
    );
    this.#shipped = (options.shippedDirectories ?? []).map((directory) => new CompileCache(directory));
  }

  async compile(mainFile: string, options: MotokoCompileOptions = {}): Promise<CompiledActor> {
    const file = posix.resolve(mainFile);
    const directory = cwd();
    return this.#compile(
      {
        name: options.name ?? basename(file, '.mo'),
        importActor: options.importActor ?? NO_ACTORS,
        mainFile: file,
        reader: diskSources,
        displayName: (path) => displayPath(directory, path),
      },
      options.persistence,
    );
  }

  async sourcesOf(mainFile: string): Promise<ActorSources> {
    const file = posix.resolve(mainFile);
    const reader = new NotedSources(diskSources);
    // A migration may be added to its folder while no other file changes.
    let folders: readonly string[] = [];
    try {
      const mops = this.#options.mops ?? NO_MOPS;
      const args = await argsFor(file, reader, mops);
      if (args.migrations !== undefined) folders = [`${args.migrations}/`];
      const closure = await collectClosure(file, reader, { mops, args, builtIn: BUILT_IN });
      const { places, actors } = closure;
      await this.#warmFirst({ closure, args });
      // Packages that mops has fetched stay as they are: another version has another folder.
      const fetched = [...places.values()].flatMap(({ package: owner }) =>
        owner?.isLocal === false ? [owner.root] : [],
      );
      const isOwn = (path: string): boolean => !fetched.some((root) => path.startsWith(`${root}/`));
      return { files: [...reader.sources().filter(isOwn), ...folders], actors: [...actors.keys()] };
    } catch (error) {
      if (!(error instanceof ServerError)) throw error;
      await this.#warmFirst(undefined);
      return { files: [...new Set([file, ...reader.sources(), ...folders])], actors: [] };
    }
  }

  async compileText(files: ReadonlyMap<string, string>, options: MotokoCompileOptions = {}): Promise<CompiledActor> {
    const [main = 'Main.mo'] = files.keys();
    return this.#compile(
      {
        name: options.name ?? basename(main, '.mo'),
        importActor: options.importActor ?? NO_ACTORS,
        mainFile: posix.resolve('/', main),
        reader: memorySources(new Map([...files].map(([path, text]) => [posix.resolve('/', path), text]))),
        displayName: (path) => posix.relative('/', path),
      },
      options.persistence,
    );
  }

  async closureOf(mainFile: string, reader: SourceReader, { ceiling }: ClosureOfOptions): Promise<ClosureWithLibrary> {
    const environment = this.#options.mops?.environment ?? NO_MOPS.environment;
    // No store: what lies outside of a project is for its compilation alone.
    const mops = { ceiling, stores: [], environment };
    const args = await argsFor(mainFile, reader, mops);
    const closure = await collectClosure(mainFile, reader, { mops, args, builtIn: BUILT_IN, parser: this.imports });
    if (closure.coreModules.size === 0)
      return { closure, library: { version: '', files: new Map() }, unknownModules: [] };
    const core = await readCorePackage();
    const files = [...core.filesFor(closure.coreModules.keys())];
    const unknown = closure.coreImports.filter(({ module }) => !core.modules.includes(module));
    return {
      closure,
      library: {
        version: core.version,
        files: new Map(files.map(([path, text]) => [path.slice(CORE_ROOT.length + 1), text])),
      },
      unknownModules: unknown.map(({ url, from }) => ({ url, from })),
    };
  }

  compareStable(before: string, after: string): Promise<StableVerdict> {
    return compareStable(this.#comparisons, { kind: 'stable', program: mocProgramFile(), before, after });
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#warming);
    await Promise.all([this.#processes.close(), this.#comparisons.close()]);
  }

  async #compile(given: Source, persistence: Persistence | undefined): Promise<CompiledActor> {
    this.#compiling++;
    clearTimeout(this.#warming);
    try {
      return await this.#compileNow(given, persistence);
    } finally {
      this.#compiling--;
      this.#warmLater();
    }
  }

  async #kept(key: string): Promise<CacheEntry | undefined> {
    let kept = await this.#cache?.read(key);
    for (const shipped of this.#shipped) kept ??= await shipped.peek(key);
    return kept;
  }

  async #compileNow(given: Source, persistence: Persistence | undefined): Promise<CompiledActor> {
    // The source may be prepared twice.
    const source: Source = { ...given, importActor: askedOnce(given.importActor) };
    const startMs = performance.now();
    const report = (phase: CompileProgress['phase'], text: string): void =>
      this.#options.onProgress?.({ phase, name: source.name, file: source.mainFile, text });
    try {
      // The scanner alone reads the imports, so that a cached module is found without a process: when the module was
      // compiled from exactly these files, the compiler's parser saw that they have no other imports.
      let prepared = await this.#prepare(source, persistence, undefined);
      let cached = await this.#kept(prepared.key);
      if (cached === undefined) {
        report('compiling', `compiling ${source.name} (${source.displayName(source.mainFile)}) …`);
        const scannedKey = prepared.key;
        prepared = await this.#prepare(source, persistence, this.imports);
        if (prepared.key !== scannedKey) cached = await this.#kept(prepared.key);
      }
      const { view } = prepared;
      const entry = cached ?? (await this.#compileOnce(prepared, source));
      const isCached = cached !== undefined;
      report(
        'compiled',
        `compiled ${source.name} in ${duration(performance.now() - startMs)}${isCached ? ' (cached)' : ''}`,
      );
      const { wasm, candid, stableTypes } = entry;
      return {
        wasm,
        candid,
        stableTypes,
        isCached,
        warnings: [...view.notes, ...entry.warnings.map((warning) => renderDiagnostic(warning, view))],
      };
    } catch (error) {
      // A compilation that a stop has cut short may well succeed.
      if (!isClosed(error)) report('failed', `${source.name} does not compile`);
      throw error;
    }
  }

  /** Rejects with ServerError `compile-failed` where an import cannot be resolved. */
  async #prepare(source: Source, wanted: Persistence | undefined, parser: ImportParser | undefined): Promise<Prepared> {
    const mops = this.#options.mops ?? NO_MOPS;
    const args = await argsFor(source.mainFile, source.reader, mops);
    if (args.refusal !== undefined) throw args.refusal;
    const persistence = wanted ?? args.persistence ?? 'enhanced';
    const options = { mops, args, builtIn: BUILT_IN, ...(parser && { parser }) };
    const closure = await collectClosure(source.mainFile, source.reader, options);
    const { actors, problems } = await importedActors(closure, source.importActor);
    const view = viewOf(closure, actors, source);
    refuseIf(joined(closure.problems, problems), source, view);
    return { closure, actors, persistence, args, view, key: keyOf(closure, actors, persistence, args) };
  }

  /** Prepares for a caller that asks for sources: it wants to compile them when they change. */
  async #warmFirst(
    source: { readonly closure: SourceClosure; readonly args: CompilerArgs } | undefined,
  ): Promise<void> {
    if (this.#options.isKeptWarm !== true || this.#isWarm) return;
    this.#isWarm = true;
    if (source !== undefined) {
      const { persistence = 'enhanced' } = source.args;
      const parts = partsOf(source.closure, await readCorePackage(), []);
      this.#last = { ...parts, ...modeOf(source.args, persistence, source.closure) };
    }
    this.#warmLater();
  }

  /** Prepares the next compilation, if one is expected, before it comes: nobody waits for these seconds. */
  #warmLater(): void {
    if (this.#options.isKeptWarm !== true || this.#isClosed || this.#compiling > 0) return;
    this.#isWarm = true;
    clearTimeout(this.#warming);
    // A compiled module is taken up first: that needs the processor, too. Work that fails now is done, or its failure
    // told, when something is compiled.
    this.#warming = setTimeout(() => void this.#warm().catch(() => undefined), WARM_AFTER_MS).unref();
  }

  async #warm(): Promise<void> {
    const program = mocProgramFile();
    // A save that changes a stable variable would wait for the second process otherwise, which takes as long to start
    // as the compiler's.
    const nothing = { before: NO_SIGNATURE, after: NO_SIGNATURE };
    await Promise.all([
      this.#processes.run({ kind: 'warm', program, like: this.#last }),
      this.#comparisons.run({ kind: 'stable', program, ...nothing }),
    ]);
  }

  #compileOnce(prepared: Prepared, source: Source): Promise<CacheEntry> {
    const { key } = prepared;
    const running = this.#running.get(key);
    if (running !== undefined) return running;
    const started = this.#compileAndStore(prepared, source).finally(() => this.#running.delete(key));
    this.#running.set(key, started);
    return started;
  }

  async #compileAndStore(
    { key, closure, actors, persistence, args, view }: Prepared,
    source: Source,
  ): Promise<CacheEntry> {
    const core = await readCorePackage();
    refuseIf(missingCoreModules(closure, core), source, view);
    const compilation = { ...partsOf(closure, core, actors), ...modeOf(args, persistence, closure) };
    const startMs = performance.now();
    const response = await this.#processes.run({
      kind: 'compile',
      program: mocProgramFile(),
      ...compilation,
    });
    const isQuick = performance.now() - startMs < WARM_LIKE_MS_MAX;
    if (response.kind === 'compiled' && isQuick && this.#options.isKeptWarm === true) this.#last = compilation;
    if (response.kind === 'imports' || response.kind === 'compared' || response.kind === 'warm')
      throw new Error('the compiler has answered another question');
    const entry = entryOf(response, args, { source, view, actors });
    const failure = await this.#cache?.write(key, entry);
    if (failure !== undefined && !this.#hasReportedCache) {
      this.#hasReportedCache = true;
      this.#options.onCacheFailure?.(`compiled modules are not kept: ${messageOf(failure)}`);
    }
    return entry;
  }
}

/** Asks for each actor once. */
function askedOnce(importActor: Source['importActor']): Source['importActor'] {
  const answers = new Map<string, ReturnType<Source['importActor']>>();
  return (name) => {
    const known = answers.get(name) ?? importActor(name);
    answers.set(name, known);
    return known;
  };
}

function viewOf(closure: SourceClosure, actors: readonly ImportedActor[], source: Source): NotedView {
  const actorOf = (file: string): ImportedActor | undefined =>
    actors.find(({ principal }) => interfaceFile(principal) === file);
  return {
    linesOf: linesByFile((file) => closure.files.get(file) ?? actorOf(file)?.candid),
    displayName(file) {
      if (file.startsWith('mo:')) return file;
      if (closure.files.has(file)) return source.displayName(posix.join(closure.root, file));
      const actor = actorOf(file);
      // Another file that an error is about, such as the project's manifest.
      if (actor === undefined) return file === '' ? file : source.displayName(posix.join(closure.root, file));
      const own = [...closure.places.values()].find(({ path }) => posix.basename(path) === file);
      return own === undefined ? `interface of ${actor.name ?? actor.principal}` : source.displayName(own.path);
    },
    notes: closure.notes.map(({ file, text }) => `${source.displayName(file)}: ${text}`),
  };
}

/** Parts with which the faults of a compilation are told. */
interface Told extends Pick<Prepared, 'actors' | 'view'> {
  readonly source: Source;
}

function entryOf(
  response: CompileResponse | CrashedResponse,
  { flags, file }: Pick<CompilerArgs, 'flags' | 'file'>,
  told: Told,
): CacheEntry {
  const { source } = told;
  const main = source.displayName(source.mainFile);
  if (response.kind === 'crashed') {
    if (response.flag !== undefined) throw flagRefused(response.flag, response.reason, source.displayName(file));
    const reason = isStackOverflow(response.reason)
      ? `an expression is nested too deeply for the compiler's stack of ${MOC_STACK_MB} MB; break it up`
      : `the compiler gave up: ${response.reason}`;
    throw new ServerError('invalid', 'compiler-crashed', `${main} does not compile: ${reason}`);
  }
  if (response.kind === 'refused') throw compileError(response.diagnostics, told);
  if (response.stableTypes === null) {
    const message = `${main} holds no actor; the main file must end in \`persistent actor { … }\`, and libraries (\`module { … }\`) are for imports`;
    throw new ServerError('invalid', 'compile-failed', message);
  }
  const { wasm, candid, stableTypes, diagnostics } = response;
  // This entry of the compiler makes a module in spite of warnings that are to count as errors (`-E`, and the flag
  // below); both cases are left to its caller.
  if (hasError(diagnostics)) throw compileError(diagnostics, told);
  if (flags.includes(WARNINGS_ARE_ERRORS) && diagnostics.length > 0) {
    const errors = diagnostics.map((warning) => ({ ...warning, severity: 'error' as const }));
    throw compileError(errors, told);
  }
  return { wasm, candid, stableTypes, warnings: flags.includes(WARNINGS_ARE_HIDDEN) ? [] : diagnostics };
}

function hasError(diagnostics: readonly Diagnostic[]): boolean {
  return diagnostics.some(({ severity }) => severity === 'error');
}

function missingCoreModules({ coreModules, files }: SourceClosure, core: CorePackage): ProblemList {
  const problems = new ImportProblems();
  for (const [module, place] of coreModules) {
    if (core.modules.includes(module)) continue;
    problems.add(place, () => {
      const near = core.modules.find((known) => known.toLowerCase() === module.toLowerCase());
      const hint = near === undefined ? '' : `; did you mean "mo:core/${near}"?`;
      return `mo:core has no module ${module}${hint}`;
    });
  }
  return problems.list(linesByFile((file) => files.get(file)));
}

function refuseIf(problems: ProblemList, source: Source, view: NotedView): void {
  if (problems.count > 0) throw compileFailed(problems, source, view);
}

function compileError(diagnostics: readonly Diagnostic[], { source, view, actors }: Told): ServerError {
  const errors = diagnostics.filter(({ severity }) => severity === 'error');
  const found = errors.length > 0 ? errors : diagnostics;
  const first = found.map((each) => inInterfaces(each, actors, (file) => view.displayName(file)));
  return compileFailed({ first, count: first.length }, source, view);
}

function compileFailed({ first, count }: ProblemList, source: Source, view: NotedView): ServerError {
  const errors = count === 1 ? '1 error' : `${count} errors`;
  const headline = `${source.displayName(source.mainFile)} does not compile (${errors})`;
  const lines = [headline, renderDiagnostics(first, view, count), ...view.notes];
  return new ServerError('invalid', 'compile-failed', lines.join('\n'));
}

/** Relative below the current directory, as a terminal compiler would say it; absolute elsewhere. */
function displayPath(directory: string, path: string): string {
  const short = relative(directory, path);
  return short.startsWith('..') ? path : short;
}

function duration(elapsedMs: number): string {
  return elapsedMs < 100 ? `${Math.max(1, Math.round(elapsedMs))} ms` : `${(elapsedMs / 1000).toFixed(1)} s`;
}
