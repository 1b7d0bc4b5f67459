/**
 * Everything that a Motoko file depends on: the one closure that the compilation of a manifest's `main` and
 * `GET /mops/closure/<ENTRY>` are made from.
 *
 * Files are read level by level, those of one level at once; what a file imports is proposed by the scanner and decided by the
 * given parser. When all is there, the graph is walked depth first, so that the order of files and the files of a cycle do not
 * depend on which of them was read first.
 */
import { posix } from 'node:path';
import { ServerError } from '../../kernel/index.ts';
import { type ImportParser, scannedImports } from './import-parser.ts';
import { type ImportPlace, ImportProblems, type ProblemList } from './import-problems.ts';
import type { ImportReference } from './import-scanner.ts';
import { type ImportTarget, isPackageImport, packageTargetOf, targetOf } from './import-target.ts';
import { lockProblem } from './mops/mops-lock.ts';
import type { FileNote, MissingPackage, MopsOptions, MopsPackage } from './mops/mops-packages.ts';
import { MopsPackages } from './mops/mops-packages.ts';
import { namingWho, SOURCE_BYTES_MAX, type SourceReader } from './source-reader.ts';
import { TextLines } from './text-lines.ts';

/** Everything one actor is compiled from. */
export interface SourceClosure {
  /** The folder that all files of the project share; paths below are relative to it, so that nothing depends on where a project lies. */
  readonly root: string;
  readonly main: string;
  /** Texts by path, in the order in which they are met; those of packages that mops has fetched begin with `mo:<package>@<version>/`. */
  readonly files: ReadonlyMap<string, string>;
  /** Where a file lies, for each of `files`. */
  readonly places: ReadonlyMap<string, FilePlace>;
  /** Folders of the packages that are imported, by name. */
  readonly packages: ReadonlyMap<string, string>;
  /** The modules of the bundled `mo:core` it imports by name, each with where that was first. */
  readonly coreModules: ReadonlyMap<string, ImportPlace>;
  /** Each import of the bundled `mo:core`. */
  readonly coreImports: readonly CoreImport[];
  /** The actors it imports by name (`canister:ledger`), each with where that was first. */
  readonly actors: ReadonlyMap<string, ImportPlace>;
  /** Imports of other things than sources: `canister:`, `ic:`, `blob:`. */
  readonly external: readonly NamedImport[];
  /** Imports that find nothing. */
  readonly missing: readonly NamedImport[];
  /** Imports that find a file which cannot be used. */
  readonly unusable: readonly UnusableImport[];
  /** Imports that cannot be resolved, for a person. */
  readonly problems: ProblemList;
  /** What a person should know of other files. */
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
  /** As in `coreModules`. */
  readonly module: string;
}

export interface UnusableImport extends NamedImport {
  readonly place: FilePlace;
  /** A sentence, with the file's path in it. */
  readonly reason: string;
}

export interface ClosureOptions {
  /** Who decides what a file imports; the scanner alone, if left out. */
  readonly parser?: ImportParser;
  readonly mops?: MopsOptions;
}

/** Real projects have hundreds of files. Bounded so that a generated tree cannot hold the start for minutes. */
const FILES_MAX = 5000;
const CLOSURE_BYTES_MAX = 4 * SOURCE_BYTES_MAX;
/** Node has four threads for files; more reads than that only wait, each with an open file. */
const READS_MAX = 16;

const NO_MOPS: MopsOptions = { stores: [], environment: 'local' };

/** Reads the main file and what it imports, and all they import. Every problem is found, not only the first. */
export async function collectClosure(
  mainFile: string,
  reader: SourceReader,
  options: ClosureOptions = {},
): Promise<SourceClosure> {
  const text = await reader.read(mainFile);
  if (text === undefined) {
    throw new ServerError(
      'invalid',
      'source-unreadable',
      `cannot read ${mainFile}: there is no such file; \`main\` names a Motoko source file`,
    );
  }
  const graph = new SourceGraph(mainFile, reader, options);
  await graph.load(text);
  return new ClosureWalk(mainFile, graph).walk();
}

/** A file that was read. */
interface SourceNode {
  readonly path: string;
  readonly text: string;
  readonly lines: TextLines;
  /** As it was read first; the walk says which it is met in first. */
  package: MopsPackage | undefined;
  imports: readonly ResolvedImport[];
}

/** What an import came to, once the files that it may mean have been looked for. */
type Resolution =
  | Exclude<ImportTarget, { readonly kind: 'relative' | 'package' }>
  | { readonly kind: 'file'; readonly node: SourceNode; readonly through: MopsPackage | undefined }
  | { readonly kind: 'unusable'; readonly place: FilePlace; readonly reason: string }
  | { readonly kind: 'unresolved'; readonly message: (show: (path: string) => string) => string };

interface ResolvedImport {
  readonly reference: ImportReference;
  readonly resolution: Resolution;
}

/** The files, and who imports whom. */
class SourceGraph {
  readonly main: string;
  readonly #reader: SourceReader;
  readonly #mops: MopsOptions;
  readonly #parser: ImportParser;
  /** Looked for when a package is imported: what is wrong there does not matter to a program without one. */
  #packages: Promise<MopsPackages> | undefined;
  /** By absolute path: also what is being read; undefined: there is no such file. */
  readonly #reading = new Map<string, Promise<SourceNode | undefined | ServerError>>();
  readonly #slots = new Slots(READS_MAX);
  #fresh: SourceNode[] = [];
  #files = 0;
  #bytes = 0;

  constructor(main: string, reader: SourceReader, { parser = scannedImports, mops = NO_MOPS }: ClosureOptions) {
    this.main = main;
    this.#reader = reader;
    this.#mops = mops;
    this.#parser = parser;
  }

  async load(text: string): Promise<void> {
    this.#reading.set(this.main, Promise.resolve(this.#add(this.main, text, undefined)));
    while (this.#fresh.length > 0) {
      const level = this.#fresh;
      this.#fresh = [];
      const imports = await this.#parser.importsOf(level.map((node) => node.text));
      await Promise.all(level.map((node, k) => this.#resolveAll(node, imports[k] ?? [])));
    }
  }

  async notes(): Promise<readonly FileNote[]> {
    return (await this.#packages)?.notes ?? [];
  }

  /** Of a file that has been read. */
  async mainNode(): Promise<SourceNode> {
    const node = await this.#reading.get(this.main);
    if (node === undefined || node instanceof ServerError) throw new Error('the main file was not read');
    return node;
  }

  async #resolveAll(node: SourceNode, references: readonly ImportReference[]): Promise<void> {
    const resolutions = await Promise.all(references.map((reference) => this.#resolve(node, reference)));
    node.imports = references.map((reference, k) => ({
      reference,
      resolution: resolutions[k] ?? { kind: 'unresolved', message: () => 'it was not looked for' },
    }));
  }

  async #resolve(node: SourceNode, reference: ImportReference): Promise<Resolution> {
    const { url } = reference;
    if (!isPackageImport(url)) {
      const target = targetOf(url);
      return target.kind === 'relative' ? this.#resolveRelative(node, reference) : target;
    }
    this.#packages ??= MopsPackages.of(this.main, this.#reader, this.#mops);
    const packages = await this.#packages;
    const target = packageTargetOf(url, (name) => packages.has(name));
    if (target.kind !== 'package') return target;
    const found = await packages.find(target.package);
    if ('missing' in found) return withoutPackage(found);
    const base = posix.join(found.base, target.path);
    if (!isInside(base, found.base)) return { kind: 'unresolved', message: () => `${url} leaves its package` };
    const candidates = target.path === '' ? [`${base}/lib.mo`] : [`${base}.mo`, `${base}/lib.mo`];
    return this.#firstOf(candidates, { node, reference }, found, found);
  }

  #resolveRelative(node: SourceNode, reference: ImportReference): Promise<Resolution> {
    const { url } = reference;
    const base = posix.join(posix.dirname(node.path), url).replace(/\/$/u, '');
    const owner = node.package;
    // What mops has fetched is a world of its own.
    if (owner !== undefined && !owner.isLocal && !isInside(base, owner.root))
      return Promise.resolve({ kind: 'unresolved', message: () => `import "${url}" leaves the package ${owner.name}` });
    const candidates = url.endsWith('/') ? [`${base}/lib.mo`] : [`${base}.mo`, `${base}/lib.mo`];
    return this.#firstOf(candidates, { node, reference }, owner, undefined);
  }

  async #firstOf(
    candidates: readonly string[],
    { node: importer, reference }: { readonly node: SourceNode; readonly reference: ImportReference },
    owner: MopsPackage | undefined,
    through: MopsPackage | undefined,
  ): Promise<Resolution> {
    const { url } = reference;
    const who = (): string => {
      const line = importer.lines.lineAt(reference.start) + 1;
      return `${posix.relative(this.#mops.ceiling ?? '/', importer.path)}:${line} has import "${url}"`;
    };
    for (const candidate of candidates) {
      const node = await namingWho(this.#read(candidate, owner), who);
      if (node instanceof ServerError)
        return { kind: 'unusable', place: { path: candidate, package: owner }, reason: node.message };
      if (node !== undefined) return { kind: 'file', node, through };
    }
    const hint = url.endsWith('.mo') ? `; write "${url.slice(0, -'.mo'.length)}", without .mo` : '';
    return {
      kind: 'unresolved',
      message: (show) => `import "${url}" finds no file: there is neither ${candidates.map(show).join(' nor ')}${hint}`,
    };
  }

  #read(path: string, owner: MopsPackage | undefined): Promise<SourceNode | undefined | ServerError> {
    const known = this.#reading.get(path);
    if (known !== undefined) return known;
    const reading = this.#slots.run(async () => {
      try {
        const text = await this.#reader.read(path);
        if (text === undefined) return undefined;
        const problem = owner && lockProblem(text, owner.hashes.get(lockedName(owner, path)));
        if (problem !== undefined) return new ServerError('invalid', 'mops-invalid', `${path} ${problem}`);
        return this.#add(path, text, owner);
      } catch (error) {
        // `source-unreadable` is a problem at the import; anything else ends the whole.
        if (error instanceof ServerError && error.code === 'source-unreadable') return error;
        throw error;
      }
    });
    this.#reading.set(path, reading);
    return reading;
  }

  #add(path: string, text: string, owner: MopsPackage | undefined): SourceNode {
    this.#bytes += Buffer.byteLength(text);
    if (++this.#files > FILES_MAX || this.#bytes > CLOSURE_BYTES_MAX) {
      throw new ServerError(
        'invalid',
        'source-too-large',
        `${this.main} imports more than ${FILES_MAX} files or ${CLOSURE_BYTES_MAX} bytes; compile it elsewhere and name the module with \`wasm\``,
      );
    }
    const node: SourceNode = { path, text, lines: new TextLines(text), package: owner, imports: [] };
    this.#fresh.push(node);
    return node;
  }
}

function withoutPackage({ missing, because }: MissingPackage): Resolution {
  if (because === undefined) return { kind: 'unresolved', message: () => missing };
  return { kind: 'unusable', place: { path: because, package: undefined }, reason: missing };
}

/** Walks the graph depth first, so that the files between an import and itself are exactly those on the way. */
class ClosureWalk {
  readonly #mainFile: string;
  readonly #graph: SourceGraph;
  readonly #nodes = new Map<string, SourceNode>();
  readonly #packages = new Map<string, MopsPackage>();
  readonly #core = new Map<string, ImportPlace>();
  readonly #actors = new Map<string, ImportPlace>();
  readonly #coreImports = new ImportList<CoreImport>();
  readonly #external = new ImportList();
  readonly #missing = new ImportList();
  readonly #unusable = new ImportList<UnusableImport>();
  readonly #problems = new ImportProblems();
  /** From the main file to where the walk is, each with the import that is next; not by recursion, whose depth has an end. */
  readonly #way = new Map<SourceNode, number>();

  constructor(mainFile: string, graph: SourceGraph) {
    this.#mainFile = mainFile;
    this.#graph = graph;
  }

  async walk(): Promise<SourceClosure> {
    this.#visitAll(await this.#graph.mainNode());
    const nodes = [...this.#nodes.values()];
    const root = commonFolder(nodes.filter((node) => node.package?.isLocal !== false).map(({ path }) => path));
    const nameOf = (node: SourceNode): string => {
      const owner = node.package;
      return owner === undefined || owner.isLocal
        ? posix.relative(root, node.path)
        : posix.join(mountOf(owner), posix.relative(owner.root, node.path));
    };
    const show = (path: string): string => {
      const node = this.#nodes.get(path);
      return node === undefined ? posix.relative(root, path) : nameOf(node);
    };
    const placesFrom = (places: ReadonlyMap<string, ImportPlace>): ReadonlyMap<string, ImportPlace> =>
      new Map([...places].map(([name, place]) => [name, { ...place, file: show(place.file) }]));
    return {
      root,
      main: show(this.#mainFile),
      files: new Map(nodes.map((node) => [nameOf(node), node.text])),
      places: new Map(nodes.map((node) => [nameOf(node), { path: node.path, package: node.package }])),
      packages: new Map(
        [...this.#packages].map(([name, found]) => [
          name,
          found.isLocal
            ? posix.relative(root, found.base) || '.'
            : posix.join(mountOf(found), posix.relative(found.root, found.base)),
        ]),
      ),
      coreModules: placesFrom(this.#core),
      coreImports: this.#coreImports.shown(show),
      actors: placesFrom(this.#actors),
      external: this.#external.shown(show),
      missing: this.#missing.shown(show),
      unusable: this.#unusable.shown(show),
      problems: this.#problems.list((path) => this.#nodes.get(path)?.lines, show),
      notes: await this.#graph.notes(),
    };
  }

  #visitAll(main: SourceNode): void {
    const stack = [main];
    this.#meet(main);
    for (let node = stack.at(-1); node !== undefined; node = stack.at(-1)) {
      const next = this.#way.get(node) ?? 0;
      const found = node.imports[next];
      if (found === undefined) {
        this.#way.delete(node);
        stack.pop();
        continue;
      }
      this.#way.set(node, next + 1);
      const entered = this.#follow(node, { file: node.path, reference: found.reference }, found.resolution);
      if (entered !== undefined) stack.push(entered);
    }
  }

  #meet(node: SourceNode): void {
    this.#nodes.set(node.path, node);
    this.#way.set(node, 0);
  }

  /** The file that the walk goes into, if it has not been there. */
  #follow(node: SourceNode, place: ImportPlace, resolution: Resolution): SourceNode | undefined {
    const { url } = place.reference;
    switch (resolution.kind) {
      case 'builtin':
        return undefined;
      case 'core':
        this.#coreImports.push({ url, from: place.file, module: resolution.module });
        if (!this.#core.has(resolution.module)) this.#core.set(resolution.module, place);
        return undefined;
      case 'actor':
        this.#external.push({ url, from: place.file });
        if (!this.#actors.has(resolution.name)) this.#actors.set(resolution.name, place);
        return undefined;
      case 'refused': {
        const { refusal, isExternal } = resolution;
        (isExternal ? this.#external : this.#missing).push({ url, from: place.file });
        this.#problems.add(place, (show, line) => `${refusal}: import "${url}" in ${show(place.file)}:${line}`);
        return undefined;
      }
      case 'unusable': {
        const { reason, place: at } = resolution;
        this.#unusable.push({ url, from: place.file, place: at, reason });
        this.#problems.add(place, () => reason);
        return undefined;
      }
      case 'unresolved':
        this.#missing.push({ url, from: place.file });
        this.#problems.add(place, resolution.message);
        return undefined;
      case 'file': {
        const { through, node: imported } = resolution;
        if (through !== undefined) this.#packages.set(through.name, through);
        return this.#enter(place, imported, through ?? node.package);
      }
    }
  }

  #enter(place: ImportPlace, node: SourceNode, owner: MopsPackage | undefined): SourceNode | undefined {
    if (this.#way.has(node)) {
      const cycle = this.#problems.isFull ? [] : this.#cycleThrough(node);
      this.#problems.add(
        place,
        (show) => `import cycle: ${cycle.map(show).join(' → ')}; move what both need into a third file`,
      );
      return undefined;
    }
    if (this.#nodes.has(node.path)) return undefined;
    node.package = owner !== undefined && isInside(node.path, owner.root) ? owner : undefined;
    this.#meet(node);
    return node;
  }

  #cycleThrough(node: SourceNode): readonly string[] {
    const way = [...this.#way.keys()];
    return [...way.slice(way.indexOf(node)), node].map(({ path }) => path);
  }
}

/** Imports of files by their absolute paths; what a file imports twice is there once. */
class ImportList<T extends NamedImport = NamedImport> {
  readonly #imports: T[] = [];
  readonly #known = new Map<string, Set<string>>();

  push(found: T): void {
    let urls = this.#known.get(found.from);
    if (urls === undefined) this.#known.set(found.from, (urls = new Set()));
    if (urls.has(found.url)) return;
    urls.add(found.url);
    this.#imports.push(found);
  }

  shown(show: (path: string) => string): readonly T[] {
    return this.#imports.map((found) => ({ ...found, from: show(found.from) }));
  }
}

/** So many at a time. */
class Slots {
  #free: number;
  readonly #waiting: (() => void)[] = [];

  constructor(count: number) {
    this.#free = count;
  }

  async run<T>(work: () => Promise<T>): Promise<T> {
    if (this.#free > 0) this.#free--;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
    try {
      return await work();
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#free++;
      else next();
    }
  }
}

/** Where the compiler sees a package that mops has fetched: by the folder's name, which has the version; two names may mean one folder. */
function mountOf({ root }: MopsPackage): string {
  return `mo:${posix.basename(root)}`;
}

/** How `mops.lock` names a file. */
function lockedName({ root }: MopsPackage, path: string): string {
  return `${posix.basename(root)}/${posix.relative(root, path)}`;
}

function isInside(path: string, folder: string): boolean {
  return path === folder || path.startsWith(`${folder}/`);
}

function commonFolder(files: readonly string[]): string {
  let common = posix.dirname(files[0] ?? '/').split('/');
  for (const file of files) {
    const folders = posix.dirname(file).split('/');
    const differs = common.findIndex((folder, index) => folder !== folders[index]);
    if (differs !== -1) common = common.slice(0, differs);
  }
  return common.join('/') || '/';
}
