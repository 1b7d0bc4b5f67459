/**
 * Attackers with a part of the rights try every route of the table with every actor: who has a token with one scope,
 * a user of an issuer, and who has nothing but a public method. What each may is written here, not taken from the
 * table; a new route is closed to all of them until it is written here as well.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { Agent, type IncomingMessage, request } from 'node:http';
import { text as streamText } from 'node:stream/consumers';
import { after, suite, test, type TestContext } from 'node:test';
import { type RouteKey, routeKeyOf, type RouteSpec, ROUTES } from '../../subsystems/http/route-table.ts';
import { showing } from '../support/token-file.ts';
import { type AttackedHost, BANK_HEX, SHOP_HEX, startAttacked } from './attacked-host.ts';

const SPECS: readonly RouteSpec[] = ROUTES;
const GUARDED = SPECS.filter(({ access }) => access === 'token');

/** Routes that each scope opens. Those of the first line are of the whole host. */
const OPENED: Readonly<Record<string, readonly RouteKey[]>> = {
  metrics: ['GET /metrics'],
  inspect: ['GET /actors', 'GET /x/messages/:message', 'GET /inspect', 'GET /x/host', 'GET /x/cluster'],
  backup: ['GET /backup', 'POST /x/cluster/drain'],
  closure: ['GET /mops/closure/*'],
  'call:shop': ['POST /call-json/:actor/:method', 'POST /call/:actor/:method'],
  'query:shop': ['POST /query-json/:actor/:method', 'POST /query/:actor/:method'],
  'watch:shop': ['GET /watch/:actor/:method', 'GET /watch', 'POST /watch'],
  'describe:shop': ['GET /openapi/:actor', 'GET /x/actors/:actor/types', 'GET /candid/:actor'],
  'logs:shop': ['GET /logs/:actor', 'GET /events/:actor', 'GET /x/actors/:actor/output'],
  'history:shop': ['GET /history/:actor'],
  'variables:shop': ['GET /x/actors/:actor/variables'],
  'cycles:shop': ['GET /cycles/:actor'],
  'topup:shop': ['POST /cycles/:actor'],
  'settings:shop': ['GET /x/actors/:actor/settings', 'GET /x/actors/:actor/public'],
  'configure:shop': ['PUT /x/actors/:actor/settings', 'PUT /x/actors/:actor/public'],
  'snapshots:shop': [
    'GET /x/actors/:actor/snapshots',
    'POST /x/actors/:actor/snapshots',
    'POST /x/actors/:actor/snapshots/:snapshot/load',
    'DELETE /x/actors/:actor/snapshots/:snapshot',
  ],
  'install:shop': ['POST /install/:name'],
  'upgrade:shop': ['PUT /candid/:actor', 'POST /upgrade/:actor'],
  'stop:shop': ['POST /stop/:actor', 'POST /start/:actor'],
  'delete:shop': ['DELETE /actors/:actor'],
};
/** Routes that every token opens. */
const EVERYBODYS: readonly RouteKey[] = ['GET /x/me', 'POST /x/types'];
/** Routes by which a public method answers. */
const PUBLIC: readonly RouteKey[] = [
  'POST /call-json/:actor/:method',
  'POST /query-json/:actor/:method',
  'POST /call/:actor/:method',
  'POST /query/:actor/:method',
  'GET /watch/:actor/:method',
  'GET /watch',
  'POST /watch',
];
const USERS_MAY = 'call:shop,query:shop';

const TOKENS = Object.fromEntries(
  Object.keys(OPENED).map((scope) => [nameOf(scope), { may: [scope], caller: 'rrkah-fqaaa-aaaaa-aaaaq-cai' }]),
);

function nameOf(scope: string): string {
  return scope.replace(':', '-');
}

interface Attacker {
  readonly headers: Readonly<Record<string, string>>;
  /** Routes that are open to it for `shop`, and for the whole host. */
  readonly opened: readonly string[];
  /** The only method that it may call; undefined: all. */
  readonly method?: string;
  readonly refusal: { readonly status: number; readonly text: RegExp };
}

const LACKING = { status: 403, text: /this token lacks the scope / };
const STRANGER = { status: 401, text: /^missing or wrong bearer token$/ };

function attackersOf({ jwt }: AttackedHost): ReadonlyMap<string, Attacker> {
  const attackers = new Map<string, Attacker>();
  for (const [scope, routes] of Object.entries(OPENED)) {
    const opened = [...routes, ...EVERYBODYS];
    attackers.set(`a token with ${scope}`, { headers: showing(nameOf(scope)), opened, refusal: LACKING });
  }
  const ofUsers = USERS_MAY.split(',').flatMap((scope) => OPENED[scope] ?? []);
  attackers.set('a JWT', { headers: jwt, opened: [...ofUsers, ...EVERYBODYS], refusal: LACKING });
  attackers.set('a public method', { headers: {}, opened: PUBLIC, method: 'get', refusal: STRANGER });
  return attackers;
}

interface Try {
  readonly verb: string;
  readonly path: string;
  readonly body?: string;
}

const isOfActor = ({ path }: RouteSpec): boolean => /:actor|:name|^\/watch$/.test(path);

/** Returns the request of a route for an actor and a method. */
function tryOf(spec: RouteSpec, actor: string, method: string, { snapshot }: AttackedHost): Try {
  const path = spec.path
    .replace(/:actor|:name/, actor)
    .replace(':method', method)
    .replace(':snapshot', snapshot)
    .replace(':message', 'm-1')
    .replace('*', 'src/main.mo');
  const verb = spec.method;
  if (spec.path === '/watch' && verb === 'GET') return { verb, path: `${path}?q=a:${actor}/${method}` };
  if (verb === 'GET') return { verb, path };
  const list = `{"queries":[{"id":"a","actor":"${actor}","method":"${method}"}]}`;
  return { verb, path, body: spec.path === '/watch' ? list : spec.path.startsWith('/cycles/') ? '5' : '[]' };
}

interface Seen {
  readonly status: number;
  readonly text: string;
}

/** Thousands of requests are sent: `fetch` takes twice the time. */
const agent = new Agent({ keepAlive: true });
after(() => agent.destroy());

/** Asks, and leaves a stream as soon as it has begun. */
async function attempt(
  { server }: AttackedHost,
  { verb, path, body }: Try,
  headers: Attacker['headers'],
): Promise<Seen> {
  // Node would send the body of a DELETE without its length.
  const length = body === undefined ? {} : { 'content-length': body.length };
  const sent = request(server.origin + path, { method: verb, headers: { ...headers, ...length }, agent }).end(body);
  const [response] = (await once(sent, 'response')) as [IncomingMessage];
  const { statusCode: status = 0 } = response;
  const isWhole = response.headers['content-length'] !== undefined && verb !== 'HEAD';
  if (isWhole) return { status, text: await streamText(response) };
  response.on('error', () => undefined).destroy();
  return { status, text: '' };
}

const OTHERS = ['bank', BANK_HEX, 'nobody', '80000000001000ff0101', 'SHOP', '%00'];
const METHODS = ['inc', 'get'];

/** Tries a route with everything that it does not open to the attacker; each is refused in the same words. */
async function tryWhatIsClosed(host: AttackedHost, spec: RouteSpec, attacker: Attacker, name: string): Promise<void> {
  const key = routeKeyOf(spec);
  const isOpened = attacker.opened.includes(key);
  if (isOpened && !isOfActor(spec)) return;
  for (const actor of isOfActor(spec) ? [...OTHERS, 'shop', SHOP_HEX] : ['']) {
    for (const method of METHODS) {
      const isIts = actor === 'shop' || actor === SHOP_HEX;
      if (isOpened && isIts && (attacker.method ?? method) === method) continue;
      const one = tryOf(spec, actor, method, host);
      for (const claim of actor === 'bank' ? [{}, { 'x-caller': 'aaaaa-aa' }] : [{}]) {
        const { status, text } = await attempt(host, one, { ...attacker.headers, ...claim });
        const place = `${name}: ${one.verb} ${one.path}: ${status} ${text}`;
        const isClaim = status === 403 && messageIn(text).startsWith('header x-caller');
        assert.ok(status === attacker.refusal.status || isClaim, place);
        if (!isClaim) assert.match(messageIn(text), attacker.refusal.text, place);
      }
      if (!spec.path.includes(':method')) break;
    }
  }
}

function messageIn(text: string): string {
  return text.startsWith('{') ? (JSON.parse(text) as { readonly message: string }).message : text;
}

function start(t: TestContext): Promise<AttackedHost> {
  return startAttacked(t, { agents: 'guarded', tokens: TOKENS, may: USERS_MAY });
}

suite('an attacker on every route of the table', () => {
  test('is refused whatever is not its own, and nothing changes', async (t) => {
    const host = await start(t);
    const before = await host.state();
    for (const [name, attacker] of attackersOf(host)) {
      for (const spec of GUARDED) await tryWhatIsClosed(host, spec, attacker, name);
      assert.deepEqual(await host.state(), before, name);
    }
  });

  test('finds no way by another verb', async (t) => {
    const host = await start(t);
    const before = await host.state();
    const verbs = ['GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'PATCH'];
    for (const [name, { headers }] of attackersOf(host)) {
      for (const spec of SPECS) {
        const there = SPECS.filter(({ path }) => path === spec.path).map(({ method }) => method as string);
        for (const verb of verbs.filter((each) => !there.includes(each))) {
          const { path } = tryOf(spec, 'bank', 'inc', host);
          const { status } = await attempt(host, { verb, path: path.split('?')[0] ?? path }, headers);
          assert.ok([401, 403, 404].includes(status), `${name}: ${verb} ${path}: ${status}`);
        }
      }
    }
    assert.deepEqual(await host.state(), before);
  });

  test('gets what is its own, as its own caller, and the other actor stays as it is', async (t) => {
    const host = await start(t);
    const bank = async (): Promise<readonly string[]> =>
      (await host.state()).filter((line) => /"name":"bank"|^bank /.test(line));
    const before = await bank();
    assert.equal(before.length, 5);
    // Rights that close methods or end the actor come last.
    const rank = (name: string): number => ['configure', 'stop', 'delete'].findIndex((each) => name.includes(each));
    const attackers = [...attackersOf(host)].toSorted(([one], [other]) => rank(one) - rank(other));
    for (const [name, { headers, opened, method = 'get' }] of attackers)
      for (const spec of GUARDED.filter((each) => opened.includes(routeKeyOf(each)))) {
        const { status, text } = await attempt(host, tryOf(spec, 'shop', method, host), headers);
        assert.ok(![401, 403].includes(status), `${name}: ${routeKeyOf(spec)}: ${status} ${text}`);
      }
    assert.deepEqual(await bank(), before);
  });

  test('reads what is open to everybody, and no more', async (t) => {
    const host = await start(t);
    for (const [name, { headers }] of attackersOf(host))
      for (const spec of SPECS.filter(({ access }) => access !== 'token')) {
        const { status } = await attempt(host, { verb: spec.method, path: spec.path }, headers);
        assert.equal(status, 200, `${name}: ${routeKeyOf(spec)}`);
      }
    const { path } = SPECS.find(({ access }) => access === 'probe') ?? assert.fail();
    assert.equal((await attempt(host, { verb: 'GET', path }, { authorization: 'Bearer wrong' })).status, 200);
  });

  test('claims to be nobody else', async (t) => {
    const host = await start(t);
    for (const headers of [showing('call-shop'), showing('query-shop'), host.jwt, {}])
      for (const [verb, path] of [
        ['POST', '/call-json/shop/get'],
        ['POST', '/query-json/shop/get'],
      ] as const)
        for (const claimed of ['aaaaa-aa', '2vxsx-fae', '', 'shop']) {
          const claim = { ...headers, 'x-caller': claimed };
          const { status, text } = await attempt(host, { verb, path, body: '[]' }, claim);
          assert.equal(status, 403, `${verb} ${path} as ${claimed}: ${status} ${text}`);
        }
  });
});
