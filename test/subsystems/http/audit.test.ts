/** `--audit`: what is told of whom, before the answer leaves, and what happens when it cannot be told. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { rename } from 'node:fs/promises';
import { join } from 'node:path';
import { suite, test, type TestContext } from 'node:test';
import { routeKeyOf, type RouteSpec, ROUTES } from '../../../subsystems/http/route-table.ts';
import { FakeClock } from '../../support/fake-clock.ts';
import { send } from '../../support/http-client.ts';
import { showing, writeTokens } from '../../support/token-file.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';
import { type HttpHost, type HttpHostOptions, startHttpHost } from './counter-host.ts';

const SPECS: readonly RouteSpec[] = ROUTES;
const AUDITED = SPECS.filter(({ isAudited }) => isAudited === true);
const ROOT = { authorization: 'Bearer root' };
const SECRET = 'argument-that-is-secret';

type Line = Readonly<Record<string, unknown>>;

interface Audited extends HttpHost {
  readonly file: string;
  readonly lines: () => readonly Line[];
}

async function startAudited(t: TestContext, options: HttpHostOptions = {}): Promise<Audited> {
  const file = join(await temporaryDirectory(), 'audit.log');
  const tokensFile = await writeTokens({ ci: { may: ['upgrade:counter', 'topup:counter'] } });
  const host = await startHttpHost(t, { token: 'root', tokensFile, audit: { file }, ...options });
  const lines = (): readonly Line[] =>
    readFileSync(file, 'utf8')
      .split('\n')
      .slice(0, -1)
      .map((line) => JSON.parse(line) as Line);
  return { ...host, file, lines };
}

const targetOf = ({ path }: RouteSpec, actor = 'counter'): string =>
  path.replace(':actor', actor).replace(':name', 'fresh').replace(':snapshot', 'ab');
const told = ({ who, route, actor, outcome, status }: Line): unknown[] => [who, route, actor, outcome, status];

suite('the audit', () => {
  test('tells of all that changes something, before it is done and before its answer leaves', async (t) => {
    assert.equal(AUDITED.length, 25);
    const changes = SPECS.filter(
      ({ method, scope }) => method !== 'GET' && !['call', 'query', 'watch', 'any'].includes(scope ?? ''),
    );
    for (const spec of changes) assert.equal(spec.isAudited, true, routeKeyOf(spec));
    for (const spec of AUDITED)
      await t.test(routeKeyOf(spec), async (inner) => {
        const { origin, canisters, lines } = await startAudited(inner);
        const id = canisters.resolve('counter').idHex;
        const body = spec.method === 'GET' ? {} : { body: `["${SECRET}"]` };
        const { status } = await send(origin, spec.method, targetOf(spec), { headers: ROOT, ...body });
        const route = routeKeyOf(spec)
          .replace(/:name/, '<name>')
          .replace(/:(\w+)/g, (_all, name: string) => `<${name.toUpperCase()}>`);
        const actor = route.includes('<ACTOR>') ? id : route.includes('<name>') ? 'fresh' : '';
        assert.deepEqual(lines().map(told), [
          ['*', route, actor, 'begun', 0],
          ['*', route, actor, status < 400 ? 'done' : 'failed', status],
        ]);
        const [first] = lines();
        assert.deepEqual(Object.keys(first ?? {}), [
          'ts',
          'event',
          'who',
          'route',
          'actor',
          'client',
          'outcome',
          'status',
          'attempts',
        ]);
        assert.deepEqual([first?.['event'], first?.['client']], ['audit', '127.0.0.1']);
      });
  });

  test('names the token, and the client behind a trusted proxy; no argument and no secret is in it', async (t) => {
    const trustedProxies = [{ address: '127.0.0.1', prefix: 32 }];
    const { origin, file, lines } = await startAudited(t, { trustedProxies });
    const headers = { ...showing('ci'), 'x-forwarded-for': '203.0.113.9' };
    await send(origin, 'POST', '/upgrade/counter?arg=0xfacade', { headers, body: SECRET });
    await send(origin, 'POST', `/upgrade/${SECRET}`, { headers: showing('wrong'), body: SECRET });
    await send(origin, 'POST', '/stop/counter', { headers, body: SECRET });
    assert.deepEqual(
      lines().map(({ who, outcome, client, route }) => [who, outcome, client, route]),
      [
        ['ci', 'begun', '203.0.113.9', 'POST /upgrade/<ACTOR>'],
        ['ci', 'done', '203.0.113.9', 'POST /upgrade/<ACTOR>'],
        ['', 'denied', '127.0.0.1', 'POST /upgrade'],
        ['ci', 'denied', '203.0.113.9', 'POST /stop'],
      ],
    );
    assert.doesNotMatch(readFileSync(file, 'utf8'), /secret|facade|Bearer/);
  });

  test('calls, queries and readings are not told', async (t) => {
    const { origin, lines } = await startAudited(t);
    for (const [method, target] of [
      ['POST', '/call-json/counter/inc'],
      ['POST', '/query-json/counter/get'],
      ['GET', '/actors'],
      ['GET', '/metrics'],
    ] as const)
      await send(origin, method, target, { headers: ROOT, ...(method === 'POST' && { body: '[]' }) });
    assert.deepEqual(lines(), []);
  });

  test('goes to the log without a file, and to nobody without the flag', async (t) => {
    for (const [audit, count] of [
      [{ file: undefined }, 2],
      [undefined, 0],
    ] as const) {
      const { origin, log } = await startHttpHost(t, { token: 'root', audit });
      await send(origin, 'POST', '/cycles/counter', { headers: ROOT, body: '5' });
      const events = log.events.filter(({ event }) => event === 'audit');
      assert.equal(events.length, count);
      if (count > 0)
        assert.match(events[1]?.prose ?? '', /^audit done 200 POST \/cycles\/<ACTOR> "\w+" by \* from 127\.0\.0\.1$/);
    }
  });

  test('that cannot be written refuses the change with 503, and nothing is done', async (t) => {
    const { origin, canisters } = await startHttpHost(t, { token: 'root', audit: { file: '/dev/full' } });
    const before = canisters.resolve('counter').balance;
    for (const [target, body] of [
      ['/cycles/counter', '5'],
      ['/upgrade/counter', 'module'],
      ['/install/fresh', 'module'],
      ['/stop/counter', ''],
    ] as const) {
      const seen = await send(origin, 'POST', target, { headers: ROOT, body });
      assert.equal(seen.status, 503, target);
      assert.match(seen.text, /nothing was done: the line of the audit cannot be written: ENOSPC/);
    }
    assert.deepEqual([canisters.resolve('counter').balance, canisters.upgraded, canisters.installed], [before, [], []]);
    assert.equal(canisters.resolve('counter').status, 'running');
    assert.equal((await send(origin, 'POST', '/call-json/counter/inc', { headers: ROOT, body: '[]' })).status, 200);
    assert.equal(
      (await send(origin, 'GET', '/cycles/counter')).status,
      401,
      'a denial that cannot be told is one all the same',
    );
  });

  test('with a file that cannot be opened is no start', async (t) => {
    for (const file of ['/', join(await temporaryDirectory(), 'none', 'audit.log')])
      await assert.rejects(startHttpHost(t, { audit: { file } }), /--audit-file: cannot write/);
  });
});

suite('denied attempts', () => {
  test('are all counted, and told once a second for each address', async (t) => {
    const clock = new FakeClock();
    const { origin, lines } = await startAudited(t, { clock, trustedProxies: [{ address: '127.0.0.1', prefix: 32 }] });
    const attempt = (client: string): Promise<unknown> =>
      send(origin, 'GET', '/actors', { headers: { 'x-forwarded-for': client } });
    for (let times = 0; times < 5; times++) for (const client of ['192.0.2.1', '192.0.2.2']) await attempt(client);
    const seen = (): unknown[] => lines().map(({ client, attempts }) => [client, attempts]);
    const first = [
      ['192.0.2.1', 1],
      ['192.0.2.2', 1],
    ];
    assert.deepEqual(seen(), first);
    clock.advance(1000);
    await attempt('192.0.2.1');
    assert.deepEqual(seen(), [...first, ['192.0.2.1', 5]]);
  });

  test('of any number of addresses are told in bounded room', async (t) => {
    const clock = new FakeClock();
    const { origin, lines } = await startAudited(t, { clock, trustedProxies: [{ address: '127.0.0.1', prefix: 32 }] });
    const attempt = (at: number): Promise<unknown> =>
      send(origin, 'GET', '/actors', { headers: { 'x-forwarded-for': `10.0.${at >> 8}.${at & 255}` } });
    for (let at = 0; at < 1030; at++) await attempt(at);
    assert.equal(lines().length, 1025);
    assert.equal(lines().at(-1)?.['client'], 'others');
    clock.advance(1000);
    await attempt(5000);
    assert.equal(lines().at(-1)?.['client'], '10.0.19.136');
  });

  test('by a scope, and of open methods, are told with the name that is known', async (t) => {
    const { origin, lines } = await startAudited(t, { clock: new FakeClock() });
    await send(origin, 'GET', '/metrics', { headers: showing('ci') });
    assert.deepEqual(lines().map(told), [['ci', 'GET /metrics', '', 'denied', 403]]);
  });
});

suite('SIGHUP', () => {
  test('opens the file by its name again, and tells that tokens were read', async (t) => {
    const { origin, file, lines, server } = await startAudited(t);
    await send(origin, 'POST', '/cycles/counter', { headers: ROOT, body: '5' });
    await rename(file, `${file}.1`);
    await send(origin, 'POST', '/cycles/counter', { headers: ROOT, body: '5' });
    assert.equal(readFileSync(`${file}.1`, 'utf8').split('\n').length, 5);
    server.reread(true);
    server.reread(false);
    server.reread(undefined);
    assert.deepEqual(lines().map(told), [
      ['', 'SIGHUP --tokens', '', 'done', 0],
      ['', 'SIGHUP --tokens', '', 'failed', 0],
    ]);
  });
});
