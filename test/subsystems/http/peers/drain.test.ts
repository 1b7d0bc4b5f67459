import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { MemoryService } from '../../../support/memory-service.ts';
import { send } from '../../../support/http-client.ts';
import { startHttpHost } from '../counter-host.ts';
import { addCounter, startLinked, startTwo } from './servers.ts';

suite('POST /x/cluster/drain', () => {
  test('turns balancers away, serves on, and stops when the seconds are over', async (t) => {
    const service = new MemoryService(2);
    const stopped = Promise.withResolvers<void>();
    const a = await startLinked(t, service, 0);
    const b = await startLinked(t, service, 1, {}, stopped.resolve);
    await a.cluster.forget('');
    addCounter(b, service, 'far');
    assert.equal((await send(b.origin, 'GET', '/health/ready')).text, 'ready');
    assert.equal((await send(b.origin, 'POST', '/x/cluster/drain?seconds=1')).text, 'draining');
    const ready = await send(b.origin, 'GET', '/health/ready');
    assert.deepEqual([ready.status, ready.text], [503, 'draining']);
    assert.equal((await send(b.origin, 'GET', '/health')).status, 200);
    for (const { origin } of [a, b]) assert.equal((await send(origin, 'POST', '/call/far/inc')).status, 200);
    assert.match((await send(b.origin, 'GET', '/x/cluster')).text, /"isLeaving":true/);
    assert.equal((await send(a.origin, 'GET', '/health/ready')).text, 'ready');
    await stopped.promise;
  });

  test('is refused for other numbers of seconds, and where nobody would go on', async (t) => {
    const { a } = await startTwo(t);
    for (const text of ['-1', '3601', '1.5', 'x', '01', ''])
      assert.ok((await send(a.origin, 'POST', `/x/cluster/drain?seconds=${text}`)).status >= 400, text);
    assert.equal((await send(a.origin, 'GET', '/health/ready')).text, 'ready');
    const alone = await startHttpHost(t);
    const refused = await send(alone.origin, 'POST', '/x/cluster/drain');
    assert.equal(refused.status, 400);
    assert.match(refused.text, /service by itself/);
  });
});
