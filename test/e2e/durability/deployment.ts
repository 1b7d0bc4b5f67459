/**
 * A server over one state directory that is stopped, killed and started again, with the same manifest unless a test
 * changes it.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import type { Persistence } from '../../../subsystems/compiler/motoko-compiler.ts';
import { compileMotoko } from '../../support/motoko.ts';
import { startServer, type TestOwner } from '../../support/server.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';
import { type Actor, Host } from '../semantics/host.ts';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
/** Time limit of a start that must be refused. */
const REFUSAL_MS_MAX = 60_000;

/** Compiles `actors/<name>.mo`. */
export async function compileActor(name: string, persistence: Persistence = 'enhanced'): Promise<Uint8Array> {
  const source = await readFile(new URL(`./actors/${name}.mo`, import.meta.url), 'utf8');
  return (await compileMotoko(source, { persistence })).wasm;
}

export interface DeploymentOptions {
  /** Arguments of every start. */
  readonly args?: readonly string[];
  /** Arguments that name another storage, in place of `--state`. */
  readonly storage?: readonly string[];
  /** Modules that every server and its threads load before their own. */
  readonly preloads?: readonly URL[];
  /**
   * True if the server runs from its sources instead of a bundle, so that a preload's changes of a source file take
   * effect.
   */
  readonly isFromSources?: boolean;
  /** Modules by the names of their actors. */
  readonly modules?: Readonly<Record<string, Uint8Array>>;
}

export interface Refusal {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export class Deployment {
  readonly folder: string;
  readonly #owner: TestOwner;
  readonly #args: readonly string[];
  readonly #env: Readonly<Record<string, string>>;
  readonly #isFromSources: boolean;
  #host: Host | undefined;

  /** Creates a deployment without a running server. */
  static async create(
    owner: TestOwner,
    { args = [], storage, preloads = [], isFromSources = false, modules = {} }: DeploymentOptions = {},
  ): Promise<Deployment> {
    const folder = await temporaryDirectory();
    const kept = storage ?? ['--state', join(folder, 'state')];
    const deployment = new Deployment(owner, { args: [...kept, ...args], preloads, isFromSources }, folder);
    await deployment.writeManifest(modules);
    return deployment;
  }

  private constructor(
    owner: TestOwner,
    { args, preloads, isFromSources }: Required<Pick<DeploymentOptions, 'args' | 'preloads' | 'isFromSources'>>,
    folder: string,
  ) {
    this.#owner = owner;
    this.#args = args;
    this.#isFromSources = isFromSources;
    const options = [process.env['NODE_OPTIONS'] ?? '', ...preloads.map(({ href }) => `--import ${href}`)];
    this.#env = preloads.length === 0 ? {} : { NODE_OPTIONS: options.join(' ').trim() };
    this.folder = folder;
  }

  get state(): string {
    return join(this.folder, 'state');
  }

  get #manifest(): string {
    return join(this.folder, 'actors.json');
  }

  /** The running server. */
  get host(): Host {
    assert.ok(this.#host, 'no server runs');
    return this.#host;
  }

  /** Writes a manifest with exactly these actors, and their modules beside it. */
  async writeManifest(modules: Readonly<Record<string, Uint8Array>>): Promise<void> {
    const actors: Record<string, object> = {};
    for (const [name, module] of Object.entries(modules)) {
      await writeFile(join(this.folder, `${name}.wasm`), module);
      actors[name] = { wasm: `${name}.wasm` };
    }
    await writeFile(this.#manifest, JSON.stringify({ actors }));
  }

  /** `wrapper`: a command that runs the rest of its arguments in the same process. */
  async start(
    args: readonly string[] = [],
    until: 'listening' | 'ready' = 'ready',
    wrapper: readonly string[] = [],
  ): Promise<Host> {
    const server = await startServer(this.#owner, {
      manifestFile: this.#manifest,
      args: [...this.#args, ...args],
      env: this.#env,
      until,
      wrapper,
      ...(this.#isFromSources && { command: [process.execPath, join(ROOT, 'config/main.ts')] }),
    });
    return (this.#host = new Host(server));
  }

  /** Replaces the running server by one that was started before. */
  async goOnWith(host: Host): Promise<void> {
    await host.ready();
    this.#host = host;
  }

  /** Sends SIGTERM; expects the note about the checkpoint, and exit code 0. */
  async stop(): Promise<void> {
    const { server } = this.host;
    this.#host = undefined;
    assert.equal(await server.stop(), 0, server.output.stderr);
    assert.match(server.output.stdout, /^shutdown: \d+ actor\(s\) checkpointed$/m);
  }

  /** Sends SIGKILL. */
  async kill(): Promise<void> {
    const { server } = this.host;
    this.#host = undefined;
    await server.kill();
  }

  /** Starts a server that must refuse to start. */
  async refused(args: readonly string[] = [], { hasState = true } = {}): Promise<Refusal> {
    const command = ['config/svc.js', '--manifest', this.#manifest, '--listen', '127.0.0.1:0'];
    // The first two arguments name the state.
    const all = [...command, ...(hasState ? this.#args : this.#args.slice(2)), ...args];
    const child = spawn(process.execPath, all, {
      cwd: ROOT,
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: REFUSAL_MS_MAX,
    });
    const ended = once(child, 'exit') as Promise<[number | null]>;
    const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)]);
    const [code] = await ended;
    return { code, stdout, stderr };
  }

  /** Installs an actor at run time. */
  async install(name: string, module: Uint8Array): Promise<Actor> {
    const answer = await this.host.server.post(`/install/${name}`, module);
    assert.equal(answer.status, 200, answer.body);
    return this.host.find(name);
  }
}
