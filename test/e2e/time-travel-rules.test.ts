/** Real servers: timers, open calls, cycles, settings and callers when an actor is restored, forked or asked. */
import assert from 'node:assert/strict';
import { before, test, type TestContext } from 'node:test';
import { compileMotoko } from '../support/motoko.ts';
import { Deployment } from './durability/deployment.ts';
import { type Host, STRANGER } from './semantics/host.ts';

const TRAVELLER = `
  import Timer "mo:core/Timer";
  persistent actor Self {
    type Peer = actor { hold : () -> async () };
    var held = true;
    var begun = 0;
    var ended = 0;
    var fired = 0;
    func step() : async () {};
    public func hold() : async () { while (held) { await step() } };
    public func release() : async () { held := false };
    public func callThere(p : Principal) : async Nat {
      begun += 1;
      await (actor (debug_show p) : Peer).hold();
      ended += 1;
      ended;
    };
    public func fireAfter(milliseconds : Nat) : async () {
      ignore Timer.setTimer<system>(#milliseconds milliseconds, func() : async () { fired += 1 });
    };
    public query func seen() : async (Nat, Nat, Nat) { (begun, ended, fired) };
    public shared query ({ caller }) func who() : async Principal { caller };
    public func nothing() : async () {};
  };`;
const FLAGS = ['--timeline', '3600', '--heartbeat-ms', '0', '--timer-ms', '20'];

let module: Uint8Array;
before(async () => {
  module = (await compileMotoko(TRAVELLER)).wasm;
});

interface Shown {
  readonly point: { readonly seq: number };
  readonly timer: string | null;
}

async function deployed(t: TestContext): Promise<Deployment> {
  const deployment = await Deployment.create(t, { args: FLAGS, modules: { one: module, two: module } });
  await deployment.start();
  return deployment;
}

const started = async (t: TestContext): Promise<Host> => (await deployed(t)).host;

async function sent({ server }: Host, path: string, body = '[]'): Promise<string> {
  const answer = await server.post(path, body);
  assert.equal(answer.status, 200, `${path}: ${answer.body}`);
  return answer.body;
}

async function refused({ server }: Host, path: string, message: RegExp): Promise<void> {
  const { status, body } = await server.post(path, '');
  assert.equal(status, 400, `${path}: ${body}`);
  assert.match(body, message, path);
}

async function now({ server }: Host): Promise<Shown> {
  const { status, body } = await server.get('/x/time/state/one?at=now');
  assert.equal(status, 200, body);
  return JSON.parse(body) as Shown;
}

/** The point of the newest message, as a parameter. */
const pointOf = ({ point }: Shown): string => `seq:${point.seq}`;
const seen = async (host: Host): Promise<readonly number[]> =>
  JSON.parse(await sent(host, '/query-json/one/seen')) as number[];

test('a restored actor has the timer of then, which fires when it is due', async (t) => {
  const host = await started(t);
  await sent(host, '/call-json/one/nothing');
  const without = await now(host);
  assert.equal(without.timer, null);
  await sent(host, '/call-json/one/fireAfter', '[3600000]');
  const later = await now(host);
  assert.notEqual(later.timer, null);
  await sent(host, `/x/time/restore/one?to=${pointOf(without)}`);
  assert.equal((await now(host)).timer, null);
  await sent(host, `/x/time/restore/one?to=${pointOf(later)}`);
  assert.equal((await now(host)).timer, later.timer);

  await sent(host, `/x/time/restore/one?to=${pointOf(without)}`);
  await sent(host, '/call-json/one/fireAfter', '[50]');
  const soon = await now(host);
  await host.until(async () => assert.deepEqual(await seen(host), [0, 0, 1]));
  // The time is over, so the timer fires again.
  await sent(host, `/x/time/restore/one?to=${pointOf(soon)}`);
  await host.until(async () => assert.deepEqual(await seen(host), [0, 0, 1]));
});

test('a point with open calls is neither restored nor forked, and open calls of now are waited for', async (t) => {
  const host = await started(t);
  const two = await host.find('two');
  await sent(host, '/call-json/one/nothing');
  const quiet = pointOf(await now(host));
  const waiting = sent(host, '/call-json/one/callThere', JSON.stringify([two.principal]));
  await host.until(async () => assert.deepEqual(await seen(host), [1, 0, 0]));
  const open = pointOf(await now(host));
  await refused(host, `/x/time/restore/one?to=${quiet}`, /one waits for calls now: .* calls=wait/);
  await refused(host, `/x/time/restore/one?to=${open}`, /one waited for 1 call\(s\) at seq:\d+/);
  await refused(host, `/x/time/fork/one/copy?at=${open}`, /one waited for 1 call\(s\) at seq:\d+/);
  assert.deepEqual(await seen(host), [1, 0, 0], 'nothing has changed');

  const restored = sent(host, `/x/time/restore/one?to=${quiet}&calls=wait`);
  await host.until(async () => assert.equal(await host.status(await host.find('one')), 'stopping'));
  await sent(host, '/call-json/two/release');
  assert.equal(await waiting, '[1]', 'the call of before ends as it would have');
  await restored;
  assert.deepEqual(await seen(host), [0, 0, 0]);
  await host.until(async () => assert.equal(await host.status(await host.find('one')), 'running'));
  await refused(host, `/x/time/restore/one?to=${open}`, /one waited for 1 call\(s\) at seq:\d+/);
});

test('a fork has the cycles of a new actor and the settings of its parent', async (t) => {
  const deployment = await deployed(t);
  const { host } = deployment;
  const one = await host.find('one');
  const { server } = host;
  for (let n = 0; n < 5; n++) await sent(host, '/call-json/one/nothing');
  const settings = JSON.stringify({ freezing_threshold: 77_777, wasm_memory_limit: 65_536 });
  const put = await server.fetch('/x/actors/one/settings', { method: 'PUT', body: settings });
  assert.equal(put.status, 200, await put.text());
  await sent(host, '/x/time/fork/one/copy');
  const copy = await host.find('copy');
  const [parents, own] = await Promise.all(
    ['one', 'copy'].map(async (name) => (await server.get(`/x/actors/${name}/settings`)).body),
  );
  assert.match(own ?? '', /77777.*65536|65536.*77777/);
  assert.equal(own, parents);
  // The parent has paid for its messages, and gives nothing away.
  assert.ok((await host.balance(copy)) > (await host.balance(one)));
  await sent(host, '/start/copy');
  await refused(host, '/call-json/copy/nothing', /exceeded its current Wasm memory limit of 65536 bytes/);
  await deployment.kill();
  await deployment.start();
  assert.equal((await deployment.host.server.get('/x/actors/copy/settings')).body, parents);
});

test('a query of the past has the caller of its request', async (t) => {
  const host = await started(t);
  await sent(host, '/call-json/one/nothing');
  const at = pointOf(await now(host));
  const { server } = host;
  for (const caller of [STRANGER, '2vxsx-fae']) {
    const answer = await server.post(`/query-json/one/who?at=${at}`, '[]', { 'x-caller': caller });
    assert.equal(answer.body, JSON.stringify([caller]));
  }
});
