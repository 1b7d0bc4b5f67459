/** `--no-claims`: no row of the route table takes a caller at its word, whatever credentials stand beside the claim. */
import assert from 'node:assert/strict';
import { request } from 'node:http';
import { suite, test, type TestContext } from 'node:test';
import { jwtPrincipal } from '../../../subsystems/auth/jwt/jwt-grants.ts';
import { routeKeyOf, type RouteSpec, ROUTES } from '../../../subsystems/http/route-table.ts';
import { principalToText } from '../../../subsystems/ic/index.ts';
import { send } from '../../support/http-client.ts';
import { signed, signingKey, startIssuer } from '../../support/oidc-issuer.ts';
import { showing, writeTokens } from '../../support/token-file.ts';
import { type HttpHost, type HttpHostOptions, startHttpHost } from './counter-host.ts';

const SPECS: readonly RouteSpec[] = ROUTES;
const PRINCIPAL = 'bkyz2-fmaaa-aaaaa-qaaaq-cai';
const ROOT = { authorization: 'Bearer root' };
/** Text of the refusal. */
const REFUSED = /--no-claims/;

interface Seen {
  readonly status: number;
  readonly text: string;
}

/** Sends a valid request of the route; leaves a stream as soon as it has begun. */
function ask(host: HttpHost, spec: RouteSpec, headers: Readonly<Record<string, string>>): Promise<Seen> {
  const isQuery = spec.scope === 'query' || spec.scope === 'watch';
  const path = spec.path
    .replace(':actor', 'counter')
    .replace(':name', 'fresh')
    .replace(':method', isQuery ? 'get' : 'inc')
    .replace('*', 'src/main.mo');
  const list = '{"queries":[{"id":"a","actor":"counter","method":"get"}]}';
  const body = spec.method === 'GET' ? undefined : spec.path === '/watch' ? list : '[]';
  const target = spec.path === '/watch' && spec.method === 'GET' ? `${path}?q=a:counter/get` : path;
  const { hostname, port } = new URL(host.origin);
  const length = body === undefined ? {} : { 'content-length': Buffer.byteLength(body) };
  const options = { hostname, port, method: spec.method, path: target, agent: false } as const;
  return new Promise((resolve, reject) => {
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

/** Routes that end what others of the walk need come last. */
const WALK = SPECS.toSorted((one, other) => Number(endsActor(one)) - Number(endsActor(other)));
function endsActor({ scope, method }: RouteSpec): boolean {
  return scope === 'stop' || (scope === 'delete' && method === 'DELETE');
}

function startRefusing(t: TestContext, options: HttpHostOptions = {}): Promise<HttpHost> {
  return startHttpHost(t, { refusesClaims: true, ...options });
}

suite('--no-claims', () => {
  test('the table knows each route that takes a caller: a claim that is none is 400 there, and nothing elsewhere', async (t) => {
    const host = await startHttpHost(t);
    for (const spec of WALK) {
      const { text } = await ask(host, spec, { 'x-caller': 'nonsense' });
      assert.equal(text.includes('header x-caller'), spec.takesCaller === true, `${routeKeyOf(spec)}: ${text}`);
    }
    assert.equal(SPECS.filter(({ takesCaller }) => takesCaller === true).length, 9);
  });

  test('every one of them answers 403 and names the flag; nothing is done', async (t) => {
    for (const [token, headers] of [
      [undefined, {}],
      ['root', ROOT],
    ] as const) {
      const host = await startRefusing(t, token === undefined ? {} : { token });
      for (const spec of WALK.filter(({ takesCaller }) => takesCaller === true))
        for (const claim of [PRINCIPAL, '2vxsx-fae', 'nonsense', ''])
          for (const name of ['x-caller', 'X-CALLER']) {
            const { status, text } = await ask(host, spec, { ...headers, [name]: claim });
            assert.equal(status, 403, `${routeKeyOf(spec)} with ${JSON.stringify(claim)}: ${text}`);
            assert.match(text, REFUSED);
          }
      const { canisters } = host;
      assert.deepEqual([canisters.installed, canisters.upgraded, canisters.resolve('counter').count], [[], [], 0]);
    }
  });

  test('without the header every route answers as it did, and other routes do with it', async (t) => {
    const [plain, refusing] = [await startHttpHost(t), await startRefusing(t)];
    for (const spec of WALK) {
      const { status } = await ask(plain, spec, {});
      assert.equal((await ask(refusing, spec, {})).status, status, routeKeyOf(spec));
    }
    const others = await startRefusing(t);
    for (const spec of WALK.filter(({ takesCaller }) => takesCaller !== true)) {
      const { text } = await ask(others, spec, { 'x-caller': PRINCIPAL });
      assert.doesNotMatch(text, REFUSED, routeKeyOf(spec));
    }
  });

  test('a token with a caller and a JWT call as who they prove, and may not even name that', async (t) => {
    const key = signingKey('ES256', 'k');
    const issuer = await startIssuer(t, [key]);
    const may = ['query:counter'];
    const jwt = { issuers: [issuer.url], audience: 'svc', keysFile: undefined, may, typ: undefined };
    const tokensFile = await writeTokens({ one: { may, caller: PRINCIPAL }, whole: { may: ['*'] } });
    const host = await startRefusing(t, { token: 'root', tokensFile, jwt });
    const claims = { iss: issuer.url, aud: 'svc', sub: 'ann', exp: Math.floor(Date.now() / 1000) + 3600 };
    const ann = principalToText(jwtPrincipal(issuer.url, 'ann'));
    for (const [headers, own, shown] of [
      [showing('one'), PRINCIPAL, '80000000001000010101'],
      [
        { authorization: `Bearer ${signed(key, claims)}` },
        ann,
        Buffer.from(jwtPrincipal(issuer.url, 'ann')).toString('hex'),
      ],
      [showing('whole'), PRINCIPAL, '04'],
      [ROOT, PRINCIPAL, '04'],
    ] as const) {
      const asked = (more: Readonly<Record<string, string>>): Promise<Seen> =>
        send(host.origin, 'POST', '/query-json/counter/whoami', { headers: { ...headers, ...more }, body: '[]' });
      assert.equal((await asked({})).text, JSON.stringify([shown]));
      const { status, text } = await asked({ 'x-caller': own });
      assert.equal(status, 403, text);
      assert.match(text, REFUSED);
    }
  });

  test('open methods say the same; visitors of websites may send what they like', async (t) => {
    const host = await startRefusing(t, { token: 'root' });
    host.canisters.resolve('counter').openMethods = { names: new Set(['get']), isOfManifest: false };
    const target = '/query-json/counter/get';
    assert.equal((await send(host.origin, 'POST', target, { body: '[]' })).status, 200);
    const headers = { 'x-caller': PRINCIPAL };
    const { status, text } = await send(host.origin, 'POST', target, { body: '[]', headers });
    assert.equal(status, 403);
    assert.match(text, REFUSED);
    assert.equal((await send(host.origin, 'GET', '/site/counter/x', { headers })).status, 200);
  });

  test('routes of plugins, which may take it at its word, do not get it', async (t) => {
    const route = {
      plugin: 'extra',
      method: 'GET',
      path: '/who',
      query: [],
      bodyBytesMax: 0,
      answer: async ({ headers }: { readonly headers: Readonly<Record<string, string>> }) => ({
        body: headers['x-caller'] ?? 'nobody',
      }),
    } as const;
    const host = await startRefusing(t, { pluginRoutes: [route] });
    assert.equal((await send(host.origin, 'GET', '/x/extra/who')).text, 'nobody');
    assert.equal((await send(host.origin, 'GET', '/x/extra/who', { headers: { 'x-caller': PRINCIPAL } })).status, 403);
    const plain = await startHttpHost(t, { pluginRoutes: [route] });
    assert.equal(
      (await send(plain.origin, 'GET', '/x/extra/who', { headers: { 'x-caller': PRINCIPAL } })).text,
      PRINCIPAL,
    );
  });
});
