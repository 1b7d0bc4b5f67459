/** Moments of an archive, restored: each is the state that was there, and what cannot be restored exactly is told. */
import assert from 'node:assert/strict';
import { readdir, readFile, rm, stat, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { ArchiveLine, type Point, UnitReader } from '../../../subsystems/archive/index.ts';
import { FORMAT } from '../../../subsystems/storage/format-steps.ts';
import { restoreArchive, type RestoredMoment } from '../../../subsystems/storage/restore-archive.ts';
import { ProofSeeds } from '../../support/proof-seeds.ts';
import { type Seeded, seeded } from '../../support/seeded.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';
import { ArchivedState, hashOfDirectory, randomUnit } from './archived-state.ts';

interface Restored {
  readonly moment: RestoredMoment;
  readonly hash: string;
}

async function restore(archive: string, until: Point): Promise<Restored> {
  const directory = join(await temporaryDirectory(), 'state');
  const moment = await restoreArchive({ archive, directory, until, follows: false });
  const hash = await hashOfDirectory(directory);
  await rm(directory, { recursive: true });
  return { moment, hash };
}

/** Works for a while: commits of one or several units, with time between them. */
async function work(state: ArchivedState, random: Seeded, commits: number): Promise<void> {
  for (let n = 0; n < commits; n++) {
    state.commit(Array.from({ length: 1 + random.below(3) }, () => randomUnit(random)));
    await state.pass(random.pick([0, 1, 250, 3_000]));
  }
}

async function lineOf(archive: string): Promise<string> {
  const [line, ...others] = (await readdir(archive)).toSorted();
  assert.ok(line !== undefined && others.length === 0, `lines: ${[line, ...others].join(', ')}`);
  return join(archive, line);
}

async function filesOf(archive: string, suffix: string): Promise<readonly string[]> {
  const line = await lineOf(archive);
  return (await readdir(line))
    .filter((name) => name.endsWith(suffix))
    .toSorted()
    .map((name) => join(line, name));
}

/** Points that are restored of one archive. */
const POINTS_OF_ONE = 15;

/** Makes an archive through stops, kills and days. */
async function longArchive(random: Seeded): Promise<ArchivedState> {
  let state = new ArchivedState({ folder: await temporaryDirectory() });
  for (let life = 0; life < 6; life++) {
    await state.writer.start();
    await work(state, random, 10);
    if (random.oneIn(2)) await state.pass(86_400_000);
    if (random.oneIn(2)) await state.pass(10_000);
    await work(state, random, random.below(6));
    if (random.oneIn(2)) await state.stop();
    state = state.killed();
  }
  await state.writer.start();
  await work(state, random, 10);
  await state.stop();
  return state;
}

/** Reads all units behind the first base; resolves with the last. */
async function readAll(archive: string): Promise<number> {
  const line = await ArchiveLine.read(await lineOf(archive));
  const reader = new UnitReader(line, line.bases[0] ?? assert.fail('no base'), FORMAT);
  while ((await reader.next()) !== undefined);
  return reader.last.unit;
}

test('any unit and any time is restored exactly, through stops, kills and days', async () => {
  const seeds = new ProofSeeds(POINTS_OF_ONE);
  const saw = { archives: 0, bases: 0, 'before the first base': 0, restored: 0 };
  let state: ArchivedState | undefined;
  for (const seed of seeds) {
    const random = seeded(seed);
    if (state === undefined || seed % POINTS_OF_ONE === 0) {
      state = await longArchive(random);
      saw.archives++;
      saw.bases += (await filesOf(state.archive, '.base')).length;
      const { moment, hash } = await restore(state.archive, { kind: 'latest' });
      assert.equal(moment.unit, state.durable);
      assert.equal(hash, state.hashes.get(state.durable));
    }
    const { archive, hashes, times } = state;
    const unit = 1 + random.below(state.durable);
    const byUnit = await restore(archive, { kind: 'unit', unit }).catch((error: unknown) => error as Error);
    if (byUnit instanceof Error) {
      assert.match(byUnit.message, /^unit:\d+ is not in the archive/);
      saw['before the first base']++;
      continue;
    }
    assert.equal(byUnit.hash, hashes.get(unit), `seed ${seed}, unit ${unit}`);
    const timeMs = times.get(unit) ?? assert.fail(`no time of unit ${unit}`);
    const last = Math.max(...[...times].filter(([, each]) => each <= timeMs).map(([each]) => each));
    const byTime = await restore(archive, { kind: 'time', timeMs });
    assert.equal(byTime.moment.unit, last, `seed ${seed}, time of unit ${unit}`);
    assert.equal(byTime.hash, hashes.get(last), `seed ${seed}, time of unit ${unit}`);
    saw.restored += 2;
  }
  assert.ok(saw.restored > seeds.count, JSON.stringify(saw));
  seeds.saw(saw);
});

suite('a segment that is not as it was', () => {
  /** Returns an archive of one base and several segments. */
  async function archived(): Promise<ArchivedState> {
    const random = seeded(7);
    const state = new ArchivedState({ folder: await temporaryDirectory() });
    await state.writer.start();
    await state.rest();
    for (let n = 0; n < 4; n++) {
      state.commit([randomUnit(random), randomUnit(random)]);
      await state.pass(10_000);
    }
    await state.stop();
    return state;
  }

  test('is missing: the gap is told with the last good moment, which can be restored', async () => {
    const { archive, hashes } = await archived();
    const segments = await filesOf(archive, '.units');
    assert.equal(segments.length, 4);
    await rm(segments[1] ?? '');
    await assert.rejects(restore(archive, { kind: 'latest' }), {
      code: 'archive-gap',
      message:
        /^units 3 to 4 are missing in the archive, before .*\.units; the last good moment before is unit 2 \(.*\): --until unit:2 restores it$/,
    });
    assert.equal((await restore(archive, { kind: 'unit', unit: 2 })).hash, hashes.get(2));
  });

  test('has a byte that is another, wherever it is: it is told, and nothing is left behind', async () => {
    const { archive } = await archived();
    const [, file = ''] = await filesOf(archive, '.units');
    const bytes = await readFile(file);
    const frames = bytes.indexOf('\n') + 1;
    const places = new Set([0, 5, 13, 30, frames - 12, frames - 3, frames - 1, bytes.length - 1]);
    // The first frame's header, byte by byte, and some of its body.
    for (let at = 0; at < 40; at++) places.add(frames + at);
    for (const at of places) {
      const flipped = Buffer.from(bytes);
      flipped[at] = (flipped[at] ?? 0) ^ 1;
      await writeFile(file, flipped);
      await assert.rejects(readAll(archive), (error: Error & { code: string }) => {
        assert.match(error.code, /^archive-(?:damaged|foreign|gap)$/, `byte ${at}: ${error.message}`);
        assert.match(error.message, /the last good moment before is unit [23] /, `byte ${at}`);
        return true;
      });
    }
    const directory = join(await temporaryDirectory(), 'state');
    const until: Point = { kind: 'latest' };
    await assert.rejects(restoreArchive({ archive, directory, until, follows: false }), { code: 'archive-damaged' });
    await assert.rejects(stat(directory), { code: 'ENOENT' });
    await writeFile(file, bytes);
    assert.equal(await readAll(archive), 8);
  });

  test('is cut off: at the end its whole units count, before that it is told', async () => {
    const { archive, hashes } = await archived();
    const segments = await filesOf(archive, '.units');
    const last = segments.at(-1) ?? '';
    const { size } = await stat(last);
    await truncate(last, size - 1);
    const { moment, hash } = await restore(archive, { kind: 'latest' });
    assert.equal(moment.unit, 7);
    assert.equal(hash, hashes.get(7));
    await assert.rejects(restore(archive, { kind: 'unit', unit: 8 }), {
      code: 'archive-point',
      message: /ends with unit 7 .*is cut off at byte \d+ of \d+; --until unit:7 restores that/,
    });
    await truncate(segments[1] ?? '', 20);
    await assert.rejects(restore(archive, { kind: 'latest' }), {
      code: 'archive-damaged',
      message: /is cut off at byte 20, within its header; the last good moment before is unit 2/,
    });
  });

  test('is of another line, or renamed: it is told', async () => {
    const [one, other] = [await archived(), await archived()];
    const [, mine = ''] = await filesOf(one.archive, '.units');
    const [, theirs = ''] = await filesOf(other.archive, '.units');
    await writeFile(mine, await readFile(theirs));
    await assert.rejects(restore(one.archive, { kind: 'latest' }), {
      code: 'archive-foreign',
      message: /belongs to line .*; the last good moment before is unit 2/,
    });
  });
});

test('points that are not there are told with what is', async () => {
  const state = new ArchivedState({ folder: await temporaryDirectory() });
  await state.writer.start();
  state.commit([randomUnit(seeded(1))]);
  await state.pass(10_000);
  await state.stop();
  const { archive } = state;
  const future: Point = { kind: 'time', timeMs: Date.now() + 86_400_000 };
  await assert.rejects(restore(archive, future), { code: 'archive-point', message: /lies in the future/ });
  await assert.rejects(restore(archive, { kind: 'unit', unit: 99 }), {
    code: 'archive-point',
    message: /^unit:99 is not in the archive; it has line \S+ from unit \d+.* to unit 1/,
  });
  await assert.rejects(restore(archive, { kind: 'time', timeMs: 0 }), { code: 'archive-point' });
  await assert.rejects(restore(await temporaryDirectory(), { kind: 'latest' }), { code: 'archive-foreign' });
  await assert.rejects(restore(join(archive, 'nothing'), { kind: 'latest' }), { code: 'archive-unreadable' });
});
