/**
 * Closures of files of one project (ADR 43): collected by the compiler's code from the files of `ConfinedSources`, and
 * kept as JSON until a file or folder that was looked at changes.
 */
import { createHash } from 'node:crypto';
import { realpath } from 'node:fs/promises';
import { posix } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { isDirectory, ServerError } from '../../kernel/index.ts';
import type { Compiler, NamedImport, SourceClosure, UnusableImport } from '../compiler/index.ts';
import { type ClosureContent, type ClosureFile, jsonPieces, type UnusableFile } from './closure-json.ts';
import { ConfinedSources, expectInside } from './confined-sources.ts';
import type { ClosureDocument, MopsClosures } from './index.ts';

/** Larger documents are made anew each time; all kept ones together have at most `KEPT_BYTES_MAX`. */
const KEPT_DOCUMENT_BYTES_MAX = 16 * 1024 * 1024;
const KEPT_BYTES_MAX = 64 * 1024 * 1024;
/** Closures that are collected at once; each holds up to 32 MiB of sources. */
const COLLECTING_MAX = 2;
const WAITING_MAX = 32;
/** Bytes that are hashed in one step: some 5 ms. */
const HASHED_BYTES_MAX = 2 * 1024 * 1024;
const ENTRY_CHARACTERS_MAX = 4096;
const ATTEMPTS_MAX = 3;

interface Kept {
  readonly sources: ConfinedSources;
  readonly pieces: readonly Uint8Array[];
  readonly bytes: number;
}

interface ProjectClosuresOptions {
  readonly compiler: Pick<Compiler, 'closureOf'>;
  /** Absolute path of the project; undefined without `--project`. */
  readonly project: string | undefined;
}

export class ProjectClosures implements MopsClosures {
  readonly #compiler: Pick<Compiler, 'closureOf'>;
  readonly #directory: string | undefined;
  /** Documents, the least recently used first. */
  readonly #kept = new Map<string, Kept>();
  #keptBytes = 0;
  readonly #collecting = new Map<string, Promise<ClosureDocument>>();
  #running = 0;
  readonly #waiting: (() => void)[] = [];

  constructor({ compiler, project }: ProjectClosuresOptions) {
    this.#compiler = compiler;
    this.#directory = project;
  }

  /** Opens the project. Rejects with ServerError `project-unusable` if it is no folder. */
  async open(): Promise<void> {
    if (this.#directory !== undefined) await ProjectClosures.check(this.#directory);
  }

  /** Rejects as `open` does for this project. */
  static async check(directory: string): Promise<void> {
    if (!(await isDirectory(directory))) throw unusableProject('invalid', directory);
  }

  async closureOf(entry: string): Promise<ClosureDocument> {
    if (this.#directory === undefined) {
      const message = 'this server has no project: start it with --project DIR';
      throw new ServerError('missing', 'project-unset', message);
    }
    if (entry.includes('\0') || entry.length > ENTRY_CHARACTERS_MAX) throw badEntry(entry);
    const project = await realpath(this.#directory).catch(() => undefined);
    if (project === undefined) throw unusableProject('missing', this.#directory);
    const file = posix.resolve(project, entry.replace(/^\/+/u, ''));
    // Checked before anything else: a path outside is 403, whatever it names.
    expectInside(project, file);
    if (!entry.endsWith('.mo')) throw badEntry(entry);
    const kept = await this.#keptOf(file);
    if (kept !== undefined) return { isCached: true, pieces: () => asynchronous(kept.pieces) };
    // Requests that come meanwhile share the result.
    const running = this.#collecting.get(file);
    if (running !== undefined) return running;
    const started = this.#inTurn(() => this.#collect(project, file))
      .catch((error: unknown) => {
        throw toldInside(project, error);
      })
      .finally(() => this.#collecting.delete(file));
    this.#collecting.set(file, started);
    return started;
  }

  async #keptOf(file: string): Promise<Kept | undefined> {
    const kept = this.#kept.get(file);
    if (kept === undefined) return undefined;
    const isCurrent = await kept.sources.isCurrent();
    if (this.#kept.get(file) === kept) {
      this.#drop(file, kept);
      if (isCurrent) this.#keep(file, kept);
    }
    return isCurrent ? kept : undefined;
  }

  async #collect(project: string, file: string): Promise<ClosureDocument> {
    const { sources, content } = await this.#steadyContentOf(project, file);
    const size = content.files.reduce((sum, { bytes, path }) => sum + (bytes.length * 4) / 3 + path.length + 200, 0);
    sources.forgetContents();
    if (size > KEPT_DOCUMENT_BYTES_MAX) return { isCached: false, pieces: () => asynchronous(jsonPieces(content)) };
    const pieces: Uint8Array[] = [];
    for (const piece of jsonPieces(content)) {
      pieces.push(piece);
      await setImmediate();
    }
    const before = this.#kept.get(file);
    if (before !== undefined) this.#drop(file, before);
    this.#keep(file, { sources, pieces, bytes: pieces.reduce((sum, { length }) => sum + length, 0) });
    return { isCached: false, pieces: () => asynchronous(pieces) };
  }

  /** Returns content of files none of which changed between the first read and the last. */
  async #steadyContentOf(
    project: string,
    file: string,
  ): Promise<{ readonly sources: ConfinedSources; readonly content: ClosureContent }> {
    for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
      const sources = new ConfinedSources(project);
      // An error in a file that is being written is meaningless, too.
      const found = await this.#contentOf(project, file, sources).catch((error: unknown) => ({ error }));
      if (!(await sources.isCurrent())) continue;
      if ('error' in found) throw found.error;
      return { sources, content: found };
    }
    const message = `sources of ${posix.relative(project, file)} change while they are read: try again when nobody writes to them`;
    throw new ServerError('unavailable', 'source-changing', message);
  }

  async #contentOf(project: string, file: string, sources: ConfinedSources): Promise<ClosureContent> {
    const shown = posix.relative(project, file);
    if ((await sources.read(file)) === undefined) {
      const message = `there is no file ${shown} in the project`;
      throw new ServerError('missing', 'no-such-source', message);
    }
    const { closure, library, unknownModules } = await this.#compiler.closureOf(file, sources, { ceiling: project });
    const nameOf = namesIn(closure, project);
    const files: ClosureFile[] = [];
    let hashed = 0;
    const add = async (path: string, name: string | null, bytes: Uint8Array): Promise<void> => {
      files.push({ path, package: name, sha256: createHash('sha256').update(bytes).digest('hex'), bytes });
      hashed += bytes.length;
      if (hashed < HASHED_BYTES_MAX) return;
      hashed = 0;
      await setImmediate();
    };
    for (const [name, place] of closure.places)
      await add(nameOf(name), place.package?.name ?? null, sources.contentOf(place.path));
    for (const [path, text] of library.files) await add(`core@${library.version}/${path}`, 'core', Buffer.from(text));
    const named = (imports: readonly NamedImport[]): NamedImport[] =>
      imports.map(({ url, from }) => ({ url, from: nameOf(from) }));
    return {
      entry: shown,
      files: files.toSorted((a, b) => (a.path < b.path ? -1 : 1)),
      missing: named([...closure.missing, ...unknownModules]),
      unusable: closure.unusable.map((found) => unusableIn(project, { ...found, from: nameOf(found.from) })),
      external: named(closure.external),
      warnings: closure.notes.map(({ file: noted, text }) => `${posix.relative(project, noted)}: ${text}`),
    };
  }

  #keep(file: string, kept: Kept): void {
    this.#kept.set(file, kept);
    this.#keptBytes += kept.bytes;
    for (const [oldest, each] of this.#kept) {
      if (this.#keptBytes <= KEPT_BYTES_MAX) return;
      this.#drop(oldest, each);
    }
  }

  #drop(file: string, kept: Kept): void {
    this.#kept.delete(file);
    this.#keptBytes -= kept.bytes;
  }

  async #inTurn<T>(work: () => Promise<T>): Promise<T> {
    if (this.#running < COLLECTING_MAX) this.#running++;
    else if (this.#waiting.length < WAITING_MAX) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    else {
      const message = `${WAITING_MAX} closures wait already: try again when they have been sent`;
      throw new ServerError('unavailable', 'closure-busy', message);
    }
    try {
      return await work();
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#running--;
      else next();
    }
  }
}

function unusableProject(kind: 'invalid' | 'missing', directory: string): ServerError {
  return new ServerError(kind, 'project-unusable', `--project ${directory}: there is no such directory`);
}

/** Returns the error with paths from the project: where it lies is nobody's business. */
function toldInside(project: string, error: unknown): unknown {
  if (error instanceof ServerError) error.message = error.message.replaceAll(`${project}/`, '');
  return error;
}

function badEntry(entry: string): ServerError {
  const message = `${JSON.stringify(entry.slice(0, 80))} is not the path of a Motoko file: it ends in .mo`;
  return new ServerError('invalid', 'bad-entry', message);
}

/**
 * Returns a function that names a file of the closure as the document does: `json@1.0.0/src/lib.mo`, or its path in the
 * project.
 */
function namesIn({ places, root }: SourceClosure, project: string): (name: string) => string {
  return (name) => {
    if (name.startsWith('mo:')) return name.slice('mo:'.length);
    // A manifest whose flags lead to files has no place among them.
    return posix.relative(project, places.get(name)?.path ?? posix.join(root, name));
  };
}

/** Names the file as the document names files, in the reason, too. */
function unusableIn(project: string, { url, from, place, reason }: UnusableImport): UnusableFile {
  const { path, package: owner } = place;
  const isFetched = owner !== undefined && !owner.isLocal;
  const shown = isFetched
    ? posix.join(posix.basename(owner.root), posix.relative(owner.root, path))
    : posix.relative(project, path);
  return { url, from, path: shown, reason: reason.replaceAll(path, shown) };
}

async function* asynchronous(pieces: Iterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  for (const piece of pieces) {
    yield piece;
    await setImmediate();
  }
}
