/** Clients of the Internet Computer, as they come from npm, call an actor of this host. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { after, suite, test } from 'node:test';
import type * as agent6 from 'icp-core-6/agent';
import type * as candid6 from 'icp-core-6/candid';
import { FIRST_TEXT, startWithActor } from './actor.ts';
import { type Core, CORES, rejection } from './cores.ts';

interface It {
  inc(): Promise<bigint>;
  get(): Promise<bigint>;
  who(): Promise<{ toText(): string }>;
  fail(): Promise<void>;
  boom(): Promise<void>;
  boomQuery(): Promise<void>;
  missing(): Promise<void>;
}

function actorOf({ agent, candid, principal }: Core, by: agent6.HttpAgent): It {
  const { IDL } = candid;
  const service = (): candid6.IDL.ServiceClass =>
    IDL.Service({
      inc: IDL.Func([], [IDL.Nat], []),
      get: IDL.Func([], [IDL.Nat], ['query']),
      who: IDL.Func([], [IDL.Principal], []),
      fail: IDL.Func([], [], []),
      boom: IDL.Func([], [], []),
      boomQuery: IDL.Func([], [], ['query']),
      missing: IDL.Func([], [], []),
    });
  const canisterId = principal.Principal.fromText(FIRST_TEXT);
  return agent.Actor.createActor<It>(service, { agent: by, canisterId });
}

/** Identities of each kind, and a session key behind a chain of three. */
async function identities({ identity, secp }: Core): Promise<Readonly<Record<string, agent6.SignIdentity>>> {
  const later = new Date(Date.now() + 600_000);
  const p256 = await identity.ECDSAKeyIdentity.generate();
  const ed25519 = identity.Ed25519KeyIdentity.generate();
  const secp256k1 = secp.Secp256k1KeyIdentity.generate();
  const session = identity.Ed25519KeyIdentity.generate();
  let chain = await identity.DelegationChain.create(p256, secp256k1.getPublicKey(), later);
  chain = await identity.DelegationChain.create(secp256k1, ed25519.getPublicKey(), later, { previous: chain });
  chain = await identity.DelegationChain.create(ed25519, session.getPublicKey(), later, { previous: chain });
  return { p256, ed25519, secp256k1, 'a chain of three': identity.DelegationIdentity.fromDelegation(session, chain) };
}

/** All clients call one actor: what they find is compared with what it was. */
const server = await startWithActor({ after });

test('the program of the documents calls an actor', async () => {
  const document = await readFile(new URL('../../../docs/agents.md', import.meta.url), 'utf8');
  const [, program = ''] = /```ts\n([^]*?)```/.exec(document) ?? [];
  assert.match(program, /console\.log\(await counter\.inc\(\)\)/);
  const text = program
    .replaceAll(/'@icp-sdk\/core\/(\w+)'/g, (_whole, part: string) => `'${import.meta.resolve(`icp-core-6/${part}`)}'`)
    .replace('http://127.0.0.1:7000', server.origin)
    .replace('console.log(await counter.inc())', 'export const answer = await counter.inc()');
  const { answer } = (await import(`data:text/javascript,${encodeURIComponent(text)}`)) as { readonly answer: bigint };
  assert.equal(answer, 1n);
});

test('each of the clients is installed', () => {
  const names = ['@icp-sdk/core 6', '@icp-sdk/core 5', '@dfinity/agent 3', '@dfinity/agent 2'];
  assert.deepEqual(Object.keys(CORES), names, 'npm ci installs what is missing');
});

for (const [name, core] of Object.entries(CORES)) {
  suite(name, () => {
    const agentOf = (more: object = {}): Promise<agent6.HttpAgent> =>
      core.agent.HttpAgent.create({ host: server.origin, shouldFetchRootKey: true, ...more });

    test('calls and queries of every kind of identity, at once and by polling', async () => {
      const anonymous = actorOf(core, await agentOf());
      assert.equal((await anonymous.who()).toText(), '2vxsx-fae');
      for (const [kind, identity] of Object.entries(await identities(core)))
        for (const callSync of [true, false]) {
          const actor = actorOf(core, await agentOf({ identity, callOptions: { callSync } }));
          const before = await actor.get();
          assert.equal(await actor.inc(), before + 1n, kind);
          assert.equal((await actor.who()).toText(), identity.getPrincipal().toText(), kind);
          assert.equal(await anonymous.get(), before + 1n);
        }
    });

    test('rejections carry their codes, certified or not', async () => {
      for (const callSync of [true, false]) {
        const actor = actorOf(core, await agentOf({ callOptions: { callSync } }));
        await assert.rejects(actor.fail(), rejection(4, 'IC0406', 'as it was asked to'));
        await assert.rejects(actor.boom(), rejection(5, 'IC0502', 'boom'));
        await assert.rejects(actor.missing(), rejection(5, 'IC0536', 'no update method .*missing'));
        await assert.rejects(actor.boomQuery(), rejection(5, 'IC0502', 'boom'));
      }
    });

    test('the state: interface, subnet and time', async () => {
      const agent = await agentOf();
      const canisterId = core.principal.Principal.fromText(FIRST_TEXT);
      assert.match((await core.agent.fetchCandid(FIRST_TEXT, agent)) ?? '', /inc: \(\) -> \(nat\)/);
      await agent.syncTime();
      // The newer ones alone can ask for the subnet.
      if (!('getSubnetIdFromCanister' in agent)) return;
      const subnet = await agent.getSubnetIdFromCanister(canisterId);
      assert.match(subnet.toText(), /^[a-z2-7-]{63}$/);
    });
  });
}
