/** `--check`: says beforehand whether a start would succeed, and changes nothing. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { cp, mkdir, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { before, test } from 'node:test';
import { backupOf, filledTables } from '../subsystems/storage/backup-files.ts';
import { CACHE_HOME } from '../support/caches.ts';
import { startServer } from '../support/server.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';
import { wat } from '../support/wat.ts';

const MAIN = resolve(import.meta.dirname, '../../config/svc.js');
const KEEPER = wat(`(module
  (import "ic0" "msg_reply" (func $reply))
  (memory 1)
  (func (export "canister_update keep")
    (i32.store (i32.const 0) (i32.add (i32.load (i32.const 0)) (i32.const 1))) (call $reply)))`);

interface Checked {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

let directory: string;
/** State of a server that was killed, so that its step log is needed. */
let state: string;

before(async () => {
  directory = await temporaryDirectory();
  state = join(directory, 'state');
  await writeFile(join(directory, 'keeper.wasm'), KEEPER);
  await manifest({ keeper: { wasm: 'keeper.wasm' } });
  const ends: (() => Promise<void>)[] = [];
  const owner = { after: (end: () => Promise<void>) => void ends.push(end) };
  const args = ['--state', state];
  const server = await startServer(owner, { manifestFile: join(directory, 'actors.json'), args });
  for (let k = 0; k < 20; k++) assert.equal((await server.post('/call/keeper/keep', '')).status, 200);
  await server.kill();
  for (const end of ends) await end();
});

async function manifest(actors: Readonly<Record<string, unknown>>, name = 'actors.json'): Promise<string> {
  await writeFile(join(directory, name), JSON.stringify({ actors }));
  return name;
}

async function check(...args: readonly string[]): Promise<Checked> {
  return checkIn({}, ...args);
}

async function checkIn(more: NodeJS.ProcessEnv, ...args: readonly string[]): Promise<Checked> {
  const env = { ...process.env, XDG_CACHE_HOME: CACHE_HOME, ...more };
  const child = spawn(process.execPath, [MAIN, '--check', ...args], { cwd: directory, env });
  let stdout = '';
  let stderr = '';
  child.stdout.setEncoding('utf8').on('data', (part: string) => (stdout += part));
  child.stderr.setEncoding('utf8').on('data', (part: string) => (stderr += part));
  const [code] = (await once(child, 'close')) as [number];
  return { code, stdout, stderr };
}

/** Returns names, contents and times of all files below a folder. */
async function contentOf(folder: string): Promise<readonly string[]> {
  const names = await readdir(folder, { recursive: true });
  return Promise.all(
    names.toSorted().map(async (name) => {
      const { mtimeMs, size } = await stat(join(folder, name));
      const bytes = await readFile(join(folder, name)).catch(() => Buffer.alloc(0));
      return `${name} ${size} ${mtimeMs} ${createHash('sha256').update(bytes).digest('hex')}`;
    }),
  );
}

test('what would start is said to, and the state is as it was', async () => {
  const earlier = await contentOf(state);
  const { code, stdout, stderr } = await check('--state', state);
  assert.deepEqual([code, stderr], [0, '']);
  assert.match(
    stdout,
    /^ok flags: understood\nok manifest: 1 actor\(s\) in .*actors\.json\nok actor keeper: \d+ bytes/,
  );
  assert.match(stdout, /^ok state: \d+ entries \(\d+ bytes\) in .*state$/m);
  assert.deepEqual(await contentOf(state), earlier);
  const none = await check('--state', 'none');
  assert.match(none.stdout, /^ok state: none yet in .*none$/m);
  assert.ok(!(await readdir(directory)).includes('none'));
});

test('each actor that would be rejected is named with its reason, and the others are checked', async () => {
  await writeFile(join(directory, 'Broken.mo'), 'persistent actor { public func f() : async Nat { "text" } };');
  await writeFile(join(directory, 'strange.wasm'), wat('(module (import "env" "f" (func)))'));
  const broken = await manifest(
    {
      broken: { main: 'Broken.mo' },
      strange: { wasm: 'strange.wasm' },
      keeper: { wasm: 'keeper.wasm' },
    },
    'broken.json',
  );
  const { code, stdout } = await check('--manifest', broken, '--log-json');
  assert.equal(code, 1);
  const { ok, findings } = JSON.parse(stdout) as {
    readonly ok: boolean;
    readonly findings: readonly { readonly what: string; readonly ok: boolean; readonly text: string }[];
  };
  const said = new Map(findings.map((finding) => [finding.what, finding]));
  assert.equal(ok, false);
  assert.deepEqual(
    [...said].filter(([, finding]) => !finding.ok).map(([what]) => what),
    ['actor broken', 'actor strange'],
  );
  assert.match(said.get('actor broken')?.text ?? '', /Broken\.mo:1/);
  assert.match(said.get('actor strange')?.text ?? '', /env/);
});

test('bad usage is 2, and a manifest that cannot be read is 1', async () => {
  assert.equal((await check('--heartbeat-ms', 'often')).code, 2);
  const { code, stderr } = await check('--restore', 'x');
  assert.equal(code, 2);
  assert.match(stderr, /--restore needs --state DIR/);
  await writeFile(join(directory, 'twice.json'), '{ "actors": { "a": 1, "a": 2 } }');
  const twice = await check('--manifest', 'twice.json');
  assert.equal(twice.code, 1);
  assert.match(twice.stdout, /^FAILED manifest: /m);
});

test('a backup is read whole, and nothing is restored', async () => {
  const whole = backupOf(filledTables());
  await writeFile(join(directory, 'kept.backup'), whole);
  const good = await check('--no-manifest', '--state', 'none', '--restore', 'kept.backup');
  assert.deepEqual([good.code, good.stderr], [0, '']);
  assert.match(
    good.stdout,
    new RegExp(`^ok backup: [1-9]\\d* entries \\(${whole.length} bytes\\) in .*kept\\.backup$`, 'm'),
  );
  assert.match(good.stdout, /^ok state: none yet in .*none$/m);
  assert.ok(!(await readdir(directory)).includes('none'));
  const failedBy = async (bytes: Uint8Array, into: string, reason: RegExp): Promise<void> => {
    await writeFile(join(directory, 'bad.backup'), bytes);
    const { code, stdout } = await check('--no-manifest', '--state', into, '--restore', 'bad.backup');
    assert.equal(code, 1, stdout);
    assert.match(stdout, reason);
  };
  await failedBy(whole.subarray(0, -1), 'none', /^FAILED backup: .*bad\.backup is not whole: it ends at byte \d+/m);
  const damaged = Buffer.from(whole);
  damaged[whole.length >> 1] = (damaged[whole.length >> 1] ?? 0) ^ 1;
  await failedBy(damaged, 'none', /^FAILED backup: .*bad\.backup is damaged at byte \d+: a block is damaged$/m);
  await failedBy(whole, state, /^FAILED backup: .*state holds a state already/m);
});

test('a state that would not open is refused with the reason, under its own name', async () => {
  const copyOf = async (name: string): Promise<string> => {
    await rm(join(directory, name), { recursive: true, force: true });
    await cp(state, join(directory, name), { recursive: true });
    return name;
  };
  const failedBy = async (name: string, reason: RegExp): Promise<void> => {
    const { code, stdout } = await check('--state', name);
    assert.equal(code, 1, stdout);
    const line = /^FAILED state: (.*)$/m.exec(stdout)?.[1] ?? '';
    assert.match(line, reason);
    assert.doesNotMatch(line, /svc-check-/);
  };
  const damaged = await copyOf('damaged');
  // The middle of the units that were made durable.
  const segments = (await readdir(join(directory, damaged, 'log'))).map((name) =>
    join(directory, damaged, 'log', name),
  );
  for (const file of segments) {
    const bytes = await readFile(file);
    const used = bytes.findLastIndex((byte) => byte !== 0);
    bytes.fill(0x55, used >> 1, (used >> 1) + 64);
    await writeFile(file, bytes);
  }
  await failedBy(damaged, /damaged/);
  const newer = await copyOf('newer');
  await writeFile(join(directory, newer, 'format'), 'svc state, format 99\n');
  await failedBy(newer, /newer svc/);
  await mkdir(join(directory, 'foreign'));
  await writeFile(join(directory, 'foreign/mine'), '');
  await failedBy('foreign', /not a state directory/);
  await failedBy('actors.json', /actors\.json is a file; name a directory/);
});

test('a state in use is refused, and its server goes on', async (t) => {
  const used = join(directory, 'used');
  await cp(state, used, { recursive: true });
  const args = ['--state', used];
  const server = await startServer(t, { manifestFile: join(directory, 'actors.json'), args });
  const { code, stdout } = await check('--state', used);
  assert.equal(code, 1);
  assert.match(stdout, /^FAILED state: .*is in use by process \d+/m);
  assert.equal((await server.post('/call/keeper/keep', '')).status, 200);
  assert.equal(await server.stop(), 0);
});

test('a folder for temporary files that takes no copy is a finding with the fix', async () => {
  const nowhere = join(directory, 'nowhere');
  const { code, stdout, stderr } = await checkIn({ TMPDIR: nowhere }, '--no-manifest', '--state', state);
  assert.deepEqual([code, stderr], [1, '']);
  const place = `is read from a copy in the folder for temporary files, ${nowhere}, which cannot be written: `;
  assert.ok(stdout.includes(`FAILED state: the state directory ${state} ${place}`), stdout);
  assert.match(stdout, /; the variable TMPDIR names another folder\nok listener/);
});

test('a state directory that has lost its step log is a finding, as it fails the start', async () => {
  const broken = join(directory, 'without-log');
  await cp(state, broken, { recursive: true });
  await rm(join(broken, 'log'), { recursive: true });
  const { code, stdout, stderr } = await check('--no-manifest', '--state', broken);
  assert.deepEqual([code, stderr], [1, '']);
  assert.match(stdout, /^FAILED state: the step log is damaged: /m);
});
