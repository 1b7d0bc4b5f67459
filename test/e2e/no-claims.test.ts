/** `--no-claims` on a whole server: the callers that an actor sees are those who signed. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { principalToText } from '../../subsystems/ic/index.ts';
import { FIRST_ID, FIRST_TEXT, startWithActor } from '../subsystems/agents/actor.ts';
import { contentOf, envelopeOf, newSigner, send } from '../subsystems/agents/raw-agent.ts';

const CALL = `/api/v2/canister/${FIRST_TEXT}/call`;
const QUERY = `/api/v3/canister/${FIRST_TEXT}/query`;

for (const agents of ['guarded', 'open'])
  test(`beside --agents ${agents} signatures prove the caller, and x-caller is 403 elsewhere and nothing at /api`, async (t) => {
    const root = { authorization: 'Bearer root' };
    const server = await startWithActor(t, ['--no-claims', '--agents', agents, '--auth-token', 'root'], root);
    const signer = newSigner();
    const claim = { 'x-caller': principalToText(signer.principal) };
    for (const path of ['/call-json/it/who', '/call/it/who', '/upgrade/it', '/install/other']) {
      const { status, body } = await server.post(path, '[]', { ...root, ...claim });
      assert.deepEqual([status, /--no-claims/.test(body)], [403, true], `${path}: ${body}`);
    }
    const me = await server.get('/x/me', root);
    assert.deepEqual(JSON.parse(me.body), { name: null, may: ['*'], caller: null, claims: false });
    const { body: document } = await server.get('/openapi/it', root);
    assert.match(document, /Idempotency-Key/);
    assert.doesNotMatch(document, /x-caller/, 'a parameter that is always refused is none');
    const nobody = await server.post('/call-json/it/who', '[]', root);
    assert.equal(nobody.body, '["2vxsx-fae"]');
    const headers = { ...root, 'x-caller': '2vxsx-fae' };
    const called = await send(
      server,
      CALL,
      envelopeOf(contentOf('call', FIRST_ID, 'who', signer.principal), signer),
      headers,
    );
    assert.equal(called.status, 202, called.text);
    const asked = await send(
      server,
      QUERY,
      envelopeOf(contentOf('query', FIRST_ID, 'get', signer.principal), signer),
      headers,
    );
    assert.equal(asked.cbor?.get('status'), 'replied');
    const history = await server.get('/history/it', root);
    const callers = (JSON.parse(history.body) as { readonly method: string; readonly caller: string }[]).filter(
      ({ method }) => method === 'who',
    );
    assert.deepEqual(
      callers.map(({ caller }) => caller),
      ['2vxsx-fae', principalToText(signer.principal)],
    );
  });
