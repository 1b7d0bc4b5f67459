/**
 * The shipped unit. No systemd runs here: its own tools check the unit, and its command runs in a sandbox that has the
 * unit's directories, its read-only file system, its credential and no privileges.
 */
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { mkdir, readdir, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { test } from 'node:test';
import { temporaryDirectory } from '../support/temporary-directory.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const UNIT = join(ROOT, 'config/systemd/svc.service');
const text = readFileSync(UNIT, 'utf8');
const START_DEADLINE_MS = 120_000;

function settingOf(name: string): string {
  const [, value] = new RegExp(`^${name}=((?:.*\\\\\n)*.*)$`, 'm').exec(text) ?? assert.fail(name);
  return (value ?? '').replaceAll('\\\n', ' ').replaceAll(/\s+/g, ' ').trim();
}

function analyze(...args: readonly string[]) {
  return spawnSync('systemd-analyze', [...args], { encoding: 'utf8' });
}

test('systemd takes the unit as it is', async () => {
  const directory = await temporaryDirectory();
  const file = join(directory, 'svc.service');
  // The command has to be there for this check.
  await writeFile(file, text.replace('/opt/svc/node_modules/.bin/svc', join(ROOT, 'config/svc')));
  const { status, stdout, stderr } = analyze('verify', '--man=no', file);
  assert.deepEqual([status, stdout, stderr], [0, '', '']);
  await writeFile(file, text.replace('ProtectSystem=strict', 'ProtectSistem=strict').replace('/opt/svc', ROOT));
  assert.match(analyze('verify', '--man=no', file).stderr, /ProtectSistem/, 'the check sees a mistake');
});

test('its exposure is at most 2.0, and would not be without its hardening', async () => {
  const rate = (file: string) => analyze('security', '--offline=true', '--threshold=20', '--no-pager', file);
  const rated = rate(UNIT);
  assert.equal(rated.status, 0, rated.stdout);
  const bare = join(await temporaryDirectory(), 'svc.service');
  await writeFile(bare, text.slice(0, text.indexOf('# Hardening')));
  assert.notEqual(rate(bare).status, 0);
});

test('each line of hardening has a reason above it, and nothing forbids V8 to compile', () => {
  const hardening = text.slice(text.indexOf('# Hardening'), text.indexOf('[Install]'));
  const groups = hardening.split(/(?=^# [A-Z])/m).filter((group) => group.trim() !== '');
  assert.ok(groups.every((group) => group.startsWith('# ')));
  assert.doesNotMatch(text, /^MemoryDenyWriteExecute/m);
  assert.equal(settingOf('TimeoutStopSec'), 'infinity');
});

test('its command serves in such a sandbox, stops in order, and finds its state again', async (t) => {
  const work = await temporaryDirectory();
  for (const name of ['state', 'cache', 'etc', 'credentials']) await mkdir(join(work, name));
  await writeFile(join(work, 'etc/actors.json'), '{ "actors": { "counter": { "main": "Counter.mo" } } }');
  const counter = 'persistent actor { var n : Nat = 0; public func inc() : async Nat { n += 1; n } };';
  await writeFile(join(work, 'etc/Counter.mo'), counter);
  await writeFile(join(work, 'credentials/token'), 'secret\n', { mode: 0o400 });
  const sandbox = `--ro-bind / / --dev /dev --proc /proc --tmpfs /home --tmpfs /opt --tmpfs /var --tmpfs /etc
    --tmpfs /run --unshare-user --cap-drop ALL --die-with-parent
    --ro-bind ${ROOT} /opt/svc/node_modules/svc --dir /opt/svc/node_modules/.bin
    --symlink ../svc/config/svc /opt/svc/node_modules/.bin/svc
    --bind ${work}/state /var/lib/svc --bind ${work}/cache /var/cache/svc
    --ro-bind ${work}/credentials /run/credentials --ro-bind ${work}/etc /etc/svc
    --clearenv --setenv PATH /usr/bin:/bin --setenv XDG_CACHE_HOME /var/cache
    --setenv CREDENTIALS_DIRECTORY /run/credentials`.split(/\s+/);
  const words = settingOf('ExecStart').replace('127.0.0.1:7000', '127.0.0.1:0').split(' ');
  const environment: Readonly<Record<string, string>> = {
    '%S/svc': '/var/lib/svc',
    '${CREDENTIALS_DIRECTORY}/token': '/run/credentials/token',
  };
  // Further flags: none, as in the unit's own Environment.
  assert.match(text, /^Environment=SVC_FLAGS=$/m);
  const command = words.filter((word) => word !== '$SVC_FLAGS').map((word) => environment[word] ?? word);
  assert.ok(
    command.every((word) => !word.includes('$')),
    command.join(' '),
  );
  for (const expected of ['[1]', '[2]']) {
    const child = spawn('bwrap', [...sandbox, ...command], { stdio: ['ignore', 'pipe', 'pipe'] });
    t.after(() => void child.kill('SIGKILL'));
    let output = '';
    for (const stream of [child.stdout, child.stderr])
      stream.setEncoding('utf8').on('data', (part) => (output += part));
    const deadline = Date.now() + START_DEADLINE_MS;
    while (!/^ready: 1/m.test(output)) {
      assert.ok(child.exitCode === null && Date.now() < deadline, output);
      await new Promise((done) => setTimeout(done, 20));
    }
    const origin = /listening on (http:\S+)/.exec(output)?.[1] ?? '';
    const call = (token: string) =>
      fetch(`${origin}/call-json/counter/inc`, {
        method: 'POST',
        body: '[]',
        headers: { authorization: `Bearer ${token}` },
      });
    assert.equal((await call('wrong')).status, 401);
    assert.equal(await (await call('secret')).text(), expected);
    // systemd tells the main process, which is the sandbox's only child.
    const children = readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, 'utf8').trim().split(' ');
    assert.equal(children.length, 1);
    const closed = once(child, 'close');
    process.kill(Number(children[0]), 'SIGTERM');
    assert.deepEqual(await closed, [0, null], output);
    assert.match(output, /^shutdown: 1 actor\(s\) checkpointed$/m);
    assert.ok(!output.includes('secret'));
  }
  assert.ok((await readdir(join(work, 'cache'))).length > 0, 'the cache of compiled code is used');
});
