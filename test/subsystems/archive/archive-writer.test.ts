/** The writer of an archive: gaps, failures, lines, retention, and what it leaves when it is killed. */
import assert from 'node:assert/strict';
import { cp, mkdir, readdir, readFile, rm, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { type ArchiveFiles, LocalArchiveFiles } from '../../../subsystems/archive/archive-files.ts';
import { findLine, type Point, readLines } from '../../../subsystems/archive/index.ts';
import { expiredFiles } from '../../../subsystems/archive/retention.ts';
import { restoreArchive } from '../../../subsystems/storage/restore-archive.ts';
import { type Seeded, seeded } from '../../support/seeded.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';
import { ArchivedState, hashOfDirectory, randomUnit } from './archived-state.ts';

const LATEST: Point = { kind: 'latest' };
const DAY_MS = 86_400_000;

async function restored(archive: string, until: Point): Promise<{ readonly unit: number; readonly hash: string }> {
  const directory = join(await temporaryDirectory(), 'state');
  const { unit } = await restoreArchive({ archive, directory, until, follows: false });
  return { unit, hash: await hashOfDirectory(directory) };
}

async function check(state: ArchivedState, archive = state.archive): Promise<void> {
  const { unit, hash } = await restored(archive, LATEST);
  assert.equal(unit, state.durable);
  assert.equal(hash, state.hashes.get(unit));
}

/** Commits so many units, each with some seconds after it. */
async function work(state: ArchivedState, random: Seeded, count: number): Promise<void> {
  for (let n = 0; n < count; n++) {
    state.commit([randomUnit(random)]);
    await state.pass(4_000);
  }
  await state.pass(10_000);
}

/** Files that refuse to be written while they are told to. */
class FailingFiles extends LocalArchiveFiles {
  static code: string | undefined;
  /** Bytes after which a write fails, and leaves what it wrote, as a process that is killed does. */
  static cutAt: number | undefined;

  override async write(name: string, pieces: Iterable<Uint8Array> | AsyncIterable<Uint8Array>): Promise<void> {
    if (FailingFiles.code !== undefined)
      throw Object.assign(new Error(`${FailingFiles.code}: planted`), { code: FailingFiles.code });
    await super.write(name, pieces);
    if (FailingFiles.cutAt === undefined) return;
    await truncate(join(this.path, name), FailingFiles.cutAt);
    FailingFiles.code = 'EIO';
    throw new Error('killed');
  }
}

const failingFilesOf = (path: string): ArchiveFiles => new FailingFiles(path);

async function failing(options: object = {}): Promise<ArchivedState> {
  FailingFiles.code = FailingFiles.cutAt = undefined;
  const folder = await temporaryDirectory();
  return new ArchivedState({ folder, filesOf: failingFilesOf, ...options });
}

suite('an archive that cannot be written for a while', () => {
  test('is told once, and has no gap if what waits fits', async () => {
    const random = seeded(1);
    const state = await failing();
    await state.writer.start();
    await work(state, random, 3);
    FailingFiles.code = 'ENOSPC';
    await work(state, random, 8);
    assert.equal(state.lines.filter((line) => line.includes('ENOSPC')).length, 1, state.lines.join('\n'));
    assert.ok(state.writer.figures.failures > 3);
    assert.ok(state.writer.lagSeconds > 20, `${state.writer.lagSeconds}`);
    FailingFiles.code = undefined;
    await work(state, random, 2);
    assert.match(state.lines.at(-1) ?? '', /is written again$/);
    assert.equal(state.writer.lagSeconds, 0);
    assert.equal(state.writer.figures.gaps, 0);
    await state.stop();
    await check(state);
    for (const unit of [4, 7, 11]) {
      assert.equal((await restored(state.archive, { kind: 'unit', unit })).hash, state.hashes.get(unit));
    }
  });

  test('has a gap if what waits does not fit: commits go on, the gap is told, and a base ends it', async () => {
    const random = seeded(2);
    const state = await failing({ feedBytesMax: 4_000 });
    await state.writer.start();
    await work(state, random, 3);
    FailingFiles.code = 'ENOSPC';
    await work(state, random, 60);
    const lastOfGap = state.durable;
    FailingFiles.code = undefined;
    await work(state, random, 3);
    assert.equal(state.writer.figures.gaps, 1);
    await work(state, random, 3);
    await state.stop();
    await check(state);
    const inGap: Point = { kind: 'unit', unit: lastOfGap - 1 };
    await assert.rejects(restored(state.archive, inGap), {
      code: 'archive-gap',
      message: /the last good moment before is unit (\d+)/,
    });
    const [, good] = await restored(state.archive, inGap).then(
      () => assert.fail('there is a gap'),
      (error: Error) => /--until unit:(\d+)/.exec(error.message) ?? [],
    );
    assert.equal(
      (await restored(state.archive, { kind: 'unit', unit: Number(good) })).hash,
      state.hashes.get(Number(good)),
    );
    // A time within the gap is not guessed at either.
    const timeMs = state.times.get(lastOfGap - 1) ?? 0;
    await assert.rejects(restored(state.archive, { kind: 'time', timeMs }), { code: 'archive-gap' });
  });

  test('and whose directory has gone begins it anew with a base', async () => {
    const random = seeded(3);
    const state = await failing();
    await state.writer.start();
    await work(state, random, 3);
    await rm(state.archive, { recursive: true });
    await work(state, random, 3);
    assert.match(state.lines.at(-1) ?? '', /cannot be written: ENOENT/);
    assert.deepEqual(await readdir(state.directory), ['archive']);
    await mkdir(state.archive);
    await work(state, random, 3);
    await state.stop();
    await check(state);
  });
});

suite('a writer that is killed', () => {
  test('in the middle of a segment leaves a torn one, which the next start writes again', async () => {
    for (const cutAt of [0, 10, 200, 260]) {
      const random = seeded(4);
      const state = await failing();
      await state.writer.start();
      await work(state, random, 3);
      FailingFiles.cutAt = cutAt;
      await work(state, random, 2);
      FailingFiles.code = FailingFiles.cutAt = undefined;
      const next = state.killed();
      // The archive itself can be restored as it was left.
      const { unit, hash } = await restored(next.archive, LATEST);
      assert.equal(hash, next.hashes.get(unit));
      assert.ok(unit >= 3);
      await next.writer.start();
      await work(next, random, 3);
      assert.equal(next.writer.figures.gaps, 0);
      await next.stop();
      await check(next);
      for (const each of [4, 5, 6])
        assert.equal((await restored(next.archive, { kind: 'unit', unit: each })).hash, next.hashes.get(each));
    }
  });

  test('behind a fold has lost nothing: the log keeps what the archive lacks', async () => {
    const random = seeded(11);
    const state = await failing();
    await state.writer.start();
    await work(state, random, 2);
    state.commit([randomUnit(random), randomUnit(random)]);
    const { unit } = await state.base();
    assert.equal(unit, 4);
    const next = state.killed();
    await next.writer.start();
    await work(next, random, 2);
    assert.equal(next.writer.figures.gaps, 0);
    await next.stop();
    await check(next);
    assert.equal((await restored(next.archive, { kind: 'unit', unit: 3 })).hash, next.hashes.get(3));
  });

  test('in the middle of a base leaves one that does not count', async () => {
    const state = await failing();
    FailingFiles.cutAt = undefined;
    await state.writer.start();
    await work(state, seeded(5), 2);
    const [line = ''] = await readdir(state.archive);
    const files = await readdir(join(state.archive, line));
    const base = files.find((name) => name.endsWith('.base')) ?? assert.fail('no base');
    const torn = base.replace(/-\d{15}-/, '-000000000000002-');
    await writeFile(join(state.archive, line, torn), (await readFile(join(state.archive, line, base))).subarray(0, 90));
    const next = state.killed();
    await check(next);
    await next.writer.start();
    await work(next, seeded(6), 2);
    assert.ok(!(await readdir(join(state.archive, line))).includes(torn));
    await next.stop();
    await check(next);
  });
});

suite('a line of its own is begun by', () => {
  test('a restored state, in the same directory; the newer one is taken, and a time finds the older', async () => {
    const random = seeded(7);
    const first = new ArchivedState({ folder: await temporaryDirectory() });
    await first.writer.start();
    await work(first, random, 4);
    await first.stop();
    const timeMs = first.times.get(3) ?? 0;
    await first.pass(60_000);
    const second = new ArchivedState({
      folder: await temporaryDirectory(),
      directory: first.archive,
      clock: first.clock,
    });
    await second.writer.start();
    await work(second, random, 6);
    await second.stop();
    assert.equal((await readdir(first.archive)).length, 2);
    await check(second);
    assert.equal((await restored(first.archive, { kind: 'time', timeMs })).hash, first.hashes.get(3));
    const [older] = await readLines(first.archive);
    await check(first, older?.path ?? '');
  });

  test('each of two that are written at the same time: which one has to be said', async () => {
    const random = seeded(8);
    const first = new ArchivedState({ folder: await temporaryDirectory() });
    const { clock, archive } = first;
    const second = new ArchivedState({ folder: await temporaryDirectory(), directory: archive, clock });
    await Promise.all([first.writer.start(), second.writer.start()]);
    for (const state of [first, second, first, second]) await work(state, random, 2);
    await second.rest();
    await Promise.all([first.stop(), second.stop()]);
    const lines = await readLines(archive);
    assert.throws(() => findLine(lines, LATEST), {
      code: 'archive-ambiguous',
      message: /in several lines .*: line \S+ from unit .*; line .*; name one of them: --restore-archive /,
    });
    await check(first, join(archive, first.writer.line));
    await check(second, join(archive, second.writer.line));
  });

  test('a copy of a state directory that is served, too, and by one that was put back', async () => {
    const random = seeded(9);
    const folder = await temporaryDirectory();
    const first = new ArchivedState({ folder });
    await first.writer.start();
    await work(first, random, 3);
    const copied = join(await temporaryDirectory(), 'copy');
    await mkdir(copied);
    await cp(join(folder, 'archive'), join(copied, 'archive'));
    const next = first.killed();
    const copy = first.killed({ stateDirectory: copied, directory: first.archive });
    await next.writer.start();
    await copy.writer.start();
    assert.equal(next.writer.line, first.writer.line);
    assert.notEqual(copy.writer.line, first.writer.line);
    assert.match(copy.lines.join('\n'), /somebody else .* a new line begins/);
    await work(next, random, 3);
    await next.stop();

    const old = new ArchivedState({ folder });
    await old.writer.start();
    assert.notEqual(old.writer.line, first.writer.line);
    assert.match(old.lines.join('\n'), /an older copy of it was put back; a new line begins/);
    await old.stop();
  });
});

suite('retention', () => {
  const base = (unit: number, day: number) => ({ epoch: 1, unit, timeMs: day * DAY_MS, path: `/a/${unit}.base` });
  const segment = (first: number, last: number) => ({ epoch: 1, first, last, timeMs: 0, path: `/a/${last}.units` });
  const listed = {
    bases: [base(0, 0), base(100, 10), base(200, 20)],
    segments: [segment(1, 60), segment(61, 110), segment(111, 200), segment(201, 300)],
  };
  const expired = (days: number, bytes: number, day: number): readonly string[] =>
    expiredFiles(listed, { days, bytes }, day * DAY_MS, () => 10);

  test('by age keeps the last base before the first moment that is kept, with what follows it', () => {
    assert.deepEqual(expired(30, 0, 25), []);
    assert.deepEqual(expired(5, 0, 14), []);
    assert.deepEqual(expired(5, 0, 15), ['0.base.json', '0.base', '60.units']);
    assert.deepEqual(expired(5, 0, 1_000), [
      '0.base.json',
      '0.base',
      '100.base.json',
      '100.base',
      '60.units',
      '110.units',
      '200.units',
    ]);
    assert.deepEqual(expired(0, 0, 1_000), []);
  });

  test('by bytes goes up to a base, and never removes the last one', () => {
    assert.deepEqual(expired(0, 70, 25), []);
    assert.deepEqual(expired(0, 69, 25), ['0.base.json', '0.base', '60.units']);
    assert.equal(expired(0, 1, 25).length, 7);
  });

  test('of a writer leaves what can be restored', async () => {
    const random = seeded(10);
    const state = new ArchivedState({ folder: await temporaryDirectory(), days: 2 });
    await state.writer.start();
    for (let day = 0; day < 5; day++) {
      await work(state, random, 3);
      await state.pass(DAY_MS);
    }
    await state.stop();
    const [line] = await readLines(state.archive);
    assert.ok((line?.bases.length ?? 0) >= 2 && (line?.bases.length ?? 0) <= 4, `${line?.bases.length} bases`);
    const oldest = line?.first?.unit ?? 0;
    assert.ok(oldest > 1);
    await check(state);
    assert.equal((await restored(state.archive, { kind: 'unit', unit: oldest })).hash, state.hashes.get(oldest));
    await assert.rejects(restored(state.archive, { kind: 'unit', unit: oldest - 1 }), { code: 'archive-point' });
  });
});
