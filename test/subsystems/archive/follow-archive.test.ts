/** A copy that follows an archive, and restores of one that are killed. */
import assert from 'node:assert/strict';
import { cp, readdir, readFile, rename, rm, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { catchUp, followArchive, isFollowing } from '../../../subsystems/storage/follow-archive.ts';
import { restoreArchive } from '../../../subsystems/storage/restore-archive.ts';
import { openStateDirectory } from '../../../subsystems/storage/state-directory.ts';
import { restoreUntil } from '../../support/killed-restore.ts';
import { ProofSeeds } from '../../support/proof-seeds.ts';
import { type Seeded, seeded } from '../../support/seeded.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';
import { ArchivedState, hashOfDirectory, randomUnit } from './archived-state.ts';

async function archived(): Promise<ArchivedState> {
  const state = new ArchivedState({ folder: await temporaryDirectory() });
  await state.writer.start();
  await work(state, seeded(1), 4);
  return state;
}

async function work(state: ArchivedState, random: Seeded, count: number): Promise<void> {
  for (let n = 0; n < count; n++) {
    state.commit([randomUnit(random), randomUnit(random)]);
    await state.pass(10_000);
  }
}

interface Follower {
  readonly notes: string[];
  readonly warnings: string[];
  readonly stop: () => Promise<void>;
  readonly ended: Promise<void>;
}

function follow(archive: string, directory: string): Follower {
  const abort = new AbortController();
  const [notes, warnings]: [string[], string[]] = [[], []];
  const log = { info: () => undefined, warn: (text: string) => void warnings.push(text) };
  const waiting = (text: string): void => void notes.push(text);
  const ended = followArchive({ archive, directory }, { signal: abort.signal, waiting, log });
  const stop = (): Promise<void> => {
    abort.abort();
    return ended;
  };
  return { notes, warnings, stop, ended };
}

async function until(isSo: () => boolean): Promise<void> {
  for (let waitedMs = 0; !isSo(); waitedMs += 20) {
    assert.ok(waitedMs < 30_000, 'it does not come about');
    await sleep(20);
  }
}

async function lineOf(archive: string): Promise<string> {
  return join(archive, (await readdir(archive))[0] ?? assert.fail('no line'));
}

suite('a copy that follows', () => {
  test('is at the newest moment whenever it is stopped, and goes on from there', async () => {
    const state = await archived();
    const { archive, hashes } = state;
    const directory = join(await temporaryDirectory(), 'copy');
    assert.equal(await isFollowing(directory), false);
    await restoreArchive({ archive, directory, until: { kind: 'latest' }, follows: true });
    for (let round = 0; round < 3; round++) {
      assert.equal(await isFollowing(directory), true);
      const follower = follow(archive, directory);
      await work(state, seeded(2 + round), 2);
      const wanted = `: unit ${state.durable} (`;
      await until(() => follower.notes.some((text) => text.includes(wanted)));
      await follower.stop();
      assert.equal(await hashOfDirectory(directory), hashes.get(state.durable));
    }
    // Several at once would write into each other.
    const follower = follow(archive, directory);
    await until(() => follower.notes.length > 0);
    await assert.rejects(follow(archive, directory).ended, { code: 'state-locked' });
    await follower.stop();

    await work(state, seeded(9), 2);
    const log = { info: () => undefined, warn: () => undefined };
    const place = { archive, directory, follows: false } as const;
    await assert.rejects(catchUp({ ...place, until: { kind: 'unit', unit: 1 } }, { log }), { code: 'archive-point' });
    await catchUp({ ...place, until: { kind: 'latest' } }, { log });
    assert.equal(await hashOfDirectory(directory), hashes.get(state.durable));
    // Served once, it follows no more.
    await (await openStateDirectory(directory)).close();
    assert.equal(await isFollowing(directory), false);
    await state.stop();
  });

  test('waits for a segment that comes in parts, and for an archive that is not there for a while', async () => {
    const state = await archived();
    const { archive, hashes } = state;
    const directory = join(await temporaryDirectory(), 'copy');
    await restoreArchive({ archive, directory, until: { kind: 'latest' }, follows: true });
    const line = await lineOf(archive);
    const before = new Set(await readdir(line));
    await work(state, seeded(3), 1);
    const name =
      (await readdir(line)).find((each) => each.endsWith('.units') && !before.has(each)) ?? assert.fail('none');
    const whole = await readFile(join(line, name));
    await truncate(join(line, name), whole.length - 3);
    const follower = follow(archive, directory);
    await until(() => follower.notes.some((text) => text.includes(`: unit ${state.durable - 1} (`)));
    await sleep(1_500);
    assert.ok(!follower.notes.some((text) => text.includes(`: unit ${state.durable} (`)));
    await rename(archive, `${archive}.away`);
    await until(() => follower.warnings.some((text) => text.includes('ENOENT')));
    await rename(`${archive}.away`, archive);
    await writeFile(join(line, name), whole);
    await until(() => follower.notes.some((text) => text.includes(`: unit ${state.durable} (`)));
    await follower.stop();
    assert.equal(await hashOfDirectory(directory), hashes.get(state.durable));
    await state.stop();
  });
});

test('a restore of an archive that is killed at any step leaves no part of a state, and the next one ends', async () => {
  const state = await archived();
  await state.stop();
  const { archive, hashes } = state;
  const folder = await temporaryDirectory();
  const directory = join(folder, 'state');
  const wanted = hashes.get(state.durable);
  const seen = { killed: 0, again: 0, whole: 0 };
  // Every step in the long form.
  const stride = new ProofSeeds(1).isLong ? 1 : 6;
  for (let step = 1; ; step += stride) {
    assert.ok(step < 400, 'the restore has no end');
    await rm(directory, { recursive: true, force: true });
    if ((await restoreUntil(archive, directory, step)) !== undefined) break;
    seen.killed++;
    const copy = join(folder, 'copy');
    await rm(copy, { recursive: true, force: true });
    await cp(directory, copy, { recursive: true }).catch(() => undefined);
    // A start finds nothing, or all of it.
    const opened = await openStateDirectory(copy).catch((error: Error & { code?: string }) => error);
    if (opened instanceof Error) assert.equal(opened.code, 'state-foreign', opened.message);
    else {
      await opened.close();
      if (opened.found !== undefined) {
        seen.whole++;
        assert.equal(await hashOfDirectory(copy), wanted, `step ${step}`);
      }
    }
    if (await isFollowing(directory)) continue;
    seen.again++;
    await restoreArchive({ archive, directory, until: { kind: 'latest' }, follows: false });
    assert.equal(await hashOfDirectory(directory), wanted, `step ${step}`);
  }
  assert.ok(seen.killed > 5 && seen.again > 4, JSON.stringify(seen));
});
