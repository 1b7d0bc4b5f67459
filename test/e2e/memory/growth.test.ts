/**
 * Actors that take memory without end, in a real server with a small `--memory-bytes`: the process stays within the
 * bound and a margin, neighbours go on, and an actor that is refused memory serves on with its state.
 */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { compileMotoko } from '../../support/motoko.ts';
import { type RunningServer, startServer } from '../../support/server.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';
import { callHog, hogModule } from './hog.ts';
import { MemoryWatch } from './watch.ts';

const MIB = 2 ** 20;
const MEMORY_BYTES = 128 * MIB;
const ALL_PAGES = MEMORY_BYTES / 65_536;
/** Least that `--memory-bytes` takes: with a state directory each page that changes is stored as well. */
const MEMORY_WITH_STATE_BYTES = 64 * MIB;
/** Memory that the process may take in addition (docs/flags.md), including its initial memory. */
const MARGIN_BYTES = 512 * MIB;
const MARGIN_WITH_STATE_BYTES = 1024 * MIB;
const argsFor = (memoryBytes: number): readonly string[] => ['--memory-bytes', String(memoryBytes), '--executors', '2'];
/** Pause between the calls of a neighbour, which are to wait, and not to take the processors. */
const CALL_EVERY_MS = 10;
const HOGS = ['h0', 'h1', 'h2', 'h3'] as const;
const HOGGING = ['grow', 'rewrite', 'grow_and_trap', 'stable'] as const;

/** Starts four hogs of both widths on both executors, and on each a neighbour that takes nothing. */
async function startHogs(t: TestContext, args: readonly string[]): Promise<RunningServer> {
  const server = await startServer(t, { manifest: '{"actors":{}}', args });
  const [narrow, wide] = [hogModule(32), hogModule(64)];
  for (const [k, name] of [...HOGS, 'n0', 'n1'].entries()) {
    const installed = await server.post(`/install/${name}`, k % 4 < 2 ? narrow : wide);
    assert.equal(installed.status, 200, installed.body);
  }
  return server;
}

/** Checks that hold whatever the hogs do. */
class Neighbours {
  readonly #server: RunningServer;
  counts = [0, 0];
  slowestMs = 0;

  constructor(server: RunningServer) {
    this.#server = server;
  }

  async while(work: Promise<unknown>): Promise<void> {
    let isOver = false;
    const over = work.finally(() => (isOver = true));
    const calls = this.counts.map(async (_, k) => {
      while (!isOver) {
        const startedMs = performance.now();
        const { status, value, body } = await callHog(this.#server, `n${k}`, 'inc');
        assert.equal(status, 200, body);
        assert.equal(value, ++(this.counts[k] as number));
        this.slowestMs = Math.max(this.slowestMs, performance.now() - startedMs);
        await sleep(CALL_EVERY_MS);
      }
    });
    await Promise.all([over, ...calls]);
  }
}

function metric(page: string, name: string): number {
  return Number(new RegExp(`^${name} (.+)$`, 'm').exec(page)?.[1]);
}

test('without --state: growth beyond the bound fails for the actor, and the process lives', async (t) => {
  const server = await startHogs(t, argsFor(MEMORY_BYTES));
  using watch = new MemoryWatch(server);
  const neighbours = new Neighbours(server);
  await neighbours.while(
    (async () => {
      // All hogs grow at once, until nothing is left.
      const grown = await Promise.all(HOGS.map((name) => callHog(server, name, 'grow', 16)));
      for (const { status, body } of grown) assert.equal(status, 200, `refused growth is −1, and no trap: ${body}`);
      const pages = grown.reduce((sum, { value }) => sum + value, 0);
      assert.ok(pages < ALL_PAGES && pages > ALL_PAGES / 3, `${pages} of ${ALL_PAGES} pages`);
      // Growth is tried again and again, in vain: a refused growth leaves nothing behind.
      for (let round = 0; round < 10; round++) {
        const sizes = await Promise.all(HOGS.map(async (name) => (await callHog(server, name, 'size')).value));
        await Promise.all(
          HOGS.map(async (name, k) => {
            const trapped = await callHog(server, name, 'grow_and_trap', 1 + round);
            assert.equal(trapped.status, 400, trapped.body);
            assert.equal((await callHog(server, name, 'look_and_grow', 3)).status, 200);
            assert.equal((await callHog(server, name, 'size')).value, sizes[k], 'it is undone');
            assert.equal((await callHog(server, name, 'inc')).value, round + 1);
          }),
        );
      }
      // Changing all of the heap needs the same amount again.
      for (const name of HOGS) {
        const { status, body } = await callHog(server, name, 'rewrite');
        if (status !== 200)
          assert.match(body, /the message cannot (keep what it changes|use more of its heap): \d+ of the \d+ bytes/);
        assert.equal((await callHog(server, name, 'inc')).value, 11);
      }
      // Stable memory is refused as well.
      await Promise.all(HOGS.map((name) => callHog(server, name, 'stable', 64)));
      const refused = await server.post('/install/large', largeModule());
      assert.equal(refused.status, 503, refused.body);
      assert.match(refused.body, /there is no room for a heap of 67108864 bytes now: \d+ of the 134217728 bytes/);
    })(),
  );
  const page = (await server.get('/metrics')).body;
  assert.equal(metric(page, 'svc_memory_bytes_max'), MEMORY_BYTES);
  assert.ok(metric(page, 'svc_memory_bytes') <= MEMORY_BYTES + 2 * MIB);
  assert.ok(metric(page, 'svc_memory_refusals_total') > 20);
  // Memory that one hog gives back serves the others.
  for (const name of HOGS) {
    assert.equal((await server.post(`/stop/${name}`)).status, 200);
    assert.equal((await server.fetch(`/actors/${name}`, { method: 'DELETE' })).status, 200);
  }
  assert.equal((await server.post('/install/large', largeModule())).status, 200);
  assert.equal((await callHog(server, 'large', 'inc')).value, 1);
  const { firstBytes, peakBytes } = watch;
  assert.ok(peakBytes < MEMORY_BYTES + MARGIN_BYTES, `${peakBytes / MIB} MiB at most, ${firstBytes / MIB} at first`);
  assert.equal(server.process.exitCode, null);
  assert.ok(neighbours.slowestMs < 30_000, `a neighbour waited ${neighbours.slowestMs} ms`);
});

/** Makes a module that has 64 MiB from the beginning. */
function largeModule(): Uint8Array {
  return hogModule(64, 1024);
}

test('with --state: idle actors give way first, and what was refused is the same after a kill', async (t) => {
  const state = await temporaryDirectory();
  const kept = ['--state', state, '--snapshot-below', String(2 * MIB)];
  let server = await startHogs(t, [...argsFor(MEMORY_WITH_STATE_BYTES), ...kept]);
  using watch = new MemoryWatch(server);
  const neighbours = new Neighbours(server);
  await neighbours.while(
    (async () => {
      // Together the hogs have more memory than there is.
      for (const name of HOGS) {
        const { status, value, body } = await callHog(server, name, 'grow', 16, 400);
        assert.deepEqual([status, value], [200, 401], `${name}: ${body}`);
      }
      for (const name of HOGS) assert.equal((await callHog(server, name, 'inc')).value, 1);
      // All at once and without end: each is refused, or gets memory when others sleep.
      // In the second round hogs of the other width do the same.
      for (const round of [0, 2])
        await Promise.all(HOGS.map((name, k) => callHog(server, name, HOGGING[(k + round) % HOGS.length] ?? '', 64)));
      for (const name of HOGS) assert.equal((await callHog(server, name, 'inc')).value, 2);
    })(),
  );
  const numbers = await stateOf(server);
  const page = (await server.get('/metrics')).body;
  assert.ok(metric(page, 'svc_evictions_total') > 0);
  assert.ok(metric(page, 'svc_memory_refusals_total') > 0);
  const { firstBytes, peakBytes } = watch;
  const bound = MEMORY_WITH_STATE_BYTES + MARGIN_WITH_STATE_BYTES;
  assert.ok(peakBytes < bound, `${peakBytes / MIB} MiB at most, ${firstBytes / MIB} at first`);
  await server.kill();
  // With more memory, a refused growth is refused again, because it was before; with less, too.
  for (const memoryBytes of [8 * MEMORY_WITH_STATE_BYTES, MEMORY_WITH_STATE_BYTES]) {
    server = await startServer(t, { manifest: '{"actors":{}}', args: [...argsFor(memoryBytes), ...kept] });
    assert.deepEqual(await stateOf(server), numbers, server.output.stderr);
    await server.kill();
  }
});

async function stateOf(server: RunningServer): Promise<readonly number[][]> {
  const numbers: number[][] = [];
  for (const name of [...HOGS, 'n0', 'n1']) {
    const answers = [await callHog(server, name, 'get'), await callHog(server, name, 'size')];
    for (const { status, body } of answers) assert.equal(status, 200, `${name}: ${body}`);
    numbers.push(answers.map(({ value }) => value));
  }
  return numbers;
}

test('a Motoko actor that runs out of memory traps, is rolled back and serves on', async (t) => {
  const { wasm } = await compileMotoko(`
    import Array "mo:core/Array";
    import VarArray "mo:core/VarArray";
    persistent actor {
      transient var kept : [[var Nat64]] = [];
      var count = 0;
      public func hoard() : async () { loop { kept := Array.concat(kept, [VarArray.repeat<Nat64>(7, 1_000_000)]) } };
      public func inc() : async Nat { count += 1; count };
    };`);
  const server = await startServer(t, { manifest: '{"actors":{}}', args: argsFor(MEMORY_BYTES) });
  using watch = new MemoryWatch(server);
  for (const name of ['one', 'two']) assert.equal((await server.post(`/install/${name}`, wasm)).status, 200);
  for (let round = 1; round <= 3; round++) {
    const ended = await Promise.all(['one', 'two'].map((name) => server.post(`/call-json/${name}/hoard`, '[]')));
    for (const { status, body } of ended) {
      assert.equal(status, 400, body);
      assert.match(
        body,
        /the message was refused more memory: \d+ of the 134217728 bytes that all actors may have together/,
      );
    }
    for (const name of ['one', 'two'])
      assert.equal((await server.post(`/call-json/${name}/inc`, '[]')).body, `[${round}]`);
  }
  assert.ok(watch.peakBytes < MEMORY_BYTES + MARGIN_BYTES, `${watch.peakBytes / MIB} MiB`);
});
