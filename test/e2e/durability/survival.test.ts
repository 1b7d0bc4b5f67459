/** All state of an actor, and all that the host knows of it, is there again after a graceful stop and after SIGKILL. */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { IDL } from '@dfinity/candid';
import { Principal } from '@dfinity/principal';
import { compileActor as compileShared, STRANGER, type Actor } from '../semantics/host.ts';
import { Laboratory } from '../semantics/laboratory.ts';
import { compileActor, Deployment } from './deployment.ts';
import { dump, WITNESS } from './witness.ts';

const METADATA = IDL.Record({
  certified_data: IDL.Vec(IDL.Nat8),
  globals: IDL.Vec(IDL.Variant({ i32: IDL.Int32, i64: IDL.Int64, f32: IDL.Float32, f64: IDL.Float64 })),
  wasm_memory_size: IDL.Nat64,
  stable_memory_size: IDL.Nat64,
});
const STATUS = IDL.Record({
  status: IDL.Variant({ running: IDL.Null, stopping: IDL.Null, stopped: IDL.Null }),
  settings: IDL.Record({
    controllers: IDL.Vec(IDL.Principal),
    wasm_memory_limit: IDL.Nat,
    wasm_memory_threshold: IDL.Nat,
    freezing_threshold: IDL.Nat,
  }),
  version: IDL.Nat64,
});

/** Actors with every kind of state, and ways to read it. */
class Town {
  readonly deployment: Deployment;
  readonly keeper: Actor;
  readonly other: Actor;
  readonly witness: Actor;
  readonly maker: Actor;
  readonly stopped: Actor;
  /** Number of rounds of changes. */
  rounds = 0;
  #laboratory: Laboratory;
  #snapshot: Uint8Array = new Uint8Array(0);

  static async found(deployment: Deployment): Promise<Town> {
    const laboratory = await Laboratory.open(deployment.host);
    const install = async (name: string, module: Uint8Array): Promise<Actor> => {
      const headers = { 'x-caller': laboratory.proxy.principal };
      const answer = await deployment.host.server.post(`/install/${name}`, module, headers);
      assert.equal(answer.status, 200, answer.body);
      return deployment.host.find(name);
    };
    const keeper = await deployment.host.find('keeper');
    const other = await install('other', await compileActor('Keeper'));
    const witness = await install('witness', WITNESS);
    const maker = await install('maker', await compileShared('Maker', 'enhanced', ['Item']));
    const stopped = await install('stopped', WITNESS);
    return new Town(deployment, laboratory, { keeper, other, witness, maker, stopped });
  }

  private constructor(
    deployment: Deployment,
    laboratory: Laboratory,
    actors: Record<'keeper' | 'other' | 'witness' | 'maker' | 'stopped', Actor>,
  ) {
    this.deployment = deployment;
    this.#laboratory = laboratory;
    this.keeper = actors.keeper;
    this.other = actors.other;
    this.witness = actors.witness;
    this.maker = actors.maker;
    this.stopped = actors.stopped;
  }

  async fill(): Promise<void> {
    const { host } = this.deployment;
    const { keeper, other, witness, maker, stopped } = this;
    this.#laboratory = this.#laboratory.in(host);
    const n = ++this.rounds;
    assert.equal(await host.call(keeper, 'append', [n]), n);
    await host.call(keeper, 'store', [8 * n, 1000 + n]);
    assert.equal(await host.call(keeper, 'chain', [other.principal, 3]), n);
    await host.call(keeper, 'transfer', [other.principal, n]);
    for (const caller of [STRANGER, keeper.principal, 'aaaaa-aa'])
      await host.server.post('/call/witness/write', `round ${n}`, { 'x-caller': caller });
    assert.equal((await host.raw(witness, 'fall')).status, 400);
    if (n === 1) await host.call(maker, 'make', [7, 5_000_000_000_000]);
    await host.call(maker, 'add', [n]);
    const canister_id = Principal.fromText(witness.principal);
    const hundredMiB = 100 * 2 ** 20;
    const limit = [BigInt(hundredMiB + n)];
    const settings = {
      wasm_memory_limit: limit,
      wasm_memory_threshold: [BigInt(n)],
      minimum_incoming_canister_call_cycles: [],
    };
    await this.#laboratory.manage('update_settings', { canister_id, settings });
    await this.#laboratory.manage('upload_chunk', { canister_id, chunk: Uint8Array.of(1, 2, n) });
    const { id } = (await this.#laboratory.manage('take_canister_snapshot', { canister_id })) as { id: Uint8Array };
    this.#snapshot = id;
    if (n === 1) assert.equal((await host.server.post('/stop/stopped')).status, 200);
    assert.equal((await host.failure(stopped, 'write')).status, 400);
    assert.equal((await host.server.post('/cycles/other', '12345')).status, 200);
  }

  /** Numbers of messages are stored with the unit of the step that answers: SIGKILL loses the last queries' numbers. */
  async inspect(end: 'stop' | 'kill'): Promise<readonly object[]> {
    return (await this.deployment.host.inspect()).map((actor) => ({
      ...actor,
      live: undefined,
      idleMs: undefined,
      ...(end === 'kill' && { messages: undefined, traps: undefined }),
    }));
  }

  /** Returns the state that can be read without a cost of cycles. */
  async look(): Promise<object> {
    const { host } = this.deployment;
    const { keeper, other, witness } = this;
    const offsets = Array.from({ length: this.rounds + 1 }, (_, index) => 8 * index);
    return {
      actors: (await host.server.get('/actors')).body,
      numbers: await host.query(keeper, 'all'),
      region: await Promise.all(offsets.map((offset) => host.query(keeper, 'load', [offset]))),
      chained: await host.query(keeper, 'chained'),
      added: await host.query(other, 'get'),
      pools: [await host.query(keeper, 'inPool'), await host.query(other, 'inPool')],
      dump: await dump(host, witness.name),
    };
  }

  /** Returns the management canister's answers, which cost the caller cycles. */
  async lookClosely(): Promise<object> {
    this.#laboratory = this.#laboratory.in(this.deployment.host);
    const laboratory = this.#laboratory;
    const canister_id = Principal.fromText(this.witness.principal);
    const snapshot = { canister_id, snapshot_id: this.#snapshot };
    const ask = async (method: string, argument: IDL.Type, value: object, result: IDL.Type): Promise<unknown> => {
      const payload = Uint8Array.from(new Uint8Array(IDL.encode([argument], [value])));
      const answer = await laboratory.forward(new Uint8Array(0), method, payload);
      assert.equal(answer.code, 0, `${method}: ${answer.data.toString()}`);
      return plainly(IDL.decode([result], Uint8Array.from(answer.data))[0]);
    };
    const one = IDL.Record({ canister_id: IDL.Principal });
    const both = IDL.Record({ canister_id: IDL.Principal, snapshot_id: IDL.Vec(IDL.Nat8) });
    const hashes = (await laboratory.manage('stored_chunks', { canister_id })) as { hash: Uint8Array }[];
    const made = await this.deployment.host.call(this.maker, 'read');
    return {
      made,
      status: await ask('canister_status', one, { canister_id }, STATUS),
      chunks: hashes.map(({ hash }) => Buffer.from(hash).toString('hex')).toSorted(),
      metadata: await ask('read_canister_snapshot_metadata', both, snapshot, METADATA),
      stopped: await ask('canister_status', one, { canister_id: Principal.fromText(this.stopped.principal) }, STATUS),
    };
  }
}

function plainly(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value, (_, part: unknown) => (typeof part === 'bigint' ? `${part}` : part)));
}

test('everything is there again after a stop and after SIGKILL, whichever way it is kept', async (t: TestContext) => {
  const modules = { keeper: await compileActor('Keeper') };
  const deployment = await Deployment.create(t, { args: ['--heartbeat-ms', '0'], modules });
  const log = ['--snapshot-below', '0'];
  await deployment.start();
  const town = await Town.found(deployment);
  // Ends of a server, with the flags of the next one.
  const ends = [
    ['kill', []],
    ['stop', log],
    ['kill', log],
    ['kill', []],
  ] as const;
  for (const [end, flags] of ends) {
    await town.fill();
    const closely = await town.lookClosely();
    const before = await town.look();
    const inspected = await town.inspect(end);
    await deployment[end]();
    await deployment.start(flags);
    assert.deepEqual(await town.inspect(end), inspected, `after ${end}`);
    assert.deepEqual(await town.look(), before, `after ${end}`);
    assert.deepEqual(await town.lookClosely(), closely, `after ${end}`);
  }
});

test('a client’s update is counted with the answer that it had, also by a server that is killed then', async (t: TestContext) => {
  const deployment = await Deployment.create(t, { args: ['--heartbeat-ms', '0'] });
  let host = await deployment.start();
  const installed = await host.server.post('/install/witness', WITNESS);
  assert.equal(installed.status, 200, installed.body);
  const counts = async (): Promise<readonly unknown[]> =>
    (await host.inspect()).filter(({ name }) => name === 'witness').map(({ messages, traps }) => [messages, traps]);
  let answered = 0;
  for (const more of [1, 1, 2]) {
    for (let k = 0; k < more; k++) {
      assert.equal((await host.server.post('/call/witness/write', `${k}`)).status, 200);
      assert.equal((await host.server.post('/call/witness/fall')).status, 400);
      answered++;
    }
    await deployment.kill();
    host = await deployment.start();
    assert.deepEqual(await counts(), [[2 * answered, answered]]);
  }
});
