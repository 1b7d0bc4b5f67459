/**
 * The owner of a namespace is killed under load again and again, and its standby goes on. Effects of answered requests
 * are there, once and in order. `npm run prove -- postgres 100` is the long form.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { prepareLoad } from '../e2e/durability/prepare-load.ts';
import { startPostgres } from '../support/postgres.ts';
import { ProofSeeds } from '../support/proof-seeds.ts';
import { seeded } from '../support/seeded.ts';

const LEASE_MS = 1000;
const FLAGS: readonly (readonly string[])[] = [[], ['--live-cap', '2'], ['--snapshot-below', '0']];
const KILL_MS_MAX = 600;
const ANSWERED_MS_MAX = 60_000;

test('nothing acknowledged is lost and nothing is doubled, however often the owner is killed and a standby goes on', async (t) => {
  const postgres = await startPostgres();
  t.after(() => postgres[Symbol.asyncDispose]());
  const options = ['--plugin-option', `storage.url=${postgres.url}`, '--plugin-option', `storage.lease-ms=${LEASE_MS}`];
  const storage = ['--plugin', 'storage=svc/storage-postgres', ...options];
  const seeds = new ProofSeeds(2);
  const { deployment, load, host } = await prepareLoad(t, { storage });
  let owner = host;
  for (const seed of seeds) {
    const random = seeded(seed);
    try {
      const standby = await deployment.start(FLAGS[seed % FLAGS.length], 'listening');
      await standby.until(async () =>
        assert.deepEqual(await standby.server.get('/health/ready'), {
          status: 503,
          body: 'starting: standby, the namespace has another owner',
        }),
      );
      const running = load.run(owner);
      await sleep(random.below(KILL_MS_MAX));
      // Most kills come at any time; on a busy machine that may be before any answer.
      const deadline = Date.now() + ANSWERED_MS_MAX;
      while (seed === seeds.count && load.acknowledged <= seeds.count && Date.now() < deadline) await sleep(10);
      const { server } = owner;
      await server.kill();
      await running;
      await deployment.goOnWith(standby);
      owner = standby;
      await load.check(owner, server.output.stderr);
    } catch (error) {
      throw new Error(`kill ${seed}`, { cause: error });
    }
  }
  await load.checkAll(owner);
  seeds.saw({ 'messages acknowledged': load.acknowledged });
  assert.ok(load.acknowledged > seeds.count, `${load.acknowledged} messages`);
  await deployment.stop();
});
