/**
 * A real server with actors of the tests' own: Motoko from `actors/` in either persistence mode, or WebAssembly text.
 */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { after } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Persistence } from '../../../subsystems/compiler/motoko-compiler.ts';
import { compileMotoko } from '../../support/motoko.ts';
import { type RunningServer, startServer } from '../../support/server.ts';

export const PERSISTENCE: readonly Persistence[] = ['enhanced', 'classical'];
/** A principal that belongs to nobody in particular. */
export const STRANGER = 'w7x7r-cok77-xa';

const ACTORS = new URL('./actors/', import.meta.url);

/** Compiles `actors/<name>.mo`, with the files that it imports from there. */
export async function compileActor(
  name: string,
  persistence: Persistence = 'enhanced',
  libraries: readonly string[] = [],
): Promise<Uint8Array> {
  const files: Record<string, string> = {};
  for (const file of [name, ...libraries]) {
    files[`${file}.mo`] = await readFile(new URL(`${file}.mo`, ACTORS), 'utf8');
  }
  return (await compileMotoko(files, { persistence })).wasm;
}

export interface Failure {
  readonly status: number;
  readonly code: number;
  readonly message: string;
}

export interface Actor {
  readonly name: string;
  readonly id: Uint8Array;
  readonly principal: string;
}

interface CallOptions {
  readonly caller?: string;
  readonly isQuery?: boolean;
}

/**
 * One running server. Answers of methods are unwrapped: a single result is that value, several results are an array.
 */
export class Host {
  readonly server: RunningServer;
  #installed = 0;

  constructor(server: RunningServer) {
    this.server = server;
  }

  /** Installs an actor under a unique name. */
  async install(hint: string, module: Uint8Array): Promise<Actor> {
    const name = `${hint}-${++this.#installed}`;
    const answer = await this.server.post(`/install/${name}`, module);
    assert.equal(answer.status, 200, answer.body);
    return this.find(name);
  }

  /** Sends `POST /stop`, `/start` or `/upgrade` of an actor, or `DELETE`. */
  async change(
    actor: Actor,
    what: 'stop' | 'start' | 'upgrade' | 'delete',
    body: Uint8Array | '' = '',
  ): Promise<{ status: number; body: string }> {
    if (what !== 'delete') return this.server.post(`/${what}/${actor.name}`, body);
    const response = await this.server.fetch(`/actors/${actor.name}`, { method: 'DELETE' });
    return { status: response.status, body: await response.text() };
  }

  async find(name: string): Promise<Actor> {
    const all = await this.inspect();
    const found = all.find((actor) => actor.name === name);
    // An actor of the manifest that could not be installed is missing, and the log has the reason.
    const said = this.server.output.stderr;
    assert.ok(found, `${name} is not among ${all.map((actor) => actor.name).join(', ')}:\n${said}`);
    return { name, id: Buffer.from(found.id, 'hex'), principal: found.principal };
  }

  async inspect(): Promise<readonly Inspected[]> {
    return JSON.parse((await this.server.get('/inspect')).body) as Inspected[];
  }

  async call(actor: Actor, method: string, args: readonly unknown[] = [], options: CallOptions = {}): Promise<unknown> {
    const { status, body } = await this.#send(actor, method, args, options);
    assert.equal(status, 200, `${actor.name}.${method}: ${body}`);
    const values = JSON.parse(body) as unknown[];
    return values.length === 1 ? values[0] : values;
  }

  query(actor: Actor, method: string, args: readonly unknown[] = []): Promise<unknown> {
    return this.call(actor, method, args, { isQuery: true });
  }

  /** Calls a method that must fail. */
  async failure(
    actor: Actor,
    method: string,
    args: readonly unknown[] = [],
    options: CallOptions = {},
  ): Promise<Failure> {
    const { status, body } = await this.#send(actor, method, args, options);
    assert.notEqual(status, 200, `${actor.name}.${method} answered ${body}`);
    const { code, message } = JSON.parse(body) as { code: number; message: string };
    return { status, code, message };
  }

  /** Sends raw bytes: Candid, or whatever the canister takes. */
  raw(
    actor: Actor,
    method: string,
    argument: Uint8Array = new Uint8Array(0),
  ): Promise<{ status: number; body: string }> {
    return this.server.post(`/call/${actor.name}/${method}`, argument);
  }

  async balance(actor: Actor): Promise<bigint> {
    return BigInt((await this.server.get(`/cycles/${actor.name}`)).body);
  }

  async status(actor: Actor): Promise<string> {
    return (await this.inspect()).find(({ name }) => name === actor.name)?.status ?? 'deleted';
  }

  /** Resolves when the server takes work, as a standby does after it has taken over. */
  async ready(deadlineMs = 120_000): Promise<void> {
    await this.until(async () => {
      const { status, body } = await this.server.get('/health/ready');
      assert.equal(status, 200, `${body}\n${this.server.output.stderr}`);
    }, deadlineMs);
  }

  /** Resolves when `check` no longer throws; at the deadline, rejects with its last failure. */
  async until(check: () => Promise<void>, deadlineMs = 120_000): Promise<void> {
    const deadline = Date.now() + deadlineMs;
    for (;;) {
      try {
        await check();
        return;
      } catch (error) {
        if (Date.now() > deadline) throw error;
      }
      await sleep(20);
    }
  }

  /** Returns the milliseconds that some answers of `/health` take while `work` goes on. */
  async healthDuring(work: Promise<unknown>): Promise<readonly number[]> {
    let isDone = false;
    void work.finally(() => (isDone = true)).catch(() => undefined);
    await this.server.get('/health');
    const tookMs: number[] = [];
    while (!isDone) {
      const before = performance.now();
      assert.equal((await this.server.get('/health')).body, 'ok');
      tookMs.push(performance.now() - before);
      await sleep(5);
    }
    return tookMs;
  }

  /** Resolves when an executor has a task that has not ended, or when `work` has ended already. */
  async given(work: Promise<unknown>): Promise<void> {
    let isDone = false;
    void work.finally(() => (isDone = true)).catch(() => undefined);
    while (!isDone) {
      const { body } = await this.server.get('/metrics');
      if (/^svc_executor_tasks\{[^}]*\} [1-9]/m.test(body)) return;
      await sleep(5);
    }
  }

  #send(
    actor: Actor,
    method: string,
    args: readonly unknown[],
    { caller, isQuery = false }: CallOptions,
  ): Promise<{ status: number; body: string }> {
    const path = `/${isQuery ? 'query' : 'call'}-json/${actor.name}/${method}`;
    return this.server.post(path, JSON.stringify(args), caller === undefined ? {} : { 'x-caller': caller });
  }
}

/**
 * Asserts that answers were quick. A busy host delays all answers, a machine that is busy elsewhere only some: so three
 * of four have to be quick, and none may wait for endless work.
 */
export function assertQuick(tookMs: readonly number[]): void {
  const sorted = tookMs.toSorted((one, two) => one - two);
  const [most, longest] = [sorted[Math.floor(sorted.length * 0.75)] ?? 0, sorted.at(-1) ?? 0];
  assert.ok(most < 250 && longest < 10_000, `/health took ${most.toFixed(0)} ms, once ${longest.toFixed(0)} ms`);
}

interface Inspected {
  readonly id: string;
  readonly principal: string;
  readonly name: string;
  readonly status: string;
  readonly cycles: string;
  readonly heapBytes: number;
  readonly messages: number;
  readonly traps: number;
}

interface HostOptions {
  readonly args?: readonly string[];
  readonly manifest?: object;
}

const hosts = new Map<string, Promise<Host>>();
const endings: (() => Promise<void>)[] = [];
after(async () => {
  for (const end of endings.toReversed()) await end();
});

/**
 * Returns the running server with these options, which the tests of one file share, since most of a test's time would
 * be the server's start. The server is stopped when all tests of the file have ended.
 */
export function sharedHost(options: HostOptions = {}): Promise<Host> {
  const key = JSON.stringify(options);
  const known = hosts.get(key) ?? startHost(options);
  hosts.set(key, known);
  return known;
}

/** Starts a separate server, for a test that stops it. */
export async function startHost({ args = [], manifest = { actors: {} } }: HostOptions = {}): Promise<Host> {
  const server = await startServer({ after: (end) => endings.push(end) }, { args, manifest: JSON.stringify(manifest) });
  return new Host(server);
}
