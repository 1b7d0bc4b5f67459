/**
 * `--check` beside a start with the same flags: the reason and the exit code are the same. Parts that are replaced or
 * turned off are asked as a start asks them, or a line says that they are not.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { before, test } from 'node:test';
import { CACHE_HOME } from '../support/caches.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';
import { wat } from '../support/wat.ts';

const MAIN = resolve(import.meta.dirname, '../../config/svc.js');
const HEADING = '{"svc-outcalls":1}';
const ANSWER = '{"method":"GET","url":"https://a.example/","body":"","response":{"status":200,"headers":[],"body":""}}';

let directory: string;

before(async () => {
  directory = await temporaryDirectory();
  await mkdir(join(directory, 'site'));
  const files: Readonly<Record<string, string | Uint8Array>> = {
    'none.json': '{"actors":{}}',
    'empty.wasm': wat('(module (memory 1))'),
    'Counter.mo': 'persistent actor { public func inc() : async () {} };',
    'bad.did': 'service : { inc : () -> ',
    'init.did': 'service : (nat) -> {}',
    'tokens.json': JSON.stringify({ a: { sha256: 'a'.repeat(64), may: ['metrics'] } }),
    'damaged.jsonl': `${HEADING}\n{"method":"GET"\n${ANSWER}\n`,
    'foreign.jsonl': 'mine\n',
    'good.jsonl': `${HEADING}\n${ANSWER}\n`,
    'torn.jsonl': `${HEADING}\n${ANSWER}\n{"method"`,
    'plain-auth.js': plugin('plain-auth', 'Auth', {
      requires: 'auth: svc.Auth',
      create: '({ needsToken: true, allows: () => false })',
    }),
    'broken.js': plugin('broken', 'Manifest', { create: '(() => { throw new Error("no luck"); })()' }),
    'empty-handed.js': plugin('empty-handed', 'Manifest', { create: '({})' }),
    'unreadable.js': plugin('unreadable', 'Manifest', {
      create: '({ read: () => Promise.reject(new Error("the registry is away")) })',
    }),
    'one.js': plugin('one', 'Manifest', { create: LISTING }),
    'half.js': plugin('half', 'Manifest', { create: '({ read: async () => [{ name: "half" }] })' }),
    'late.js': plugin('late', 'Manifest', { create: LISTING, more: 'start: () => { throw new Error("not now") },' }),
    'unlasting.js': plugin('unlasting', 'Scheduler', {
      requires: 'scheduler: svc.Scheduler',
      create: 'svc.around(granted.scheduler, { supports: { ...granted.scheduler.supports, durability: false } })',
    }),
  };
  for (const [name, content] of Object.entries(files)) await writeFile(join(directory, name), content);
});

const LISTING = `({ read: async () => [{
  name: 'listed', source: { kind: 'wasm', file: process.cwd() + '/empty.wasm' }, candidFile: undefined, args: undefined,
  cycles: undefined, env: new Map(), hasCertificate: false }] })`;

interface Written {
  readonly requires?: string;
  readonly create: string;
  readonly more?: string;
}

/** Source of a plugin; `create` is an expression. */
function plugin(name: string, provides: string, { requires = '', create, more = '' }: Written): string {
  return `export default (svc) => ({ apiVersion: 1, name: '${name}', provides: svc.${provides},
    requires: { ${requires} }, ${more} create: (granted) => ${create} });`;
}

interface Ended {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

async function svc(...args: readonly string[]): Promise<Ended> {
  const env = { ...process.env, XDG_CACHE_HOME: CACHE_HOME };
  const child = spawn(process.execPath, [MAIN, '--listen', '127.0.0.1:0', ...args], { cwd: directory, env });
  let stdout = '';
  let stderr = '';
  child.stdout.setEncoding('utf8').on('data', (part: string) => {
    stdout += part;
    // A start that succeeds is over.
    if (part.includes('ready:')) child.kill('SIGTERM');
  });
  child.stderr.setEncoding('utf8').on('data', (part: string) => (stderr += part));
  const [code] = (await once(child, 'close')) as [number];
  return { code, stdout, stderr };
}

const NONE = ['--manifest', 'none.json'] as const;

const FAILING: readonly (readonly [what: string, args: readonly string[], reason: RegExp])[] = [
  ['outcalls', [...NONE, '--outcalls-replay', 'missing.jsonl'], /missing\.jsonl cannot be used .*ENOENT.*open/],
  ['outcalls', [...NONE, '--outcalls-replay', 'damaged.jsonl'], /line 2: it is no JSON/],
  ['outcalls', [...NONE, '--outcalls-record', 'damaged.jsonl'], /line 2: it is no JSON/],
  ['outcalls', [...NONE, '--outcalls-record', 'foreign.jsonl'], /it does not begin with the line/],
  ['outcalls', [...NONE, '--outcalls-record', 'no/where.jsonl'], /ENOENT.*open/],
  ['outcalls', [...NONE, '--outcalls-record', 'site'], /EISDIR/],
  ['access log', [...NONE, '--access-log', 'no/where.log'], /--access-log: cannot write .*ENOENT/],
  ['audit', [...NONE, '--audit-file', 'no/where.log'], /--audit-file: cannot write .*ENOENT/],
  ['project', [...NONE, '--project', 'nowhere'], /there is no such directory/],
  ['state', [...NONE, '--state', '/proc/x'], /nobody can make a directory there/],
  ['state', [...NONE, '--state', 'none.json'], /none\.json is a file; name a directory/],
  ['parts', ['--plugin', 'manifest=./broken.js'], /plugin 'broken' .*could not be created: no luck/],
  ['parts', ['--plugin', 'manifest=./empty-handed.js'], /it lacks read\(\)/],
  ['manifest', ['--plugin', 'manifest=./unreadable.js'], /the registry is away/],
  ['actors', ['--plugin', 'manifest=./half.js'], /undefined/],
  [
    'parts',
    [...NONE, '--tokens', 'tokens.json', '--plugin', 'auth=./plain-auth.js'],
    /lacks grantOf, which --tokens needs/,
  ],
  [
    'parts',
    [...NONE, '--state', 'kept', '--plugin', 'scheduler=./unlasting.js'],
    /plugin 'canisters' could not be created: this server's scheduler/,
  ],
];

for (const [what, args, reason] of FAILING) {
  test(`a start with ${args.join(' ')} fails, and --check tells the reason`, async () => {
    const checked = await svc('--check', ...args);
    const started = await svc(...args);
    assert.equal(checked.code, started.code, checked.stdout + started.stderr);
    assert.notEqual(started.code, 0);
    if (started.code === 2) return assert.equal(checked.stderr, started.stderr);
    const [, told = ''] = new RegExp(`^FAILED ${what}: (.*)$`, 'm').exec(checked.stdout) ?? [];
    assert.match(told, reason, checked.stdout);
    assert.ok(started.stderr.includes(told), `${told}\n${started.stderr}`);
    if (what === 'parts') assert.match(checked.stdout, /^ok manifest: not looked at: the parts cannot be made$/m);
  });
}

test('a part without which nothing runs is bad usage for both', async () => {
  const [checked, started] = [await svc('--check', '--no-scheduler'), await svc('--no-scheduler')];
  assert.deepEqual([checked.code, started.code], [2, 2]);
  assert.match(checked.stderr, /cannot run without scheduler/);
  assert.equal(checked.stderr, started.stderr);
});

test('actors that a start rejects fail with its words', async () => {
  const actors = {
    source: { main: 'Counter.mo' },
    interface: { wasm: 'empty.wasm', candid: 'bad.did' },
    argument: { wasm: 'empty.wasm', candid: 'init.did', args: ['text'] },
    folder: { wasm: 'empty.wasm', assets: 'missing' },
    sound: { wasm: 'empty.wasm' },
  };
  await writeFile(join(directory, 'rejected.json'), JSON.stringify({ actors }));
  const args = ['--manifest', 'rejected.json', '--no-compiler'];
  const [checked, started] = [await svc('--check', ...args), await svc(...args)];
  const rejected = [...started.stdout.matchAll(/^REJECTED (\w+) (.*)$/gm)].map(([, ...told]) => told);
  const failed = [...checked.stdout.matchAll(/^FAILED actor (\w+): (.*)$/gm)].map(([, ...told]) => told);
  assert.deepEqual(
    rejected.map(([name]) => name),
    ['source', 'interface', 'argument', 'folder'],
    started.stdout,
  );
  assert.deepEqual(failed, rejected);
  assert.match(String(failed), /needs the compiler, which --no-compiler turned off/);
  assert.equal(checked.code, 1);
});

test('a plugin that needs nothing else is asked, and of another one a line says that it is not', async () => {
  const read = await svc('--check', '--plugin', 'manifest=./one.js');
  assert.match(read.stdout, /^ok manifest: 1 actor\(s\) in \.\/one\.js$/m);
  assert.match(read.stdout, /^ok actor listed: \d+ bytes/m);
  assert.equal(read.code, 0, read.stdout);
  const late = await svc('--check', '--plugin', 'manifest=./late.js');
  assert.match(late.stdout, /^ok plugin late: made by \.\/late\.js; what it opens and starts is not tried$/m);
  assert.match(late.stdout, /^ok manifest: read by \.\/late\.js when that has started, and not looked at$/m);
  const off = await svc('--check', '--no-manifest');
  assert.match(off.stdout, /^ok manifest: none: nothing is installed$/m);
  assert.match(off.stdout, /^ok listener: 127\.0\.0\.1 port 0, which may be in use: it is not tried$/m);
});

test('files that a start would make or mend are left as they are', async () => {
  const torn = await readFile(join(directory, 'torn.jsonl'));
  const names = (await readdir(directory)).toSorted();
  const flags = [...NONE, '--access-log', 'access.log', '--audit-file', 'audit.log', '--state', 'new/state'];
  const mended = await svc('--check', ...flags, '--outcalls-record', 'torn.jsonl');
  assert.match(mended.stdout, /^ok outcalls: recorded behind 1 answer\(s\) in .*torn\.jsonl$/m);
  const made = await svc('--check', ...flags, '--outcalls-record', 'new.jsonl');
  assert.match(made.stdout, /^ok outcalls: recorded behind 0 answer\(s\) in .*new\.jsonl$/m);
  const replayed = await svc('--check', ...NONE, '--outcalls-replay', 'good.jsonl');
  assert.match(replayed.stdout, /^ok outcalls: answered by 1 request\(s\) in .*good\.jsonl$/m);
  assert.deepEqual([mended.code, made.code, replayed.code], [0, 0, 0], mended.stdout);
  assert.deepEqual(await readFile(join(directory, 'torn.jsonl')), torn);
  assert.deepEqual((await readdir(directory)).toSorted(), names);
});
