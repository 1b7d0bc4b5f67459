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

test('npm pack refuses with what to do', async () => {
  const directory = await clone();
  const before = await readdir(directory);
  const { status, stderr } = await run(directory, 'npm', ['pack']);
  assert.notEqual(status, 0);
  assert.match(stderr, /npm pack builds nothing here - use npm run package/);
  assert.deepEqual(await readdir(directory), before);
});

test('npm publish sends nothing', async (t) => {
  const directory = await clone();
  const sent: string[] = [];
  const registry = createServer((request, response) => {
    sent.push(`${request.method} ${request.url}`);
    response.writeHead(404).end('{}');
  }).listen(0, '127.0.0.1');
  t.after(() => registry.close());
  await once(registry, 'listening');
  const place = `//127.0.0.1:${(registry.address() as AddressInfo).port}/`;
  const { status, stderr } = await run(directory, 'npm', [
    'publish',
    `--registry=http:${place}`,
    `--${place}:_authToken=x`,
  ]);
  assert.notEqual(status, 0);
  assert.match(stderr, /EPRIVATE/);
  assert.deepEqual(
    sent.filter((line) => line.startsWith('PUT')),
    [],
  );
});

test('a package that was made all the same says what it lacks, and one that was built runs', async () => {
  const directory = await clone();
  const packed = await temporaryDirectory();
  const pack = async (into: string): Promise<Ended> => {
    await mkdir(into);
    const made = await run(directory, 'npm', ['pack', '--pack-destination', into]);
    assert.equal(made.status, 0, made.stderr);
    await run(into, 'tar', ['-xzf', `svc-${packageJson.version}.tgz`]);
    return run(into, join(into, 'package', packageJson.bin.svc), ['--version']);
  };
  const lacking = await pack(join(packed, 'lacking'));
  assert.deepEqual([lacking.status, lacking.stdout], [1, '']);
  assert.match(
    lacking.stderr,
    /^svc: this package was packed without being built, and lacks dist: .*"npm run package".*\n$/,
  );
  // Copies only the command: the program that it starts is built elsewhere.
  await mkdir(join(directory, 'dist/config'), { recursive: true });
  await cp(join(directory, 'config/svc.js'), join(directory, 'dist/config/svc.js'));
  const built = await pack(join(packed, 'built'));
  assert.match(built.stderr, /dist\/config\/bundle\.js/);
});
