/**
 * Files of the step log that are missing, empty or old when a killed server is started again: nothing starts; once they
 * are put back, everything is there.
 */
import assert from 'node:assert/strict';
import { cp, mkdir, readdir, readFile, rename, rm, truncate } from 'node:fs/promises';
import { join } from 'node:path';
import { before, suite, test, type TestContext } from 'node:test';
import { decodeHeader } from '../../../subsystems/storage/step-log-format.ts';
import { compileActor, Deployment } from './deployment.ts';
import { assertRefused } from './refusals.ts';

let keeper: Uint8Array;
before(async () => {
  keeper = await compileActor('Keeper');
});

const HALF = [1, 2, 3, 4, 5];
const ALL = [...HALF, 6, 7, 8, 9, 10];
const MISSING =
  /error: cannot start: .*the step log is damaged: segment \d+ of the log is missing, .*; put the file back, or restore a backup/;

/** Leaves five updates in the tables and five in the log; and the log's state between them. */
async function killed(t: TestContext): Promise<{ readonly deployment: Deployment; readonly earlier: string }> {
  const deployment = await Deployment.create(t, { modules: { keeper } });
  let host = await deployment.start();
  for (const n of HALF) await host.call(await host.find('keeper'), 'append', [n]);
  await deployment.stop();
  const earlier = join(deployment.folder, 'earlier');
  await cp(join(deployment.state, 'log'), earlier, { recursive: true });
  host = await deployment.start();
  for (const n of ALL.slice(HALF.length)) await host.call(await host.find('keeper'), 'append', [n]);
  await deployment.kill();
  return { deployment, earlier };
}

async function isUsed(file: string): Promise<boolean> {
  return decodeHeader(await readFile(file), file).generation > 0;
}

suite('after a kill', () => {
  test('missing, emptied or older segments refuse the start, unless they are not needed; put back, everything is there', async (t) => {
    const { deployment, earlier } = await killed(t);
    const log = join(deployment.state, 'log');
    const kept = join(deployment.folder, 'kept');
    await rename(log, kept);
    assertRefused(await deployment.refused(), MISSING);
    await cp(earlier, log, { recursive: true });
    assertRefused(await deployment.refused(), MISSING);
    for (const name of await readdir(log)) await truncate(join(log, name));
    assertRefused(await deployment.refused(), /segment-\d\.log is cut off within its header/);
    await rm(log, { recursive: true });
    await mkdir(log);
    for (const name of await readdir(kept)) {
      if (!(await isUsed(join(kept, name)))) await rename(join(kept, name), join(log, name));
    }
    assertRefused(await deployment.refused(), MISSING);

    // The needed segments are there under other names.
    await rm(log, { recursive: true });
    await mkdir(log);
    const [newest = '', ...others] = await readdir(kept);
    assert.deepEqual(others, []);
    await rename(join(kept, newest), join(log, 'segment-7.log'));
    let host = await deployment.start();
    const actor = await host.find('keeper');
    assert.deepEqual(await host.query(actor, 'all'), ALL);
    assert.equal(await host.call(actor, 'append', [11]), 11);
    await deployment.kill();
    host = await deployment.start();
    assert.deepEqual(await host.query(actor, 'all'), [...ALL, 11]);
    await deployment.stop();
  });

  test('and a stop no log is needed: without it everything is there', async (t) => {
    const { deployment } = await killed(t);
    await deployment.start();
    await deployment.stop();
    await rm(join(deployment.state, 'log'), { recursive: true });
    const host = await deployment.start();
    const actor = await host.find('keeper');
    assert.deepEqual(await host.query(actor, 'all'), ALL);
    assert.equal(await host.call(actor, 'append', [11]), 11);
    await deployment.stop();
  });
});
