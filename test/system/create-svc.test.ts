/** The package create-svc as `npm create svc` runs it: from its tarball, by npm exec, on a machine's own Node. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdir, readdir, readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { promisify } from 'node:util';
import { filesOf, INSTALL, packCreate, packServer, plainEnvironment } from '../support/packages.ts';
import { startServer } from '../support/server.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

const run = promisify(execFile);

let work: string;
let tarball: string;

before(async () => {
  work = await temporaryDirectory();
  tarball = await packCreate(work, '@team/actors');
});

/** Runs the command as `npm create svc` does; resolves with what it printed. */
async function create(...args: readonly string[]): Promise<string> {
  const { stdout } = await run('npm', ['exec', '--yes', `--package=${tarball}`, '--', 'create-svc', ...args], {
    cwd: work,
    env: plainEnvironment(),
  });
  return stdout;
}

test('a project has what it needs, under its own name, and asks for the server by the name of its owner', async () => {
  const printed = await create('My App');
  assert.match(printed, /cd My App\n {2}npm install && npm start .*\n {2}npm test /);
  const folder = join(work, 'My App');
  const names = ['.dockerignore', '.gitignore', 'Dockerfile', 'README.md', 'actors.json', 'compose.yaml'];
  assert.deepEqual((await readdir(folder)).toSorted(), [...names, 'package.json', 'src', 'test'].toSorted());
  const manifest = JSON.parse(await readFile(join(folder, 'package.json'), 'utf8')) as Record<string, unknown>;
  assert.equal(manifest['name'], 'my-app');
  assert.deepEqual(manifest['dependencies'], { svc: 'npm:@team/actors@^0.1.0' });
  const texts = await Promise.all(names.map((name) => readFile(join(folder, name), 'utf8')));
  assert.ok(!texts.join('').includes('__'), 'every placeholder is filled');
  assert.ok((await filesOf(tarball)).every((file) => !file.endsWith('.gitignore')));
});

test('what is there already stays as it is, and mistakes are told with the usage', async () => {
  await mkdir(join(work, 'full'));
  await writeFile(join(work, 'full/mine'), 'mine');
  await mkdir(join(work, 'empty'));
  for (const [args, reason] of [
    [['full'], /full is there already, and is not empty/],
    [[], /name one folder/],
    [['one', 'two'], /name one folder/],
    [['x', '--template', 'game'], /there is no template "game"/],
    [['x', '--color'], /Unknown option '--color'/],
  ] as const) {
    await assert.rejects(create(...args), ({ code, stderr }: { code: number; stderr: string }) => {
      assert.equal(code, 2);
      assert.match(stderr, reason);
      assert.match(stderr, /^usage: npm create svc FOLDER/m);
      return true;
    });
  }
  assert.deepEqual(await readdir(join(work, 'full')), ['mine']);
  assert.ok(!(await readdir(work)).includes('x'));
  await create('empty');
});

test('each template is served and passes its own test, with two commands', { timeout: 900_000 }, async (t) => {
  const server = await packServer(work);
  let installed: string | undefined;
  for (const template of ['counter', 'website', 'notes']) {
    const folder = join(work, template);
    await create(template, '--template', template, '--server', server);
    // One installation serves all three: they differ in nothing that is installed.
    if (installed === undefined) await run('npm', INSTALL, { cwd: folder, env: plainEnvironment() });
    else await rename(installed, join(folder, 'node_modules'));
    installed = join(folder, 'node_modules');
    const { stdout } = await run('npm', ['test'], { cwd: folder, env: plainEnvironment({ FORCE_COLOR: '0' }) });
    assert.match(stdout, /pass 1\n.*fail 0\n/);
    if (template !== 'counter') continue;
    const { scripts, dependencies } = JSON.parse(await readFile(join(folder, 'package.json'), 'utf8')) as {
      readonly scripts: { readonly start: string };
      readonly dependencies: Readonly<Record<string, string>>;
    };
    // The project has the server's file itself, so its image is made anywhere.
    assert.deepEqual(dependencies, { svc: 'file:svc.tgz' });
    assert.deepEqual(await readFile(join(folder, 'svc.tgz')), await readFile(server));
    assert.match(await readFile(join(folder, 'Dockerfile'), 'utf8'), /^COPY package.json .* svc\.tgz\* \.\/$/m);
    const words = scripts.start.replace('exec svc', './node_modules/.bin/svc').split(' ');
    const [command = '', ...args] = words;
    // No cache of this user has the actor: the package brings it compiled.
    const env = { XDG_CACHE_HOME: join(work, 'no-cache') };
    const started = await startServer(t, { command: [command], args, directory: folder, env });
    assert.match(started.output.stderr, / compiled counter in .*\(cached\)/);
    assert.equal((await started.post('/call-json/counter/inc')).body, '[1]');
    assert.equal(await started.stop(), 0);
    assert.ok((await readdir(folder)).includes('state'));
  }
});
