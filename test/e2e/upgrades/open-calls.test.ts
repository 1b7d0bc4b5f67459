/** Upgrades of actors whose calls are open: they wait for the calls' end, and no caller waits in vain. */
import assert from 'node:assert/strict';
import { suite, test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Answer, startInProcess } from '../../support/in-process-server.ts';
import { compileMotoko } from '../../support/motoko.ts';
import { startServer } from '../../support/server.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';

/** Creates the other actor, as its controller, and holds up its calls until told to release them. */
const MANAGER = `
persistent actor {
  type Settings = { controllers : ?[Principal]; compute_allocation : ?Nat; memory_allocation : ?Nat; freezing_threshold : ?Nat };
  transient let management = actor "aaaaa-aa" : actor {
    create_canister : { settings : ?Settings } -> async { canister_id : Principal };
    install_code : { mode : { #install }; canister_id : Principal; wasm_module : Blob; arg : Blob } -> async ();
    update_settings : { canister_id : Principal; settings : Settings } -> async ();
    stop_canister : { canister_id : Principal } -> async ();
  };
  var isHolding = true;
  var ticks = 0;
  func nothing() : async () {};
  public func make(wasm_module : Blob) : async Principal {
    let { canister_id } = await (with cycles = 3_000_000_000_000) management.create_canister({ settings = null });
    await management.install_code({ mode = #install; canister_id; wasm_module; arg = to_candid () });
    canister_id;
  };
  public func wait() : async () { while (isHolding) await nothing() };
  public func change(canister_id : Principal) : async () {
    await wait();
    let settings = { controllers = null; compute_allocation = null; memory_allocation = null; freezing_threshold = ?(1) };
    await management.update_settings({ canister_id; settings });
  };
  public func stop(canister_id : Principal) : async () { await management.stop_canister({ canister_id }) };
  public func tick() : async () { ticks += 1 };
  public func letGo() : async () { isHolding := false };
};`;

const work = (version: number): string => `
import Principal "mo:core/Principal";
persistent actor Self {
  var done = 0;
  type Manager = actor { wait : () -> async (); change : Principal -> async () };
  public func waits(manager : Principal) : async () { await (actor (Principal.toText(manager)) : Manager).wait(); done += 1 };
  public func isChanged(manager : Principal) : async () {
    await (actor (Principal.toText(manager)) : Manager).change(Principal.fromActor(Self));
    done += 1;
  };
  public query func seen() : async Text { debug_show (done, ${version}) };
};`;

interface Served {
  post(path: string, body?: string | Uint8Array): Promise<Answer>;
  get(path: string): Promise<Answer>;
  fetch(path: string, init: RequestInit): Promise<Response>;
}

interface Worker {
  readonly id: string;
  readonly next: Uint8Array;
  /** Leaves a call open; resolves with its answer. */
  begin(method: 'waits' | 'isChanged'): Promise<Answer>;
  status(): Promise<string>;
  /** Returns the actor's notes: its events, with the version in which each happened. */
  seen(): Promise<string>;
}

const base64 = (bytes: Uint8Array): string => Buffer.from(bytes).toString('base64');
const ok = ({ status, body }: Answer): string => {
  assert.equal(status, 200, body);
  return body;
};

async function prepare(server: Served): Promise<Worker> {
  const [manager, first, second] = await Promise.all(
    [MANAGER, work(1), work(2)].map((source) => compileMotoko(source)),
  );
  assert.ok(manager !== undefined && first !== undefined && second !== undefined);
  ok(await server.post('/install/manager', manager.wasm));
  const made = ok(await server.post('/call-json/manager/make', JSON.stringify([base64(first.wasm)])));
  const [id] = JSON.parse(made) as [string];
  const listed = async (): Promise<readonly Readonly<Record<string, string>>[]> =>
    JSON.parse(ok(await server.get('/inspect'))) as Record<string, string>[];
  const manages = (await listed()).find(({ name }) => name === 'manager')?.['principal'] ?? '';
  return {
    id,
    next: second.wasm,
    begin: (method) => server.post(`/call-json/${id}/${method}`, JSON.stringify([manages])),
    status: async () => (await listed()).find(({ principal }) => principal === id)?.['status'] ?? '',
    seen: async () => (JSON.parse(ok(await server.post(`/query-json/${id}/seen`))) as [string])[0],
  };
}

async function until(is: () => Promise<boolean>): Promise<void> {
  const endMs = performance.now() + 20_000;
  while (!(await is())) {
    assert.ok(performance.now() < endMs, 'it takes too long');
    await sleep(10);
  }
}

async function start(t: TestContext): Promise<Served & Worker> {
  const server = await startInProcess(t);
  return { ...server, ...(await prepare(server)) };
}

suite('an actor whose calls are open', () => {
  test('is upgraded though one of its calls changes its settings', { timeout: 60_000 }, async (t) => {
    const server = await start(t);
    const call = server.begin('isChanged');
    await sleep(50);
    const upgrading = server.post(`/upgrade/${server.id}`, server.next);
    await until(async () => (await server.status()) === 'stopping');
    ok(await server.post('/call-json/manager/letGo'));
    assert.deepEqual((await Promise.all([call, upgrading])).map(ok), ['[]', 'upgraded']);
    assert.deepEqual([await server.status(), await server.seen()], ['running', '(1, 2)']);
  });

  test('that is stopping is not upgraded before it has stopped, and stays stopped', { timeout: 60_000 }, async (t) => {
    const server = await start(t);
    const call = server.begin('waits');
    await sleep(50);
    const stopping = server.post(`/stop/${server.id}`);
    await until(async () => (await server.status()) === 'stopping');
    const upgrading = server.post(`/upgrade/${server.id}`, server.next);
    assert.equal(await Promise.race([upgrading, sleep(500, 'waits')]), 'waits');
    ok(await server.post('/call-json/manager/letGo'));
    assert.deepEqual((await Promise.all([call, stopping, upgrading])).map(ok), ['[]', 'stopped', 'upgraded']);
    assert.equal(await server.status(), 'stopped');
    ok(await server.post(`/start/${server.id}`));
    assert.equal(await server.seen(), '(1, 2)', 'the callback ran in the code that had made the call');
  });

  for (const who of ['a client', 'its manager']) {
    test(`that ${who} stops while an upgrade waits stays stopped`, { timeout: 60_000 }, async (t) => {
      const server = await start(t);
      const call = server.begin('waits');
      await sleep(50);
      const upgrading = server.post(`/upgrade/${server.id}`, server.next);
      await until(async () => (await server.status()) === 'stopping');
      const stopping =
        who === 'a client'
          ? server.post(`/stop/${server.id}`)
          : server.post('/call-json/manager/stop', JSON.stringify([server.id]));
      await sleep(100);
      ok(await server.post('/call-json/manager/letGo'));
      assert.deepEqual((await Promise.all([call, stopping, upgrading])).map(ok), [
        '[]',
        who === 'a client' ? 'stopped' : '[]',
        'upgraded',
      ]);
      assert.equal(await server.status(), 'stopped');
    });
  }

  test('waits for two upgrades at once, and runs behind both', { timeout: 60_000 }, async (t) => {
    const server = await start(t);
    const call = server.begin('waits');
    await sleep(50);
    const upgrading = [1, 2].map(() => server.post(`/upgrade/${server.id}`, server.next));
    await until(async () => (await server.status()) === 'stopping');
    const refused = await server.post(`/upgrade/${server.id}`, server.next.subarray(0, 100));
    assert.equal(refused.status, 400, 'and one that fails ends nothing of the others');
    assert.equal(await server.status(), 'stopping');
    const deleted = await server.fetch(`/actors/${server.id}`, { method: 'DELETE' });
    assert.match(await deleted.text(), /is running: POST \/stop/);
    ok(await server.post('/call-json/manager/letGo'));
    assert.deepEqual((await Promise.all([call, ...upgrading])).map(ok), ['[]', 'upgraded', 'upgraded']);
    assert.deepEqual([await server.status(), await server.seen()], ['running', '(1, 2)']);
  });
});

suite('after a kill', () => {
  for (const isStopped of [false, true]) {
    const what = isStopped ? 'somebody had stopped meanwhile goes on stopping' : 'was stopped for an upgrade only runs';
    test(`an actor that ${what}`, { timeout: 60_000 }, async (t) => {
      const args = ['--state', await temporaryDirectory(), '--executors', '1'];
      const before = await startServer(t, { manifest: '{ "actors": {} }', args });
      const worker = await prepare(before);
      void worker.begin('waits').catch(() => undefined);
      await sleep(50);
      void before.post(`/upgrade/${worker.id}`, worker.next).catch(() => undefined);
      await until(async () => (await worker.status()) === 'stopping');
      if (isStopped) void before.post(`/stop/${worker.id}`).catch(() => undefined);
      // Later effects are durable only after earlier ones.
      await sleep(50);
      ok(await before.post('/call-json/manager/tick'));
      await before.kill();
      const after = await startServer(t, { manifest: '{ "actors": {} }', args });
      const actors = JSON.parse(ok(await after.get('/inspect'))) as Record<string, string>[];
      const status = actors.find(({ principal }) => principal === worker.id)?.['status'];
      assert.equal(status, isStopped ? 'stopping' : 'running');
    });
  }
});
