/** The short form of `npm run soak`; that a leak is found: test/soak/flat.test.ts. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { soak } from '../soak/soak.ts';

test('a host of 200 actors stays flat through kills, upgrades, evictions and traps', { timeout: 240_000 }, async () => {
  const { complaints, done, restarts } = await soak({ seconds: 24 });
  assert.deepEqual(complaints, []);
  assert.equal(restarts.length, 3);
  for (const kind of ['call', 'trap', 'upgrade', 'website', 'note', 'outcall', 'event'])
    assert.ok((done.get(kind) ?? 0) > 0, `${kind}: none`);
});
