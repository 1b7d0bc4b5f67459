import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import test from 'node:test';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { temporaryDirectory } from './temporary-directory.ts';

const PRELOAD = new URL('./bundled-threads.js', import.meta.url).href;
/** A source that ends at once where it runs instead of the bundled file; so does the program then. */
const SOURCE = new URL('../../kernel/clock.ts', import.meta.url).href;
const SAYS = `import { parentPort } from 'node:worker_threads'; parentPort.postMessage(import.meta.url);`;

/** Starts a thread of each script, and returns which files ran; `bundle` is the folder that the setup tells. */
async function filesRun(scripts: readonly string[], bundle: string, preload = PRELOAD): Promise<readonly string[]> {
  const program = join(await temporaryDirectory(), 'program.mjs');
  const source = `
    import { once } from 'node:events';
    import { Worker } from 'node:worker_threads';
    const scripts = ${JSON.stringify(scripts)}.map((script) => new URL(script));
    const ran = await Promise.all(scripts.map(async (script) => (await once(new Worker(script), 'message'))[0]));
    console.log(JSON.stringify(ran));`;
  await writeFile(program, source);
  const env = { ...process.env, SVC_TEST_BUNDLE: bundle };
  const options = { env, encoding: 'utf8', timeout: 60_000, killSignal: 'SIGKILL' } as const;
  const { stdout, stderr } = spawnSync(process.execPath, [`--import=${preload}`, program], options);
  return (
    JSON.parse(stdout || assert.fail(`a thread of the source ran, which says nothing: ${stderr}`)) as string[]
  ).map((url) => fileURLToPath(url));
}

test('a thread of the server runs from its bundle, and one of a test from its file', async () => {
  const bundle = await temporaryDirectory();
  const bundled = join(bundle, 'kernel-clock.mjs');
  const own = join(await temporaryDirectory(), 'own.mjs');
  for (const file of [bundled, own]) await writeFile(file, SAYS);
  assert.deepEqual(await filesRun([SOURCE, pathToFileURL(own).href], bundle), [bundled, own]);
});

test('a thread of a source that is not bundled is told at once', async () => {
  const bundle = await temporaryDirectory();
  await assert.rejects(filesRun([SOURCE], bundle, 'data:text/javascript,'), /a thread of the source ran/);
});
