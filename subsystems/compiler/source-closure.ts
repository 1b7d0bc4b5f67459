import { posix } from 'node:path';
import { ServerError } from '../../kernel/index.ts';
import { rangeAt } from './diagnostics.ts';
import type { Diagnostic } from './diagnostics.ts';
import { scanImports } from './import-scanner.ts';
import type { ImportReference } from './import-scanner.ts';
import { SOURCE_BYTES_MAX } from './source-reader.ts';
import type { SourceReader } from './source-reader.ts';

/** Everything one actor is compiled from. */
export interface SourceClosure {
  /** The folder all files share; paths below are relative to it, so that nothing depends on where a project lies. */
  readonly root: string;
  readonly main: string;
  /** Texts by path relative to `root`, in the order they were met. */
  readonly files: ReadonlyMap<string, string>;
  /** The modules of `mo:core` it imports by name, each with where that was first. */
  readonly coreModules: ReadonlyMap<string, ImportPlace>;
  /** The actors it imports by name (`canister:ledger`), each with where that was first. */
  readonly actors: ReadonlyMap<string, ImportPlace>;
  /** Imports that cannot be resolved. */
  readonly problems: readonly Diagnostic[];
  /** Absolute paths of files that an import would find if they were there. */
  readonly missing: readonly string[];
}

export interface ImportPlace {
  readonly file: string;
  readonly reference: ImportReference;
}

/** Real projects have tens of files. Bounded so that a generated tree cannot hold the start for minutes. */
const FILES_MAX = 2000;
const CLOSURE_BYTES_MAX = 4 * SOURCE_BYTES_MAX;

const REFUSED = Symbol('refused');

/** Reads the main file and what it imports, and all they import. Every problem is found, not only the first. */
export async function collectClosure(mainFile: string, reader: SourceReader): Promise<SourceClosure> {
  const collector = new ClosureCollector(reader);
  await collector.visitMain(mainFile);
  return collector.finish(mainFile);
}

/** A fault at the place of an import, to be shown like a fault the compiler found. */
export function importProblem(place: ImportPlace, text: string, message: string): Diagnostic {
  const range = rangeAt(text, place.reference.start, place.reference.end);
  return { file: place.file, ...range, severity: 'error', category: 'import', code: '', message };
}

const ACTOR_SCHEME = 'canister:';

/** Walks depth first, so that the files between an import and itself are exactly those on the way. */
class ClosureCollector {
  readonly #reader: SourceReader;
  readonly #texts = new Map<string, string>();
  readonly #core = new Map<string, ImportPlace>();
  readonly #actors = new Map<string, ImportPlace>();
  readonly #problems: { readonly place: ImportPlace; readonly message: (show: (path: string) => string) => string }[] =
    [];
  readonly #missing = new Set<string>();
  readonly #way: string[] = [];
  #bytes = 0;

  constructor(reader: SourceReader) {
    this.#reader = reader;
  }

  async visitMain(file: string): Promise<void> {
    const text = await this.#reader.read(file);
    if (text === undefined) {
      throw new ServerError(
        'invalid',
        'source-unreadable',
        `cannot read ${file}: there is no such file; \`main\` names a Motoko source file`,
      );
    }
    await this.#visit(file, text);
  }

  finish(mainFile: string): SourceClosure {
    const root = commonFolder([...this.#texts.keys()]);
    const relative = (path: string): string => posix.relative(root, path);
    return {
      root,
      main: relative(mainFile),
      files: new Map([...this.#texts].map(([path, text]) => [relative(path), text])),
      coreModules: placesFrom(relative, this.#core),
      actors: placesFrom(relative, this.#actors),
      problems: this.#problems.map(({ place, message }) =>
        importProblem({ ...place, file: relative(place.file) }, this.#texts.get(place.file) ?? '', message(relative)),
      ),
      missing: [...this.#missing],
    };
  }

  async #visit(file: string, text: string): Promise<void> {
    this.#texts.set(file, text);
    this.#bytes += Buffer.byteLength(text);
    if (this.#texts.size > FILES_MAX || this.#bytes > CLOSURE_BYTES_MAX) {
      throw new ServerError(
        'invalid',
        'source-too-large',
        `${this.#way[0] ?? file} imports more than ${FILES_MAX} files or ${CLOSURE_BYTES_MAX} bytes; compile it elsewhere and name the module with \`wasm\``,
      );
    }
    this.#way.push(file);
    for (const reference of scanImports(text)) await this.#follow({ file, reference });
    this.#way.pop();
  }

  async #follow(place: ImportPlace): Promise<void> {
    const { url } = place.reference;
    if (url === 'mo:⛔' || url === 'mo:prim') return; // built into the compiler
    if (url.startsWith('mo:core/')) {
      const module = posix.normalize(url.slice('mo:core/'.length));
      if (!this.#core.has(module)) this.#core.set(module, place);
      return;
    }
    if (url.startsWith(ACTOR_SCHEME)) {
      const name = url.slice(ACTOR_SCHEME.length);
      if (!this.#actors.has(name)) this.#actors.set(name, place);
      return;
    }
    const refusal = refusalOf(url);
    if (refusal !== undefined) {
      const line =
        rangeAt(this.#texts.get(place.file) ?? '', place.reference.start, place.reference.end).start.line + 1;
      this.#problems.push({ place, message: (show) => `${refusal}: import "${url}" in ${show(place.file)}:${line}` });
      return;
    }
    await this.#followRelative(place);
  }

  async #followRelative(place: ImportPlace): Promise<void> {
    const { url } = place.reference;
    const base = posix.join(posix.dirname(place.file), url).replace(/\/$/u, '');
    const candidates = url.endsWith('/') ? [`${base}/lib.mo`] : [`${base}.mo`, `${base}/lib.mo`];
    for (const candidate of candidates) {
      if (this.#way.includes(candidate)) {
        const cycle = [...this.#way.slice(this.#way.indexOf(candidate)), candidate];
        this.#problems.push({
          place,
          message: (show) => `import cycle: ${cycle.map(show).join(' → ')}; move what both need into a third file`,
        });
        return;
      }
      if (this.#texts.has(candidate)) return;
      const text = await this.#read(candidate, place);
      if (text === REFUSED) return;
      if (text === undefined) {
        this.#missing.add(candidate);
        continue;
      }
      await this.#visit(candidate, text);
      return;
    }
    const hint = url.endsWith('.mo') ? `; write "${url.slice(0, -'.mo'.length)}", without .mo` : '';
    this.#problems.push({
      place,
      message: (show) => `import "${url}" finds no file: there is neither ${candidates.map(show).join(' nor ')}${hint}`,
    });
  }

  /** An import that exists but cannot be used is reported where it is imported. */
  async #read(candidate: string, place: ImportPlace): Promise<string | typeof REFUSED | undefined> {
    try {
      return await this.#reader.read(candidate);
    } catch (error) {
      if (!(error instanceof ServerError)) throw error;
      this.#problems.push({ place, message: () => error.message });
      return REFUSED;
    }
  }
}

/** Why an import that is no path and not `mo:core` is refused; undefined for a relative path. */
function refusalOf(url: string): string | undefined {
  if (url === '') return 'an import needs a path';
  if (url === 'mo:core') return 'name the module of mo:core ("mo:core/Text")';
  if (url === 'mo:base' || url.startsWith('mo:base/')) {
    return 'mo:base does not come with the compiler, which bundles its successor mo:core (the same modules under "mo:core/…")';
  }
  if (url.startsWith('mo:')) return 'mops packages are not built yet';
  if (url.startsWith('ic:')) {
    return 'imports by principal are not built yet; name the actor in the manifest and import it as "canister:<name>"';
  }
  if (url.startsWith('blob:')) return 'blob imports are not supported';
  if (/^[A-Za-z][\w+.-]*:/u.test(url))
    return 'unknown kind of import (known are "./path", "mo:core/Module" and "canister:name")';
  if (url.startsWith('/')) return 'imports are relative to the importing file; absolute paths are not supported';
  return undefined;
}

function placesFrom(
  relative: (path: string) => string,
  places: ReadonlyMap<string, ImportPlace>,
): ReadonlyMap<string, ImportPlace> {
  return new Map([...places].map(([name, place]) => [name, { ...place, file: relative(place.file) }]));
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
