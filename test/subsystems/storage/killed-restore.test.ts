/**
 * A process that restores a backup is killed after any of its steps: another restore comes to its end, and no start
 * finds an incomplete state.
 */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { cp, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { before, suite, test } from 'node:test';
import { ServerError } from '../../../kernel/index.ts';
import { MemoryTables } from '../../../subsystems/storage/memory-tables.ts';
import { restoreBackup } from '../../../subsystems/storage/restore.ts';
import { RocksdbTables } from '../../../subsystems/storage/rocksdb-tables.ts';
import { openStateDirectory } from '../../../subsystems/storage/state-directory.ts';
import { restoreUntil } from '../../support/killed-restore.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';
import { backupOf } from './backup-files.ts';

/** More steps than that would be an endless loop. */
const STEPS_MAX = 200;

let folder: string;
let file: string;
let contents: Buffer;
before(async () => {
  folder = await temporaryDirectory();
  file = join(folder, 'kept.backup');
  const tables = new MemoryTables();
  const rows = Array.from(
    { length: 50 },
    (_, n) => ({ family: 'heap', key: Uint8Array.of(n), value: new Uint8Array(4096).fill(n) }) as const,
  );
  tables.write(rows, { isSynced: false });
  contents = backupOf(tables);
  await writeFile(file, contents);
});

async function namesIn(directory: string): Promise<readonly string[]> {
  return existsSync(directory) ? readdir(directory) : [];
}

/** Returns the result of a start: the whole state, the error that refuses it, or undefined if it begins a new state. */
async function startIn(directory: string): Promise<Buffer | ServerError | undefined> {
  try {
    const state = await openStateDirectory(directory);
    if (state.found === undefined) {
      await state.close();
      return undefined;
    }
    const tables = await RocksdbTables.open(state.tables);
    try {
      return backupOf(tables);
    } finally {
      await tables.close();
      await state.close();
    }
  } catch (error) {
    if (!(error instanceof ServerError)) throw error;
    return error;
  }
}

/** Starts in a copy of the directory, as a killed process left it. */
async function startInCopy(directory: string): Promise<Buffer | ServerError | undefined> {
  const copy = join(folder, 'copy');
  await rm(copy, { recursive: true, force: true });
  if (existsSync(directory)) await cp(directory, copy, { recursive: true });
  return startIn(copy);
}

/** Kills a restore at each step, and calls `check` after each; returns the number of steps. */
async function killAtEach(directory: string, check: (step: number) => Promise<void>): Promise<number> {
  for (let step = 1; step < STEPS_MAX; step++) {
    await rm(directory, { recursive: true, force: true });
    if ((await restoreUntil(file, directory, step)) !== undefined) return step - 1;
    await check(step);
  }
  return assert.fail('the restore has no end');
}

suite('a restore that is killed', () => {
  test('after any step leaves no part of a state, and the next one, or the one after it, comes to its end', async () => {
    const directory = join(folder, 'state');
    const seen = { refused: 0, whole: 0, complete: 0 };
    const steps = await killAtEach(directory, async (step) => {
      const found = await startInCopy(directory);
      if (found instanceof Buffer) {
        assert.ok(contents.equals(found), `after step ${step} a start finds a part`);
        seen.whole++;
      } else if (found instanceof ServerError) {
        assert.equal(found.code, 'state-foreign', found.message);
        seen.refused++;
      }
      const names = await namesIn(directory);
      if (names.includes('format') && !names.includes('unfinished-restore')) {
        seen.complete++;
        await assert.rejects(restoreBackup(file, directory), { code: 'restore-not-empty' });
      } else {
        // Sometimes the second restore is also killed, at a step of its own.
        if (step % 3 === 0) await restoreUntil(file, directory, 1 + ((step * 7) % 23));
        const after = await namesIn(directory);
        if (after.includes('unfinished-restore') || !after.includes('format')) await restoreBackup(file, directory);
      }
      assert.ok(contents.equals((await startIn(directory)) as Buffer), `killed after step ${step}`);
    });
    assert.ok(steps > 20, `${steps} steps`);
    assert.ok(seen.refused > 5 && seen.whole > 1 && seen.complete > 0 && seen.complete < 5, JSON.stringify(seen));
  });

  test('is told from a state that was served: that one is never restored over', async () => {
    const directory = join(folder, 'served');
    // The directory as left by a version that did not remove the mark.
    await restoreBackup(file, directory);
    await (await openStateDirectory(directory)).close();
    await mkdir(join(directory, 'unfinished-restore'));
    await assert.rejects(restoreBackup(file, directory), {
      code: 'restore-not-empty',
      message: /holds a state already/,
    });
    assert.ok(contents.equals((await startIn(directory)) as Buffer));
    assert.deepEqual((await readdir(directory)).toSorted(), ['format', 'log', 'modules', 'motoko', 'tables']);
  });

  test('says at a start what to do', async () => {
    const directory = join(folder, 'killed');
    await mkdir(join(directory, 'unfinished-restore'), { recursive: true });
    await mkdir(join(directory, 'tables'));
    await assert.rejects(openStateDirectory(directory), {
      code: 'state-foreign',
      message: /holds a restore that was not finished .*: start again with --restore/,
    });
    assert.deepEqual((await readdir(directory)).toSorted(), ['tables', 'unfinished-restore']);
    assert.ok((await readFile(file)).equals(contents));
  });
});
