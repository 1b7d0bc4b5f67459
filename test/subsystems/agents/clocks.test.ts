/** Clients whose clock is wrong: agents learn the host's by the text of its refusal. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { systemClock } from '../../../kernel/index.ts';
import { startInProcess } from '../../support/in-process-server.ts';
import { compiledActor, FIRST_ID, FIRST_TEXT } from './actor.ts';
import { CORES } from './cores.ts';
import { contentOf, envelopeOf, newSigner, send } from './raw-agent.ts';

const CALL = `/api/v4/canister/${FIRST_TEXT}/call`;
const TEN_MINUTES_MS = 600_000;

for (const [direction, offMs] of [
  ['fast', -TEN_MINUTES_MS],
  ['slow', TEN_MINUTES_MS],
] as const)
  test(`clients whose clock is ten minutes ${direction} set it by the host's, once`, async (t) => {
    const clock = { ...systemClock, nowMs: () => systemClock.nowMs() + offMs };
    const server = await startInProcess(t, { clock });
    assert.equal((await server.post('/install/it', await compiledActor())).status, 200);
    const signer = newSigner();
    const raw = await send(server, CALL, envelopeOf(contentOf('call', FIRST_ID, 'inc', signer.principal), signer));
    assert.equal(raw.status, 400);
    assert.match(raw.text, /^Invalid request expiry: Specified ingress_expiry not within expected range: Minimum /);
    let count = 0n;
    for (const [name, { agent, candid }] of Object.entries(CORES)) {
      // Version 2 does not look at refusals.
      if (name === '@dfinity/agent 2') continue;
      const by = await agent.HttpAgent.create({ host: server.origin, shouldFetchRootKey: true });
      const { IDL } = candid;
      const it = agent.Actor.createActor<{ inc(): Promise<bigint> }>(
        () => IDL.Service({ inc: IDL.Func([], [IDL.Nat], []) }),
        { agent: by, canisterId: FIRST_TEXT },
      );
      assert.equal(await it.inc(), ++count);
      assert.equal(await it.inc(), ++count);
    }
  });
