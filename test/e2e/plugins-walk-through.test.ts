/** docs/plugins.md: follows the walk-through, and loads the page's other examples. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdir, symlink, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { test } from 'node:test';
import { loadConfig } from '../../config/load.ts';
import { loadPlugins } from '../../plugins/loader/index.ts';
import { builtinPlugins } from '../../plugins/index.ts';
import { assertShows, commandsOf, listingsOf } from '../support/doc-listings.ts';
import { CACHE_HOME } from '../support/caches.ts';
import { type RunningServer, startServer } from '../support/server.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const MAIN = join(ROOT, 'config/svc.js');
const env = { ...process.env, XDG_CACHE_HOME: CACHE_HOME, SVC_TOKEN: undefined };

const sections = await listingsOf('plugins');

test('the walk-through is what happens', { timeout: 300_000 }, async (t) => {
  const folder = await temporaryDirectory();
  // Links the package as if it were installed there.
  await mkdir(join(folder, 'node_modules'));
  await symlink(ROOT, join(folder, 'node_modules/svc'));
  let server: RunningServer | undefined;
  let done = 0;
  for (const listing of sections.get('A walk-through') ?? []) {
    if (listing.file !== undefined) await writeFile(join(folder, listing.file), listing.text);
    if (listing.language !== 'sh') continue;
    for (const { line, expected } of commandsOf(listing)) {
      const [, flags, filter, isServer] = /^svc (.*?)(?: \| grep (\w+))?( &)?$/.exec(line) ?? [];
      const [, body, path] = /^curl (?:-X POST -d '([^']*)' )?http:\/\/127\.0\.0\.1:7000(\S+)$/.exec(line) ?? [];
      if (flags !== undefined && isServer !== undefined)
        server = await startServer(t, { directory: folder, args: flags.split(' '), env });
      else if (flags !== undefined) {
        const { stdout, stderr } = spawnSync(process.execPath, [MAIN, ...flags.split(' ')], {
          cwd: folder,
          env,
          encoding: 'utf8',
        });
        const lines = (stdout + stderr).split('\n').filter((each) => filter === undefined || each.includes(filter));
        assertShows(lines.join('\n').replaceAll(/ +$/gm, ''), expected);
      } else if (line === 'kill %%') {
        assert.equal(await server?.stop(), 0);
        server = undefined;
      } else {
        assert.ok(path !== undefined, `no command that this test understands: ${line}`);
        assert.ok(server !== undefined, `no server is started before ${line}`);
        const answer = await (body === undefined ? server.get(path) : server.post(path, body));
        assertShows(answer.body, expected);
      }
      done++;
    }
  }
  assert.equal(done, 6);
  assert.equal(server, undefined, 'the page leaves a server behind, on the port that its next one wants');
});

test('a module that throws beside its loading is refused as one that throws', async () => {
  const folder = await temporaryDirectory();
  const file = join(folder, 'stray.js');
  await writeFile(
    file,
    "Promise.reject(new Error('nobody waits for it')); await new Promise((go) => setTimeout(go, 60_000));",
  );
  const args = ['--plugin', `outcalls=${file}`, '--no-manifest'];
  const { status, stderr } = spawnSync(process.execPath, [MAIN, ...args], { env, encoding: 'utf8' });
  assert.match(
    stderr,
    /^svc: plugin outcalls=.*stray\.js throws while it is loaded: Error: nobody waits for it \(.*stray\.js:1:16\)$/m,
  );
  assert.equal(status, 2);
});

// The timer ends while the next module waits; before its loading begins; and behind the last module's.
for (const [name, early, next, said] of [
  [
    'while the next one waits at its top level',
    '20',
    'await new Promise((go) => setTimeout(go, 60_000));',
    String.raw`slow=\./slow\.mjs: \S+ was not loaded to its end: plugin outcalls=\./early\.mjs, loaded before it, throws`,
  ],
  [
    'while the next one makes its plugin',
    '20',
    'export default () => new Promise((go) => setTimeout(go, 60_000));',
    String.raw`slow=\./slow\.mjs: \S+ was not loaded to its end: plugin outcalls=\./early\.mjs, loaded before it, throws`,
  ],
  [
    'between two loadings',
    '0',
    'await new Promise((go) => setTimeout(go, 60_000));',
    String.raw`slow=\./slow\.mjs: \S+ was not loaded to its end: plugin outcalls=\./early\.mjs, loaded before it, throws`,
  ],
  ['behind the last loading', '0', undefined, String.raw`outcalls=\./early\.mjs: throws after it was loaded`],
] as const)
  test(`a plugin that throws ${name} is named, and no other`, async () => {
    const folder = await temporaryDirectory();
    // The getter keeps the thread until the timer is due: it fires as soon as the loader next waits for anything.
    const held = early === '0' ? 'const until = Date.now() + 50; while (Date.now() < until);' : '';
    const source = `setTimeout(() => { throw new Error('no luck'); }, ${early});
      export default ({ Outcalls }) => ({
        apiVersion: 1, name: 'early', get provides() { ${held} return Outcalls; }, create: () => ({ send() {} }),
      });`;
    await writeFile(join(folder, 'early.mjs'), source);
    await writeFile(join(folder, 'slow.mjs'), next ?? '');
    const slow = next === undefined ? [] : ['--plugin', 'slow=./slow.mjs'];
    const args = ['--plugin', 'outcalls=./early.mjs', ...slow, '--no-manifest'];
    const { status, stderr } = spawnSync(process.execPath, [MAIN, ...args], { env, cwd: folder, encoding: 'utf8' });
    assert.match(stderr, new RegExp(String.raw`^svc: plugin ${said}: Error: no luck \(\S+early\.mjs:1:\d+\)$`, 'm'));
    assert.equal(status, 2);
  });

test('definitions, options and routes that the page shows can be loaded', async () => {
  const directory = await temporaryDirectory();
  const [definition] = sections.get('A definition') ?? [];
  const [routes] = sections.get('Routes') ?? [];
  const [options] = sections.get('Options') ?? [];
  assert.ok(definition !== undefined && routes !== undefined && options !== undefined);
  await writeFile(join(directory, 'my-outcalls.js'), definition.text);
  await writeFile(
    join(directory, 'routes.js'),
    `export default ({ Outcalls }) => ({ apiVersion: 1, name: 'a', provides: Outcalls, create: () => ({ send() {} }), ${routes.text} });`,
  );
  await writeFile(join(directory, 'svc.config.json'), options.text);
  const { problems, loaded } = await loadPlugins([{ capability: 'outcalls', module: './routes.js' }], {
    directory,
    builtin: builtinPlugins,
  });
  assert.deepEqual(problems, []);
  assert.equal(loaded[0]?.definition.routes?.length, 1);
  const request = await loadConfig({
    argv: ['--config', 'svc.config.json'],
    environment: {},
    pluginNames: [],
    version: '0.1.0',
    build: 'dev',
    directory,
    loadPlugins: (requests) => loadPlugins(requests, { directory, builtin: builtinPlugins }),
  });
  assert.ok(request.kind === 'serve', request.kind === 'refused' ? request.problems.join('\n') : request.kind);
  assert.deepEqual(request.sections, { 'my-outcalls': { proxy: 'http://proxy:3128', tries: 5 } });
});
