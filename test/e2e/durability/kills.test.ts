/**
 * A server is killed under load again and again, each time with other flags, sometimes while it starts. Effects of
 * answered requests are there, once and in order; transfers between actors neither make nor lose anything; and the
 * printed lines are true. `npm run prove -- kills 300` is the long form.
 */
import assert from 'node:assert/strict';
import { cp, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { ProofSeeds } from '../../support/proof-seeds.ts';
import { seeded } from '../../support/seeded.ts';
import type { Host } from '../semantics/host.ts';
import { prepareLoad } from './prepare-load.ts';

const FLAGS: readonly [readonly string[], ...(readonly string[])[]] = [
  [],
  ['--snapshot-below', '0'],
  ['--live-cap', '2'],
  ['--fsync', 'off'],
  ['--snapshot-below', '0', '--live-cap', '3'],
  ['--executors', '1'],
];
/** Latest kill, counted from the first request. */
const KILL_MS_MAX = 400;
/** Number of kills within which a planted bug is found; on an idle machine one or two suffice. */
const PLANTED_KILLS_MAX = 25;
/** Latest kill that lets the longest loads end. */
const LATE_KILL_MS_MAX = 2000;
/** Latest kill, counted from the start of the process: about the duration of a start. */
const EARLY_KILL_MS_MAX = 900;

test('nothing acknowledged is lost and nothing is doubled, however often the server is killed', (t) =>
  killUnderLoad(t, new ProofSeeds(3)));

// The seed draws flags that the seeds of the first test do not: both of the log and of live actors.
test('the same with tables in SQLite', (t) => killUnderLoad(t, new ProofSeeds([4], 1 / 3), ['--tables', 'sqlite']));

async function killUnderLoad(t: TestContext, seeds: ProofSeeds, args: readonly string[] = []): Promise<void> {
  const prepared = await prepareLoad(t, { args });
  const { deployment, load } = prepared;
  let { host } = prepared;
  let early = 0;
  for (const seed of seeds) {
    const random = seeded(seed);
    const flags = FLAGS[seed % FLAGS.length] ?? FLAGS[0];
    try {
      const running = load.run(host);
      await sleep(random.below(random.oneIn(4) ? LATE_KILL_MS_MAX : KILL_MS_MAX));
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
  const { acknowledged, linesChecked, haulage, repeaters } = load;
  const [appender, chainer] = repeaters.clients;
  seeds.saw({
    'messages acknowledged': acknowledged,
    'debug lines': linesChecked + haulage.linesChecked,
    'killed while starting': early,
    'calls repeated': appender.repeated + chainer.repeated,
    'answers that nobody had seen': appender.recovered + chainer.recovered,
    ...haulage.tally.all,
  });
  assert.ok(
    acknowledged > seeds.count && linesChecked > seeds.count,
    `${acknowledged} messages, ${linesChecked} lines`,
  );
  haulage.expectAll(seeds.isLong);
  await deployment.stop();
}

test('nothing acknowledged is lost and nothing is doubled, however often the threads of actors stop under load', async (t) => {
  const seeds = new ProofSeeds(2, 1 / 5);
  const prepared = await prepareLoad(t, { preloads: [new URL('./stopped-threads.ts', import.meta.url)] });
  const { deployment, load } = prepared;
  let { host } = prepared;
  const stopped = { threads: 0 };
  for (const seed of seeds) {
    const random = seeded(seed);
    const flags = FLAGS[(seed - 1) % FLAGS.length] ?? FLAGS[0];
    try {
      let isOver = false;
      const sending = load.run(host, { isOver: () => isOver, mayLoseThreads: true });
      for (let stops = 1 + random.below(3); stops > 0; stops--) {
        await sleep(random.below(KILL_MS_MAX));
        host.server.process.kill('SIGUSR2');
        stopped.threads++;
      }
      await sleep(random.below(KILL_MS_MAX));
      isOver = true;
      await sending;
      const { output } = host.server;
      assert.match(output.stderr, /executor \d has stopped/);
      await load.check(host, output.stderr);
      await deployment.kill();
      host = await deployment.start(flags);
      await load.check(host);
    } catch (error) {
      throw new Error(`case ${seed}, then started with ${flags.join(' ') || 'no flags'}`, { cause: error });
    }
  }
  await load.checkAll(host);
  seeds.saw({ 'messages acknowledged': load.acknowledged, 'threads stopped': stopped.threads });
  assert.ok(load.acknowledged > seeds.count);
  await deployment.stop();
});

test('the check finds what is lost: a state from before the last acknowledged messages', async (t) => {
  const { deployment, load, host } = await prepareLoad(t);
  const loadFor = async (running: Host, ms: number): Promise<void> => {
    const end = performance.now() + ms;
    await load.run(running, { isOver: () => performance.now() > end });
  };
  await loadFor(host, 100);
  await deployment.stop();
  const earlier = join(deployment.folder, 'earlier');
  await cp(deployment.state, earlier, { recursive: true });
  const second = await deployment.start();
  await load.check(second);
  await loadFor(second, 100);
  await deployment.kill();
  await rm(deployment.state, { recursive: true });
  await rename(earlier, deployment.state);
  await assert.rejects(load.check(await deployment.start()), /were acknowledged/);
  await deployment.stop();
});

test('the kills find a large message that gets into another one', async (t) => {
  const { deployment, load, host } = await prepareLoad(t, {
    preloads: [new URL('./planted-open-gate.ts', import.meta.url)],
    isFromSources: true,
  });
  const kills = async (): Promise<void> => {
    let running = host;
    for (let kill = 1; kill <= PLANTED_KILLS_MAX; kill++) {
      const sending = load.run(running);
      // A failure of the clients is reported below.
      sending.catch(() => undefined);
      await Promise.race([sending, sleep(LATE_KILL_MS_MAX)]);
      await deployment.kill();
      await sending;
      running = await deployment.start();
      await load.check(running);
    }
  };
  await assert.rejects(kills(), /the actor's thread has stopped|were acknowledged|half|trap/);
});
