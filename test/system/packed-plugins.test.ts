/** As a team would: the server and their plugins as tarballs, installed in an empty directory, compiled there against what is published, and run. */
import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cp, mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { CACHE_HOME } from '../support/caches.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const FIXTURES = join(ROOT, 'test/fixtures/plugins');
const READY_DEADLINE_MS = 180_000;
const run = promisify(execFile);

/** Packs a folder; the tarball's path. */
async function pack(folder: string, into: string): Promise<string> {
  const { stdout } = await run('npm', ['pack', '--json', '--pack-destination', into, folder], { cwd: into });
  const [{ filename }] = JSON.parse(stdout) as [{ readonly filename: string }];
  return join(into, filename);
}

interface App {
  readonly directory: string;
}

/** Starts the installed command with one of the examples; it is stopped when the test ends. */
async function start(t: TestContext, { directory }: App, args: readonly string[]) {
  const bin = join(directory, 'node_modules/.bin');
  const child = spawn(join(bin, 'svc'), ['--manifest', 'actors.json', '-l', '127.0.0.1:0', ...args], {
    cwd: directory,
    env: { ...process.env, PATH: `${bin}:${process.env['PATH']}`, XDG_CACHE_HOME: CACHE_HOME },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (output += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (output += text));
  const exited = once(child, 'close');
  t.after(async () => {
    child.kill('SIGKILL');
    await exited;
  });
  const untilMs = Date.now() + READY_DEADLINE_MS;
  while (!/^ready: /m.test(output)) {
    assert.ok(child.exitCode === null && Date.now() < untilMs, output);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  const origin = /listening on (http:\S+)/.exec(output)?.[1] ?? '';
  const ask = async (method: string, path: string, body?: string): Promise<string> => {
    const response = await fetch(origin + path, body === undefined ? { method } : { method, body });
    return `${response.status} ${await response.text()}`;
  };
  const stop = async (): Promise<string> => {
    child.kill('SIGTERM');
    const [code] = (await exited) as [number | null];
    return `${code}\n${output}`;
  };
  return { ask, stop };
}

const URL_LIST = '["http://example.org/a.json"]';

test('tarballs of the server and of two plugins work in an empty directory', { timeout: 400_000 }, async (t) => {
  const work = await temporaryDirectory();
  const directory = join(work, 'app');
  await mkdir(directory);
  await run('npm', ['run', 'build'], { cwd: ROOT });
  const server = await pack(ROOT, work);
  const plain = await pack(join(FIXTURES, 'function-outcalls'), work);
  await writeFile(join(directory, 'package.json'), '{ "private": true }');
  const fetcher = { main: 'node_modules/svc/config/examples/fetcher/Fetcher.mo' };
  await writeFile(join(directory, 'actors.json'), JSON.stringify({ actors: { fetcher } }));
  await run('npm', ['install', '--prefer-offline', '--ignore-scripts', '--no-audit', '--no-fund', server, plain], {
    cwd: directory,
  });

  await t.test('a plugin of decorated classes is compiled against the published types', async () => {
    const source = join(directory, 'class-outcalls');
    await cp(join(FIXTURES, 'class-outcalls'), source, { recursive: true });
    await mkdir(join(directory, 'node_modules/@types'), { recursive: true });
    await symlink(join(ROOT, 'node_modules/@types/node'), join(directory, 'node_modules/@types/node'));
    await symlink(join(ROOT, 'node_modules/undici-types'), join(directory, 'node_modules/undici-types'));
    await run(process.execPath, [join(ROOT, 'node_modules/typescript/bin/tsc'), '-p', source]);
    assert.match(await readFile(join(source, 'lib/index.js'), 'utf8'), /__decorate/);
    const tarball = await pack(source, work);
    await run('npm', ['install', '--prefer-offline', '--ignore-scripts', '--no-audit', '--no-fund', tarball], {
      cwd: directory,
    });
  });

  await t.test('the one that is a plain function answers outcalls, and its routes are served', async (part) => {
    const { ask, stop } = await start(part, { directory }, ['--plugin', 'outcalls=@team/function-outcalls']);
    assert.match(await ask('POST', '/call-json/fetcher/fetch', URL_LIST), /asked for http:\/\/example\.org\/a\.json/);
    assert.equal(await ask('GET', '/x/function-outcalls/sent'), '200 ["GET http://example.org/a.json"]');
    assert.equal(
      await ask('POST', '/x/function-outcalls/forget/some', ''),
      '400 {"code":400,"message":"forget all, not some"}',
    );
    assert.equal(await ask('POST', '/x/function-outcalls/forget/all', ''), '200 forgotten');
    assert.match(
      await ask('GET', '/x/function-outcalls/send'),
      /^404 .*there is GET \/x\/function-outcalls\/sent, POST \/x\/function-outcalls\/forget\/<WHAT>/,
    );
    assert.match(await ask('GET', '/inspector'), /^200 <!doctype html>/);
    assert.match(await stop(), /^0\n/);
  });

  await t.test(
    'the one of decorated classes answers them, with its options, and its parts are disposed of',
    async (part) => {
      const args = ['--plugin', 'outcalls=@team/class-outcalls', '--plugin-option', 'outcalls.greeting=Servus'];
      const { ask, stop } = await start(part, { directory }, args);
      assert.match(await ask('POST', '/call-json/fetcher/fetch', URL_LIST), /Servus example\.org, for time 1/);
      assert.match(await ask('POST', '/call-json/fetcher/fetch', URL_LIST.replace('/a', '/b')), /for time 2/);
      assert.match(await stop(), /^0\n[^]*counted 1 host\(s\)/);
    },
  );
});
