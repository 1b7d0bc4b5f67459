/** `--agent-path-token`: what a token in the path opens, where it is never written, and what the flag leaves alone. */
import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { suite, test, type TestContext } from 'node:test';
import { AGENT_ROUTES } from '../../../subsystems/http/agent-routes.ts';
import { RawClient } from '../../support/http-client.ts';
import type { InProcessServer } from '../../support/in-process-server.ts';
import { signed, signingKey } from '../../support/oidc-issuer.ts';
import { showing, writeTokens } from '../../support/token-file.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';
import { FIRST_TEXT, startWithActor } from './actor.ts';
import { CORES } from './cores.ts';
import { contentOf, envelopeOf, newSigner, send } from './raw-agent.ts';

const TOKEN = 'r%t+tok/n?';
/** As `encodeURIComponent` writes it. */
const IN_PATH = encodeURIComponent(TOKEN);
const ROOT = { authorization: `Bearer ${TOKEN}` };
const ISSUER = 'https://issuer.example';
const KEY = signingKey('ES256', 'k');
const CLAIMS = { iss: ISSUER, aud: 'svc', sub: 'ann', exp: Math.floor(Date.now() / 1000) + 3600 };
const JWT = signed(KEY, CLAIMS);

interface Started {
  readonly server: InProcessServer;
  readonly accessLog: string;
  readonly auditFile: string;
}

async function start(t: TestContext, flags: readonly string[] = ['--agent-path-token']): Promise<Started> {
  const directory = await temporaryDirectory();
  const [keys, accessLog, auditFile] = ['keys.json', 'access.log', 'audit.log'].map((name) => join(directory, name));
  assert.ok(keys !== undefined && accessLog !== undefined && auditFile !== undefined);
  await writeFile(keys, JSON.stringify({ keys: [KEY.jwk] }));
  const tokens = await writeTokens({ shop: { may: ['call:*', 'inspect'] }, whole: { may: ['*'] } });
  const users = ['--jwt-issuer', ISSUER, '--jwt-audience', 'svc', '--jwt-keys', keys, '--jwt-may', 'call:*'];
  const logs = ['--access-log', accessLog, '--audit-file', auditFile];
  const args = ['--auth-token', TOKEN, '--tokens', tokens, ...users, ...logs, ...flags];
  return { server: await startWithActor(t, args, ROOT), accessLog, auditFile };
}

const pathOf = (path: string): string => path.replace(':principal', FIRST_TEXT);

/** Asks every route of the agent interface with a body that is no envelope: 200 or 400 is whoever was let in. */
async function statuses({ server }: Started, prefix: string, headers = {}): Promise<readonly number[]> {
  const answers = AGENT_ROUTES.map(async ({ method, path }) => {
    const init = method === 'GET' ? { headers } : { method, headers, body: 'x' };
    const { status } = await server.fetch(prefix + pathOf(path), init);
    return status;
  });
  return Promise.all(answers);
}

suite('--agent-path-token', () => {
  test('what stands in the path has the answers that it has as Authorization, on every route', async (t) => {
    const started = await start(t);
    const shown: readonly (readonly [string, Readonly<Record<string, string>>])[] = [
      [IN_PATH, ROOT],
      ['wrong', { authorization: 'Bearer wrong' }],
      ['', { authorization: 'Bearer ' }],
      [IN_PATH.toUpperCase(), { authorization: `Bearer ${TOKEN.toUpperCase()}` }],
      ['secret-of-whole', showing('whole')],
      ['secret-of-shop', showing('shop')],
      [JWT, { authorization: `Bearer ${JWT}` }],
    ];
    const seen = new Set<string>();
    for (const [token, headers] of shown) {
      const byHeader = await statuses(started, '', headers);
      assert.deepEqual(await statuses(started, `/t/${token}`), byHeader, token);
      seen.add(String(byHeader[0]));
    }
    assert.deepEqual([...seen].toSorted(), ['200', '401', '403']);
    // The path counts alone: a right header does not make up for it, and a wrong one does no harm.
    assert.equal((await statuses(started, '/t/wrong', ROOT))[0], 401);
    assert.equal((await statuses(started, `/t/${IN_PATH}`, { authorization: 'Bearer wrong' }))[0], 200);
  });

  test('unmodified clients keep the path, call, and manage a canister', async (t) => {
    const { server } = await start(t);
    const { agent, candid, identity } = CORES['@icp-sdk/core 6'] ?? assert.fail('npm ci installs it');
    const host = `${server.origin}/t/${IN_PATH}/`;
    const options = { host, shouldFetchRootKey: true, identity: identity.Ed25519KeyIdentity.generate() };
    const by = await agent.HttpAgent.create(options);
    const service = () => candid.IDL.Service({ inc: candid.IDL.Func([], [candid.IDL.Nat], []) });
    const actor = agent.Actor.createActor<{ inc(): Promise<bigint> }>(service, { agent: by, canisterId: FIRST_TEXT });
    assert.equal(await actor.inc(), 1n);
    await assert.rejects(agent.HttpAgent.create({ ...options, host: `${server.origin}/t/wrong/` }), /401/);
  });

  test('it counts at /api alone: elsewhere there is no such path, with or without a right token', async (t) => {
    const started = await start(t);
    for (const rest of [
      '',
      '/',
      '/health',
      '/actors',
      '/call-json/it/inc',
      '/api',
      '/api/',
      '/api/v9/x',
      '/inspector',
      '?x',
    ])
      for (const [token, status] of [
        [IN_PATH, 404],
        ['wrong', 401],
      ] as const) {
        const { status: found, body } = await started.server.get(`/t/${token}${rest}`);
        assert.equal(found, status, `${rest}: ${body}`);
        assert.ok(!body.includes(token) || token === 'wrong', body);
      }
    assert.equal((await started.server.get('/query-json/it/get')).status, 401);
  });

  test('a preflight is answered as that of /api is', async (t) => {
    const { server } = await start(t);
    const headers = { origin: 'https://app.example', 'access-control-request-method': 'POST' };
    const { status } = await server.fetch(`/t/${IN_PATH}${pathOf('/api/v4/canister/:principal/call')}`, {
      method: 'OPTIONS',
      headers,
    });
    assert.equal(status, 204);
  });

  test('no log, error or line of the audit has it, whatever the request is', async (t) => {
    const { server, accessLog, auditFile } = await start(t, ['--agent-path-token', '--verbose']);
    const secrets = [IN_PATH, encodeURI(IN_PATH), 'sesame-that-is-wrong', 'secret-of-shop', JWT];
    const texts: string[] = [];
    const signer = newSigner();
    for (const secret of secrets) {
      const prefix = `/t/${secret}`;
      for (const { method, path } of AGENT_ROUTES) {
        const answer = await server.fetch(prefix + pathOf(path), method === 'GET' ? {} : { method, body: 'x' });
        texts.push(await answer.text());
      }
      const created = contentOf('call', new Uint8Array(), 'provisional_create_canister_with_cycles', signer.principal);
      const argument = Buffer.from('4449444c016c0001 00'.replace(' ', ''), 'hex');
      texts.push(
        (
          await send(
            server,
            `${prefix}/api/v4/canister/aaaaa-aa/call`,
            envelopeOf(new Map(created).set('arg', argument), signer),
          )
        ).text,
      );
      for (const rest of [
        '',
        '/',
        '/health',
        '/api/v9',
        '/api/v2/status?x=1',
        '/api/v2/status#x',
        '/install/x',
        '/%61pi/v2/status',
        '/api/v2/canister/%zz/call',
      ])
        texts.push((await server.get(prefix + rest)).body, (await server.post(prefix + rest, 'x')).body);
      // The absolute form, a body that is too large, and a request that the parser gives up.
      for (const head of [
        `POST http://x${prefix}/api/v2/canister/${FIRST_TEXT}/call HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx`,
        `POST ${prefix}/api/v2/canister/${FIRST_TEXT}/call HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n`,
        `POST ${prefix}/api/v2/canister/${FIRST_TEXT}/call HTTP/1.1\r\nHost: x\r\nContent-Length: y\r\n\r\n`,
        `GET ${prefix}/api/v2/status HTTP/1.1\r\nHost: bad host\r\n\r\n`,
      ]) {
        await using client = new RawClient(server.origin);
        client.write(head);
        texts.push(await client.until('\r\n\r\n', 60_000));
      }
    }
    await server.stop();
    const [access, audit] = [await readFile(accessLog, 'utf8'), await readFile(auditFile, 'utf8')];
    assert.match(access, new RegExp(`"target":"/api/v2/canister/${FIRST_TEXT}/call"`));
    assert.match(audit, /"outcome":"denied"/);
    assert.match(audit, /provisional_create_canister_with_cycles/);
    const all = [access, audit, JSON.stringify(server.log), ...texts].join('\n');
    for (const secret of [...secrets, TOKEN])
      assert.ok(!all.includes(secret), `${secret} stands in ${all.split('\n').find((line) => line.includes(secret))}`);
  });

  test('with --agents open it shows that its sender may create', async (t) => {
    const { server } = await start(t, ['--agent-path-token', '--agents', 'open']);
    const signer = newSigner();
    const create = async (prefix: string): Promise<unknown> => {
      const content = contentOf('call', new Uint8Array(), 'provisional_create_canister_with_cycles', signer.principal);
      const { cbor, text } = await send(
        server,
        `${prefix}/api/v4/canister/aaaaa-aa/call`,
        envelopeOf(new Map(content).set('arg', Buffer.from('4449444c016c000100', 'hex')), signer),
      );
      return cbor?.get('status') ?? text;
    };
    assert.deepEqual(
      [await create(''), await create('/t/wrong'), await create(`/t/${IN_PATH}`)],
      ['non_replicated_rejection', 'non_replicated_rejection', 'replied'],
    );
  });

  test('without it, and without an agent interface, such a path is what it was: nobody’s, or a website’s', async (t) => {
    for (const flags of [[], ['--agent-path-token', '--agents', 'off']]) {
      const started = await start(t, flags);
      const target = `/t/${IN_PATH}/api/v2/status`;
      assert.equal((await started.server.get(target)).status, 401);
      const { status, body } = await started.server.get(target, ROOT);
      assert.equal(status, 404);
      assert.match(body, /no such path: GET \/t\//);
    }
  });
});
