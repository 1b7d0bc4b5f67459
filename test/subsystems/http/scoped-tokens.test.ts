/**
 * Tokens with scopes, as an attacker would try them: each row of the route table with each scope, for the actor of the
 * scope, for another and for one that is not there. A row without a scope fails here until it has one.
 */
import assert from 'node:assert/strict';
import { request } from 'node:http';
import { suite, test, type TestContext } from 'node:test';
import { isHostScope } from '../../../subsystems/auth/index.ts';
import { routeKeyOf, type RouteSpec, ROUTES } from '../../../subsystems/http/route-table.ts';
import { EventClient } from '../../support/event-client.ts';
import { type Answer, send } from '../../support/http-client.ts';
import { type ChosenToken, showing, writeTokens } from '../../support/token-file.ts';
import { type HttpHost, type HttpHostOptions, startHttpHost } from './counter-host.ts';

const SPECS: readonly RouteSpec[] = ROUTES;
const GUARDED = SPECS.filter(({ access }) => access === 'token');
const SCOPES = [...new Set(GUARDED.flatMap(({ scope = 'any' }) => (scope === 'any' ? [] : [scope])))];
const PRINCIPAL = 'bkyz2-fmaaa-aaaaa-qaaaq-cai';
const OTHER_PRINCIPAL = 'rrkah-fqaaa-aaaaa-aaaaq-cai';

async function startScoped(
  t: TestContext,
  tokens: Readonly<Record<string, ChosenToken>>,
  options: HttpHostOptions = {},
): Promise<HttpHost & { readonly tokensFile: string }> {
  const tokensFile = await writeTokens(tokens);
  return { ...(await startHttpHost(t, { token: 'root', tokensFile, ...options })), tokensFile };
}

/** Returns a valid target of the route for an actor. */
function targetOf(spec: RouteSpec, actor: string): string {
  const isQuery = spec.scope === 'query' || spec.scope === 'watch';
  const target = spec.path
    .replace(':actor', actor)
    .replace(':name', actor)
    .replace(':method', isQuery ? 'get' : 'inc')
    .replace('*', 'src/main.mo');
  return spec.path === '/watch' && spec.method === 'GET' ? `${target}?q=a:${actor}/get` : target;
}

function bodyOf(spec: RouteSpec, actor: string): string | undefined {
  if (spec.method === 'GET') return undefined;
  if (spec.path === '/x/types') return '{"candid":"service : {}"}';
  return spec.path === '/watch' ? `{"queries":[{"id":"a","actor":"${actor}","method":"get"}]}` : '[]';
}

interface Seen {
  readonly status: number;
  readonly text: string;
}

/** Asks; leaves a stream as soon as it has begun. */
function ask(host: HttpHost, spec: RouteSpec, actor: string, headers: Readonly<Record<string, string>>): Promise<Seen> {
  return new Promise((resolve, reject) => {
    const body = bodyOf(spec, actor);
    const { hostname, port } = new URL(host.origin);
    const length = body === undefined ? {} : { 'content-length': Buffer.byteLength(body) };
    const options = { hostname, port, method: spec.method, path: targetOf(spec, actor), agent: false } as const;
    const asked = request({ ...options, headers: { ...headers, ...length } }, (response) => {
      const status = response.statusCode ?? 0;
      if (response.headers['content-length'] === undefined) {
        resolve({ status, text: '' });
        response.destroy();
        return;
      }
      let text = '';
      response.setEncoding('utf8').on('data', (piece: string) => (text += piece));
      response.on('end', () => resolve({ status, text }));
    });
    asked.on('error', reject).end(body);
  });
}

const isOfActor = ({ path }: RouteSpec): boolean => /:actor|:name|^\/watch$/.test(path);
const messageOf = ({ text }: Seen): string => (JSON.parse(text) as { message: string }).message;

/** Rows that end what others of the walk need come last. */
const WALK = GUARDED.filter(({ alsoScope }) => alsoScope === undefined).toSorted(
  (one, other) => Number(endsActor(one)) - Number(endsActor(other)),
);
function endsActor({ scope, method }: RouteSpec): boolean {
  return scope === 'stop' || (scope === 'delete' && method === 'DELETE');
}

test('rows that need two scopes are opened by both together, and by neither alone', async (t) => {
  const rows = GUARDED.filter(({ alsoScope }) => alsoScope !== undefined);
  assert.ok(rows.length >= 2);
  for (const spec of rows) {
    const scopes = [`${spec.scope}:*`, `${spec.alsoScope}:counter`];
    const [one = '', other = ''] = scopes;
    const host = await startScoped(t, { one: { may: [one] }, other: { may: [other] }, both: { may: scopes } });
    for (const name of ['one', 'other']) {
      const seen = await ask(host, spec, 'counter', showing(name));
      assert.equal(seen.status, 403, `${routeKeyOf(spec)} with ${name}`);
    }
    const seen = await ask(host, spec, 'counter', showing('both'));
    assert.ok(![401, 403].includes(seen.status), `${routeKeyOf(spec)}: ${seen.status} ${seen.text}`);
    assert.equal((await ask(host, spec, 'bare', showing('both'))).status, 403);
  }
});

test('a query of the past needs the scope time besides', async (t) => {
  const spec = GUARDED.find(({ path }) => path === '/query-json/:actor/:method');
  assert.ok(spec !== undefined);
  const host = await startScoped(t, { one: { may: ['query:*'] }, both: { may: ['query:*', 'time:counter'] } });
  const past = { ...spec, path: '/query-json/:actor/get?at=seq:1' };
  const refused = await ask(host, past, 'counter', showing('one'));
  assert.equal(refused.status, 403);
  assert.match(messageOf(refused), /lacks the scope time:counter/);
  const seen = await ask(host, past, 'counter', showing('both'));
  assert.match(messageOf(seen), /this server keeps no timeline/);
});

suite('a token with one scope', () => {
  test('every row of the table has a scope', () => {
    for (const spec of GUARDED) assert.ok(spec.scope !== undefined, `${routeKeyOf(spec)} names no scope`);
    assert.ok(SCOPES.length >= 20);
  });

  for (const scope of SCOPES)
    test(`${scope}: opens its rows for its actor, and every other row answers 403`, async (t) => {
      const isOfHost = isHostScope(scope);
      const host = await startScoped(t, { one: { may: [isOfHost ? scope : `${scope}:counter`] } });
      const id = host.canisters.resolve('counter').idHex;
      const [bare] = [host.canisters.resolve('bare').idHex];
      for (const spec of WALK) {
        // In this order: what is in the scope may end the actor.
        for (const actor of ['bare', bare, 'nobody', '80000000001000ff0101', id, 'counter']) {
          const isIts = spec.scope === scope && (!isOfActor(spec) || actor === 'counter' || actor === id);
          if (spec.scope === scope && isOfActor(spec) && actor === id && endsActor(spec)) continue;
          const seen = await ask(host, spec, actor, showing('one'));
          const what = `${routeKeyOf(spec)} of ${actor}: ${seen.status} ${seen.text}`;
          if (isIts || spec.scope === 'any') {
            assert.ok(![401, 403].includes(seen.status), what);
            if (seen.status === 404) assert.doesNotMatch(messageOf(seen), /no such/, what);
            continue;
          }
          assert.equal(seen.status, 403, what);
          const lacking = isOfActor(spec) ? `${spec.scope}:${actor}` : String(spec.scope);
          assert.equal(messageOf(seen), `this token lacks the scope ${lacking}: ask whoever runs the server for it`);
        }
      }
      const changed = ['call', 'install', 'upgrade', 'topup', 'configure', 'snapshots', 'stop', 'delete'].includes(
        scope,
      );
      const { canisters } = host;
      if (!changed)
        assert.deepEqual([canisters.installed, canisters.upgraded, canisters.canisters.length], [[], [], 2]);
    });

  test('for every actor: also one that comes later, and 404 for one that is not there', async (t) => {
    const host = await startScoped(t, { all: { may: ['cycles:*'] } });
    for (const [actor, status] of [
      ['counter', 200],
      ['bare', 200],
      ['nobody', 404],
    ] as const)
      assert.equal((await send(host.origin, 'GET', `/cycles/${actor}`, { headers: showing('all') })).status, status);
  });

  test('of no scope at all: who it is, and nothing else', async (t) => {
    const host = await startScoped(t, { none: { may: [] } });
    for (const spec of GUARDED) {
      const { status } = await ask(host, spec, 'counter', showing('none'));
      assert.equal(status, spec.scope === 'any' ? 200 : 403, routeKeyOf(spec));
    }
  });

  test('and with a target that is another one to the router: the same answer as for the one that it is', async (t) => {
    const host = await startScoped(t, { one: { may: ['call:counter'] } });
    for (const [target, status] of [
      ['/call-json/c%6funter/inc', 200],
      ['/call-json/counter%2f..%2fbare/inc', 403],
      ['/call-json/bare%00/inc', 403],
      ['/call-json/%62are/inc', 403],
      ['/call-json/bare/inc?/counter/inc', 403],
      ['/call-json//counter/inc', 404],
      ['/call-json/counter/inc#/bare', 404],
      ['/%63all-json/counter/inc', 404],
      ['/call-json/COUNTER/inc', 403],
      ['/call-json/counter,bare/inc', 403],
      ['/x/nothing', 404],
    ] as const) {
      const seen = await send(host.origin, 'POST', target, { headers: showing('one'), body: '[]' });
      assert.equal(seen.status, status, `${target}: ${seen.text}`);
    }
    assert.equal(host.canisters.resolve('bare').count, 0);
  });

  test('of a route that a plugin adds: none opens it, only *', async (t) => {
    const route = {
      plugin: 'extra',
      method: 'GET',
      path: '/a',
      query: [],
      bodyBytesMax: 0,
      answer: () => Promise.resolve({ body: 'secret' }),
    } as const;
    const tokens = {
      one: { may: SCOPES.map((scope) => (isHostScope(scope) ? scope : `${scope}:*`)) },
      all: { may: ['*'] },
    };
    const host = await startScoped(t, tokens, { pluginRoutes: [route] });
    const seen = await send(host.origin, 'GET', '/x/extra/a', { headers: showing('one') });
    assert.equal(seen.status, 403);
    assert.match(messageOf(seen), /lacks the scope \* \(GET \/x\/extra\/a has no scope of its own\)/);
    assert.equal((await send(host.origin, 'GET', '/x/extra/a', { headers: showing('all') })).text, 'secret');
  });
});

suite('the caller of a token with scopes', () => {
  const whoami = (host: HttpHost, headers: Record<string, string>): Promise<Answer> =>
    send(host.origin, 'POST', '/query-json/counter/whoami', { headers, body: '[]' });

  test('is the one of its line, else anonymous; another claim is 403', async (t) => {
    const may = ['query:counter', 'install:fresh', 'upgrade:counter'];
    const host = await startScoped(t, { a: { may }, b: { may, caller: PRINCIPAL }, root: { may: ['*'] } });
    assert.deepEqual((await whoami(host, showing('a'))).json(), ['04']);
    assert.deepEqual((await whoami(host, showing('b'))).json(), ['80000000001000010101']);
    assert.deepEqual((await whoami(host, { ...showing('b'), 'x-caller': PRINCIPAL })).json(), ['80000000001000010101']);
    for (const [name, claimed] of [
      ['a', PRINCIPAL],
      ['b', OTHER_PRINCIPAL],
      ['b', '2vxsx-fae'],
      ['b', PRINCIPAL.toUpperCase()],
      ['b', ''],
      ['a', 'nonsense'],
      ['b', `${PRINCIPAL}, ${PRINCIPAL}`],
    ] as const)
      for (const spelled of ['x-caller', 'X-CALLER'])
        for (const [method, target] of [
          ['POST', '/query-json/counter/whoami'],
          ['POST', '/upgrade/counter'],
          ['POST', '/install/fresh'],
        ] as const) {
          const seen = await send(host.origin, method, target, {
            headers: { ...showing(name), [spelled]: claimed },
            body: '[]',
          });
          assert.equal(seen.status, 403, `${name} claims ${claimed} at ${target}: ${seen.text}`);
          assert.match(messageOf(seen), /^header x-caller: this token calls as /);
        }
    assert.deepEqual((await whoami(host, { ...showing('root'), 'x-caller': PRINCIPAL })).json(), [
      '80000000001000010101',
    ]);
  });

  test('is the one of hooks, too', async (t) => {
    const host = await startScoped(t, { b: { may: ['install:fresh', 'upgrade:counter'], caller: PRINCIPAL } });
    const headers = showing('b');
    assert.equal((await send(host.origin, 'POST', '/install/fresh', { headers, body: 'module' })).status, 200);
    assert.equal((await send(host.origin, 'POST', '/upgrade/counter', { headers, body: 'module' })).status, 200);
    const callers = [...host.canisters.installed, ...host.canisters.upgraded].map(({ options }) => options.caller);
    assert.deepEqual(
      callers.map((caller) => Buffer.from(caller ?? []).toString('hex')),
      Array(2).fill('80000000001000010101'),
    );
  });

  test('has keys of its own, so that nobody gets the answer of another', async (t) => {
    const may = ['call:counter'];
    const host = await startScoped(t, { a: { may }, b: { may } });
    const headers = { 'idempotency-key': 'k' };
    for (const shown of [showing('a'), showing('b'), { authorization: 'Bearer root' }, showing('a')])
      await send(host.origin, 'POST', '/call-json/counter/inc', { headers: { ...headers, ...shown }, body: '[]' });
    const [a, b, root, again] = host.canisters.keys;
    assert.equal(root, 'k');
    assert.equal(new Set([a, b, root]).size, 3);
    assert.equal(again, a);
  });
});

suite('new actors', () => {
  test('have the name of the scope to the letter; reinstalling is of the actor that it names', async (t) => {
    const host = await startScoped(t, { one: { may: ['install:fresh', 'install:counter'] } });
    const id = host.canisters.resolve('bare').idHex;
    const install = async (target: string): Promise<number> =>
      (await send(host.origin, 'POST', `/install/${target}`, { headers: showing('one'), body: 'module' })).status;
    for (const target of ['other', 'Fresh', 'bare?mode=reinstall', `${id}?mode=reinstall`, 'fres'])
      assert.equal(await install(target), 403, target);
    assert.deepEqual([host.canisters.installed, host.canisters.reinstalled], [[], []]);
    assert.equal(await install('fresh'), 200);
    const own = host.canisters.resolve('counter').idHex;
    assert.equal(await install(`${own}?mode=reinstall`), 200);
    assert.deepEqual(
      host.canisters.reinstalled.map(({ name }) => name),
      ['counter'],
    );
  });
});

suite('live queries', () => {
  test('of a list are each checked by themselves, and a list of which none is in the scope is 403', async (t) => {
    const host = await startScoped(t, { one: { may: ['watch:counter'] } });
    const target = '/watch?q=a:counter/get&q=b:bare/get&q=c:nobody/get';
    await using client = await EventClient.open(host.origin, target, showing('one'));
    const events = new Map<string, string>();
    while (events.size < 3) {
      const event = (await client.next()) ?? assert.fail('the stream has ended');
      if (event.id !== undefined) events.set(event.id.split(':')[0] ?? '', `${event.event ?? ''} ${event.data}`);
    }
    assert.equal(events.get('a'), ' [0]');
    for (const [id, actor] of [
      ['b', 'bare'],
      ['c', 'nobody'],
    ] as const)
      assert.equal(
        events.get(id),
        `end {"code":403,"message":"this token lacks the scope watch:${actor}: ask whoever runs the server for it"}`,
      );
    await assert.rejects(EventClient.open(host.origin, '/watch?q=b:bare/get', showing('one')), /403/);
  });

  test('are not shared with others: nobody sees the end of another’s rights', async (t) => {
    const b = { may: ['watch:*'] };
    const host = await startScoped(t, { a: { may: ['watch:counter'] }, b });
    await using first = await EventClient.open(host.origin, '/watch/counter/get', showing('a'));
    await using second = await EventClient.open(host.origin, '/watch/counter/get', showing('b'));
    assert.deepEqual([(await first.next())?.data, (await second.next())?.data], ['[0]', '[0]']);
    await writeTokens({ b }, host.tokensFile);
    host.auth.reread?.();
    await host.canisters.setOpenMethods(host.canisters.resolve('counter'), []);
    const headers = { authorization: 'Bearer root' };
    await send(host.origin, 'POST', '/call-json/counter/inc', { headers, body: '[]' });
    assert.deepEqual(await second.next().then((event) => [event?.event, event?.data]), [undefined, '[1]']);
    assert.match((await first.next())?.data ?? '', /missing or wrong bearer token/);
  });
});

suite('around the scopes', () => {
  test('GET /x/me says who one is', async (t) => {
    const host = await startScoped(t, { b: { may: ['query:counter'], caller: PRINCIPAL }, root: { may: ['*'] } });
    const me = async (headers: Record<string, string>): Promise<unknown> =>
      (await send(host.origin, 'GET', '/x/me', { headers })).json();
    assert.deepEqual(await me(showing('b')), { name: 'b', may: ['query:counter'], caller: PRINCIPAL, claims: false });
    assert.deepEqual(await me(showing('root')), { name: 'root', may: ['*'], caller: null, claims: true });
    assert.deepEqual(await me({ authorization: 'Bearer root' }), {
      name: null,
      may: ['*'],
      caller: null,
      claims: true,
    });
    assert.equal((await send(host.origin, 'GET', '/x/me')).status, 401);
    const free = await startHttpHost(t);
    assert.deepEqual((await send(free.origin, 'GET', '/x/me')).json(), {
      name: null,
      may: ['*'],
      caller: null,
      claims: true,
    });
  });

  test('while the server starts it is 503 with a right token, and 401 with a wrong one', async (t) => {
    const host = await startScoped(t, { one: { may: ['call:counter'] } });
    host.readiness.isReady = false;
    host.readiness.note = 'recovering counter';
    for (const actor of ['counter', 'bare', 'nobody']) {
      const seen = await send(host.origin, 'POST', `/call-json/${actor}/inc`, { headers: showing('one'), body: '[]' });
      assert.deepEqual([seen.status, seen.text], [503, 'starting: recovering counter']);
    }
    const wrong = await send(host.origin, 'POST', '/call-json/counter/inc', { headers: showing('two'), body: '[]' });
    assert.deepEqual([wrong.status, wrong.text], [401, 'missing or wrong bearer token']);
  });

  test('open methods and websites are what they are for everybody; credentials mean to be somebody', async (t) => {
    const host = await startScoped(t, { one: { may: ['metrics'] } });
    host.canisters.resolve('counter').openMethods = { names: new Set(['get']), isOfManifest: false };
    const target = '/query-json/counter/get';
    assert.equal((await send(host.origin, 'POST', target, { body: '[]' })).status, 200);
    assert.equal((await send(host.origin, 'POST', target, { body: '[]', headers: showing('one') })).status, 403);
    for (const path of ['/site/counter/x', '/health', '/version'])
      assert.equal((await send(host.origin, 'GET', path, { headers: showing('one') })).status, 200, path);
  });

  test('a token that was taken back ends its streams and no other’s, and is 401', async (t) => {
    const tokens = { gone: { may: ['watch:counter', 'logs:counter'] }, stays: { may: ['watch:counter'] } };
    const host = await startScoped(t, { ...tokens, root: { may: ['*'] } }, { idleMaxMs: 20 });
    const streams: EventClient[] = [];
    for (const [target, name] of [
      ['/watch/counter/get', 'gone'],
      ['/watch?q=a:counter/get', 'gone'],
      ['/events/counter', 'gone'],
      ['/watch/counter/get', 'root'],
      ['/watch/counter/get', 'stays'],
    ] as const) {
      const stream = await EventClient.open(host.origin, target, showing(name));
      t.after(() => stream[Symbol.asyncDispose]());
      streams.push(stream);
    }
    await writeTokens({ stays: tokens.stays }, host.tokensFile);
    host.auth.reread?.();
    for (const stream of streams.slice(0, -1)) while ((await stream.next()) !== undefined) continue;
    assert.equal(streams.at(-1)?.isClosed, false);
    host.canisters.resolve('counter').count = 5;
    const headers = { authorization: 'Bearer root' };
    await send(host.origin, 'POST', '/call-json/counter/inc', { headers, body: '[]' });
    for (let event = await streams.at(-1)?.next(); event?.data !== '[6]'; event = await streams.at(-1)?.next())
      assert.ok(event !== undefined, 'it has ended');
    assert.equal((await send(host.origin, 'GET', '/x/me', { headers: showing('gone') })).status, 401);
  });

  test('a call whose token is taken back before its body has come is 401 and not executed', async (t) => {
    const host = await startScoped(t, { gone: { may: ['call:counter'] } });
    const { hostname, port } = new URL(host.origin);
    const answered = Promise.withResolvers<number>();
    const headers = { ...showing('gone'), 'content-length': 2, expect: '100-continue' };
    const asked = request({ hostname, port, method: 'POST', path: '/call-json/counter/inc', headers, agent: false });
    asked.on('response', (response) => {
      response.resume();
      answered.resolve(response.statusCode ?? 0);
    });
    asked.on('error', answered.reject);
    asked.on('continue', () => {
      void writeTokens({}, host.tokensFile).then(() => {
        host.auth.reread?.();
        asked.end('[]');
      });
    });
    asked.flushHeaders();
    assert.equal(await answered.promise, 401);
    assert.equal(host.canisters.resolve('counter').count, 0);
  });

  test('secrets are in no line of the log', async (t) => {
    const host = await startScoped(t, { one: { may: ['call:counter'] } });
    for (const target of ['/call-json/counter/inc', '/call-json/bare/inc', '/call-json/counter/crash'])
      await send(host.origin, 'POST', target, { headers: showing('one'), body: '[]' });
    await send(host.origin, 'POST', '/call-json/bare/inc', { headers: { authorization: 'Bearer secret-of-two' } });
    assert.doesNotMatch(JSON.stringify(host.log), /secret-of/);
  });
});
