/**
 * Works as a team would: the server and their plugins as tarballs, installed in an empty directory, compiled there
 * against the published files, and run.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { cp, mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { assertShows, commandsOf, listingsOf } from '../support/doc-listings.ts';
import { packServer } from '../support/packages.ts';
import { type RunningServer, startServer } from '../support/server.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const FIXTURES = join(ROOT, 'test/fixtures/plugins');
const run = promisify(execFile);
/** The same settings of npm for commands that are not ours. */
const INSTALLING = {
  npm_config_prefer_offline: 'true',
  npm_config_ignore_scripts: 'true',
  npm_config_audit: 'false',
  npm_config_fund: 'false',
};
const INSTALL = ['install', '--prefer-offline', '--ignore-scripts', '--no-audit', '--no-fund'];

/** Packs a folder; returns the tarball's path. */
async function pack(folder: string, into: string): Promise<string> {
  const { stdout } = await run('npm', ['pack', '--json', '--pack-destination', into, folder], { cwd: into });
  const [{ filename }] = JSON.parse(stdout) as [{ readonly filename: string }];
  return join(into, filename);
}

/** Starts the installed server, by the commands that npm has made. */
function start(
  t: TestContext,
  directory: string,
  args: readonly string[],
  command: readonly [string, ...string[]],
  manifest: readonly string[] = ['--manifest', 'actors.json'],
) {
  const bin = join(directory, 'node_modules/.bin');
  const env = { PATH: `${bin}:${process.env['PATH']}` };
  return startServer(t, { command, directory, env, args: [...manifest, ...args] });
}

const SVC = ['node_modules/.bin/svc'] as const;
const URL_LIST = '["http://example.org/a.json"]';

test('tarballs of the server and of plugins work in an empty directory', { timeout: 600_000 }, async (t) => {
  const work = await temporaryDirectory();
  const directory = join(work, 'my-plugin');
  const packed = await packServer(work);
  const names = ['function-outcalls', 'team-outcalls', 'otlp-metrics'];
  const plugins = await Promise.all(names.map((name) => pack(join(FIXTURES, name), work)));
  // The folder of docs/plugins.md, made by the page's own commands.
  const sections = await listingsOf('plugins');
  const [emptyFolder] = sections.get('An empty folder') ?? [];
  assert.ok(emptyFolder !== undefined, 'the page has no empty folder');
  assert.ok(emptyFolder.text.includes(`../${basename(packed)}`), emptyFolder.text);
  await run('sh', ['-e', '-c', emptyFolder.text], { cwd: work, env: { ...process.env, ...INSTALLING } });
  const fetcher = { main: 'node_modules/svc/config/examples/fetcher/Fetcher.mo' };
  await writeFile(join(directory, 'actors.json'), JSON.stringify({ actors: { fetcher } }));
  await run('npm', [...INSTALL, ...plugins], { cwd: directory });

  await t.test('a plugin of decorated classes is compiled against the published types', async () => {
    const source = join(directory, 'class-outcalls');
    await cp(join(FIXTURES, 'class-outcalls'), source, { recursive: true });
    await mkdir(join(directory, 'node_modules/@types'), { recursive: true });
    await symlink(join(ROOT, 'node_modules/@types/node'), join(directory, 'node_modules/@types/node'));
    await symlink(join(ROOT, 'node_modules/undici-types'), join(directory, 'node_modules/undici-types'));
    await run(process.execPath, [join(ROOT, 'node_modules/typescript/bin/tsc'), '-p', source]);
    assert.match(await readFile(join(source, 'lib/index.js'), 'utf8'), /__decorate/);
    const tarball = await pack(source, work);
    await run('npm', [...INSTALL, tarball], { cwd: directory });
  });

  await t.test('the one that is a plain function answers outcalls, and its routes are served', async (part) => {
    const server = await start(part, directory, ['--plugin', 'outcalls=@team/function-outcalls'], SVC);
    assert.match(
      (await server.post('/call-json/fetcher/fetch', URL_LIST)).body,
      /asked for http:\/\/example\.org\/a\.json/,
    );
    assert.equal((await server.get('/x/function-outcalls/sent')).body, '["GET http://example.org/a.json"]');
    assert.deepEqual(await server.post('/x/function-outcalls/forget/some', ''), {
      status: 400,
      body: '{"code":400,"message":"forget all, not some"}',
    });
    assert.deepEqual(await server.post('/x/function-outcalls/forget/all', ''), { status: 200, body: 'forgotten' });
    assert.match(
      (await server.get('/x/function-outcalls/send')).body,
      /there is GET \/x\/function-outcalls\/sent, POST \/x\/function-outcalls\/forget\/<WHAT>/,
    );
    assert.match((await server.get('/inspector')).body, /^<!doctype html>/);
    assert.equal(await server.stop(), 0);
  });

  await t.test(
    'the one of decorated classes answers them, with its options, and its parts are disposed of',
    async (part) => {
      const args = ['--plugin', 'outcalls=@team/class-outcalls', '--plugin-option', 'outcalls.greeting=Servus'];
      const server = await start(part, directory, args, SVC);
      assert.match((await server.post('/call-json/fetcher/fetch', URL_LIST)).body, /Servus example\.org, for time 1/);
      assert.match((await server.post('/call-json/fetcher/fetch', URL_LIST.replace('/a', '/b'))).body, /for time 2/);
      assert.equal(await server.stop(), 0);
      assert.match(server.output.stderr, /counted 1 host\(s\)/);
    },
  );

  await t.test('packages pass the exported suites, with what is published', async () => {
    // With this variable the report would go to this runner.
    const env = { ...process.env, NODE_TEST_CONTEXT: undefined };
    const results = await Promise.all(
      ['outcalls', 'otlp-metrics'].map((name) =>
        run(process.execPath, ['--test-reporter=tap', `node_modules/@team/${name}/test/contract.test.js`], {
          cwd: directory,
          env,
        }),
      ),
    );
    const passed = results.map(({ stdout }) => Number(/^# pass (\d+)$/m.exec(stdout)?.[1] ?? 0));
    assert.ok(
      passed.every((count) => count >= 8),
      passed.join(),
    );
  });

  await t.test(
    'a storage of one’s own is written, tested, loaded, killed and restored as docs/plugins.md says',
    async (part) => {
      const env = { ...process.env, NODE_TEST_CONTEXT: undefined };
      const servers: RunningServer[] = [];
      let done = 0;
      for (const listing of sections.get('A storage of your own, in SQLite') ?? []) {
        if (listing.file !== undefined) await writeFile(join(directory, listing.file), listing.text);
        if (listing.language !== 'sh') continue;
        for (const { line, expected } of commandsOf(listing)) {
          const [, flags] = /^svc (.*) &$/.exec(line) ?? [];
          const [, script] = /^node (.*)$/.exec(line) ?? [];
          const [, path = '', file = ''] = /^curl http:\/\/127\.0\.0\.1:7000(\S+) --output (\S+)$/.exec(line) ?? [];
          const [isKill, signal] = /^kill (-9 )?%%$/.exec(line) ?? [];
          const origin = servers.at(-1)?.origin ?? '';
          if (flags !== undefined) {
            servers.push(await start(part, directory, flags.split(' '), SVC, []));
          } else if (script !== undefined) {
            const words = script.split(' ');
            const load = await readFile(join(directory, 'load.js'), 'utf8').catch(() => '');
            await writeFile(join(directory, 'load.js'), load.replace(/http:[\w/.:]+(?=\/call-json)/, origin));
            const { stdout } = await run(process.execPath, words, { cwd: directory, env });
            assertShows(stdout, expected);
          } else if (file !== '') {
            await writeFile(join(directory, file), Buffer.from(await (await fetch(origin + path)).arrayBuffer()));
          } else {
            const server = servers.at(-1);
            assert.ok(isKill !== undefined && server !== undefined, `no command that this test understands: ${line}`);
            const ended = once(server.process, 'close');
            server.process.kill(signal === undefined ? 'SIGTERM' : 'SIGKILL');
            await ended;
          }
          done++;
        }
      }
      assert.equal(done, 10);
      assert.equal(await servers.at(-1)?.stop(), 0);
    },
  );

  await t.test('two packages work together, and a server behind the shell of npx stops in order, too', async (part) => {
    const replay = ['--plugin', 'outcalls=@team/outcalls/recorded', '--plugin-option', 'outcalls.directory=recording'];
    const args = [...replay, '--plugin', 'metrics=@team/otlp-metrics'];
    const server = await start(part, directory, args, ['npx', 'svc']);
    assert.match((await server.post('/call-json/fetcher/fetch', URL_LIST)).body, /the recording has no answer/);
    assert.match((await server.get('/metrics')).body, /^svc_http_requests_total\{endpoint="call-json"\} 1$/m);
    server.process.kill('SIGTERM');
    // The pipes belong to the server: they close when it has ended.
    await once(server.process, 'close');
    assert.match(server.output.stdout, /^shutdown: 0 actor\(s\) checkpointed$/m);
  });
});
