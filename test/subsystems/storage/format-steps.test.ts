/** Steps from format to format that are killed anywhere, and begin again. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { appendFileSync, existsSync, writeFileSync } from 'node:fs';
import { readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { type FormatStep, OLDEST_FORMAT } from '../../../subsystems/storage/format-steps.ts';
import { openStateDirectory } from '../../../subsystems/storage/state-directory.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';

const THIS_FILE = fileURLToPath(import.meta.url);
const STEPS = 2;

/** Steps that each write two files, and say in a third what ran; `arrive` is called before and after each write. */
function stepsThat(arrive: () => void): readonly FormatStep[] {
  return Array.from({ length: STEPS }, (_, step) => ({
    what: `step ${step}`,
    run: (root) => {
      if (step > 0) assert.ok(existsSync(join(root, `b${step - 1}`)), 'the step before has come to its end');
      appendFileSync(join(root, 'ran'), `${step}`);
      for (const name of ['a', 'b']) {
        arrive();
        writeFileSync(join(root, `${name}${step}`), 'done');
      }
      arrive();
      return Promise.resolve();
    },
  }));
}

/** Opens the directory in a process of its own, which kills itself at that point; returns the signal. */
function openUntil(directory: string, point: number): NodeJS.Signals | null {
  return spawnSync(process.execPath, [THIS_FILE, directory, String(point)], { stdio: ['ignore', 'ignore', 'inherit'] })
    .signal;
}

if (process.argv.length > 3) {
  const [directory = '', point] = process.argv.slice(2);
  let points = 0;
  const steps = stepsThat(() => {
    if (++points === Number(point)) process.kill(process.pid, 'SIGKILL');
  });
  await (await openStateDirectory(directory, steps)).close();
} else {
  test('a start that is killed in any step goes on with that step, and does no finished one again', async () => {
    const root = await temporaryDirectory();
    const points = STEPS * 3;
    for (let point = 1; point <= points; point++) {
      const path = join(root, `${point}`);
      await (await openStateDirectory(path, [])).close();
      assert.equal(openUntil(path, point), 'SIGKILL');
      await (
        await openStateDirectory(
          path,
          stepsThat(() => {}),
        )
      ).close();
      const killed = Math.floor((point - 1) / 3);
      const ran = Array.from({ length: STEPS }, (_, step) => (step === killed ? `${step}${step}` : `${step}`)).join('');
      assert.equal(await readFile(join(path, 'ran'), 'utf8'), ran);
      const format = await readFile(join(path, 'format'), 'utf8');
      assert.match(format, new RegExp(`^svc state, format ${OLDEST_FORMAT + STEPS}\n`));
      await rm(path, { recursive: true });
    }
  });

  test('an svc with fewer steps refuses the directory by its number', async () => {
    const path = await temporaryDirectory();
    const steps = stepsThat(() => {});
    const { found, close } = await openStateDirectory(path, steps);
    assert.equal(found, undefined);
    await close();
    await assert.rejects(openStateDirectory(path, steps.slice(0, 1)), {
      code: 'state-newer',
      message: /has format 4, written by a newer svc; this one reads up to format 3: upgrade svc/,
    });
  });
}
