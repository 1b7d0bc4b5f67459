/** Makes a closure of a graph of files: their order, what each is called, cycles. */
import { posix } from 'node:path';
import { CORE_ROOT } from './core-package.ts';
import { type ImportPlace, ImportProblems } from './import-problems.ts';
import type { MopsPackage } from './mops/mops-packages.ts';
import type { CoreImport, NamedImport, SourceClosure, UnusableImport } from './closure.ts';
import { isInside, type Principal, type Resolution, type SourceNode } from './source-files.ts';
import type { SourceGraph } from './source-graph.ts';

/** Walks the graph depth first, so that the files between an import and itself are exactly those on the way. */
export class ClosureWalk {
  readonly #mainFile: string;
  readonly #graph: SourceGraph;
  readonly #nodes = new Map<string, SourceNode>();
  readonly #blobs = new Map<string, SourceNode>();
  readonly #principals = new Map<string, Principal>();
  readonly #aliases = new Map<string, Principal>();
  /** Reasons why an alias is of no use, by name. */
  readonly #unknownAliases = new Map<string, (show: (path: string) => string) => string>();
  readonly #packages = new Map<string, MopsPackage>();
  /** Other names of the bundled library. */
  readonly #coreNames = new Set<string>();
  readonly #core = new Map<string, ImportPlace>();
  readonly #actors = new Map<string, ImportPlace>();
  readonly #coreImports = new ImportList<CoreImport>();
  readonly #external = new ImportList();
  readonly #missing = new ImportList();
  readonly #unusable = new ImportList<UnusableImport>();
  readonly #problems = new ImportProblems();
  /**
   * Files from the main file to where the walk is, each with the index of the import that is next. The walk is not
   * recursive, because the depth of a recursion is limited.
   */
  readonly #way = new Map<SourceNode, number>();

  constructor(mainFile: string, graph: SourceGraph) {
    this.#mainFile = mainFile;
    this.#graph = graph;
  }

  async walk(): Promise<SourceClosure> {
    this.#visitAll(this.#graph.mainNode);
    const { implicit } = this.#graph;
    if (implicit !== undefined) this.#visitAll(implicit);
    const nodes = [...this.#nodes.values()];
    const blobs = [...this.#blobs.values()].filter(({ path }) => !this.#nodes.has(path));
    const files = [...nodes, ...blobs];
    const root = commonFolder(files.filter((node) => node.package?.isLocal !== false).map(({ path }) => path));
    const names = new Map(files.map((node) => [node.path, nameIn(root, node)]));
    const show = (path: string): string => names.get(path) ?? posix.relative(root, path);
    const placesFrom = (places: ReadonlyMap<string, ImportPlace>): ReadonlyMap<string, ImportPlace> =>
      new Map([...places].map(([name, place]) => [name, { ...place, file: show(place.file) }]));
    const interfaces = [...this.#principals.values(), ...this.#aliases.values()].flatMap(({ file }) => file ?? []);
    return {
      root,
      main: show(this.#mainFile),
      files: new Map(nodes.map(({ path, text }) => [show(path), text])),
      blobs: new Map(blobs.map(({ path, bytes = new Uint8Array() }) => [show(path), bytes])),
      places: new Map(
        [...files, ...interfaces].map(({ path, package: owner }) => [show(path), { path, package: owner }]),
      ),
      packages: this.#foldersFrom(root),
      coreModules: placesFrom(this.#core),
      coreImports: this.#coreImports.shown(show),
      actors: placesFrom(this.#actors),
      principals: new Map([...this.#principals].map(([principal, { candid }]) => [principal, candid])),
      aliases: this.#aliases,
      unknownAliases: new Map([...this.#unknownAliases].map(([name, message]) => [name, message(show)])),
      external: this.#external.shown(show),
      missing: this.#missing.shown(show),
      unusable: this.#unusable.shown(show),
      problems: this.#problems.list((path) => this.#nodes.get(path)?.lines, show),
      notes: await this.#graph.notesOn(files),
    };
  }

  #foldersFrom(root: string): ReadonlyMap<string, string> {
    const folders = new Map<string, string>();
    for (const name of this.#coreNames) folders.set(name, CORE_ROOT);
    for (const [name, found] of this.#packages) {
      const local = posix.relative(root, found.base) || '.';
      folders.set(name, found.isLocal ? local : posix.join(mountOf(found), posix.relative(found.root, found.base)));
    }
    return folders;
  }

  /** From a file that is none itself if the graph has not read it. */
  #visitAll(first: SourceNode): void {
    const stack = [first];
    if (first === this.#graph.implicit) this.#way.set(first, 0);
    else this.#meet(first);
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
        if (resolution.through !== 'core') this.#coreNames.add(resolution.through);
        this.#coreImports.push({ url, from: place.file, module: resolution.module });
        if (!this.#core.has(resolution.module)) this.#core.set(resolution.module, place);
        return undefined;
      case 'actor':
        this.#external.push({ url, from: place.file });
        if (!this.#actors.has(resolution.name)) this.#actors.set(resolution.name, place);
        if (typeof resolution.alias === 'function') this.#unknownAliases.set(resolution.name, resolution.alias);
        else if (resolution.alias !== undefined) this.#aliases.set(resolution.name, resolution.alias);
        return undefined;
      case 'principal':
        this.#external.push({ url, from: place.file });
        this.#principals.set(resolution.found.principal, resolution.found);
        return undefined;
      case 'refused': {
        const { refusal } = resolution;
        this.#missing.push({ url, from: place.file });
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
        if (imported.kind === 'blob') {
          this.#meetBlob(imported, node.package);
          return undefined;
        }
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
    node.package = ownerOf(node, owner);
    this.#meet(node);
    return node;
  }

  #meetBlob(node: SourceNode, owner: MopsPackage | undefined): void {
    if (this.#blobs.has(node.path)) return;
    node.package = ownerOf(node, owner);
    this.#blobs.set(node.path, node);
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

function ownerOf({ path }: SourceNode, owner: MopsPackage | undefined): MopsPackage | undefined {
  return owner !== undefined && isInside(path, owner.root) ? owner : undefined;
}

/** Returns the name that the compiler has for a file. */
function nameIn(root: string, { path, package: owner }: SourceNode): string {
  if (owner === undefined || owner.isLocal) return posix.relative(root, path);
  return posix.join(mountOf(owner), posix.relative(owner.root, path));
}

/**
 * Returns the compiler's path of a package that mops has fetched: it is made of the folder's name, which has the
 * version; two names may mean one folder.
 */
function mountOf({ root }: MopsPackage): string {
  return `mo:${posix.basename(root)}`;
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
