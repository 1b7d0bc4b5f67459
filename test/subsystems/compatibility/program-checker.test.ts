/** Compilers that are programs of their own: their outputs, and the handling of invalid ones. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { chmod, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { findChecker } from '../../../subsystems/compatibility/find-checker.ts';
import { ProgramChecker } from '../../../subsystems/compatibility/program-checker.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';

const PLENTY_MS = 60_000;

/** Makes a shell script that takes the place of a compiler. */
async function checkerOf(script: string, deadlineMs = PLENTY_MS): Promise<ProgramChecker> {
  const file = join(await temporaryDirectory(), 'moc');
  await writeFile(file, `#!/bin/sh\n${script}\n`);
  await chmod(file, 0o755);
  return new ProgramChecker({ name: 'svc_bin', file, title: 'SVC_BIN', searchPath: '/usr/bin:/bin', deadlineMs });
}

/** Returns true if the group has a process left, possibly one whose status nobody has read. */
function isThere(group: number): boolean {
  try {
    process.kill(-group, 0);
    return true;
  } catch {
    return false;
  }
}

suite('a compiler that is a program', () => {
  test('it gets both signatures as files, its answers are understood, and nothing is left behind', async () => {
    const folder = await temporaryDirectory();
    const said = join(folder, 'said');
    const moc = await checkerOf(`[ "$1" = --stable-compatible ] && pwd > ${said} && cat "$2" "$3" >> ${said}`);
    assert.deepEqual(await moc.compareStable('before\n', 'after\n'), { kind: 'compatible', message: undefined });
    const [where = '', ...rest] = readFileSync(said, 'utf8').split('\n');
    assert.deepEqual(rest, ['before', 'after', '']);
    assert.ok(where.includes('svc-upgrade-') && !existsSync(where), where);

    const warns = await checkerOf('echo "(unknown location): warning [M0254], field n" >&2');
    assert.deepEqual(await warns.compareStable('a', 'b'), {
      kind: 'compatible',
      message: '(unknown location): warning [M0254], field n',
    });
    const refuses = await checkerOf(
      'echo "(unknown location): Compatibility error [M0170], the new type of\n stable variable n" >&2; exit 1',
    );
    assert.deepEqual(await refuses.compareStable('a', 'b'), {
      kind: 'incompatible',
      message: '(unknown location): Compatibility error [M0170], the new type of stable variable n',
    });
  });

  test('ends with a server that leaves without waiting for it', async () => {
    const said = join(await temporaryDirectory(), 'said');
    const file = join(await temporaryDirectory(), 'moc');
    await writeFile(file, `#!/bin/sh\necho $$ > ${said}\nsleep 600\n`);
    await chmod(file, 0o755);
    const module = new URL('../../../subsystems/compatibility/program-checker.ts', import.meta.url).href;
    const options = { name: 'svc_bin', file, title: 'SVC_BIN', searchPath: '/usr/bin:/bin', deadlineMs: PLENTY_MS };
    const program = `import { existsSync } from 'node:fs';
      import { ProgramChecker } from ${JSON.stringify(module)};
      void new ProgramChecker(${JSON.stringify(options)}).compareStable('a', 'b');
      setInterval(() => existsSync(${JSON.stringify(said)}) && process.exit(3), 5);`;
    const { status } = spawnSync(process.execPath, ['--input-type=module', '--eval', program], { stdio: 'inherit' });
    assert.equal(status, 3);
    const group = Number(readFileSync(said, 'utf8'));
    for (let waited = 0; isThere(group); waited += 20) {
      assert.ok(waited < PLENTY_MS, 'it was left behind');
      await sleep(20);
    }
  });

  test('what is not an answer of a compiler is neither a yes nor a no', async () => {
    for (const [script, reason] of [
      ['echo garbage', /exited with 0 and printed "garbage", which is no answer/],
      ['echo garbage; exit 1', /exited with 1 and printed "garbage"/],
      ['exit 1', /exited with 1 and printed nothing/],
      ['exit 127', /exited with 127/],
      ['echo "error [M0170]"', /exited with 0/],
      ['echo "before.most:1.1: syntax error [M0001], unexpected token"; exit 1', /printed "before.most:1.1: syntax/],
      ['kill -9 $$', /exited with a signal/],
      ['yes', /printed more than 262144 bytes/],
    ] as const) {
      const verdict = await (await checkerOf(script)).compareStable('a', 'b');
      assert.equal(verdict.kind, 'unknown', script);
      assert.match(verdict.kind === 'unknown' ? verdict.reason : '', reason, script);
      assert.match(verdict.kind === 'unknown' ? verdict.reason : '', /^SVC_BIN \(\/.*\/moc\) /, script);
    }
  });

  test('one that is not there, or may not be run, is told', async () => {
    const folder = await temporaryDirectory();
    const file = join(folder, 'moc');
    const moc = new ProgramChecker({ name: 'moc', file, title: 'the moc', searchPath: undefined });
    const missing = await moc.compareStable('a', 'b');
    assert.match(missing.kind === 'unknown' ? missing.reason : '', /cannot be started: spawn .* ENOENT/);
    await writeFile(file, 'not a program', { mode: 0o644 });
    const forbidden = await moc.compareStable('a', 'b');
    assert.match(forbidden.kind === 'unknown' ? forbidden.reason : '', /cannot be started: spawn .* EACCES/);
  });

  test('one that hangs ends at the deadline, with all that it has started', async () => {
    const folder = await temporaryDirectory();
    const pids = join(folder, 'pids');
    const moc = await checkerOf(`trap '' TERM; sleep 600 & echo $! $$ > ${pids}; wait; sleep 600`, 300);
    const verdict = await moc.compareStable('a', 'b');
    assert.match(verdict.kind === 'unknown' ? verdict.reason : '', /did not answer within 300 ms/);
    const started = existsSync(pids) ? readFileSync(pids, 'utf8').trim().split(/\s+/).map(Number) : [];
    const isGone = (pid: number): boolean => !existsSync(`/proc/${pid}/exe`) || isZombie(pid);
    for (let round = 0; round < 500 && !started.every(isGone); round++) await sleep(10);
    assert.ok(started.every(isGone), `${started.join(', ')} still run`);
  });

  test('SVC_BIN is asked and nobody else; then a moc beside the server; then the bundled compiler', async () => {
    const folder = await temporaryDirectory();
    const besideServer = join(folder, 'moc');
    const bundled = { compareStable: () => Promise.resolve({ kind: 'compatible', message: 'bundled' } as const) };
    const nameOf = (program?: string): string =>
      findChecker({ program, besideServer, searchPath: undefined }, bundled).name;
    assert.equal(nameOf(), 'bundled');
    assert.equal(nameOf(join(folder, 'missing')), 'svc_bin');
    await writeFile(besideServer, '');
    assert.equal(nameOf(), 'moc');
    assert.equal(nameOf(join(folder, 'missing')), 'svc_bin');
    const checker = findChecker({ program: undefined, besideServer: folder, searchPath: undefined }, bundled);
    assert.deepEqual(await checker.compareStable('a', 'b'), { kind: 'compatible', message: 'bundled' });
  });
});

function isZombie(pid: number): boolean {
  try {
    return / Z /.test(readFileSync(`/proc/${pid}/stat`, 'utf8'));
  } catch {
    return true;
  }
}
