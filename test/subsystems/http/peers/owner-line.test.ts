import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Place } from '../../../../subsystems/cluster/index.ts';
import { OwnerLine } from '../../../../subsystems/http/peers/owner-line.ts';
import { FakeClock } from '../../../support/fake-clock.ts';
import { send } from '../../../support/http-client.ts';
import { addCounter, startLinked, startTwo } from './servers.ts';

suite('requests for a shard whose owner changes', () => {
  for (const [what, isKilled] of [
    ['hands it over', false],
    ['is killed', true],
  ] as const)
    test(`wait for the next owner of one that ${what}, and are executed once`, async (t) => {
      const { service, a, b } = await startTwo(t, 2, { ownerWaitMs: 60_000 });
      addCounter(b, service, 'far');
      assert.equal((await send(a.origin, 'POST', '/call-json/far/inc', { body: '[]' })).text, '[1]');
      if (isKilled) {
        b.cluster.close();
        await b.server.close({ signal: AbortSignal.abort() });
      } else {
        service.leave(1);
        await a.cluster.forget('');
      }
      const answers = Array.from({ length: 20 }, () => send(a.origin, 'POST', '/call-json/far/inc', { body: '[]' }));
      await sleep(300);
      const next = await startLinked(t, service, 1);
      const counter = addCounter(next, service, 'far');
      for (const { status, text } of await Promise.all(answers)) assert.equal(status, 200, text);
      assert.equal(counter.count, 20);
    });

  test('are no more than 1,000, and none waits longer than it may or for a client that has left', async () => {
    const clock = new FakeClock();
    let asked = 0;
    const cluster = {
      shard: 0,
      peerOf: (): undefined => undefined,
      placeOf: (): Place => ({ kind: 'ownerless', shard: 1 }),
      forget: async () => {
        asked++;
        clock.advance(1);
      },
    };
    const line = new OwnerLine({ cluster, clock, waitMs: 100 });
    assert.equal((await line.next('far', () => false)).kind, 'ownerless');
    assert.equal(asked, 100);
    asked = 0;
    await line.next('far', () => true);
    assert.equal(asked, 1);
    const held = Promise.withResolvers<void>();
    const full = new OwnerLine({ cluster: { ...cluster, forget: () => held.promise }, clock, waitMs: 1e9 });
    let isOver = false;
    const waiting = Array.from({ length: 1_000 }, () => full.next('far', () => isOver));
    const refused = full.next('far', () => false);
    held.resolve();
    assert.equal((await refused).kind, 'ownerless');
    isOver = true;
    await Promise.all(waiting);
  });
});
