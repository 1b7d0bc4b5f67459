import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { suite, test } from 'node:test';
import { giveBackAtRest } from '../../config/memory-at-rest.ts';
import { FakeClock } from '../support/fake-clock.ts';
import { startServer } from '../support/server.ts';

const FREED_MEMORY = fileURLToPath(new URL('../support/freed-memory.ts', import.meta.url));
const SVC = fileURLToPath(new URL('../../config/svc.js', import.meta.url));
const CHECK_MS = 3_000;

interface Watched {
  /** Lets three seconds pass with so much work; returns true if memory was given back at their end. */
  readonly pass: (workMs: number) => boolean;
  readonly watch: Disposable;
}

/** `costMs`: cost of giving back. */
function watched(costMs = 5): Watched {
  const clock = new FakeClock();
  let cpuMs = 300;
  let given = 0;
  const free = (): void => {
    given++;
    cpuMs += costMs;
  };
  const watch = giveBackAtRest({ clock, cpuMs: () => cpuMs, free });
  return {
    watch,
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
    // Small amounts of work add up.
    assert.deepEqual([20, 20].map(pass), [true, false]);
    assert.deepEqual([6000, 0, 0].map(pass), [false, true, false]);
  });

  test('is not given back for what giving it back takes', () => {
    const { pass } = watched(400);
    assert.deepEqual([10, 0, 0, 0].map(pass), [true, false, false, false]);
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
    // These are parts of 128 MiB, less the garbage that V8 has not found.
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
