import { assert, type Logger, messageOf, readRegularFile, ServerError } from '../../kernel/index.ts';
import type { ActorReference, CompiledActor, Compiler } from '../compiler/index.ts';
import type { ModuleStore } from '../execution/index.ts';
import type { ManifestActor } from '../manifest/index.ts';
import type { ActorFiles } from './index.ts';

/** Bytes of a module in a file; as many may be sent. */
const MODULE_BYTES_MAX = 192 * 1024 * 1024;
/** Bytes of an interface in a file; generated ones have some 100 KB. */
const CANDID_BYTES_MAX = 8 * 1024 * 1024;

/** The part of a manifest's actor that is needed for as long as the host serves. */
export type ManifestSource = Pick<ManifestActor, 'name' | 'source' | 'candidFile' | 'assets'>;

interface ManifestModulesDependencies {
  readonly compiler: Pick<Compiler, 'compile' | 'sourcesOf'>;
  /** Tells which interface a module carries. */
  readonly execution: Pick<ModuleStore, 'prepare' | 'expect'>;
  readonly log: Logger;
  /** All actors of the manifest. */
  readonly actors: readonly ManifestSource[];
  /** The principal of each. */
  readonly principalOf: (name: string) => string | undefined;
}

/**
 * The modules of the manifest's actors as their files are now. A source that imports another actor needs its interface,
 * so that one is compiled first; each source is compiled once, several at a time. To read files again, make a new one
 * of these.
 */
export class ManifestModules {
  readonly #needs: ManifestModulesDependencies;
  readonly #compiled = new Map<string, Promise<CompiledActor>>();
  /** Actors whose interfaces a compiled actor has asked for, by the compiled one. */
  readonly #imports = new Map<string, Set<string>>();

  constructor(dependencies: ManifestModulesDependencies) {
    this.#needs = dependencies;
  }

  async moduleOf({ name, source }: ManifestSource): Promise<Uint8Array> {
    return source.kind === 'wasm' ? await readNamed(source.file) : (await this.#compile(name, source.file)).wasm;
  }

  /**
   * Begins to compile an actor that `moduleOf` will be asked for, and prepares its module, unless the signal is aborted
   * by then; tells nobody how that ends.
   */
  expect({ name, source }: ManifestSource, signal: AbortSignal): void {
    if (source.kind !== 'main' || this.#compiled.has(name)) return;
    const prepare = async ({ wasm }: CompiledActor): Promise<void> => {
      if (!signal.aborted) await this.#needs.execution.prepare(wasm);
    };
    this.#compile(name, source.file)
      .then(prepare)
      .catch(() => undefined);
  }

  /** Reads the files with which an actor is installed or upgraded. */
  async readNamed(name: string): Promise<ActorFiles> {
    const actor = this.sourceNamed(name);
    return { module: await this.moduleOf(actor), candidText: await candidTextOf(actor) };
  }

  sourceNamed(name: string): ManifestSource {
    const actor = this.#needs.actors.find((known) => known.name === name);
    assert(actor !== undefined, `the manifest has no actor ${name}`);
    return actor;
  }

  /** Files whose change may change the module or the interface of an actor, missing ones too: absolute paths. */
  async filesNamed(name: string): Promise<readonly string[]> {
    const { actors, compiler } = this.#needs;
    const files = new Set<string>();
    const wanted = new Set([name]);
    // Also those whose interfaces it imports; the set grows meanwhile.
    for (const next of wanted) {
      const actor = actors.find((known) => known.name === next);
      if (actor === undefined) continue;
      if (actor.candidFile !== undefined) files.add(actor.candidFile);
      files.add(actor.source.file);
      if (actor.source.kind === 'wasm') continue;
      const sources = await compiler.sourcesOf(actor.source.file);
      for (const file of sources.files) files.add(file);
      for (const imported of sources.actors) wanted.add(imported);
    }
    return [...files];
  }

  #compile(name: string, file: string): Promise<CompiledActor> {
    const known = this.#compiled.get(name);
    if (known !== undefined) return known;
    this.#needs.execution.expect();
    const importActor = (imported: string): Promise<ActorReference> => this.#reference(imported, name);
    const compiling = this.#needs.compiler.compile(file, { name, importActor }).then((compiled) => {
      for (const warning of compiled.warnings) this.#needs.log.warn(warning);
      return compiled;
    });
    this.#compiled.set(name, compiling);
    return compiling;
  }

  async #reference(name: string, importer: string): Promise<ActorReference> {
    const { actors, principalOf } = this.#needs;
    const actor = actors.find((known) => known.name === name);
    const principal = principalOf(name);
    if (actor === undefined || principal === undefined) {
      const known = actors.map((other) => other.name).join(', ');
      throw new ServerError('invalid', 'import-unknown', `the manifest has no actor ${quoted(name)}; it has ${known}`);
    }
    // Both may be on their way already: each would wait for the other.
    const way = this.#wayBetween(name, importer);
    if (way !== undefined) {
      const cycle = [...way, name].join(' → ');
      throw new ServerError(
        'invalid',
        'import-cycle',
        `actors import each other: ${cycle}; give one of them the other's principal at run time ` +
          `(environment variable PUBLIC_CANISTER_ID:${name})`,
      );
    }
    this.#imports.set(importer, (this.#imports.get(importer) ?? new Set()).add(name));
    return { principal, candid: await this.#interfaceOf(actor) };
  }

  /**
   * From an actor to one that it imports, or that one of its imports does and so on, as far as is known; both included.
   */
  #wayBetween(from: string, to: string): readonly string[] | undefined {
    const cameFrom = new Map<string, string | undefined>([[from, undefined]]);
    // The map grows meanwhile.
    for (const next of cameFrom.keys()) {
      if (next === to) {
        const way: string[] = [];
        for (let step: string | undefined = to; step !== undefined; step = cameFrom.get(step)) way.unshift(step);
        return way;
      }
      for (const imported of this.#imports.get(next) ?? []) if (!cameFrom.has(imported)) cameFrom.set(imported, next);
    }
    return undefined;
  }

  async #interfaceOf({ name, source, candidFile }: ManifestSource): Promise<string> {
    try {
      if (source.kind === 'main') return (await this.#compile(name, source.file)).candid;
      const { candid } = await this.#needs.execution.prepare(await readNamed(source.file));
      if (candid !== undefined) return candid;
      const given = await candidTextOf({ candidFile });
      if (given !== undefined) return given;
    } catch (error) {
      if (!(error instanceof ServerError)) throw error;
      // The first error, with its place; all of them are shown where that actor is installed itself.
      const [headline = '', first = headline] = error.message.split('\n', 2);
      throw new ServerError('invalid', 'import-broken', `actor ${name} cannot be imported: ${first}`, { cause: error });
    }
    throw new ServerError(
      'invalid',
      'import-untyped',
      `actor ${name} cannot be imported: its module carries no Candid interface; name a .did file under "candid" in the manifest`,
    );
  }
}

/** Reads the text of the actor's `.did` file; undefined: the manifest names none. */
export async function candidTextOf({ candidFile }: Pick<ManifestSource, 'candidFile'>): Promise<string | undefined> {
  if (candidFile === undefined) return undefined;
  const bytes = await readNamed(candidFile, CANDID_BYTES_MAX);
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch (error) {
    throw unreadable(candidFile, 'it is not UTF-8 text; save it as UTF-8', error);
  }
}

async function readNamed(file: string, bytesMax = MODULE_BYTES_MAX): Promise<Buffer> {
  try {
    return await readRegularFile(file, bytesMax);
  } catch (error) {
    throw unreadable(file, messageOf(error), error);
  }
}

function unreadable(file: string, reason: string, cause: unknown): ServerError {
  return new ServerError('invalid', 'manifest-file-unreadable', `cannot read ${file}: ${reason}`, { cause });
}

function quoted(text: string): string {
  return JSON.stringify(text.length > 80 ? `${text.slice(0, 80)}…` : text);
}
