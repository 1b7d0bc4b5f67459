/** Files of a closure, each read once, so many at a time, and bounded together. */
import { ServerError } from '../../kernel/index.ts';
import type { ImportReference } from './import-scanner.ts';
import type { ImportTarget } from './import-target.ts';
import { lockProblem } from './mops/mops-lock.ts';
import { lockedName, type Owner } from './mops/unhashed-files.ts';
import type { MopsPackage } from './mops/mops-packages.ts';
import type { FilePlace } from './closure.ts';
import { SOURCE_BYTES_MAX, type SourceReader } from './source-reader.ts';
import { TextLines } from './text-lines.ts';

/** Real projects have hundreds of files. Bounded so that a generated tree cannot hold the start for minutes. */
const FILES_MAX = 5000;
const CLOSURE_BYTES_MAX = 4 * SOURCE_BYTES_MAX;
/** Node has four threads for files; more reads than that only wait, each with an open file. */
const READS_MAX = 16;

/** A file that was read. */
export interface SourceNode {
  readonly path: string;
  readonly kind: FileKind;
  /** Empty for a blob. */
  readonly text: string;
  /** The bytes of a blob. */
  readonly bytes?: Uint8Array;
  readonly lines: TextLines;
  /** Package by which the file was read first; the walk says by which it is met first. */
  package: MopsPackage | undefined;
  imports: readonly ResolvedImport[];
}

type FileKind = 'source' | 'blob' | 'interface';

/** The outcome of an import, once the files that it may mean have been looked for. */
export type Resolution =
  | Exclude<ImportTarget, { readonly kind: 'relative' | 'package' | 'blob' | 'principal' | 'core' | 'actor' }>
  /** `through`: what the project calls the library. */
  | { readonly kind: 'core'; readonly module: string; readonly through: string }
  /** `alias`: what a flag says of the name, or why that says nothing. */
  | { readonly kind: 'actor'; readonly name: string; readonly alias: Principal | ShownMessage | undefined }
  | { readonly kind: 'principal'; readonly found: Principal }
  | { readonly kind: 'file'; readonly node: SourceNode; readonly through: MopsPackage | undefined }
  | { readonly kind: 'unusable'; readonly place: FilePlace; readonly reason: string }
  | { readonly kind: 'unresolved'; readonly message: ShownMessage };

/** A message with paths in it. */
type ShownMessage = (show: (path: string) => string) => string;

/** Somebody whose interface is known. */
export interface Principal {
  readonly principal: string;
  /** .did text. */
  readonly candid: string;
  /** Undefined if the interface is built in. */
  readonly file: SourceNode | undefined;
}

export interface ResolvedImport {
  readonly reference: ImportReference;
  readonly resolution: Resolution;
}

export class SourceFiles {
  readonly #main: string;
  readonly #reader: SourceReader;
  /** Files by kind and absolute path, also those that are being read; undefined: there is no such file. */
  readonly #reading = new Map<string, Promise<SourceNode | undefined | ServerError>>();
  readonly #slots = new Slots(READS_MAX);
  #fresh: SourceNode[] = [];
  #count = 0;
  #bytes = 0;

  constructor(main: string, reader: SourceReader) {
    this.#main = main;
    this.#reader = reader;
  }

  /**
   * Reads a file. Returns undefined if there is no such file, and an error if the file cannot be used. Rejects if the
   * error ends the whole closure. `fetched`: the package that mops has fetched with the file, if that is not `owner`.
   */
  read(
    path: string,
    owner: MopsPackage | undefined,
    kind: FileKind = 'source',
    fetched: Owner | undefined = owner,
  ): Promise<SourceNode | undefined | ServerError> {
    const key = `${kind} ${path}`;
    const known = this.#reading.get(key);
    if (known !== undefined) return known;
    const reading = this.#slots.run(() => this.#readNow(path, owner, kind, fetched));
    this.#reading.set(key, reading);
    return reading;
  }

  /** Adds a source that was not read here. */
  add(given: { readonly path: string; readonly text: string }): SourceNode {
    const node = this.#nodeOf(given.path, 'source', given.text, undefined);
    this.#reading.set(`source ${given.path}`, Promise.resolve(node));
    return node;
  }

  /** Sources that have come since the last time. */
  takeFresh(): readonly SourceNode[] {
    const fresh = this.#fresh;
    this.#fresh = [];
    return fresh;
  }

  async #readNow(
    path: string,
    owner: MopsPackage | undefined,
    kind: FileKind,
    fetched: Owner | undefined,
  ): Promise<SourceNode | undefined | ServerError> {
    try {
      const content = await (kind === 'blob' ? this.#reader.readBytes(path) : this.#reader.read(path));
      if (content === undefined) return undefined;
      const problem = fetched && lockProblem(content, fetched.hashes.get(lockedName(fetched, path)));
      if (problem !== undefined) return new ServerError('invalid', 'mops-invalid', `${path} ${problem}`);
      return this.#nodeOf(path, kind, content, owner);
    } catch (error) {
      // `source-unreadable` is a problem at the import; anything else ends the whole.
      if (error instanceof ServerError && error.code === 'source-unreadable') return error;
      throw error;
    }
  }

  #nodeOf(path: string, kind: FileKind, content: string | Uint8Array, owner: MopsPackage | undefined): SourceNode {
    this.#bytes += Buffer.byteLength(content);
    if (++this.#count > FILES_MAX || this.#bytes > CLOSURE_BYTES_MAX) {
      throw new ServerError(
        'invalid',
        'source-too-large',
        `${this.#main} imports more than ${FILES_MAX} files or ${CLOSURE_BYTES_MAX} bytes; ` +
          'compile it elsewhere and name the module with `wasm`',
      );
    }
    const text = typeof content === 'string' ? content : '';
    const bytes = typeof content === 'string' ? undefined : content;
    const node: SourceNode = {
      path,
      kind,
      text,
      ...(bytes && { bytes }),
      lines: new TextLines(text),
      package: owner,
      imports: [],
    };
    if (kind === 'source') this.#fresh.push(node);
    return node;
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

export function isInside(path: string, folder: string): boolean {
  return path === folder || path.startsWith(`${folder}/`);
}
