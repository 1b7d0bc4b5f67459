/**
 * Real servers with an archive: what a backup had at any moment is restored bit by bit, under load, through upgrades
 * and kills, with heaps kept in both ways; a copy that follows takes over; and what cannot be written or read is told.
 */
import assert from 'node:assert/strict';
import { readdir, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { before, suite, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { restoreArchive } from '../../../subsystems/storage/restore-archive.ts';
import { ProofSeeds } from '../../support/proof-seeds.ts';
import { type Seeded, seeded } from '../../support/seeded.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';
import { hashOfDirectory } from '../../subsystems/archive/archived-state.ts';
import { compileActor, Deployment } from './deployment.ts';
import { note, type Noted } from './noted-state.ts';

let keeper: Uint8Array;
before(async () => {
  keeper = await compileActor('Keeper');
});

/** Calls of every kind, which do not wait for each other, until the function that is returned is called. */
function load(deployment: Deployment, random: Seeded): () => Promise<void> {
  const { host } = deployment;
  let isOver = false;
  const client = async (name: string): Promise<void> => {
    const other = await host.find(name === 'one' ? 'two' : 'one');
    for (let n = 0; !isOver; n++) {
      const [method, args] = random.pick([
        ['append', [n]],
        ['append', [n]],
        ['store', [8 * random.below(60), n]],
        ['chain', [other.principal, 3]],
        ['fireAfter', [20]],
      ] as const);
      // A server that is killed, or upgrades, may refuse.
      await host.server.post(`/call-json/${name}/${method}`, JSON.stringify(args)).catch(() => undefined);
      await sleep(random.below(12));
    }
  };
  const clients = ['one', 'two', 'one'].map(client);
  return async () => {
    isOver = true;
    await Promise.all(clients);
  };
}

test('what a backup had at any moment is restored bit by bit, through upgrades, stops and kills', async (t) => {
  const seeds = new ProofSeeds(6);
  const random = seeded(seeds.count);
  const folder = await temporaryDirectory();
  const archive = join(folder, 'archive');
  const flags = ['--archive', archive, '--archive-secs', '1', '--heartbeat-ms', '200'];
  const deployment = await Deployment.create(t, { args: flags, modules: { one: keeper, two: keeper } });
  const noted: Noted[] = [];
  for (let life = 0; noted.length < seeds.count; life++) {
    // In turn by their changes and by their logs.
    await deployment.start(life % 2 === 0 ? [] : ['--snapshot-below', '0', '--replay-budget-secs', '1']);
    const stopLoad = load(deployment, random);
    const { server } = deployment.host;
    for (let n = 0; n < Math.max(2, seeds.count / 12) && noted.length < seeds.count; n++) {
      await sleep(200 + random.below(300));
      if (random.oneIn(3)) await server.post('/upgrade/one', keeper);
      noted.push(await note(server.origin, folder));
    }
    await sleep(random.below(1_500));
    if (life % 3 === 2) {
      await stopLoad();
      await deployment.stop();
    } else {
      await deployment.kill();
      await stopLoad();
    }
  }
  await deployment.start();
  const latest = await note(deployment.host.server.origin, folder);
  await deployment.stop();
  noted.push(latest);
  const units = new Set(noted.map(({ unit }) => unit));
  assert.ok(units.size > seeds.count / 2, `${units.size} moments`);
  for (const { unit, hash } of noted) {
    const directory = join(await temporaryDirectory(), 'state');
    const moment = await restoreArchive({ archive, directory, until: { kind: 'unit', unit }, follows: false });
    assert.equal(moment.unit, unit);
    assert.equal(await hashOfDirectory(directory), hash, `unit ${unit} of ${latest.unit}`);
  }
  seeds.saw({ moments: units.size, units: latest.unit });
});

test('a copy follows, answers 503, and takes over within seconds of the death of the first', async (t) => {
  const folder = await temporaryDirectory();
  const archive = join(folder, 'archive');
  const first = await Deployment.create(t, {
    args: ['--archive', archive, '--archive-secs', '1'],
    modules: { one: keeper },
  });
  const host = await first.start();
  const one = await host.find('one');
  await host.call(one, 'append', [1]);
  const copy = await Deployment.create(t, { modules: { one: keeper } });
  const follow = ['--restore-archive', archive, '--follow'];
  const untilUnit = async (deployment: Deployment, unit: number): Promise<void> => {
    for (let waitedMs = 0; ; waitedMs += 100) {
      const { status, body } = await deployment.host.server.get('/health/ready');
      assert.equal(status, 503);
      const [, at] = /^starting: following line \d{8}T\d{6}-[0-9a-f]{8}: unit (\d+)/.exec(body) ?? [];
      if (Number(at) >= unit) return;
      assert.ok(waitedMs < 60_000, `${body}, and not unit ${unit}`);
      await sleep(100);
    }
  };
  while ((await readdir(archive).catch(() => [])).length === 0) await sleep(50);
  await sleep(1_500);
  await copy.start(follow, 'listening');
  for (let n = 2; n <= 30; n++) await host.call(one, 'append', [n]);
  const { unit } = await note(host.server.origin, folder);
  await untilUnit(copy, unit);
  assert.equal((await copy.host.server.post('/call-json/one/append', '[1]')).status, 503);

  // Killed, it goes on where it was, not from the base on.
  await copy.kill();
  await host.call(one, 'append', [31]);
  const { server } = await copy.start(follow, 'listening');
  await untilUnit(copy, unit + 1);
  assert.doesNotMatch(server.output.stdout, /restored/);
  // Nobody else may use the directory meanwhile.
  const other = await copy.refused(follow);
  assert.equal(other.code, 1);
  assert.match(other.stderr, /is in use by process \d+/);

  await first.kill();
  await copy.stop();
  const startedMs = performance.now();
  const taken = await copy.start();
  const tookMs = performance.now() - startedMs;
  t.diagnostic(`took over in ${tookMs.toFixed(0)} ms`);
  assert.deepEqual(
    await taken.query(await taken.find('one'), 'all'),
    Array.from({ length: 31 }, (_, n) => n + 1),
  );
  assert.match(taken.server.output.stdout, /^ready: 1 actor\(s\) in (\d+) ms$/m);
  await copy.stop();
  // A state that has been served follows no more.
  const again = await copy.refused(follow);
  assert.equal(again.code, 1);
  assert.match(again.stderr, /holds a state already/);
});

test('a copy that is started with the archive and without --follow takes what came meanwhile', async (t) => {
  const archive = join(await temporaryDirectory(), 'archive');
  const first = await Deployment.create(t, {
    args: ['--archive', archive, '--archive-secs', '1'],
    modules: { one: keeper },
  });
  const host = await first.start();
  const one = await host.find('one');
  await host.call(one, 'append', [1]);
  await sleep(2_500);
  const copy = await Deployment.create(t, { modules: { one: keeper } });
  await copy.start(['--restore-archive', archive, '--follow'], 'listening');
  await copy.kill();
  await host.call(one, 'append', [2]);
  // A stop archives everything.
  await first.stop();
  const taken = await copy.start(['--restore-archive', archive, '--archive', archive]);
  assert.deepEqual(await taken.query(await taken.find('one'), 'all'), [1, 2]);
  await copy.stop();
  assert.equal((await readdir(archive)).length, 2, 'a promoted copy begins a line of its own');
});

suite('what cannot be', () => {
  test('written at all fails the start; files and directories are for nobody else', async (t) => {
    const folder = await temporaryDirectory();
    await writeFile(join(folder, 'file'), '');
    const wrong = await Deployment.create(t, { modules: { one: keeper } });
    const refused = await wrong.refused(['--archive', join(folder, 'file')]);
    assert.equal(refused.code, 1);
    assert.match(refused.stderr, /cannot start: .*the archive .*file cannot be written: .*; name a directory/);

    const archive = join(folder, 'archive');
    await wrong.start(['--archive', archive, '--archive-secs', '1']);
    await wrong.stop();
    const [line = ''] = await readdir(archive);
    const rights = async (path: string): Promise<number> => (await stat(path)).mode % 0o1000;
    assert.equal(await rights(archive), 0o700);
    assert.equal(await rights(join(archive, line)), 0o700);
    const files = await readdir(join(archive, line));
    assert.ok(files.some((name) => name.endsWith('.units')));
    for (const name of files) assert.equal(await rights(join(archive, line, name)), 0o600, name);
    assert.equal(await rights(join(wrong.state, 'archive')), 0o600);
  });

  test('restored is told, and nothing is left behind', async (t) => {
    const folder = await temporaryDirectory();
    const deployment = await Deployment.create(t, { modules: { one: keeper } });
    for (const [flags, told] of [
      [['--restore-archive', join(folder, 'none')], /the archive .*none cannot be read: ENOENT/],
      [['--restore-archive', folder], /is no archive: it has no line of one/],
    ] as const) {
      const refused = await deployment.refused(flags);
      assert.equal(refused.code, 1);
      assert.match(refused.stderr, told);
      await assert.rejects(stat(deployment.state), { code: 'ENOENT' });
    }
    for (const [flags, told] of [
      [['--until', 'latest'], /--until needs --restore-archive DIR/],
      [['--follow'], /--follow needs --restore-archive DIR/],
      [['--restore-archive', folder, '--until', 'yesterday'], /'yesterday' is no point/],
      [['--restore-archive', folder, '--until', 'unit:0'], /names no unit/],
      [['--restore-archive', folder, '--until', 'time:2026-02-30T00:00Z'], /is no time/],
      [['--restore-archive', folder, '--follow', '--until', 'unit:7'], /contradict each other/],
      [['--restore-archive', folder, '--restore', 'file'], /contradict each other/],
      [['--archive', join(deployment.state, 'archive')], /lies in the directory of --state/],
      [['--restore-archive', folder, '--check'], /contradict each other/],
    ] as const) {
      const refused = await deployment.refused(flags);
      assert.equal(refused.code, 2, refused.stderr);
      assert.match(refused.stderr, told);
    }
  });
});
