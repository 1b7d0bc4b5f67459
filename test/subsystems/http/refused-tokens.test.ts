import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock } from '../../support/fake-clock.ts';
import { startHttpHost } from './counter-host.ts';

test('the log tells who sends requests without the right token, and is not filled by them', async (t) => {
  const clock = new FakeClock();
  const trustedProxies = [{ address: '127.0.0.1', prefix: 32 }];
  const { origin, log, server } = await startHttpHost(t, { token: 'sesame', clock, trustedProxies });
  const attempt = async (client: string): Promise<void> => {
    const response = await fetch(`${origin}/list`, { headers: { 'x-forwarded-for': client } });
    assert.equal(response.status, 401);
    await response.text();
  };
  await attempt('203.0.113.1');
  clock.advance(5000);
  assert.deepEqual(log.warnings, ['a request without the right bearer token: 401; the last one came from 203.0.113.1']);
  for (const last of ['2', '3', '4']) await attempt(`203.0.113.${last}`);
  clock.advance(5000);
  assert.equal(log.warnings.length, 1, 'a line at most every ten seconds');
  clock.advance(5000);
  assert.match(log.warnings[1] ?? '', /^3 requests .* from 203\.0\.113\.4$/);
  await (await fetch(`${origin}/list`, { headers: { authorization: 'Bearer sesame' } })).text();
  await attempt('203.0.113.5');
  await server.close({ signal: AbortSignal.abort() });
  assert.match(log.warnings[2] ?? '', /^a request .* from 203\.0\.113\.5$/);
});
