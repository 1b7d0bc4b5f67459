/** Credentials that open `/api`, and what calls are told that nobody pays for. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { startInProcess } from '../../support/in-process-server.ts';
import { compileMotoko } from '../../support/motoko.ts';
import { signed, signingKey } from '../../support/oidc-issuer.ts';
import { showing, writeTokens } from '../../support/token-file.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';
import { FIRST_ID, FIRST_TEXT, startWithActor } from './actor.ts';
import { contentOf, envelopeOf, type RawAnswer, readContent, send } from './raw-agent.ts';

const ROOT = { authorization: 'Bearer root' };
const CANISTER = `/api/v4/canister/${FIRST_TEXT}/call`;
const ISSUER = 'https://issuer.example';
const KEY = signingKey('ES256', 'k');

const jwt = (audience: string): string =>
  signed(KEY, { iss: ISSUER, aud: audience, sub: 'ann', exp: Math.floor(Date.now() / 1000) + 3600 });

/** Starts a server with every kind of credentials; returns it, and those by name. */
async function start(t: TestContext, agents: 'guarded' | 'open') {
  const tokens = await writeTokens({ shop: { may: ['call:*', 'query:*', 'inspect'] }, whole: { may: ['*'] } });
  const keys = join(await temporaryDirectory(), 'keys.json');
  await writeFile(keys, JSON.stringify({ keys: [KEY.jwk] }));
  const jwtFlags = ['--jwt-issuer', ISSUER, '--jwt-audience', 'svc', '--jwt-keys', keys, '--jwt-may', 'call:*'];
  const flags = ['--agents', agents, '--auth-token', 'root', '--tokens', tokens, ...jwtFlags];
  const server = await startWithActor(t, flags, ROOT);
  const basic = (password: string) => ({
    authorization: `Basic ${Buffer.from(`any:${password}`).toString('base64')}`,
  });
  const shown = {
    none: {},
    wrong: { authorization: 'Bearer wrong' },
    'wrong, Basic': basic('wrong'),
    root: ROOT,
    'root, Basic': basic('root'),
    whole: showing('whole'),
    'whole, Basic': basic('secret-of-whole'),
    shop: showing('shop'),
    'shop, Basic': basic('secret-of-shop'),
    jwt: { authorization: `Bearer ${jwt('svc')}` },
    'jwt, Basic': basic(jwt('svc')),
    'jwt of another audience': { authorization: `Bearer ${jwt('other')}` },
  } satisfies Readonly<Record<string, Record<string, string>>>;
  return { server, shown };
}

/** Returns the status of each route, and what the first one that is refused says. */
async function statuses(
  { server }: Awaited<ReturnType<typeof start>>,
  headers: Readonly<Record<string, string>>,
): Promise<readonly (number | string)[]> {
  const read = (): ReturnType<typeof readContent> => readContent([[Buffer.from('time')]]);
  const answers = [
    await send(server, CANISTER, envelopeOf(contentOf('call', FIRST_ID, 'inc')), headers),
    await send(
      server,
      `/api/v3/canister/${FIRST_TEXT}/query`,
      envelopeOf(contentOf('query', FIRST_ID, 'get')),
      headers,
    ),
    await send(server, `/api/v3/canister/${FIRST_TEXT}/read_state`, envelopeOf(read()), headers),
    await server.fetch('/api/v2/status', { headers }).then(async (response) => ({
      status: response.status,
      text: await response.text(),
    })),
  ];
  const refused = answers.find(({ status }) => status !== 200);
  return [...answers.map(({ status }) => status), refused?.text ?? ''];
}

const OPEN = [200, 200, 200, 200, ''];
const WRONG = [401, 401, 401, 401, 'missing or wrong bearer token'];

test('guarded: the token and one with the scope *; a part of the rights is 403, everything else 401', async (t) => {
  const started = await start(t, 'guarded');
  for (const [name, headers] of Object.entries(started.shown)) {
    const found = await statuses(started, headers);
    if (/^(root|whole)/.test(name)) assert.deepEqual(found, OPEN, name);
    else if (/^shop|^jwt(, Basic)?$/.test(name)) {
      assert.deepEqual(found.slice(0, 4), [403, 403, 403, 403], name);
      assert.match(String(found[4]), /this token lacks the scope \*/, name);
    } else assert.deepEqual(found, WRONG, name);
  }
  // Nobody who was refused has called.
  const count = await started.server.post('/query-json/it/get', '[]', ROOT);
  assert.equal(count.body, '[4]');
});

test('open: signatures count, and no credentials', async (t) => {
  const started = await start(t, 'open');
  for (const [name, headers] of Object.entries(started.shown))
    assert.deepEqual(await statuses(started, headers), OPEN, name);
});

const COUNTER = 'persistent actor { public func inc() : async () {} }';

/** Returns the parts of a rejection that was never accepted. */
function refusalIn({ status, cbor }: RawAnswer): readonly unknown[] {
  return [status, cbor?.get('status'), cbor?.get('reject_code'), cbor?.get('error_code')];
}

test('an actor that is out of cycles says so, and is called once it has some', async (t) => {
  const server = await startInProcess(t, { args: ['--cycles', '1500000'] });
  const { wasm } = await compileMotoko(COUNTER);
  assert.equal((await server.post('/install/it', wasm)).status, 200);
  for (let status = 200; status !== 402;) ({ status } = await server.post('/call-json/it/inc', '[]'));
  const call = envelopeOf(contentOf('call', FIRST_ID, 'inc'));
  assert.deepEqual(refusalIn(await send(server, CANISTER, call)), [200, 'non_replicated_rejection', 2n, 'IC0207']);
  assert.equal((await server.post('/cycles/it', '1000000000000')).status, 200);
  assert.equal((await send(server, CANISTER, call)).cbor?.get('status'), 'replied');
});
