/** A real server with actors of the tests' own: Motoko from `actors/` in either persistence mode, or WebAssembly text. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import type { TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Persistence } from '../../../subsystems/compiler/motoko-compiler.ts';
import { compileMotoko } from '../../support/motoko.ts';
import { type RunningServer, startServer } from '../../support/server.ts';

export const PERSISTENCE: readonly Persistence[] = ['enhanced', 'classical'];
/** Nobody's principal in particular. */
export const STRANGER = 'w7x7r-cok77-xa';

const ACTORS = new URL('./actors/', import.meta.url);

/** `actors/<name>.mo`, with the files it imports from there. */
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

export interface CallOptions {
  readonly caller?: string;
  readonly isQuery?: boolean;
}

/** One running server. Answers of methods are unwrapped: one result is that value, several are an array. */
export class Host {
  readonly server: RunningServer;

  constructor(server: RunningServer) {
    this.server = server;
  }

  async install(name: string, module: Uint8Array, query = ''): Promise<Actor> {
    const answer = await this.server.post(`/install/${name}${query}`, module);
    assert.equal(answer.status, 200, answer.body);
    return this.find(name);
  }

  async find(name: string): Promise<Actor> {
    const all = await this.inspect();
    const found = all.find((actor) => actor.name === name);
    assert.ok(found, `${name} is not among ${all.map((actor) => actor.name).join(', ')}`);
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

  /** Raw Candid, or whatever the canister takes. */
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

  /** Resolves when `check` does not throw any more; the last failure otherwise. */
  async until(check: () => Promise<void>, deadlineMs = 10_000): Promise<void> {
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

  /** The longest of some answers of `/health` while `work` goes on, in ms. */
  async slowestHealthDuring(work: Promise<unknown>): Promise<number> {
    let isDone = false;
    void work.finally(() => (isDone = true)).catch(() => undefined);
    await this.server.get('/health');
    let slowest = 0;
    while (!isDone) {
      const before = performance.now();
      assert.equal((await this.server.get('/health')).body, 'ok');
      slowest = Math.max(slowest, performance.now() - before);
      await sleep(5);
    }
    return slowest;
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

export interface Inspected {
  readonly id: string;
  readonly principal: string;
  readonly name: string;
  readonly status: string;
  readonly cycles: string;
  readonly heapBytes: number;
}

export async function startSemanticsHost(
  t: TestContext,
  options: { readonly args?: readonly string[]; readonly manifest?: object } = {},
): Promise<Host> {
  const { args = [], manifest = { actors: {} } } = options;
  return new Host(await startServer(t, { args, manifest: JSON.stringify(manifest) }));
}
