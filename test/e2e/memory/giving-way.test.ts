/**
 * Idle actors have all memory, and give way to whatever needs it: an actor whose memory is stable memory and that is
 * woken, a snapshot, code whose new heap is stored at once.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { type RunningServer, startServer } from '../../support/server.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';
import { wat } from '../../support/wat.ts';
import { callHog, hogModule } from './hog.ts';

const MIB = 2 ** 20;
const MEMORY_BYTES = 128 * MIB;
const PAGES_PER_MIB = 16;
const STABLE_MIB = 40;
/** Actors with so many MiB of heap each take all memory. */
const IDLE_MIB = 12;
const IDLE = Array.from({ length: 10 }, (_, k) => `idle${k}`);
/** A waking that nobody gives way to is tried 200 times, with a pause each. */
const MS_MAX = 8_000;
/** Fills a heap of 17 MiB in its first message: the heap is stored at once, which takes four times as much memory. */
const FILLED = wat(`(module
  (memory 272)
  (func (export "canister_init") (memory.fill (i32.const 0) (i32.const 7) (i32.const 17825792))))`);

async function install(server: RunningServer, name: string, wasm: Uint8Array): Promise<void> {
  const { status, body } = await server.post(`/install/${name}`, wasm);
  assert.equal(status, 200, `${name}: ${body}`);
}

test('idle actors give way to stable memory that is woken, to snapshots, and to new heaps', async (t) => {
  const state = await temporaryDirectory();
  const args = ['--state', state, '--memory-bytes', String(MEMORY_BYTES), '--executors', '1'];
  const server = await startServer(t, { manifest: '{"actors":{}}', args });
  for (const name of ['keeper', 'taken', ...IDLE]) await install(server, name, hogModule(32));
  const kept = await callHog(server, 'keeper', 'stable', 1, STABLE_MIB * PAGES_PER_MIB);
  assert.equal(kept.value, STABLE_MIB * PAGES_PER_MIB, kept.body);
  await callHog(server, 'taken', 'grow', PAGES_PER_MIB, 40 * PAGES_PER_MIB);

  let isGrown = false;
  const takeAll = async (): Promise<void> => {
    for (const name of IDLE) {
      const taken = await callHog(server, name, isGrown ? 'rewrite' : 'grow', PAGES_PER_MIB, IDLE_MIB * PAGES_PER_MIB);
      assert.equal(taken.status, 200, taken.body);
    }
    isGrown = true;
    await sleep(100);
  };
  const soon = async (what: string, work: () => Promise<void>): Promise<void> => {
    await takeAll();
    const startedMs = performance.now();
    await work();
    const tookMs = performance.now() - startedMs;
    t.diagnostic(`${what}: ${tookMs.toFixed(0)} ms`);
    assert.ok(tookMs < MS_MAX, `${what} took ${tookMs.toFixed(0)} ms`);
  };
  for (const round of [1, 2])
    await soon('waking stable memory', async () => {
      const { status, value, body } = await callHog(server, 'keeper', 'inc');
      assert.deepEqual([status, value], [200, round], body);
    });
  await soon('a snapshot', async () => {
    const { status, body } = await server.post('/x/actors/taken/snapshots');
    assert.equal(status, 200, body);
  });
  await soon('an installation', () => install(server, 'filled', FILLED));
  await soon('an upgrade', async () => {
    const { status, body } = await server.post('/upgrade/filled', FILLED);
    assert.equal(status, 200, body);
  });

  // Together, its heap and the copy are more than there is.
  await callHog(server, 'taken', 'grow', PAGES_PER_MIB, 70 * PAGES_PER_MIB);
  for (const name of IDLE.slice(0, 2)) await callHog(server, name, 'inc');
  await sleep(100);
  const evictions = async (): Promise<string | undefined> =>
    /^svc_evictions_total .*$/m.exec((await server.get('/metrics')).body)?.[0];
  const before = await evictions();
  const { status } = await server.post('/x/actors/taken/snapshots');
  assert.deepEqual([status, await evictions()], [503, before], 'nobody gives way to what can never fit');
});
