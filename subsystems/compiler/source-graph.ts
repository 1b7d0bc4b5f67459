/**
 * The files of a program and who imports whom. Files are read level by level, those of one level at once. The scanner
 * proposes a file's imports and the given parser decides.
 */
import { posix } from 'node:path';
import { ServerError } from '../../kernel/index.ts';
import { readCorePackage } from './core-package.ts';
import { type ImportParser, scannedImports } from './import-parser.ts';
import type { ImportReference } from './import-scanner.ts';
import { isPackageImport, packageTargetOf, targetOf, withoutModule } from './import-target.ts';
import { ALIAS, type CompilerArgs, IMPLICIT, MIGRATIONS, NO_ARGS } from './mops/compiler-args.ts';
import { lockProblem } from './mops/mops-lock.ts';
import type { FileNote, MissingPackage, MopsOptions, MopsPackage } from './mops/mops-packages.ts';
import type { OwnedFile, Owner } from './mops/unhashed-files.ts';
import { mayBeFetched, MopsPackages } from './mops/mops-packages.ts';
import type { ClosureOptions } from './closure.ts';
import {
  isInside,
  type Principal,
  type Resolution,
  type ResolvedImport,
  SourceFiles,
  type SourceNode,
} from './source-files.ts';
import { namingWho, type SourceReader } from './source-reader.ts';
import { TextLines } from './text-lines.ts';

const NO_MOPS: MopsOptions = { stores: [], environment: 'local' };

/** The files, and who imports whom. */
export class SourceGraph {
  readonly main: string;
  readonly #reader: SourceReader;
  readonly #mops: MopsOptions;
  readonly #parser: ImportParser;
  readonly #args: CompilerArgs;
  readonly #builtIn: ReadonlyMap<string, string>;
  /** Looked for when a package is imported: what is wrong there does not matter to a program without one. */
  #packages: Promise<MopsPackages> | undefined;
  #coreProblem: Promise<string | undefined> | undefined;
  readonly #files: SourceFiles;
  /** Modules that serve without an import, and migrations, as a file that imports all of them. */
  implicit: SourceNode | undefined;
  #main: SourceNode | undefined;

  constructor(main: string, reader: SourceReader, options: ClosureOptions) {
    this.main = main;
    this.#reader = reader;
    this.#files = new SourceFiles(main, reader);
    this.#mops = options.mops ?? NO_MOPS;
    this.#parser = options.parser ?? scannedImports;
    this.#args = options.args ?? NO_ARGS;
    this.#builtIn = options.builtIn ?? new Map();
  }

  async load(text: string): Promise<void> {
    this.#main = this.#files.add({ path: this.main, text });
    await this.#addImplicit();
    for (let level = this.#files.takeFresh(); level.length > 0; level = this.#files.takeFresh()) {
      const imports = await this.#parser.importsOf(level.map((node) => node.text));
      await Promise.all(level.map((node, k) => this.#resolveAll(node, imports[k] ?? [])));
    }
  }

  async notesOn(files: readonly OwnedFile[]): Promise<readonly FileNote[]> {
    const { file, unused } = this.#args;
    const notes = unused.map((args) => ({
      file,
      text: `${args} is not used: flags for the compiler stand in [moc] args`,
    }));
    const owned = await Promise.all(
      files.map(async ({ path, package: owner }) => ({
        path,
        package: owner?.isLocal === false ? owner : await this.#fetchedAround(path),
      })),
    );
    return [...notes, ...((await this.#packages)?.notesOn(owned) ?? [])];
  }

  /** A file of a package that mops has fetched is compared with the lock, whatever path leads to it. */
  async #fetchedAround(path: string): Promise<Owner | undefined> {
    return mayBeFetched(path, this.#mops) ? (await this.#openPackages()).around(path) : undefined;
  }

  /** The node of the main file, which has been read. */
  get mainNode(): SourceNode {
    if (this.#main === undefined) throw new Error('the main file was not read');
    return this.#main;
  }

  async #resolveAll(node: SourceNode, references: readonly ImportReference[]): Promise<void> {
    const resolutions = await Promise.all(references.map((reference) => this.#resolve(node, reference)));
    node.imports = references.map((reference, k) => ({
      reference,
      resolution: resolutions[k] ?? { kind: 'unresolved', message: () => 'it was not looked for' },
    }));
  }

  /**
   * Adds modules that serve without an import (`--implicit-package`) and migrations (`--enhanced-migration`), as if the
   * manifest that says so imported all of them.
   */
  async #addImplicit(): Promise<void> {
    const { implicitPackages, migrations, file } = this.#args;
    if (implicitPackages.length === 0 && migrations === undefined) return;
    const imports: ResolvedImport[] = [];
    const add = (url: string, resolutions: readonly Resolution[]): void => {
      for (const resolution of resolutions) imports.push({ reference: { url, start: 0, end: 0 }, resolution });
    };
    // Named by the flags: that is what stands in the manifest.
    for (const name of implicitPackages) add(`${IMPLICIT}=${name}`, await this.#allOf(name));
    if (migrations !== undefined) {
      const flag = `${MIGRATIONS}=${posix.relative(posix.dirname(file), migrations) || '.'}`;
      add(flag, await this.#saidBy(flag, this.#migrationsIn(migrations, flag)));
    }
    this.implicit = { path: file, kind: 'source', text: '', lines: new TextLines(''), package: undefined, imports };
  }

  /** The compiler takes the files of the folder itself, in the order of their names. */
  async #migrationsIn(folder: string, flag: string): Promise<readonly Resolution[]> {
    const isThere = await this.#reader.isFolder(folder);
    const files = isThere ? (await this.#reader.list(folder)).filter((path) => posix.dirname(path) === folder) : [];
    if (files.length > 0) return this.#readAll(files, undefined);
    return [{ kind: 'unresolved', message: () => `${flag}: there is no folder with migrations (.mo)` }];
  }

  /** Returns what a flag leads to; if the reader refuses a path, the error says that the flag leads there. */
  #saidBy<T>(flag: string, reading: Promise<T>): Promise<T> {
    return namingWho(reading, () => `${posix.relative(this.#mops.ceiling ?? '/', this.#args.file)} has ${flag}`);
  }

  async #allOf(name: string): Promise<readonly Resolution[]> {
    const packages = await this.#openPackages();
    const found = packages.has(name) ? await packages.find(name) : undefined;
    if (found === undefined ? name === 'core' : 'missing' in found && (await isBundled(found))) {
      const other = found && (await this.#otherCore(packages));
      if (other !== undefined) return [other];
      const { modules } = await readCorePackage();
      return modules.map((module) => ({ kind: 'core', module, through: name }));
    }
    if (found === undefined)
      return [{ kind: 'unresolved', message: () => `${IMPLICIT}=${name}: mops.toml has no package ${name}` }];
    if ('missing' in found) return [withoutPackage(await withHint(found))];
    const all = this.#reader.list(found.base).then((files) => this.#readAll(files, found));
    return this.#saidBy(`${IMPLICIT}=${name}`, all);
  }

  #readAll(files: readonly string[], owner: MopsPackage | undefined): Promise<readonly Resolution[]> {
    return Promise.all(
      files.map(async (path): Promise<Resolution> => {
        const node = await this.#files.read(path, owner);
        if (node instanceof ServerError)
          return { kind: 'unusable', place: { path, package: owner }, reason: node.message };
        if (node === undefined) return { kind: 'unresolved', message: (show) => `${show(path)} has gone` };
        return { kind: 'file', node, through: owner };
      }),
    );
  }

  #openPackages(): Promise<MopsPackages> {
    this.#packages ??= MopsPackages.of(this.main, this.#reader, this.#mops);
    return this.#packages;
  }

  async #resolve(node: SourceNode, reference: ImportReference): Promise<Resolution> {
    const { url } = reference;
    if (isPackageImport(url)) return this.#resolvePackage(node, reference);
    const target = targetOf(url);
    switch (target.kind) {
      case 'relative':
        return this.#resolveRelative(node, reference);
      case 'blob':
        return this.#resolveBlob(node, reference, target.path);
      case 'principal':
        return this.#resolvePrincipal(target.principal);
      case 'actor': {
        const principal = this.#args.aliases.get(target.name);
        if (principal === undefined) return { ...target, alias: undefined };
        const found = await this.#interfaceOf(principal);
        const alias = found instanceof ServerError ? () => found.message : found;
        return { ...target, alias: alias ?? this.#noInterface(`${ALIAS} ${target.name} ${principal}`, principal) };
      }
      case 'builtin':
      case 'refused':
        return target;
    }
  }

  async #resolvePackage(node: SourceNode, reference: ImportReference): Promise<Resolution> {
    const { url } = reference;
    const packages = await this.#openPackages();
    const target = packageTargetOf(url, (name) => packages.has(name));
    if (target.kind === 'core') return { ...target, through: 'core' };
    if (target.kind === 'refused') return target;
    const found = await packages.find(target.package);
    if ('missing' in found) {
      if (!(await isBundled(found))) return withoutPackage(await withHint(found));
      if (target.path === '') return withoutModule(target.package);
      const other = await this.#otherCore(packages);
      if (other !== undefined) return other;
      return { kind: 'core', module: posix.normalize(target.path), through: target.package };
    }
    const base = posix.join(found.base, target.path);
    if (!isInside(base, found.base)) return { kind: 'unresolved', message: () => `${url} leaves its package` };
    const candidates = target.path === '' ? [`${base}/lib.mo`] : [`${base}.mo`, `${base}/lib.mo`];
    return this.#firstOf(candidates, { node, reference }, found, found);
  }

  /** Returns why the library that comes with the compiler may not serve for the package `core` of the project. */
  #otherCore(packages: MopsPackages): Promise<Resolution | undefined> {
    this.#coreProblem ??= coreProblem(packages.hashes);
    return this.#coreProblem.then((problem) =>
      problem === undefined ? undefined : { kind: 'unresolved', message: () => problem },
    );
  }

  #resolveRelative(node: SourceNode, reference: ImportReference): Promise<Resolution> {
    const { url } = reference;
    const base = posix.join(posix.dirname(node.path), url).replace(/\/$/u, '');
    const owner = node.package;
    // A package that mops has fetched is a world of its own.
    if (owner !== undefined && !owner.isLocal && !isInside(base, owner.root))
      return Promise.resolve({ kind: 'unresolved', message: () => `import "${url}" leaves the package ${owner.name}` });
    const candidates = url.endsWith('/') ? [`${base}/lib.mo`] : [`${base}.mo`, `${base}/lib.mo`];
    return this.#firstOf(candidates, { node, reference }, owner, undefined);
  }

  #resolveBlob(node: SourceNode, reference: ImportReference, path: string): Promise<Resolution> {
    const { url } = reference;
    const file = posix.join(posix.dirname(node.path), path);
    const owner = node.package;
    if (owner !== undefined && !owner.isLocal && !isInside(file, owner.root))
      return Promise.resolve({ kind: 'unresolved', message: () => `import "${url}" leaves the package ${owner.name}` });
    return this.#firstOf([file], { node, reference }, owner, undefined, 'blob');
  }

  async #resolvePrincipal(principal: string): Promise<Resolution> {
    const found = await this.#interfaceOf(principal);
    if (found instanceof ServerError) {
      const path = posix.join(this.#args.interfaces ?? '/', `${principal}.did`);
      return { kind: 'unusable', place: { path, package: undefined }, reason: found.message };
    }
    if (found !== undefined) return { kind: 'principal', found };
    return { kind: 'unresolved', message: this.#noInterface(`import "ic:${principal}"`, principal) };
  }

  #noInterface(who: string, principal: string): (show: (path: string) => string) => string {
    const { interfaces } = this.#args;
    return (show) =>
      interfaces === undefined
        ? `${who} needs an interface: write args = ["--actor-idl=idl"] below [moc] in mops.toml, ` +
          `and put it into idl/${principal}.did; an actor of the manifest is imported as "canister:<name>"`
        : `${who} finds no interface: there is no ${show(posix.join(interfaces, `${principal}.did`))}`;
  }

  /**
   * Returns the interface from the folder that the project names, else the built-in one, or undefined if there is none.
   */
  async #interfaceOf(principal: string): Promise<Principal | ServerError | undefined> {
    const { interfaces, file } = this.#args;
    if (interfaces !== undefined) {
      const path = posix.join(interfaces, `${principal}.did`);
      const who = (): string => `${posix.relative(this.#mops.ceiling ?? '/', file)} has --actor-idl`;
      const fetched = await this.#fetchedAround(path);
      const node = await namingWho(this.#files.read(path, undefined, 'interface', fetched), who);
      if (node instanceof ServerError) return node;
      if (node !== undefined) return { principal, candid: node.text, file: node };
    }
    const candid = this.#builtIn.get(principal);
    return candid === undefined ? undefined : { principal, candid, file: undefined };
  }

  async #firstOf(
    candidates: readonly string[],
    { node: importer, reference }: { readonly node: SourceNode; readonly reference: ImportReference },
    owner: MopsPackage | undefined,
    through: MopsPackage | undefined,
    kind: SourceNode['kind'] = 'source',
  ): Promise<Resolution> {
    const { url } = reference;
    const who = (): string => {
      const line = importer.lines.lineAt(reference.start) + 1;
      return `${posix.relative(this.#mops.ceiling ?? '/', importer.path)}:${line} has import "${url}"`;
    };
    for (const candidate of candidates) {
      const fetched = owner?.isLocal === false ? owner : await this.#fetchedAround(candidate);
      const node = await namingWho(this.#files.read(candidate, owner, kind, fetched), who);
      if (node instanceof ServerError)
        return { kind: 'unusable', place: { path: candidate, package: owner }, reason: node.message };
      if (node !== undefined) return { kind: 'file', node, through };
    }
    const areFolders = await Promise.all(candidates.map((path) => this.#reader.isFolder(path)));
    const hint =
      kind === 'source' && url.endsWith('.mo') ? `; write "${url.slice(0, -'.mo'.length)}", without .mo` : '';
    return {
      kind: 'unresolved',
      message: (show) => {
        const [first = '', second] = candidates.map((path, k) =>
          areFolders[k] === true ? `${show(path)} (that is a folder)` : show(path),
        );
        const none = second === undefined ? `is no ${first}` : `is neither ${first} nor ${second}`;
        return `import "${url}" finds no file: there ${none}${hint}`;
      },
    };
  }
}

/** Tells whether a package that is not there is the library that comes with the compiler, in the very version. */
async function isBundled({ id }: MissingPackage): Promise<boolean> {
  return id?.startsWith('core@') === true && id === `core@${(await readCorePackage()).version}`;
}

/** Compares all of that library with what a lock that is believed says of it, however little is imported. */
async function coreProblem(hashes: ReadonlyMap<string, string>): Promise<string | undefined> {
  if (hashes.size === 0) return undefined;
  const { version, modules, textOf } = await readCorePackage();
  for (const module of modules) {
    const name = `core@${version}/src/${module}.mo`;
    const problem = lockProblem(textOf(module) ?? '', hashes.get(name));
    if (problem !== undefined) return `${name}, which comes with the compiler, ${problem}`;
  }
  return undefined;
}

/** Another version of that library is at hand. */
async function withHint(found: MissingPackage): Promise<MissingPackage> {
  if (found.id?.startsWith('core@') !== true) return found;
  const { version } = await readCorePackage();
  return { ...found, missing: `${found.missing} (core ${version} comes with the compiler and needs none)` };
}

function withoutPackage({ missing, because }: MissingPackage): Resolution {
  if (because === undefined) return { kind: 'unresolved', message: () => missing };
  return { kind: 'unusable', place: { path: because, package: undefined }, reason: missing };
}
