import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { suite, test } from 'node:test';
import { giveBackAtRest } from '../../config/memory-at-rest.ts';
import { FakeClock } from '../support/fake-clock.ts';
import { startServer } from '../support/server.ts';

const FREED_MEMORY = fileURLToPath(new URL('../support/freed-memory.ts', import.meta.url));
const COLLECTED_START = fileURLToPath(new URL('../support/collected-start.ts', import.meta.url));
const SVC = fileURLToPath(new URL('../../config/svc.js', import.meta.url));
const CHECK_MS = 3_000;

interface Watched {
  /** Three seconds with so much work; whether memory was given back at their end. */
  readonly pass: (workMs: number) => boolean;
  /** How often the start was collected. */
  readonly starts: () => number;
  readonly watch: Disposable;
}

/** `costMs`: of giving back; `startMs`: what the start took of processor time. */
function watched(costMs = 5, startMs = 300): Watched {
  const clock = new FakeClock();
  let cpuMs = startMs;
  let given = 0;
  let starts = 0;
  const giveBack = (): void => {
    given++;
    cpuMs += costMs;
  };
  const endStart = (): void => {
    starts++;
  };
  const watch = giveBackAtRest({ clock, cpuMs: () => cpuMs, endStart, giveBack });
  return {
    watch,
    starts: () => starts,
    pass: (workMs) => {
      const before = given;
      cpuMs += workMs;
      clock.advance(CHECK_MS);
      return given > before;
    },
  };
}

suite('memory at rest', () => {
  test('is given back after a start', () => {
    assert.equal(watched().pass(2), true);
  });

  test('is not while there is work, once behind it, and again behind more', () => {
    const { pass } = watched();
    assert.deepEqual([500, 301, 3000].map(pass), [false, false, false]);
    assert.deepEqual([299, 0, 3, 40].map(pass), [true, false, false, false]);
    // Little by little.
    assert.deepEqual([20, 20].map(pass), [true, false]);
    assert.deepEqual([6000, 0, 0].map(pass), [false, true, false]);
  });

  test('is not given back for what giving it back takes', () => {
    const { pass } = watched(400);
    assert.deepEqual([10, 0, 0, 0].map(pass), [true, false, false, false]);
  });

  test('of the start is collected at the first rest, and never again', () => {
    const { pass, starts } = watched();
    for (const workMs of [500, 301, 400]) pass(workMs);
    assert.equal(starts(), 0);
    pass(299);
    assert.equal(starts(), 1);
    for (const workMs of [0, 60, 3000, 0, 0]) pass(workMs);
    assert.equal(starts(), 1);
  });

  test('of the start is left to V8 by who has worked before the first rest', () => {
    for (const [startMs, workMs, expected] of [
      [300, 1_600, 1],
      [300, 1_800, 0],
      [1_990, 5, 1],
      [2_000, 5, 0],
    ] as const) {
      const { pass, starts } = watched(5, startMs);
      for (const each of [workMs, 0, 60, 0]) pass(each);
      assert.equal(starts(), expected, `${startMs} ms for the start, then ${workMs}`);
    }
  });

  test('of a heap is collected up to a size', () => {
    const { stdout, stderr } = spawnSync(process.execPath, [COLLECTED_START], { encoding: 'utf8' });
    assert.equal(stderr, '');
    const [small, large] = JSON.parse(stdout) as { before: number; after: number }[];
    // 6 MB of garbage; 6 more beside 40 that are in use.
    assert.ok(small !== undefined && small.before - small.after > 5e6, stdout);
    assert.ok(large !== undefined && large.before - large.after < 1e6, stdout);
  });

  test('stays where V8 has another name for its collection, and the server goes on', () => {
    const { status, stderr } = spawnSync(process.execPath, ['--expose-gc-as=collect', COLLECTED_START], {
      encoding: 'utf8',
      timeout: 20_000,
    });
    assert.deepEqual([status, stderr], [0, '']);
  });

  test('stays when nobody watches any more', () => {
    const { pass, watch } = watched();
    watch[Symbol.dispose]();
    assert.equal(pass(60), false);
  });

  test('goes back to the system, and what is in use stays', () => {
    const { stdout, stderr } = spawnSync(process.execPath, ['--expose-gc', FREED_MEMORY], { encoding: 'utf8' });
    assert.equal(stderr, '');
    const { before, after, areKept } = JSON.parse(stdout) as { before: number; after: number; areKept: boolean };
    // Of 128 MiB, but for the garbage that V8 has not found.
    assert.ok(before - after > 60, `${before} MiB before, ${after} after`);
    assert.equal(areKept, true);
  });

  test('of a server is given back where Node can, and its log says why where it cannot', async (t) => {
    const withIt = await startServer(t, { manifest: '{"actors":{}}', args: ['--verbose'] });
    await withIt.stop();
    assert.match(withIt.output.stderr, /ready: 0 actor/);
    assert.doesNotMatch(withIt.output.stderr, /given back|ExperimentalWarning/);
    const without = await startServer(t, {
      manifest: '{"actors":{}}',
      args: ['--verbose'],
      command: [process.execPath, '--no-experimental-ffi', SVC],
    });
    assert.deepEqual(await without.get('/health'), { status: 200, body: 'ok' });
    await without.stop();
    assert.match(
      without.output.stderr,
      /what the C library keeps free is not given back at rest: Node \S+ has no node:ffi/,
    );
  });
});
