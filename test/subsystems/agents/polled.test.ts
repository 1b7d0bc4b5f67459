/** Requests whose answers are asked for later, by the subnet's route, and what a client of today has refused. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { suite, test, type TestContext } from 'node:test';
import { type Clock, systemClock } from '../../../kernel/index.ts';
import { principalToText } from '../../../subsystems/ic/index.ts';
import { type InProcessServer, startInProcess } from '../../support/in-process-server.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';
import { FIRST_ID, FIRST_TEXT, startWithActor } from './actor.ts';
import { CORES } from './cores.ts';
import {
  certified,
  contentOf,
  envelopeOf,
  newSigner,
  type RawAnswer,
  readContent,
  rootKeyOf,
  send,
} from './raw-agent.ts';
import { hashOfMap } from '../../../subsystems/certification/index.ts';

const core = CORES['@icp-sdk/core 6'] ?? assert.fail('npm ci installs it');
const CREATE = 'provisional_create_canister_with_cycles';
/** Candid of a record without fields. */
const NO_SETTINGS = Buffer.from('4449444c016c000100', 'hex');
const WAIT_MS = 77_000;
const label = (text: string): Uint8Array => Buffer.from(text);

/** A clock that waits for no answer. */
const HASTY: Clock = {
  ...systemClock,
  after(ms, work) {
    if (ms !== WAIT_MS) return systemClock.after(ms, work);
    work();
    return { [Symbol.dispose]: () => undefined };
  },
};

/** Starts a server whose calls are always answered 202: the disk takes longer than its clock. */
async function startHasty(t: TestContext): Promise<{ readonly server: InProcessServer; readonly subnet: string }> {
  const state = join(await temporaryDirectory(), 'state');
  const args = ['--state', state, '--agent-wait-secs', String(WAIT_MS / 1000)];
  const server = await startInProcess(t, { args, clock: HASTY });
  const key = createHash('sha224')
    .update(await rootKeyOf(server))
    .digest();
  return { server, subnet: principalToText(Buffer.concat([key, Uint8Array.of(2)])) };
}

suite('a request that was answered 202', () => {
  test('by the subnet is asked for there, by an unmodified client', async (t) => {
    const { server, subnet } = await startHasty(t);
    const { agent, identity, principal } = core;
    const options = { host: server.origin, shouldFetchRootKey: true, identity: identity.Ed25519KeyIdentity.generate() };
    const by = await agent.HttpAgent.create(options);
    const subnetId = principal.Principal.fromText(subnet);
    const fields = { methodName: CREATE, arg: NO_SETTINGS, effectiveTarget: { subnetId } };
    const { requestId, response } = await by.call(principal.Principal.managementCanister(), fields);
    assert.equal(response.status, 202);
    const { reply } = await agent.polling.pollForResponse(by, { subnetId }, requestId);
    assert.ok(Buffer.from(reply ?? []).includes(FIRST_ID), 'the reply has the id of the first canister');
  });

  test('is known by the id of its path alone, and to its sender alone', async (t) => {
    const { server, subnet } = await startHasty(t);
    const rootKey = await rootKeyOf(server);
    const [alice, bob] = [newSigner(), newSigner()];
    const content = new Map(contentOf('call', new Uint8Array(), CREATE, alice.principal)).set('arg', NO_SETTINGS);
    assert.equal((await send(server, `/api/v4/subnet/${subnet}/call`, envelopeOf(content, alice))).status, 202);
    const requestId = hashOfMap(content);
    const path = ['request_status', requestId, 'status'];
    const status = (place: string, by: typeof alice, id = requestId): Promise<RawAnswer> => {
      const read = readContent([[label('request_status'), id]], by.principal);
      return send(server, `/api/v3/${place}/read_state`, envelopeOf(read, by));
    };
    let found: unknown = label('processing');
    while (Buffer.from(found as Uint8Array).toString() === 'processing')
      found = certified(await status(`subnet/${subnet}`, alice), rootKey)(path);
    assert.deepEqual(found, label('replied'));
    for (const [place, by] of [
      [`subnet/${subnet}`, bob],
      ['canister/aaaaa-aa', alice],
      [`canister/${FIRST_TEXT}`, alice],
    ] as const) {
      const { status: refused, text } = await status(place, by);
      assert.deepEqual([refused, text], [403, 'the status of a request is for its sender'], place);
    }
    const other = Buffer.alloc(32, 7);
    const says = certified(await status(`subnet/${subnet}`, bob, other), rootKey);
    assert.equal(says(['request_status', other, 'status']), 'absent');
    const { status: bad } = await status(`subnet/${subnet}`, alice, Buffer.alloc(31));
    assert.equal(bad, 400);
  });

  test('by an actor is not known to the subnet', async (t) => {
    const server = await startWithActor(t);
    const rootKey = await rootKeyOf(server);
    const subnet = principalToText(Buffer.concat([createHash('sha224').update(rootKey).digest(), Uint8Array.of(2)]));
    const content = contentOf('call', FIRST_ID, 'inc');
    assert.equal((await send(server, `/api/v3/canister/${FIRST_TEXT}/call`, envelopeOf(content))).status, 200);
    const read = readContent([[label('request_status'), hashOfMap(content)]]);
    const says = certified(await send(server, `/api/v3/subnet/${subnet}/read_state`, envelopeOf(read)), rootKey);
    assert.equal(says(['request_status', hashOfMap(content), 'status']), 'absent');
  });
});

test('attributes of the sender are refused by name, and nothing is executed', async (t) => {
  const server = await startWithActor(t);
  const { agent, candid, identity, principal } = core;
  const inner = identity.Ed25519KeyIdentity.generate();
  const attributes = { data: label('email'), signature: new Uint8Array(96) };
  const signer = { canisterId: principal.Principal.fromText(FIRST_TEXT) };
  const by = await agent.HttpAgent.create({
    host: server.origin,
    shouldFetchRootKey: true,
    retryTimes: 0,
    identity: new identity.AttributesIdentity({ inner, attributes, signer }),
  });
  const { IDL } = candid;
  const service = () => IDL.Service({ inc: IDL.Func([], [IDL.Nat], []), get: IDL.Func([], [IDL.Nat], ['query']) });
  const actor = agent.Actor.createActor<Record<'inc' | 'get', () => Promise<bigint>>>(service, {
    agent: by,
    canisterId: FIRST_TEXT,
  });
  for (const method of ['inc', 'get'] as const)
    await assert.rejects(actor[method](), /content\.sender_info is not taken by this host[^]*leave it out/);
  assert.equal((await server.post('/query-json/it/get')).body, '[0]');
});
