/** Tests where the bearer token comes from, and which files are refused. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { chmod, mkdir, symlink, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { loadConfig } from '../../config/load.ts';
import { startServer } from '../support/server.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

let directory: string;

before(async () => {
  directory = await temporaryDirectory();
  await write('token', 'from-file\n');
  await write('other', 'from-other');
  await write('svc.config.json', '{ "auth-token-file": "other" }');
});

async function write(name: string, content: string, mode = 0o600): Promise<void> {
  await writeFile(join(directory, name), content);
  await chmod(join(directory, name), mode);
}

async function problemsOf(
  argv: readonly string[],
  environment: Readonly<Record<string, string>> = {},
): Promise<string> {
  const found = await load(argv, environment);
  return typeof found === 'string' ? found : assert.fail('it was taken');
}

/** Returns the token, or the problems. */
async function load(argv: readonly string[], environment: Readonly<Record<string, string>> = {}) {
  const request = await loadConfig({ argv, environment, pluginNames: ['auth'], version: '0', build: 'dev', directory });
  if (request.kind === 'refused') return request.problems.join('\n');
  assert.equal(request.kind, 'serve');
  return { token: request.config.auth.token, warnings: request.warnings };
}

const ORDER: readonly (readonly [string, readonly string[], Readonly<Record<string, string>>])[] = [
  ['from-flag', ['--auth-token', 'from-flag'], {}],
  ['from-file', ['--auth-token-file', 'token'], {}],
  ['from-variable', [], { SVC_TOKEN: 'from-variable' }],
  ['from-other', [], { SVC_TOKEN_FILE: 'other' }],
  ['from-other', ['--config', 'svc.config.json'], {}],
];

test('each of two sources gives the token where it stands before the other', async () => {
  for (const [k, [token, argv, environment]] of ORDER.entries()) {
    assert.deepEqual(await load(argv, environment), { token, warnings: [] });
    for (const [, laterArgv, laterEnvironment] of ORDER.slice(k + 1)) {
      const both = await load([...laterArgv, ...argv], { ...laterEnvironment, ...environment });
      if (k === 0 && laterArgv[0] === '--auth-token-file')
        assert.match(
          await problemsOf([...laterArgv, ...argv], laterEnvironment),
          /^--auth-token and --auth-token-file contradict each other/,
        );
      else assert.deepEqual(both, { token, warnings: [] }, `${argv.join()} ${JSON.stringify(laterEnvironment)}`);
    }
  }
  // A source that is not taken is not looked at.
  assert.deepEqual(await load(['--auth-token-file', 'token'], { SVC_TOKEN: '' }), { token: 'from-file', warnings: [] });
  assert.deepEqual(await load([], { SVC_TOKEN: 'x', SVC_TOKEN_FILE: 'missing' }), { token: 'x', warnings: [] });
});

test('one line feed at the end is dropped, and all else belongs to the token', async () => {
  for (const [content, token] of [
    ['two words', 'two words'],
    ['x\n', 'x'],
    ['y'.repeat(8192), 'y'.repeat(8192)],
    [`${'z'.repeat(8192)}\n`, 'z'.repeat(8192)],
  ] as const) {
    await write('content', content);
    assert.deepEqual(await load(['--auth-token-file', 'content']), { token, warnings: [] });
  }
  for (const content of ['x\n\n', 'x\r\n', ' x', 'x\ny', 'schlüssel', '\ufeffx', 'x\0']) {
    await write('content', content);
    const problem = await problemsOf(['--auth-token-file', 'content']);
    assert.match(problem, /^--auth-token-file \(content\) holds a token that no HTTP header can carry/);
    assert.ok(!problem.includes('schl'));
  }
});

test('a file that cannot hold a token is refused by name, at once, and never with a second complaint', async () => {
  await write('empty', '');
  await write('line', '\n');
  await write('large', '');
  await truncate(join(directory, 'large'), 2 ** 30);
  await write('full', 'x'.repeat(8193));
  await mkdir(join(directory, 'folder'));
  await symlink('nowhere', join(directory, 'link'));
  assert.equal(spawnSync('mkfifo', [join(directory, 'pipe')]).status, 0);
  for (const [file, reason] of [
    ['missing', /cannot be read: there is no such file/],
    ['link', /cannot be read: there is no such file/],
    ['folder', /is a directory/],
    ['pipe', /is not a regular file/],
    ['/dev/zero', /is not a regular file/],
    ['token/x', /cannot be read: ENOTDIR/],
    ['empty', /is empty/],
    ['line', /is empty/],
    ['large', /has 1073741824 bytes, and no request carries a token of more than 8192/],
    ['full', /has 8193 bytes/],
  ] as const) {
    const problem = await problemsOf(['--auth-token-file', file, '--listen', '0.0.0.0:0']);
    assert.match(problem, reason);
    assert.ok(problem.startsWith(`--auth-token-file (${file}) `) && !problem.includes('\n'), problem);
  }
  assert.match(await problemsOf([], { SVC_TOKEN_FILE: 'missing' }), /^SVC_TOKEN_FILE \(missing\) cannot be read/);
  assert.match(await problemsOf([], { SVC_TOKEN_FILE: '' }), /^SVC_TOKEN_FILE: the value is empty/);
  assert.match(await problemsOf(['--auth-token-file', 'token', '--no-auth']), /contradict each other/);
});

test('a file that every user can read is warned of and taken, as the secrets of containers are', async () => {
  for (const [mode, warns] of [
    [0o600, false],
    [0o440, false],
    [0o444, true],
    [0o604, true],
  ] as const) {
    await write('shared', 'open', mode);
    const found = await load(['--auth-token-file', 'shared']);
    assert.ok(typeof found !== 'string' && found.token === 'open');
    const expected = `--auth-token-file (shared) can be read by every user of this machine (mode ${mode.toString(8)}): chmod 600`;
    assert.deepEqual(found.warnings, warns ? [expected] : []);
  }
});

test('a server asks for the token of its file as it was at the start', async (t) => {
  await write('live', 'first\n', 0o444);
  const args = ['--auth-token-file', join(directory, 'live')];
  const server = await startServer(t, { manifest: '{ "actors": {} }', args });
  assert.match(server.output.stderr, /can be read by every user of this machine/);
  await write('live', 'second\n', 0o444);
  const asked = (token: string) => server.get('/actors', { authorization: `Bearer ${token}` });
  assert.equal((await asked('first')).status, 200);
  assert.equal((await asked('second')).status, 401);
  assert.ok(!`${server.output.stdout}${server.output.stderr}`.includes('first'));
});
