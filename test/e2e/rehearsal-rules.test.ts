/** Real servers: rehearsed code that is unchanged shows no difference; an upgrade goes on where none can be made. */
import assert from 'node:assert/strict';
import { before, test, type TestContext } from 'node:test';
import { compileMotoko } from '../support/motoko.ts';
import { Deployment } from './durability/deployment.ts';
import type { Host } from './semantics/host.ts';

const SOURCE = `
  import Prim "mo:⛔";
  persistent actor Self {
    type Own = actor {
      who : Nat -> async Text; until : () -> async Nat64; nobody : () -> async (); twice : Nat -> async Nat;
      echo : Blob -> async Blob;
    };
    var calls = 0;
    func own() : Own { actor (debug_show (Prim.principalOfActor Self)) };
    public shared ({ caller }) func who(n : Nat) : async Text { calls += n; debug_show (caller) };
    public func busy(rounds : Nat) : async Text {
      var k = 0;
      while (k < rounds) { k += 1 };
      await own().who(1);
    };
    public func until() : async Nat64 { Prim.replyDeadline() };
    public func bounded() : async Nat64 { await (with timeout = 30) own().until() };
    public func lost() : async Text { try { await own().nobody(); "" } catch e { Prim.errorMessage e } };
    public func twice(n : Nat) : async Nat {
      let (one, two) = (own().who(n), own().who(n + 1));
      ignore await one;
      assert n != 13;
      calls += (await two).size();
      calls;
    };
    public func failing() : async Text { try { debug_show (await own().twice(13)) } catch e { Prim.errorMessage e } };
    public func weigh(b : Blob) : async Nat { calls += b.size(); (await own().echo(b)).size() };
    public func echo(b : Blob) : async Blob { calls += b.size(); b };
    public query func sum() : async Nat { calls };
  };`;
const FAILING = SOURCE.replace('var calls = 0;', 'var calls = 0; Prim.trap "no start";');
const ENDLESS = SOURCE.replace('var calls = 0;', 'var calls = 0; transient var k = 0; while (k >= 0) { k += 1 };');
let module: Uint8Array;
let endless: Uint8Array;
let failing: Uint8Array;
before(async () => {
  const compiled = [SOURCE, FAILING, ENDLESS].map(async (source) => (await compileMotoko(source)).wasm);
  [module, failing, endless] = (await Promise.all(compiled)) as [Uint8Array, Uint8Array, Uint8Array];
});

interface Report {
  readonly hooks: { readonly outcome: string };
  readonly replayed: {
    readonly why: string | null;
    readonly count: number;
    readonly same: number;
    readonly leftOut: number;
    readonly inexact: number;
    readonly differences: readonly unknown[];
    readonly probes: readonly { readonly same: boolean }[];
  };
}
interface Entry {
  readonly seq: number;
  readonly method: string;
  readonly caller: string;
}

async function started(t: TestContext, args: readonly string[]): Promise<Host> {
  const flags = ['--heartbeat-ms', '0', ...args];
  return await (await Deployment.create(t, { args: flags, modules: { own: module } })).start();
}

async function call(host: Host, method: string, args: readonly unknown[] = []): Promise<string> {
  return (await host.server.post(`/call-json/own/${method}`, JSON.stringify(args))).body;
}

async function tried(host: Host, messages: number): Promise<Report> {
  const { status, body } = await host.server.post(`/upgrade/own?dry=1&replay=${messages}`, module);
  assert.equal(status, 200, body);
  return JSON.parse(body) as Report;
}

/** Resolves when the state behind the newest message is kept. */
async function begun(host: Host): Promise<void> {
  await host.until(async () => {
    await call(host, 'until');
    assert.equal((await host.server.get('/x/time/state/own')).status, 200);
  });
}

function assertUnchanged({ replayed, hooks }: Report): void {
  const { count, same, leftOut, inexact, differences, probes } = replayed;
  const isEachSame = probes.every((probe) => probe.same);
  assert.deepEqual(
    { hooks: hooks.outcome, differences, same, leftOut, inexact, isEachSame },
    { hooks: 'done', differences: [], same: count, leftOut: 0, inexact: 0, isEachSame: true },
  );
}

test('an own call is not taken for the same call of somebody else that comes before it', async (t) => {
  const host = await started(t, ['--timeline', '3600']);
  await begun(host);
  await host.until(async () => {
    const [from] = JSON.parse((await host.server.get('/x/time/timeline/own?from=now')).body) as [Entry];
    const busy = call(host, 'busy', [2_000_000]);
    await Promise.all([busy, ...Array.from({ length: 10 }, () => call(host, 'who', [1]))]);
    const page = await host.server.get(`/x/time/timeline/own?from=seq:${from.seq + 1}`);
    const entries = JSON.parse(page.body) as Entry[];
    const begins = entries.findIndex(({ method }) => method === 'busy');
    const ends = entries.findIndex(({ method, caller }) => method === 'who' && caller !== '2vxsx-fae');
    const between = entries.slice(begins, ends).filter(({ method }) => method === 'who');
    assert.ok(begins >= 0 && between.length > 0, 'somebody has called before the actor itself');
  });
  assertUnchanged(await tried(host, 12));
});

test('own calls have their deadline, what the host says of them, and the fault that ended their method', async (t) => {
  const host = await started(t, ['--timeline', '3600']);
  await begun(host);
  assert.notEqual(await call(host, 'bounded'), '["0"]');
  assert.match(await call(host, 'lost'), /has no update method/);
  assert.match(await call(host, 'failing'), /assertion failed/);
  assert.match(await call(host, 'twice', [1]), /^\[\d+\]$/);
  const report = await tried(host, 20);
  assertUnchanged(report);
});

test('large arguments and replies are noted and played again, and a failed upgrade among the messages is passed over', async (t) => {
  const host = await started(t, ['--timeline', '3600']);
  await begun(host);
  // Candid of one blob of 2,000,000 bytes, as an agent sends it.
  const head = Buffer.from('4449444c016d7b010080897a', 'hex');
  const { status } = await host.server.post('/call/own/weigh', Buffer.concat([head, Buffer.alloc(2_000_000, 7)]));
  assert.equal(status, 200);
  assert.match((await host.server.post('/upgrade/own', failing)).body, /no start/);
  assert.match(await call(host, 'who', [1]), /2vxsx/);
  assertUnchanged(await tried(host, 5));
});

test('an upgrade whose actor has no past states is done, and a line says that nothing was rehearsed', async (t) => {
  const host = await started(t, ['--timeline', '3600', '--snapshot-below', '0']);
  await call(host, 'until');
  await host.until(async () => {
    const { hooks, replayed } = await tried(host, 1);
    assert.deepEqual([hooks.outcome, replayed.count], ['done', 0]);
    assert.match(replayed.why ?? '', /kept by its log/);
  });
  assert.equal((await host.server.post('/upgrade/own?replay=1', module)).body, 'upgraded');
  assert.match(host.server.output.stdout, /WARNING own was upgraded without rehearsal: .*kept by its log/);
});

test('without a timeline an upgrade that asks for a rehearsal is done, and a line says so', async (t) => {
  const host = await started(t, []);
  assert.equal((await host.server.post('/upgrade/own?replay=1', module)).body, 'upgraded');
  assert.match(host.server.output.stdout, /WARNING own was upgraded without rehearsal: this server keeps no timeline/);
});

test('a third rehearsal is refused, and so is an upgrade that asks for it, unless that is forced', async (t) => {
  const host = await started(t, ['--timeline', '3600']);
  await begun(host);
  // They go on until the server stops; nobody waits for the answers. One that comes behind a short one is refused.
  const begin = (): void => void host.server.post('/upgrade/own?dry=1', endless).catch(() => undefined);
  begin();
  await host.until(async () => {
    begin();
    assert.equal((await host.server.post('/upgrade/own?dry=1', module)).status, 503);
  });
  assert.match((await host.server.post('/upgrade/own?replay=1', module)).body, /2 rehearsals are under way/);
  assert.equal((await host.server.post('/upgrade/own?replay=1&force=true', module)).body, 'upgraded');
  assert.match(host.server.output.stdout, /WARNING own was upgraded without rehearsal: 2 rehearsals are under way/);
});

test('a rehearsal and a profile end when their actor is deleted', async (t) => {
  const host = await started(t, ['--timeline', '3600']);
  await begun(host);
  const rehearsed = host.server.post('/upgrade/own?dry=1', endless);
  const profiled = host.server.post('/x/time/profile/own?seconds=60', '');
  // Both are under way when no third one is let in.
  await host.until(async () => {
    void host.server.post('/upgrade/own?dry=1', endless).catch(() => undefined);
    assert.equal((await host.server.post('/upgrade/own?dry=1', module)).status, 503);
  });
  assert.equal((await host.server.fetch('/actors/own?force=true', { method: 'DELETE' })).status, 200);
  // In its hook, or on the way there.
  assert.match((await rehearsed).body, /the actor (?:is being deleted|was deleted meanwhile)/);
  assert.deepEqual(await profiled, { status: 404, body: '{"code":404,"message":"the actor was deleted meanwhile"}' });
});
