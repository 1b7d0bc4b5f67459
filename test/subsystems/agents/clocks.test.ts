/** Clients whose clock is wrong: agents learn the host's by the text of its refusal. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as candid3 from '@dfinity/candid';
import * as agent3 from 'dfinity-agent-3';
import * as agent5 from 'icp-core-5/agent';
import * as candid5 from 'icp-core-5/candid';
import * as agent6 from 'icp-core-6/agent';
import * as candid6 from 'icp-core-6/candid';
import { systemClock } from '../../../kernel/index.ts';
import { startInProcess } from '../../support/in-process-server.ts';
import { compiledActor, FIRST_ID, FIRST_TEXT } from './actor.ts';
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
    for (const [agent, candid] of [
      [agent6, candid6],
      [agent5, candid5],
      [agent3, candid3],
    ] as unknown as readonly (readonly [typeof agent6, typeof candid6])[]) {
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
