/** JWTs over HTTP: which answers they get, as whom they call, and what they do not reach. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { suite, test, type TestContext } from 'node:test';
import { jwtPrincipal } from '../../../subsystems/auth/jwt/jwt-grants.ts';
import { type RouteSpec, ROUTES, routeKeyOf } from '../../../subsystems/http/route-table.ts';
import { principalToText } from '../../../subsystems/ic/index.ts';
import { send } from '../../support/http-client.ts';
import { type Json, type OidcIssuer, signed, signingKey, startIssuer } from '../../support/oidc-issuer.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';
import { type HttpHost, type HttpHostOptions, startHttpHost } from './counter-host.ts';

const KEY = signingKey('ES256', 'k');
const SPECS: readonly RouteSpec[] = ROUTES;
const EXP = Math.floor(Date.now() / 1000) + 3600;

interface Bench extends HttpHost {
  readonly issuer: OidcIssuer;
  readonly who: string;
  readonly showing: (more?: Json) => { readonly authorization: string };
}

async function bench(t: TestContext, may: readonly string[], options: HttpHostOptions = {}): Promise<Bench> {
  const issuer = await startIssuer(t, [KEY]);
  const jwt = { issuers: [issuer.url], audience: 'svc', keysFile: undefined, may, typ: undefined };
  const host = await startHttpHost(t, { token: 'root', jwt, ...options });
  const showing = (more: Json = {}): { readonly authorization: string } => {
    const claims = { iss: issuer.url, aud: 'svc', sub: 'ann', exp: EXP, ...more };
    return { authorization: `Bearer ${signed(KEY, claims)}` };
  };
  return { ...host, issuer, showing, who: principalToText(jwtPrincipal(issuer.url, 'ann')) };
}

suite('a JWT over HTTP', () => {
  test('calls as its principal, new and known; the one token does what it did', async (t) => {
    const { origin, showing, who } = await bench(t, ['call:counter']);
    const headers = showing();
    for (let times = 0; times < 2; times++) {
      const me = await send(origin, 'GET', '/x/me', { headers });
      assert.deepEqual(JSON.parse(me.text), { name: who, may: ['call:counter'], caller: who, claims: false });
      assert.equal((await send(origin, 'POST', '/call-json/counter/inc', { headers, body: '[]' })).status, 200);
    }
    assert.equal((await send(origin, 'GET', '/actors', { headers: { authorization: 'Bearer root' } })).status, 200);
  });

  test('is 401 with the text of the contract, and its reason in WWW-Authenticate', async (t) => {
    const { origin, showing } = await bench(t, ['call:counter']);
    for (const [more, reason] of [
      [{ exp: 1000 }, 'it has expired'],
      [{ aud: 'other' }, 'its audience is not this server'],
    ] as const) {
      const { status, text, headers } = await send(origin, 'GET', '/x/me', { headers: showing(more) });
      assert.deepEqual([status, text], [401, 'missing or wrong bearer token']);
      assert.equal(headers['www-authenticate'], `Bearer error="invalid_token", error_description="${reason}"`);
    }
    const { status, headers } = await send(origin, 'GET', '/x/me');
    assert.deepEqual([status, headers['www-authenticate']], [401, 'Bearer']);
    const open = await send(origin, 'GET', '/health', { headers: showing({ exp: 1000 }) });
    assert.equal(open.status, 200, 'what is open is open');
  });

  test('and x-caller are 403, whoever it names', async (t) => {
    const { origin, showing, who } = await bench(t, ['call:counter']);
    for (const claimed of [who, '2vxsx-fae', 'aaaaa-aa']) {
      const headers = { ...showing(), 'x-caller': claimed };
      const { status, text } = await send(origin, 'POST', '/call-json/counter/inc', { headers, body: '[]' });
      assert.equal(status, 403);
      assert.match(text, /this token calls as .*; leave the header out/);
    }
  });

  test('reaches what --jwt-may says, on every route of the table', async (t) => {
    const { origin, showing } = await bench(t, ['call:counter', 'query:counter']);
    const headers = showing();
    for (const spec of SPECS.filter(({ access }) => access === 'token')) {
      for (const actor of ['counter', 'bare', 'nobody']) {
        const path = spec.path
          .replace(':actor', actor)
          .replace(':name', actor)
          .replace(':method', 'get')
          .replace('*', 'a.mo');
        const body = spec.method === 'GET' ? {} : { body: '[]' };
        const isIts = (spec.scope === 'call' || spec.scope === 'query') && actor === 'counter';
        // Queries of a list are looked at one by one, as scoped-tokens.test.ts shows.
        if (spec.path === '/watch') continue;
        const { status } = await send(origin, spec.method, path, { headers, ...body });
        assert.equal(status === 403, !isIts && spec.scope !== 'any', `${routeKeyOf(spec)} of ${actor}: ${status}`);
        assert.notEqual(status, 401);
      }
    }
  });

  test('while the server starts is 503, and a wrong one is 401', async (t) => {
    const { origin, showing, readiness } = await bench(t, ['call:counter']);
    readiness.isReady = false;
    assert.equal((await send(origin, 'GET', '/x/me', { headers: showing() })).status, 503);
    assert.equal((await send(origin, 'GET', '/x/me', { headers: showing({ exp: 1000 }) })).status, 401);
  });

  test('of an issuer that does not answer keeps nobody else waiting', async (t) => {
    const { origin, showing, issuer } = await bench(t, ['call:counter']);
    issuer.mode = 'is silent';
    const waiting = send(origin, 'GET', '/x/me', { headers: showing() });
    assert.equal((await send(origin, 'GET', '/actors', { headers: { authorization: 'Bearer root' } })).status, 200);
    const { status, headers } = await waiting;
    assert.equal(status, 401);
    assert.match(String(headers['www-authenticate']), /the keys of the issuer cannot be read/);
  });

  test('stands in the audit as its principal', async (t) => {
    const file = join(await temporaryDirectory(), 'audit.log');
    const { origin, showing, who } = await bench(t, ['topup:counter'], { audit: { file } });
    const { status } = await send(origin, 'POST', '/cycles/counter', { headers: showing(), body: '5' });
    assert.equal(status, 200);
    const lines = (await readFile(file, 'utf8')).split('\n').slice(0, -1);
    const told = lines.map((line) => JSON.parse(line) as { who: string; outcome: string });
    assert.deepEqual(
      told.map((line) => [line.who, line.outcome]),
      [
        [who, 'begun'],
        [who, 'done'],
      ],
    );
  });

  test('2,000 different ones that prove nothing: each is 401, and the one token is served', async (t) => {
    const { origin, showing } = await bench(t, ['call:counter']);
    const answers = await Promise.all(
      Array.from({ length: 2000 }, (_, at) =>
        send(origin, 'GET', '/x/me', { headers: showing({ sub: `u${at}`, exp: 5 }) }),
      ),
    );
    assert.deepEqual(new Set(answers.map(({ status }) => status)), new Set([401]));
    assert.equal((await send(origin, 'GET', '/actors', { headers: { authorization: 'Bearer root' } })).status, 200);
  });

  test('of 1 MB is no request', async (t) => {
    const { origin } = await bench(t, ['call:counter']);
    const headers = { authorization: `Bearer eyJ${'x'.repeat(1e6)}.e30.x` };
    assert.equal((await send(origin, 'GET', '/x/me', { headers })).status, 431);
  });
});
