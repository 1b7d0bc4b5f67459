/**
 * Tests the installed npm on a clone that was not built: it makes no package, or one whose message names the missing
 * part.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { cp, mkdir, readdir } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join, resolve } from 'node:path';
import { test } from 'node:test';
import packageJson from '../../package.json' with { type: 'json' };
import { temporaryDirectory } from '../support/temporary-directory.ts';

const ROOT = resolve(import.meta.dirname, '../..');
/** Environment without the variables of the npm that runs the tests. */
const ENVIRONMENT = Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^npm_/i.test(name)));

interface Ended {
  readonly status: number;
  readonly stdout: string;
  readonly stderr: string;
}

function run(directory: string, file: string, args: readonly string[]): Promise<Ended> {
  return new Promise((done) => {
    execFile(file, args, { cwd: directory, env: ENVIRONMENT }, (error, stdout, stderr) =>
      done({ status: error === null ? 0 : Number(error.code), stdout, stderr }),
    );
  });
}

async function clone(): Promise<string> {
  const directory = await temporaryDirectory();
  for (const file of ['package.json', '.npmrc', 'config/svc', 'config/svc.js', 'CHANGELOG.md', 'README.md'])
    await cp(join(ROOT, file), join(directory, file));
  return directory;
}

/** Returns a copy of the folder of create-svc, whose templates have no sources yet. */
async function cloneOfCreate(): Promise<string> {
  const directory = await temporaryDirectory();
  await cp(join(ROOT, 'packages/create-svc'), directory, { recursive: true });
  return directory;
}

test('npm pack refuses with what to do, and so it does in the folder of create-svc', async () => {
  for (const directory of [await clone(), await cloneOfCreate()]) {
    const before = await readdir(directory);
    const { status, stderr } = await run(directory, 'npm', ['pack']);
    assert.notEqual(status, 0);
    assert.match(stderr, /npm pack builds nothing here - use npm run package/);
    assert.deepEqual(await readdir(directory), before);
  }
});

for (const scripts of ['--ignore-scripts', '--ignore-scripts=false'])
  test(`npm publish ${scripts} refuses with what to do, and sends nothing`, async (t) => {
    const asked: string[] = [];
    const registry = createServer((request, response) => {
      asked.push(`${request.method} ${request.url}`);
      response.writeHead(404).end('{}');
    }).listen(0, '127.0.0.1');
    t.after(() => registry.close());
    await once(registry, 'listening');
    const place = `//127.0.0.1:${(registry.address() as AddressInfo).port}/`;
    const args = ['publish', scripts, `--registry=http:${place}`, `--${place}:_authToken=x`];
    for (const directory of [await clone(), await cloneOfCreate()])
      for (const more of [[], ['--dry-run']]) {
        const { status, stderr } = await run(directory, 'npm', [...args, ...more]);
        assert.notEqual(status, 0);
        assert.match(stderr, /npm publish builds nothing here - use npm run package/);
      }
    assert.deepEqual(asked, []);
  });

test('npm pack refuses before it packs where scripts run, be it for show', async () => {
  const { status, stderr } = await run(await clone(), 'npm', ['pack', '--ignore-scripts=false', '--dry-run']);
  assert.notEqual(status, 0);
  assert.match(stderr, /npm pack builds nothing here - use npm run package/);
});

test('a package that was made all the same says what it lacks', async () => {
  const directory = await clone();
  const into = await temporaryDirectory();
  // A build is not packed in this way, either: it would come with the clone's package.json.
  await mkdir(join(directory, 'dist/config'), { recursive: true });
  await cp(join(directory, 'config/svc.js'), join(directory, 'dist/config/svc.js'));
  const made = await run(directory, 'npm', ['pack', '--pack-destination', into]);
  assert.equal(made.status, 0, made.stderr);
  await run(into, 'tar', ['-xzf', `svc-${packageJson.version}.tgz`]);
  const ran = await run(into, join(into, 'package', packageJson.bin.svc), ['--version']);
  assert.deepEqual([ran.status, ran.stdout], [1, '']);
  assert.match(
    ran.stderr,
    /^svc: this package was packed without being built, and lacks dist: .*"npm run package".*\n$/,
  );
});

test('the commands of packages and of the soak tell how they are used, and refuse what they do not know', async () => {
  const [pack, soak] = [join(ROOT, '.ci/package.ts'), join(ROOT, 'test/soak/soak.ts')];
  for (const script of [pack, soak]) {
    const asked = await run(ROOT, process.execPath, [script, '--help']);
    assert.deepEqual([asked.status, asked.stderr], [0, '']);
    assert.match(asked.stdout, /^npm run (?:package|soak) /);
  }
  for (const [script, ...args] of [
    [pack, '--nme'],
    [pack, '--name'],
    [pack, 'x'],
    [soak, 'x'],
    [soak, '0'],
    [soak, '1', 'a', 'b'],
  ]) {
    const { status, stderr } = await run(ROOT, process.execPath, [script ?? '', ...args]);
    assert.equal(status, 2, args.join(' '));
    assert.match(stderr, /^npm run (?:package|soak) /m);
    assert.doesNotMatch(stderr, /\n {4}at /);
  }
});

test('a name that npm would not take is refused before anything is built', async () => {
  for (const name of ['Actors', '@team', '@team/', 'a b', '../x', '']) {
    const script = join(ROOT, '.ci/package.ts');
    const { status, stderr } = await run(ROOT, process.execPath, [script, `--name=${name}`]);
    assert.equal(status, 2, name);
    assert.match(stderr, /^--name .*: npm takes .*such as @scope\/svc\n$/);
  }
});
