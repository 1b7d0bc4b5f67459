import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, readdir, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { compileCounter } from '../support/motoko.ts';
import { startServer } from '../support/server.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

const MODULE = new URL('../../config/code-cache.ts', import.meta.url).href;

/** Enables the cache in a process of its own; returns the process's report. */
function enable(environment: Readonly<Record<string, string>>, root = '/srv/svc') {
  const program = `
    import { getCompileCacheDir } from 'node:module';
    import { keepCompiledCode } from ${JSON.stringify(MODULE)};
    keepCompiledCode(process.env, ${JSON.stringify(root)});
    console.log(JSON.stringify({ directory: getCompileCacheDir() ?? null, told: process.env.NODE_COMPILE_CACHE ?? null }));`;
  const { stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '--eval', program], {
    encoding: 'utf8',
    env: environment,
    cwd: fileURLToPath(new URL('../..', import.meta.url)),
  });
  assert.equal(stderr, '');
  return JSON.parse(stdout) as { readonly directory: string | null; readonly told: string | null };
}

test('compiled code is kept in the user’s folder for caches, and threads are told where', async () => {
  const home = await temporaryDirectory();
  const { directory, told } = enable({ XDG_CACHE_HOME: home });
  const [folder = ''] = await readdir(join(home, 'svc', 'node'));
  assert.equal(told, join(home, 'svc', 'node', folder));
  assert.ok(directory?.startsWith(told));
  assert.ok(enable({ HOME: home }).told?.startsWith(join(home, '.cache', 'svc', 'node')));
});

test('without a home, with one that cannot be written, and where somebody decided otherwise, nothing is set', async () => {
  assert.deepEqual(enable({}), { directory: null, told: null });
  const home = await temporaryDirectory();
  await writeFile(join(home, 'svc'), 'a file');
  assert.deepEqual(enable({ XDG_CACHE_HOME: home }), { directory: null, told: null });
  assert.deepEqual(enable({ HOME: '/proc' }), { directory: null, told: null });
  assert.deepEqual(enable({ HOME: join(home, 'missing') }), { directory: null, told: null });
  assert.deepEqual(await readdir(home), ['svc']);
  const other = await temporaryDirectory();
  assert.deepEqual(enable({ XDG_CACHE_HOME: other, NODE_DISABLE_COMPILE_CACHE: '1' }), { directory: null, told: null });
  const { told } = enable({ XDG_CACHE_HOME: other, NODE_COMPILE_CACHE: home });
  assert.equal(told, home);
});

test('each installation has a folder of its own, and the oldest of more than eight go', async () => {
  const home = await temporaryDirectory();
  const parent = join(home, 'svc', 'node');
  for (let age = 1; age <= 9; age++) {
    const folder = join(parent, `installation ${age}`);
    await mkdir(join(folder, 'version'), { recursive: true });
    const used = new Date(Date.now() - age * 60_000);
    await utimes(folder, used, used);
  }
  const { told } = enable({ XDG_CACHE_HOME: home }, '/srv/another');
  const left = await readdir(parent);
  assert.equal(left.length, 8);
  assert.ok(existsSync(told ?? ''));
  assert.ok(!left.includes('installation 9') && !left.includes('installation 8'));
  assert.notEqual(enable({ XDG_CACHE_HOME: home }, '/srv/one').told, told);
});

test('a server that was killed has left what the next one would make again, its threads too', async (t) => {
  const home = await temporaryDirectory();
  /** The files of the bundle that a durable server which installs a module compiles. */
  const compiled = async (): Promise<readonly string[]> => {
    const server = await startServer(t, {
      manifest: '{"actors":{}}',
      args: ['--state', await temporaryDirectory(), '--executors', '1'],
      env: { XDG_CACHE_HOME: home, NODE_COMPILE_CACHE: '', NODE_DEBUG_NATIVE: 'COMPILE_CACHE' },
    });
    assert.equal((await server.post('/install/counter', await compileCounter())).status, 200);
    await server.kill();
    const said = server.output.stdout + server.output.stderr;
    return [...said.matchAll(/ESM file:\/\/\S+\/(\S+\.mjs) was not initialized/g)].map(([, file = '']) => file);
  };
  const first = await compiled();
  const ofThreads = [/^main-/, /-executor-worker\.mjs$/, /-module-worker\.mjs$/, /-storage-thread\.mjs$/];
  for (const name of ofThreads)
    assert.ok(
      first.some((file) => name.test(file)),
      name.source,
    );
  assert.deepEqual(await compiled(), []);
});
