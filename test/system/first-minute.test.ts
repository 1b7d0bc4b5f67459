/** Tests the first minute with a fresh clone: the lines that a person sees, and the caches that make it quick. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { chownSync, lstatSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { BUILT, buildExamples } from '../../.ci/build-examples.ts';
import { BUILT_SITE, buildSite } from '../../.ci/build-site.ts';
import { CodeCache } from '../../subsystems/execution/wire/code-cache.ts';
import { codeVersion, instrument } from '../../subsystems/instrument/index.ts';
import { decodeModule } from '../../subsystems/wasm/index.ts';
import { startServer } from '../support/server.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';
import { wat } from '../support/wat.ts';

const ROOT = join(import.meta.dirname, '../..');
const BUILT_BYTES_MAX = 1_500_000;
const DEADLINE_MS = 120_000;

test(
  'the examples that the repository has compiled are what the compiler makes of them',
  { timeout: 600_000 },
  async () => {
    const directory = await temporaryDirectory();
    await buildExamples(directory);
    const names = readdirSync(directory).toSorted();
    assert.deepEqual(readdirSync(BUILT).toSorted(), names, 'run npm run build:examples');
    for (const name of names)
      assert.ok(
        readFileSync(join(BUILT, name)).equals(readFileSync(join(directory, name))),
        `${name}: run npm run build:examples`,
      );
    const bytes = names.reduce((sum, name) => sum + statSync(join(BUILT, name)).size, 0);
    assert.ok(bytes <= BUILT_BYTES_MAX, `${bytes} bytes`);
  },
);

test('the site of folders that the package brings is what the compiler makes of it', { timeout: 600_000 }, async () => {
  const directory = await temporaryDirectory();
  await buildSite(directory);
  const [name = '', ...more] = readdirSync(directory);
  assert.deepEqual([readdirSync(BUILT_SITE), more], [[name], []], 'run npm run build:site');
  assert.ok(readFileSync(join(BUILT_SITE, name)).equals(readFileSync(join(directory, name))), 'run npm run build:site');
});

test('a first start compiles no example, and a second one instruments none', async (t) => {
  const cache = await temporaryDirectory();
  const env = { XDG_CACHE_HOME: cache };
  const first = await startServer(t, { env });
  assert.equal(first.output.stderr.match(/ compiled \w+ in .*\(cached\)/g)?.length, 4, first.output.stderr);
  assert.equal((await first.post('/call-json/counter/inc')).body, '[1]');
  const modules = join(cache, 'svc/modules');
  const kept = readdirSync(modules).filter((name) => name.endsWith('.code'));
  assert.equal(kept.length, 4);
  const files = kept.map((name) => statSync(join(modules, name)).ino);
  await first.stop();
  const second = await startServer(t, { env });
  assert.equal((await second.post('/call-json/counter/inc')).body, '[1]');
  assert.deepEqual(
    kept.map((name) => statSync(join(modules, name)).ino),
    files,
    'nothing is written anew',
  );
  assert.equal(await second.stop(), 0);
});

test('instrumented code under a key that another user has put there is not taken', async () => {
  const directory = join(await temporaryDirectory(), 'modules');
  const hash = '0'.repeat(64);
  const cache = () => new CodeCache(directory, codeVersion());
  const made = instrument(decodeModule(wat('(module (memory 1))')));
  assert.equal(cache().write(hash, made), undefined);
  assert.ok(cache().read(hash));
  chownSync(join(directory, 'key'), 65_534, 65_534);
  assert.equal(cache().read(hash), undefined);
  assert.equal(cache().write(hash, made), undefined);
  assert.equal(lstatSync(join(directory, 'key')).uid, process.getuid?.());
  assert.ok(cache().read(hash));
});

test('in a terminal npm start says where to look, and once that it is ready', async (t) => {
  const typed = 'npm start -- --listen 127.0.0.1:0';
  const terminal = spawn('script', ['-qec', typed, '/dev/null'], {
    cwd: ROOT,
    detached: true,
    stdio: ['pipe', 'pipe', 'ignore'],
  });
  const end = (signal: NodeJS.Signals): void =>
    void (terminal.pid !== undefined && process.kill(-terminal.pid, signal));
  t.after(() => terminal.exitCode === null && end('SIGKILL'));
  let shown = '';
  terminal.stdout.setEncoding('utf8').on('data', (part: string) => (shown += part));
  const deadline = Date.now() + DEADLINE_MS;
  while (!/a call {5}curl/.test(shown)) {
    assert.ok(terminal.exitCode === null && Date.now() < deadline, shown);
    await new Promise((done) => setTimeout(done, 20));
  }
  assert.match(shown, /inspector {2}http:\/\/127\.0\.0\.1:\d+\/\r?$/m);
  const website = /website {4}(http:\/\/website\.localhost:(\d+)\/)/.exec(shown);
  assert.ok(website !== null, shown);
  assert.equal(shown.match(/ready: 4 actor/g)?.length, 1);
  const [, line = '', path = ''] =
    /a call {5}(curl -X POST -d '\[\]' http:\/\/127\.0\.0\.1:\d+(\S+))/.exec(shown) ?? [];
  assert.ok(line !== '');
  const answer = await fetch(`http://127.0.0.1:${website[2]}${path}`, { method: 'POST', body: '[]' });
  assert.deepEqual([answer.status, await answer.text()], [200, '[1]']);
  // Ctrl-C, as the keyboard sends it.
  terminal.stdin.write('\u0003');
  await new Promise((done) => terminal.once('close', done));
  assert.match(shown, /shutdown: 0 actor/);
});
