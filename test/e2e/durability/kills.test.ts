/**
 * A server is killed under load again and again, each time with other flags, sometimes while it starts. What clients had
 * been answered is there, once and in order; transfers between actors neither make nor lose anything; and what was printed
 * is true. `npm run prove -- kills 300` is the long form.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { ProofSeeds } from '../../support/proof-seeds.ts';
import { seeded } from '../../support/seeded.ts';
import type { Actor } from '../semantics/host.ts';
import { compileActor, Deployment } from './deployment.ts';
import { Load } from './load.ts';

const NAMES = ['list-a', 'list-b', 'bank-a', 'bank-b', 'chain-a', 'chain-b'] as const;
const FLAGS: readonly [readonly string[], ...(readonly string[])[]] = [
  [],
  ['--snapshot-below', '0'],
  ['--live-cap', '2'],
  ['--fsync', 'off'],
  ['--snapshot-below', '0', '--live-cap', '3'],
  ['--executors', '1'],
];
/** From the first request on. */
const KILL_MS_MAX = 400;
/** From the start of the process on: about as long as a start takes. */
const EARLY_KILL_MS_MAX = 900;

test('nothing acknowledged is lost and nothing is doubled, however often the server is killed', async (t) => {
  const seeds = new ProofSeeds(6);
  const module = await compileActor('Keeper');
  const modules = Object.fromEntries(NAMES.map((name) => [name, module]));
  const deployment = await Deployment.create(t, { args: ['--verbose'], modules });
  let host = await deployment.start();
  const [listA, listB, bankA, bankB, chainA, chainB] = (await Promise.all(
    NAMES.map((name) => host.find(name)),
  )) as unknown as [Actor, Actor, Actor, Actor, Actor, Actor];
  const load = new Load({ lists: [listA, listB], banks: [bankA, bankB], chain: [chainA, chainB] });
  let early = 0;
  for (const seed of seeds) {
    const random = seeded(seed);
    const flags = FLAGS[seed % FLAGS.length] ?? FLAGS[0];
    try {
      const running = load.run(host);
      await sleep(random.below(KILL_MS_MAX));
      const { output } = host.server;
      await deployment.kill();
      await running;
      if (random.oneIn(4)) {
        early++;
        await deployment.start(flags, 'listening');
        await sleep(random.below(EARLY_KILL_MS_MAX));
        await deployment.kill();
      }
      host = await deployment.start(flags);
      await load.check(host, output.stderr);
    } catch (error) {
      throw new Error(`kill ${seed}, then started with ${flags.join(' ') || 'no flags'}`, { cause: error });
    }
  }
  await load.checkAll(host);
  seeds.saw({ 'messages acknowledged': load.acknowledged, 'killed while starting': early });
  assert.ok(load.acknowledged > seeds.count, 'the load was none');
  await deployment.stop();
});
