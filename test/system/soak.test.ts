/** The short form of `npm run soak`, and a server with a leak, which fails it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { soak } from '../soak/soak.ts';

test('a host of 200 actors stays flat through kills, upgrades, evictions and traps', { timeout: 240_000 }, async () => {
  const { complaints, done, restarts } = await soak({ seconds: 24 });
  assert.deepEqual(complaints, []);
  assert.equal(restarts.length, 3);
  for (const kind of ['call', 'trap', 'upgrade', 'website', 'note', 'write', 'outcall', 'event'])
    assert.ok((done.get(kind) ?? 0) > 0, `${kind}: none`);
});

test('a server that leaks does not', { timeout: 240_000 }, async () => {
  const leaking = new URL('../soak/leaking.ts', import.meta.url);
  const NODE_OPTIONS = `${process.env['NODE_OPTIONS'] ?? ''} --import ${leaking.href}`;
  const env = { NODE_OPTIONS, SVC_TEST_LEAK: String(80 * 2 ** 20) };
  const { complaints } = await soak({ seconds: 12, env, ends: [] });
  assert.equal(complaints.length, 1, complaints.join('; '));
  assert.match(complaints[0] ?? '', /^Memory besides actors' grows: by \d{3} MiB/);
});
