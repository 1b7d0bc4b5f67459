/** The queue of an actor is full while an unmodified client of the Internet Computer calls it. */
import assert from 'node:assert/strict';
import { Agent } from 'node:http';
import { test } from 'node:test';
import { QUEUE_MESSAGES_MAX } from '../../subsystems/scheduler/intake.ts';
import { FIRST_ID, FIRST_TEXT } from '../subsystems/agents/actor.ts';
import { CORES, rejection } from '../subsystems/agents/cores.ts';
import { cborOf, contentOf, envelopeOf, send } from '../subsystems/agents/raw-agent.ts';
import { send as sendOver } from '../support/http-client.ts';
import { compileMotoko } from '../support/motoko.ts';
import { startServer } from '../support/server.ts';

/** The actor is busy until its server is killed. */
const SOURCE = `persistent actor {
  var count = 0;
  public func spin() : async () { loop { count += 1 } };
  public func inc() : async Nat { count += 1; count };
  public query func get() : async Nat { count };
}`;
const ENDLESS = ['--instruction-limit', '1000000000000000', '--executors', '2'];
const SENDERS = 32;
const CALL_2 = `/api/v2/canister/${FIRST_TEXT}/call`;

test('a call, a query and an asynchronous call are rejected with code 2 and IC0201, other actors go on', async (t) => {
  const server = await startServer(t, { manifest: '{"actors":{}}', args: ENDLESS });
  const { wasm } = await compileMotoko(SOURCE);
  for (const name of ['busy', 'idle']) assert.equal((await server.post(`/install/${name}`, wasm)).status, 200);
  // Ten thousand requests: each costs this process a third of what one of fetch does.
  const connections = new Agent({ keepAlive: true, maxSockets: SENDERS });
  t.after(() => connections.destroy());
  const headers = { 'content-type': 'application/cbor' };
  const fill = async (method: string): Promise<number> => {
    const body = cborOf(envelopeOf(contentOf('call', FIRST_ID, method)));
    return (await sendOver(server.origin, 'POST', CALL_2, { agent: connections, body, headers })).status;
  };
  assert.equal(await fill('spin'), 202);
  const queued = async (): Promise<number> => {
    const actors = JSON.parse((await server.get('/inspect')).body) as {
      readonly name: string;
      readonly queued: number;
    }[];
    return actors.find(({ name }) => name === 'busy')?.queued ?? 0;
  };
  let left = QUEUE_MESSAGES_MAX + 1000;
  let lastStatus = 202;
  const sending = async (): Promise<void> => {
    while (left-- > 0 && lastStatus === 202) lastStatus = await fill('inc');
  };
  await Promise.all(Array.from({ length: SENDERS }, sending));
  assert.equal(lastStatus, 200, `${await queued()} messages wait`);
  const full = /queue holds 10000 of 10000 messages: try again later/;
  const content = envelopeOf(contentOf('call', FIRST_ID, 'inc'));
  const refused = await send(server, CALL_2, content);
  assert.deepEqual(
    [refused.status, refused.cbor?.get('reject_code'), refused.cbor?.get('error_code')],
    [200, 2n, 'IC0201'],
  );
  assert.match(refused.text, full);
  for (const [name, { agent, candid }] of Object.entries(CORES)) {
    const by = await agent.HttpAgent.create({ host: server.origin, shouldFetchRootKey: true });
    const { IDL } = candid;
    const service = () => IDL.Service({ inc: IDL.Func([], [IDL.Nat], []), get: IDL.Func([], [IDL.Nat], ['query']) });
    const actorOf = (canisterId: string): Record<'inc' | 'get', () => Promise<bigint>> =>
      agent.Actor.createActor(service, { agent: by, canisterId });
    for (const method of ['inc', 'get'] as const)
      await assert.rejects(actorOf(FIRST_TEXT)[method](), rejection(2, 'IC0201', ''), name);
    const others = JSON.parse((await server.get('/inspect')).body) as {
      readonly name: string;
      readonly principal: string;
    }[];
    const idle = actorOf(others.find(({ name: other }) => other === 'idle')?.principal ?? '');
    assert.ok((await idle.inc()) > 0n, name);
  }
  const status = await server.post('/call-json/busy/inc');
  assert.equal(status.status, 503, status.body);
  await server.kill();
});
