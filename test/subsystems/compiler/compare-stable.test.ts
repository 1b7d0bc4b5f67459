import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, suite, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { compareStable } from '../../../subsystems/compiler/compare-stable.ts';
import { mocProgramFile } from '../../../subsystems/compiler/core-package.ts';
import type { StableVerdict } from '../../../subsystems/compiler/index.ts';
import { MocProcesses } from '../../../subsystems/compiler/moc-processes.ts';
import { createCompiler } from '../../../subsystems/compiler/motoko-compiler.ts';

const compiler = createCompiler({ cacheDirectory: undefined });
after(() => compiler.close());

const compare = (before: string, fresh: string): Promise<StableVerdict> =>
  compiler.compareStable(
    ...([before, fresh].map((fields) => `// Version: 1.0.0\nactor {\n${fields}\n};\n`) as [string, string]),
  );

suite('the bundled compiler compares stable signatures', () => {
  test('variables may come and widen, not go or become something else', async () => {
    const compatible = { kind: 'compatible', message: undefined };
    assert.deepEqual(await compare('stable var n : Nat', 'stable var n : Int; stable m : Text'), compatible);
    for (const [before, fresh, code] of [
      ['stable var n : Nat', '', 'M0169'],
      ['stable var n : Nat', 'stable var n : Text', 'M0170'],
      ['stable var r : {x : Nat; y : Text}', 'stable var r : {x : Nat}', 'M0216'],
    ] as const) {
      const verdict = await compare(before, fresh);
      assert.equal(verdict.kind, 'incompatible', code);
      assert.ok(verdict.kind === 'incompatible' && verdict.message.startsWith(`[${code}] the `));
      assert.doesNotMatch(verdict.message, /\n/);
    }
  });

  test('what it cannot read, or is nested too deeply, is unknown, and the next comparison is done as ever', async () => {
    for (const [fields, reason] of [
      ['garbage {', /cannot read the signatures: \[M0001\]/],
      [`stable var n : ${'['.repeat(200_000)}Nat${']'.repeat(200_000)}`, /nested too deeply|gave up/],
      ['\0\ud800', /cannot read|gave up/],
    ] as const) {
      const verdict = await compare('stable var n : Nat', fields);
      assert.match(verdict.kind === 'unknown' ? verdict.reason : verdict.kind, reason);
      assert.equal((await compare('stable var n : Nat', 'stable var n : Int')).kind, 'compatible');
    }
  });

  test('what takes too long is unknown, and says what takes so long', async (t) => {
    const processes = new MocProcesses({ timeLimitMs: 1, idleMs: 0, processesMax: 1, keepsMemory: false });
    t.after(() => processes.close());
    const request = { kind: 'stable', program: mocProgramFile(), before: 'actor {}', after: 'actor {}' } as const;
    assert.deepEqual(await compareStable(processes, request), {
      kind: 'unknown',
      reason:
        'comparing the stable signatures took longer than 1 ms and was stopped; this happens where hundreds of types lead from one to the next',
    });
  });

  test('a process that starts late has its time from then on', async (t) => {
    const timeLimitMs = 3000;
    const options = { timeLimitMs, startMsMax: 600_000, idleMs: 600_000, processesMax: 1, keepsMemory: false };
    const processes = new MocProcesses(options);
    t.after(() => processes.close());
    const children = (): readonly string[] =>
      readFileSync(`/proc/${process.pid}/task/${process.pid}/children`, 'utf8').split(' ').filter(Boolean);
    const before = children();
    const request = { kind: 'stable', program: mocProgramFile(), before: 'actor {}', after: 'actor {}' } as const;
    const compared = compareStable(processes, request);
    const child = Number(children().find((pid) => !before.includes(pid)));
    process.kill(child, 'SIGSTOP');
    await sleep(timeLimitMs + 500);
    process.kill(child, 'SIGCONT');
    assert.equal((await compared).kind, 'compatible');
    // From now on the process is there, and a comparison that hangs is stopped.
    process.kill(child, 'SIGSTOP');
    const hanging = await compareStable(processes, request);
    assert.match(hanging.kind === 'unknown' ? hanging.reason : hanging.kind, /took longer than 3000 ms/);
  });

  test('a comparison that has begun in a new process has no more time than others', async (t) => {
    const options = { timeLimitMs: 1, startMsMax: 600_000, idleMs: 0, processesMax: 1, keepsMemory: false };
    const processes = new MocProcesses(options);
    t.after(() => processes.close());
    const types = Array.from({ length: 200 }, (_, at) => `type T${at} = { next : ?T${(at + 1) % 200} };`).join('\n');
    const chain = `${types}\nactor { stable var n : ?T0 };`;
    const request = { kind: 'stable', program: mocProgramFile(), before: chain, after: chain } as const;
    const verdict = await compareStable(processes, request);
    assert.match(verdict.kind === 'unknown' ? verdict.reason : verdict.kind, /took longer than 1 ms/);
  });

  test('after the end it is unknown, too', async () => {
    const other = createCompiler({ cacheDirectory: undefined });
    await other.close();
    assert.deepEqual(await other.compareStable('', ''), {
      kind: 'unknown',
      reason: 'the server is stopping: nothing is compiled any more',
    });
  });
});
