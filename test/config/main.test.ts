import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readdir, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { test } from 'node:test';
import packageJson from '../../package.json' with { type: 'json' };
import { temporaryDirectory } from '../support/temporary-directory.ts';

const MAIN = resolve(import.meta.dirname, '../../config/svc.js');

/** Runs the command to its end; for command lines that do not start a server. */
function svc(args: readonly string[], environment: Readonly<Record<string, string>> = {}) {
  return runToEnd(process.execPath, [MAIN, ...args], environment);
}

function runToEnd(program: string, args: readonly string[], environment: Readonly<Record<string, string>> = {}) {
  const { status, stdout, stderr } = spawnSync(program, args, {
    encoding: 'utf8',
    timeout: 120_000,
    env: { ...process.env, SVC_TOKEN: undefined, SVC_WASM_STACK: undefined, ...environment },
  });
  return { status, stdout, stderr };
}

test('--version prints the version and nothing else', () => {
  assert.deepEqual(svc(['--version']), { status: 0, stdout: `${packageJson.version}\n`, stderr: '' });
});

test('--help goes to stdout, plain where it is no terminal', () => {
  const { status, stdout, stderr } = svc(['--help']);
  assert.equal(status, 0);
  assert.equal(stderr, '');
  assert.match(stdout, /--manifest FILE/);
  assert.ok(!stdout.includes('\u001b'));
});

test('--help alone takes a short way: the same text, and no cache of compiled code', async () => {
  const home = await temporaryDirectory();
  const cache = { XDG_CACHE_HOME: home, NODE_COMPILE_CACHE: '' };
  const short = svc(['--help'], cache);
  assert.deepEqual(await readdir(home), []);
  assert.deepEqual(svc(['--help', '--state', 'x'], cache), short);
  assert.notDeepEqual(await readdir(home), []);
});

test('bad usage is exit code 2, with every problem on stderr and nothing on stdout', () => {
  const { status, stdout, stderr } = svc(['--frobnicate', '--cycles=-1', '--plugin=a=./b.js']);
  assert.equal(status, 2);
  assert.equal(stdout, '');
  assert.match(
    stderr,
    /^svc: unknown flag --frobnicate\nsvc: --cycles: .*\nsvc: plugin a=\.\/b\.js: there is no file .*\nsvc: run svc --help/,
  );
});

test('an open address without a token, and an empty token, are refused', () => {
  const open = svc(['--listen', '0.0.0.0:0']);
  assert.equal(open.status, 2);
  assert.match(open.stderr, /can be reached from other machines/);
  const empty = svc([], { SVC_TOKEN: '' });
  assert.equal(empty.status, 2);
  assert.match(empty.stderr, /SVC_TOKEN: the value is empty/);
});

test('what is quoted of a file forges no line and drives no terminal', async () => {
  const file = join(await temporaryDirectory(), 'svc.config.json');
  await writeFile(file, JSON.stringify({ listen: 'a\0b\n\u001bc:1' }));
  const { status, stderr } = svc(['--config', file]);
  assert.equal(status, 2);
  assert.match(
    stderr,
    /^svc: --listen: 'a\\u0000b\n {2}\\u001bc' does not resolve to an address .*\nsvc: run svc --help/,
  );
});

test('a working directory that is gone is told in one line', async () => {
  const directory = await temporaryDirectory();
  const script = 'cd "$1" && rmdir "$1" && exec "$2" "$3" --print-config';
  assert.deepEqual(runToEnd('sh', ['-c', script, 'sh', directory, process.execPath, MAIN]), {
    status: 1,
    stdout: '',
    stderr: 'svc: the working directory is not there any more: change to another one\n',
  });
});

test('turning off a plugin that the server needs is bad usage, with the reason', () => {
  const { status, stderr } = svc(['--no-scheduler']);
  assert.equal(status, 2);
  assert.match(stderr, /cannot run without scheduler: \w/);
});

test('a manifest that is not there is a failed start: exit code 1, named', () => {
  const { status, stderr } = svc(['--listen', '127.0.0.1:0', '--manifest', 'no-such-manifest.json']);
  assert.equal(status, 1);
  assert.match(stderr, /error: cannot start: .*no-such-manifest\.json/);
});

test('a signal while a failed start is taken down says nothing of a shutdown', async () => {
  const file = join(await temporaryDirectory(), 'failing.mjs');
  const plugin = `export default ({ definePlugin, defineCapability }) => definePlugin({
    apiVersion: 1,
    name: 'failing',
    provides: defineCapability('failing'),
    create: () => ({}),
    start: () => Promise.reject(new Error('no such luck')),
    stop: async () => {
      process.kill(process.pid, 'SIGTERM');
      await new Promise((resolve) => setTimeout(resolve, 200));
    },
  });`;
  await writeFile(file, plugin);
  const { status, stdout, stderr } = svc(['--listen', '127.0.0.1:0', '--no-manifest', '--plugin', `failing=${file}`]);
  assert.equal(status, 1);
  assert.match(stderr, /cannot start: plugin 'failing' .*no such luck/);
  assert.doesNotMatch(stdout + stderr, /shutdown|stopped:|bug/);
});
