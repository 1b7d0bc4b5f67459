/** `GET /metrics` of a real server: the page is well formed, and its numbers move as they should. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { type Family, parseExposition } from '../support/exposition-parser.ts';
import { type InProcessServer, startInProcess } from '../support/in-process-server.ts';
import { type RunningServer, startServer } from '../support/server.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';
import { wat } from '../support/wat.ts';

const NO_ACTORS = '{ "actors": {} }';

/** Replies with nothing, or traps. */
const PLAIN = wat(`(module
  (import "ic0" "msg_reply" (func $reply))
  (memory 1)
  (func (export "canister_update inc") (i32.store (i32.const 0) (i32.add (i32.load (i32.const 0)) (i32.const 1))) (call $reply))
  (func (export "canister_update boom") unreachable)
  (func (export "canister_query get") (call $reply)))`);

/**
 * Calls a method of the actor whose id the argument begins with, replies at once, and traps in the callback if told to.
 */
const CALLER = wat(`(module
  (import "ic0" "msg_reply" (func $reply))
  (import "ic0" "msg_arg_data_copy" (func $copy (param i32 i32 i32)))
  (import "ic0" "call_new" (func $new (param i32 i32 i32 i32 i32 i32 i32 i32)))
  (import "ic0" "call_perform" (func $perform (result i32)))
  (memory 1)
  (data (i32.const 100) "incboom")
  (table funcref (elem $nothing $trap))
  (func $nothing (param i32))
  (func $trap (param i32) unreachable)
  (func $call (param $name i32) (param $length i32) (param $callback i32)
    (call $copy (i32.const 0) (i32.const 0) (i32.const 10))
    (call $new (i32.const 0) (i32.const 10) (local.get $name) (local.get $length)
      (local.get $callback) (i32.const 0) (i32.const 0) (i32.const 0))
    (drop (call $perform))
    (call $reply))
  (func (export "canister_update inc") (call $call (i32.const 100) (i32.const 3) (i32.const 0)))
  (func (export "canister_update boom") (call $call (i32.const 103) (i32.const 4) (i32.const 0)))
  (func (export "canister_update late") (call $call (i32.const 100) (i32.const 3) (i32.const 1))))`);

/** A module whose heartbeat traps. */
const RESTLESS = wat(`(module (memory 1) (func (export "canister_heartbeat") unreachable))`);

type Page = ReadonlyMap<string, Family>;

async function pageOf(server: RunningServer | InProcessServer, headers: Record<string, string> = {}): Promise<Page> {
  const response = await server.fetch('/metrics', { headers });
  assert.equal(response.status, 200);
  assert.equal(response.headers.get('content-type'), 'text/plain; version=0.0.4; charset=utf-8');
  return parseExposition(await response.text());
}

/** Returns a sample of a family: `{actor="x"}`, or `_count`; undefined if there is none. */
function sample(page: Page, family: string, more = ''): number | undefined {
  return page.get(family)?.samples.get(family + more);
}

function labelsOf(page: Page, family: string): string[] {
  return [...(page.get(family)?.samples.keys() ?? [])].map((key) => /\{\w+="(.*)"\}$/.exec(key)?.[1] ?? key);
}

async function stateDirectory(): Promise<string> {
  return join(await temporaryDirectory(), 'state');
}

async function install(
  server: RunningServer | InProcessServer,
  name: string,
  module: Uint8Array,
  headers = {},
): Promise<string> {
  const { status, body } = await server.post(`/install/${name}`, module, headers);
  assert.equal(status, 200, body);
  return body;
}

test('a durable server tells of requests, messages, commits, and of actors that sleep and wake', async (t) => {
  const auth = { authorization: 'Bearer sesame' };
  const args = ['--state', await stateDirectory(), '--live-cap', '1', '--auth-token', 'sesame'];
  const server = await startServer(t, { manifest: NO_ACTORS, args });

  // Without the token nothing is shown, and the attempt is counted.
  const refused = await server.get('/metrics');
  assert.deepEqual(refused, { status: 401, body: 'missing or wrong bearer token' });
  assert.equal((await server.get('/metrics', { authorization: 'Bearer wrong' })).status, 401);

  const one = await install(server, 'one', PLAIN, auth);
  const two = await install(server, 'two', PLAIN, auth);
  const first = await pageOf(server, auth);
  assert.deepEqual(labelsOf(first, 'svc_actor_messages_total'), ['one', 'two']);
  assert.deepEqual(labelsOf(first, 'svc_actor_cycles'), [one, two]);
  assert.equal(sample(first, 'svc_http_requests_total', '{endpoint="refused"}'), 2);
  assert.equal(sample(first, 'svc_http_requests_total', '{endpoint="install"}'), 2);

  const post = async (path: string): Promise<number> => (await server.post(path, '', auth)).status;
  const inspected = JSON.parse((await server.get('/inspect', auth)).body) as { name: string; principal: string }[];
  const principal = inspected.find(({ name }) => name === 'one')?.principal;
  // The actors take turns at the only place: each call except perhaps the first wakes its actor.
  for (let round = 0; round < 3; round++) {
    assert.equal(await post('/call/one/inc'), 200);
    assert.equal(await post('/query/two/get'), 200);
  }
  assert.equal(await post(`/call/${one}/inc`), 200);
  assert.equal(await post(`/call/${principal}/inc`), 200);
  assert.equal(await post('/call/one/boom'), 400);
  assert.equal(await post(`/call/${one}/boom`), 400);
  assert.equal(await post('/call/nobody/inc'), 404);
  assert.equal(await post('/call/one/nothing'), 404);
  assert.equal(await post('/nowhere'), 404);
  const last = await pageOf(server, auth);

  assert.equal(sample(last, 'svc_actor_messages_total', '{actor="one"}'), 4);
  assert.equal(sample(last, 'svc_actor_messages_total', `{actor="${one}"}`), 3);
  assert.equal(sample(last, 'svc_actor_messages_total', '{actor="two"}'), 3);
  assert.equal(sample(last, 'svc_actor_traps_total', '{actor="one"}'), 1);
  assert.equal(sample(last, 'svc_actor_traps_total', `{actor="${one}"}`), 1);
  assert.equal(sample(last, 'svc_actor_traps_total', '{actor="two"}'), 0);
  assert.deepEqual(labelsOf(last, 'svc_actor_messages_total'), ['one', one, 'two']);
  assert.deepEqual(labelsOf(last, 'svc_actor_heap_bytes'), [one, two]);
  assert.equal(sample(last, 'svc_actor_heap_bytes', `{actor="${one}"}`), 65_536);
  const cycles = await server.get('/cycles/one', auth);
  assert.equal(sample(last, 'svc_actor_cycles', `{actor="${one}"}`), Number(cycles.body));
  assert.ok((sample(last, 'svc_uptime_seconds') ?? 0) > (sample(first, 'svc_uptime_seconds') ?? Infinity));

  const requests = (endpoint: string): number => {
    const labels = `{endpoint="${endpoint}"}`;
    return (
      (sample(last, 'svc_http_requests_total', labels) ?? 0) - (sample(first, 'svc_http_requests_total', labels) ?? 0)
    );
  };
  assert.equal(requests('call'), 9);
  assert.equal(requests('query'), 3);
  assert.equal(requests('metrics'), 1);
  assert.equal(requests('inspect'), 1);
  assert.equal(requests('unknown'), 1);

  // The live cap.
  const wakeUps = sample(last, 'svc_wakeups_total') ?? 0;
  assert.ok(wakeUps >= 6, `${wakeUps} were woken`);
  assert.ok((sample(last, 'svc_evictions_total') ?? 0) >= wakeUps);
  assert.equal(sample(last, 'svc_wake_seconds', '_count'), wakeUps);
  assert.ok((sample(last, 'svc_wake_seconds', '_sum') ?? 0) > 0);
  assert.equal(sample(last, 'svc_live_actors'), 1);
  assert.equal(sample(last, 'svc_sleeping_actors'), 1);

  // The state.
  assert.ok((sample(last, 'svc_state_bytes') ?? 0) > 0);
  assert.ok((sample(last, 'svc_log_bytes') ?? 0) > (sample(first, 'svc_log_bytes') ?? Infinity));
  const unitsBetween = (sample(last, 'svc_units_total') ?? 0) - (sample(first, 'svc_units_total') ?? 0);
  assert.ok(unitsBetween >= 7, `${unitsBetween} units`);
  assert.equal(sample(last, 'svc_commit_units', '_sum'), sample(last, 'svc_units_total'));
  assert.equal(sample(last, 'svc_commit_seconds', '_count'), sample(last, 'svc_commit_units', '_count'));
  assert.ok((sample(last, 'svc_commit_seconds', '_sum') ?? 0) > 0);
  assert.ok((sample(last, 'svc_commit_bytes_total') ?? 0) > unitsBetween * 10);

  // Reading the page is no job.
  assert.ok(!server.output.stderr.includes('metrics'));
  assert.equal(await server.stop(), 0);
});

test('messages that no client sent count by the name of the actor', async (t) => {
  const server = await startInProcess(t, { args: ['--heartbeat-ms', '20'] });
  const id = await install(server, 'callee', PLAIN);
  await install(server, 'caller', CALLER);
  const begun = await pageOf(server);
  for (const method of ['inc', 'boom', 'late']) {
    assert.equal((await server.post(`/call/caller/${method}`, Buffer.from(id, 'hex'))).status, 200);
  }
  await install(server, 'restless', RESTLESS);

  // Work that the calls have started ends after their answers.
  const until = async (isSo: (page: Page) => boolean): Promise<Page> => {
    for (let waitedMs = 0; ; waitedMs += 20) {
      const page = await pageOf(server);
      if (isSo(page)) return page;
      assert.ok(waitedMs < 60_000, 'it did not come about');
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  };
  const isTrapped = (page: Page): boolean => sample(page, 'svc_actor_traps_total', '{actor="caller"}') === 1;
  const page = await until(
    (now) => isTrapped(now) && (sample(now, 'svc_actor_traps_total', '{actor="restless"}') ?? 0) >= 3,
  );
  // Three calls, one of which traps; the callback that traps is no message.
  assert.equal(sample(page, 'svc_actor_messages_total', '{actor="callee"}'), 3);
  assert.equal(sample(page, 'svc_actor_traps_total', '{actor="callee"}'), 1);
  assert.equal(sample(page, 'svc_actor_messages_total', '{actor="caller"}'), 3);
  assert.equal(
    sample(page, 'svc_actor_messages_total', '{actor="restless"}'),
    sample(page, 'svc_actor_traps_total', '{actor="restless"}'),
  );

  // Nothing is kept, so its metrics are missing.
  for (const family of ['svc_state_bytes', 'svc_log_bytes', 'svc_units_total', 'svc_commit_bytes_total']) {
    assert.ok(!page.has(family), family);
  }
  for (const family of ['svc_commit_seconds', 'svc_commit_units']) assert.ok(!page.has(family), family);
  assert.equal(sample(begun, 'svc_live_actors'), 2);
  assert.equal(sample(page, 'svc_live_actors'), 3);
  assert.equal(sample(page, 'svc_sleeping_actors'), 0);

  // The metrics of a deleted actor are gone.
  assert.equal((await server.post('/stop/callee')).status, 200);
  assert.equal((await server.fetch('/actors/callee', { method: 'DELETE' })).status, 200);
  assert.deepEqual(labelsOf(await pageOf(server), 'svc_actor_messages_total'), ['caller', 'restless']);
});

test('with --no-metrics the route says so, and all else works', async (t) => {
  const server = await startInProcess(t, { args: ['--no-metrics'] });
  const { status, body } = await server.get('/metrics');
  assert.equal(status, 404);
  assert.deepEqual(JSON.parse(body), { code: 404, message: 'GET /metrics is turned off (--no-metrics)' });
  await install(server, 'one', PLAIN);
  assert.equal((await server.post('/call/one/inc', '')).status, 200);
});
