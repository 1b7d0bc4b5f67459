/**
 * Operators' setup: the page is clean by promtool, the rules pass their tests, and a real Prometheus with the
 * configuration of config/observability reads a real server and answers every expression of the dashboard.
 */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { cp, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { expressionsOf, familiesIn, readDashboard } from '../support/dashboard.ts';
import { parseExposition } from '../support/exposition-parser.ts';
import { freePort } from '../support/free-port.ts';
import { type RunningServer, startServer } from '../support/server.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';
import { wat } from '../support/wat.ts';

const OBSERVABILITY = fileURLToPath(new URL('../../config/observability', import.meta.url));
const TOKEN = 'sesame';
const AUTH = { authorization: `Bearer ${TOKEN}` };
const DEADLINE_MS = 60_000;
/** Cleanups, called in reverse order. */
const endings: (() => Promise<void>)[] = [];
const OWNER = { after: (end: () => Promise<void>) => void endings.push(end) };

/** Replies, or traps. */
const PLAIN = wat(`(module
  (import "ic0" "msg_reply" (func $reply))
  (memory 1)
  (func (export "canister_update inc") (i32.store (i32.const 0) (i32.add (i32.load (i32.const 0)) (i32.const 1))) (call $reply))
  (func (export "canister_update boom") unreachable)
  (func (export "canister_query get") (call $reply)))`);

let server: RunningServer;
let prometheus: string;
let traffic: Promise<void> | undefined;
let isOver = false;

before(async () => {
  const directory = await temporaryDirectory();
  const kept = ['--state', join(directory, 'state'), '--archive', join(directory, 'archive'), '--timeline', '3600'];
  // One of the two other actors is always asleep.
  const args = [...kept, '--auth-token', TOKEN, '--live-cap', '2'];
  server = await startServer(OWNER, { args });
  for (const name of ['one', 'two']) {
    const { status, body } = await server.post(`/install/${name}`, PLAIN, AUTH);
    assert.equal(status, 200, body);
  }
  traffic = goOn();
  prometheus = await startPrometheus(server.origin);
});

after(async () => {
  isOver = true;
  await traffic;
  for (const end of endings.toReversed()) await end();
});

/** Makes one round of everything that clients do, well and badly. */
async function round(): Promise<void> {
  const post = async (path: string, body = ''): Promise<number> => (await server.post(path, body, AUTH)).status;
  assert.equal(await post('/call/one/inc'), 200);
  assert.equal(await post('/query/two/get'), 200);
  assert.equal(await post('/call-json/counter/inc', '[]'), 200);
  assert.equal(await post('/query-json/counter/get', '[]'), 200);
  assert.equal(await post('/call/two/boom'), 400);
  assert.equal(await post('/call/nobody/inc'), 404);
  assert.equal((await server.get('/actors')).status, 401);
  assert.equal((await server.get('/health')).status, 200);
}

async function goOn(): Promise<void> {
  while (!isOver) {
    await round();
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** Starts Prometheus as docs/metrics.md sets it up, but reading every second; returns the origin of its page. */
async function startPrometheus(target: string): Promise<string> {
  const directory = await configuration(target);
  const origin = `http://127.0.0.1:${await freePort()}`;
  const child: ChildProcess = spawn(
    'prometheus',
    [
      `--config.file=${join(directory, 'prometheus.yml')}`,
      `--storage.tsdb.path=${join(directory, 'data')}`,
      `--web.listen-address=${origin.slice('http://'.length)}`,
      '--log.level=warn',
    ],
    { stdio: ['ignore', 'ignore', 'pipe'] },
  );
  let complaints = '';
  child.stderr?.setEncoding('utf8').on('data', (text: string) => (complaints += text));
  const exited = once(child, 'exit');
  endings.push(async () => {
    child.kill('SIGKILL');
    await exited;
  });
  await until(async () => {
    assert.equal(child.exitCode, null, complaints);
    return (await fetch(`${origin}/-/ready`).catch(() => undefined))?.status === 200;
  });
  return origin;
}

/** Makes a copy of the configuration for that server, with its token. */
async function configuration(target: string): Promise<string> {
  const directory = await temporaryDirectory();
  await cp(OBSERVABILITY, directory, { recursive: true });
  const file = join(directory, 'prometheus.yml');
  const text = (await readFile(file, 'utf8'))
    .replace('127.0.0.1:7000', target.slice('http://'.length))
    .replaceAll('_interval: 15s', '_interval: 1s');
  await writeFile(file, text);
  await writeFile(join(directory, 'svc-token'), `${TOKEN}\n`, { mode: 0o600 });
  return directory;
}

async function until(isSo: () => Promise<boolean>): Promise<void> {
  const deadline = Date.now() + DEADLINE_MS;
  while (!(await isSo())) {
    assert.ok(Date.now() < deadline, 'it did not come about');
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

interface Sample {
  readonly metric: Readonly<Record<string, string>>;
  readonly value: readonly [number, string];
}

/** Returns the present value of an expression. */
async function query(expression: string): Promise<readonly Sample[]> {
  const response = await fetch(`${prometheus}/api/v1/query?query=${encodeURIComponent(expression)}`);
  const answer = (await response.json()) as { status: string; error?: string; data?: { result: readonly Sample[] } };
  assert.equal(answer.status, 'success', `${expression}: ${answer.error}`);
  return answer.data?.result ?? [];
}

async function valueOf(expression: string): Promise<number> {
  const [sample] = await query(expression);
  assert.ok(sample !== undefined, `${expression} is nothing`);
  return Number(sample.value[1]);
}

function promtool(args: readonly string[], input?: string): string {
  const { status, stdout, stderr, error } = spawnSync('promtool', args, { input, encoding: 'utf8' });
  assert.equal(error, undefined);
  assert.equal(status, 0, `promtool ${args.join(' ')}: ${stdout}${stderr}`);
  return stdout + stderr;
}

test('the page of a server that works is clean by promtool, and parses', async () => {
  await round();
  const page = await (await server.fetch('/metrics', { headers: AUTH })).text();
  assert.equal(promtool(['check', 'metrics'], page), '');
  const families = parseExposition(page);
  assert.ok(families.has('svc_commit_seconds') && families.has('svc_http_request_duration_seconds'));
  // promtool does complain about a bad page.
  const spoilt = `# HELP svc_bad_total Bad.\n# TYPE svc_bad_total gauge\nsvc_bad_total 1\n`;
  const { status, stdout, stderr } = spawnSync('promtool', ['check', 'metrics'], { input: spoilt, encoding: 'utf8' });
  assert.notEqual(status, 0, stdout + stderr);
});

test('the rules and the configuration are well formed, and the rules do what their tests say', async () => {
  promtool(['check', 'config', join(await configuration(server.origin), 'prometheus.yml')]);
  promtool(['check', 'rules', join(OBSERVABILITY, 'alerts.yml')]);
  assert.match(promtool(['test', 'rules', join(OBSERVABILITY, 'alerts.test.yml')]), /SUCCESS/);
});

test('a rule that is changed fails its test', async () => {
  const directory = await configuration(server.origin);
  const file = join(directory, 'alerts.yml');
  const rules = await readFile(file, 'utf8');
  const changed = rules.replace('> 0.5 * svc_queued_messages_max', '> 0.9 * svc_queued_messages_max');
  assert.notEqual(changed, rules);
  await writeFile(file, changed);
  const { status } = spawnSync('promtool', ['test', 'rules', join(directory, 'alerts.test.yml')]);
  assert.notEqual(status, 0);
});

test('Prometheus reads the server, and knows the numbers that the server has', async () => {
  await until(async () => (await query('count_over_time(up{job="svc"}[1m]) >= 5')).length > 0);
  assert.equal(await valueOf('up{job="svc"}'), 1);
  // One actor may be on its way out while another waits for its place.
  assert.ok((await valueOf('svc_live_actors')) <= 2);
  assert.equal(await valueOf('svc_live_actors + svc_sleeping_actors'), await actorCount());
  assert.ok((await valueOf('svc_http_requests_total{endpoint="call"}')) > 0);
  assert.ok((await valueOf('svc_actor_messages_total{actor="one"}')) > 0);
  assert.ok((await valueOf('svc_actor_traps_total{actor="two"}')) > 0);
  assert.ok((await valueOf('svc_units_total')) > 0);
  assert.ok((await valueOf('sum(svc_executor_instructions_total)')) > 0);
  assert.ok((await valueOf('svc_http_responses_total{endpoint="refused", code="4xx"}')) > 0);
  assert.equal(await valueOf('svc_http_responses_total{endpoint="call", code="5xx"}'), 0);
  // Every answer has a duration, also that of the page: there is no event stream here.
  const difference = 'sum(svc_http_request_duration_seconds_count) - sum(svc_http_responses_total)';
  assert.equal(await valueOf(difference), 0);
});

async function actorCount(): Promise<number> {
  const { body } = await server.get('/actors', AUTH);
  return (JSON.parse(body) as unknown[]).length;
}

/** Matches what is asked of a service on several servers alone; test/subsystems/metrics has their numbers. */
const OF_SEVERAL_SERVERS = /\bsvc_cluster_|endpoint="forwarded"/;

test('every expression of the dashboard has an answer, and asks only for what the page has', async () => {
  await until(async () => (await query('count_over_time(up{job="svc"}[1m]) >= 5')).length > 0);
  const page = parseExposition(await (await server.fetch('/metrics', { headers: AUTH })).text());
  const all = expressionsOf(readDashboard());
  const others = all.filter(({ expr }) => OF_SEVERAL_SERVERS.test(expr));
  assert.deepEqual(
    [...new Set(others.map(({ title }) => title))],
    [
      'Shards without an owner',
      'Requests for other servers, links refused, actors moved',
      'Shards and processes of each node',
    ],
  );
  for (const { expr } of others) await query(expr.replaceAll('$__rate_interval', '30s').replaceAll('$instance', '.*'));
  for (const { title, expr } of all.filter((each) => !others.includes(each))) {
    for (const family of familiesIn(expr)) assert.ok(page.has(family), `${title}: the page has no ${family}`);
    const samples = await query(expr.replaceAll('$__rate_interval', '30s').replaceAll('$instance', '.*'));
    assert.ok(samples.length > 0, `${title} is empty: ${expr}`);
  }
});

test('every alert has been looked at without an error, and none says that the server is down', async () => {
  interface Rule {
    readonly name: string;
    readonly query: string;
    readonly health: string;
    readonly lastError?: string;
    readonly state: string;
  }
  const rules = async (): Promise<readonly Rule[]> => {
    const { data } = (await (await fetch(`${prometheus}/api/v1/rules`)).json()) as {
      data: { groups: readonly { rules: readonly Rule[] }[] };
    };
    return data.groups.flatMap((group) => group.rules);
  };
  await until(async () => (await rules()).every(({ health }) => health !== 'unknown'));
  const seen = await rules();
  assert.ok(seen.length >= 15);
  const page = parseExposition(await (await server.fetch('/metrics', { headers: AUTH })).text());
  for (const { name, query: expression, health, lastError } of seen) {
    assert.equal(health, 'ok', `${name}: ${lastError}`);
    const isOfSeveral = OF_SEVERAL_SERVERS.test(expression);
    assert.equal(isOfSeveral, name === 'SvcShardWithoutOwner', name);
    if (isOfSeveral) continue;
    for (const family of familiesIn(expression)) assert.ok(page.has(family), `${name}: the page has no ${family}`);
  }
  const silent = [
    'SvcDown',
    'SvcRestarted',
    'SvcServerErrors',
    'SvcExecutorDied',
    'SvcMemoryRefused',
    'SvcQueueFillsUp',
  ];
  for (const name of silent) assert.equal(seen.find((rule) => rule.name === name)?.state, 'inactive', name);
  // Some actor does trap: the rule has seen that.
  assert.notEqual(seen.find(({ name }) => name === 'SvcActorTraps')?.state, 'inactive');
});
