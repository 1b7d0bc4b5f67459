/**
 * Actors with a timer and a heartbeat whose bytes exceed `--live-bytes`, with a constant query of each: one that is
 * larger than the bound delays nobody, and two of them take turns. `npm run prove -- siege` is the long form, in which
 * the large actors have 400 MB; if all may be live, each answer has to come within a second of the server's own time.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { send } from '../support/http-client.ts';
import { HindranceWatch, recordingFlushes } from '../support/hindrances.ts';
import { ProofSeeds } from '../support/proof-seeds.ts';
import { type RunningServer, startServer, type TestOwner } from '../support/server.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';
import { wat } from '../support/wat.ts';

/** A run of at least this many seconds is a proof. */
const PROOF_SECONDS = 60;
const SECONDS = new ProofSeeds(2).count;
const IS_PROOF = SECONDS >= PROOF_SECONDS;
const LARGE_MB = IS_PROOF ? 400 : 40;
const BYTES_MAX = 20_000_000;
const ANSWER_MS_MAX = 1000;
/** Number of answers that each actor has to give if actors take turns, however long that takes. */
const TURNS = 2;

function ticking(megabytes: number): Uint8Array {
  const pages = Math.ceil((megabytes * 1e6) / 65_536);
  return wat(`(module
    (import "ic0" "msg_reply" (func $reply))
    (import "ic0" "time" (func $time (result i64)))
    (import "ic0" "global_timer_set" (func $set (param i64) (result i64)))
    (memory ${pages})
    (func $arm (drop (call $set (i64.add (call $time) (i64.const 200000000)))))
    (func $count (i32.store (i32.const 8) (i32.add (i32.const 1) (i32.load (i32.const 8)))))
    (func (export "canister_init")
      (memory.fill (i32.const 0) (i32.const 1) (i32.const ${pages * 65_536}))
      (call $arm))
    (func (export "canister_global_timer") (call $count) (call $arm))
    (func (export "canister_heartbeat") (call $count))
    (func (export "canister_query get") (call $reply)))`);
}

interface Crowd {
  readonly server: RunningServer;
  readonly folder: string;
  readonly flushes: string;
}

async function crowdOf(t: TestOwner, sizes: readonly number[]): Promise<Crowd> {
  const folder = await temporaryDirectory();
  const flushes = join(folder, 'flushes');
  const args = ['--state', join(folder, 'state'), '--cycles', '0', '--live-bytes', `${BYTES_MAX}`];
  const server = await startServer(t, { args, manifest: '{"actors":{}}', env: recordingFlushes(flushes) });
  for (const [n, megabytes] of sizes.entries()) {
    const installed = await send(server.origin, 'POST', `/install/actor${n}`, { body: ticking(megabytes) });
    assert.equal(installed.status, 200, installed.text);
  }
  return { server, folder, flushes };
}

/** Queries an actor until `isEnough`; returns when each query was sent, and how long it took. */
async function ask({ origin }: RunningServer, n: number, isEnough: (answers: number) => boolean): Promise<Asked[]> {
  const asked: Asked[] = [];
  while (!isEnough(asked.length)) {
    const sentMs = performance.now();
    const answer = await send(origin, 'POST', `/query/actor${n}/get`, {});
    assert.equal(answer.status, 200, answer.text);
    asked.push({ sentMs, ms: performance.now() - sentMs });
    await sleep(5);
  }
  return asked;
}

interface Asked {
  readonly sentMs: number;
  readonly ms: number;
}

async function evictionsOf(server: RunningServer): Promise<number> {
  return Number(/^svc_evictions_total (\d+)/m.exec((await server.get('/metrics')).body)?.[1]);
}

test('one that is larger than --live-bytes is live beside those that fit, and nobody is put to sleep for a tick', async (t) => {
  const sizes = [LARGE_MB, 6, 6, 6];
  const { server, folder, flushes } = await crowdOf(t, sizes);
  const watch = await HindranceWatch.start(folder, flushes, server.process.pid ?? 0);
  t.after(() => watch.end());
  const endMs = performance.now() + SECONDS * 1000;
  const asked = await Promise.all(sizes.map((_, n) => ask(server, n, () => performance.now() > endMs)));
  await watch.end();
  const hindrances = await watch.read();
  const served = asked.map((each) =>
    each.map(({ sentMs, ms }) => {
      const sentAtMs = performance.timeOrigin + sentMs;
      return ms - hindrances.within(sentAtMs, sentAtMs + ms);
    }),
  );
  for (const [n, times] of served.entries()) {
    const most = Math.max(...times);
    t.diagnostic(`${sizes[n]} MB: ${times.length} answers, ${most.toFixed(1)} ms at most`);
    assert.ok(times.length > 0);
    if (IS_PROOF) assert.ok(most <= ANSWER_MS_MAX, `${sizes[n]} MB: ${most} ms`);
  }
  assert.equal(await evictionsOf(server), 0, 'all of them have their places');
  assert.doesNotMatch(server.output.stderr, /heartbeats or timers/);
});

test('two that are larger than --live-bytes take turns, and those that fit go on meanwhile', async (t) => {
  const sizes = [LARGE_MB, LARGE_MB, 6, 6];
  const { server } = await crowdOf(t, sizes);
  let turns = 0;
  const large = [0, 1].map(async (n) => {
    const asked = await ask(server, n, (answers) => answers >= TURNS);
    turns++;
    return asked;
  });
  const small = [2, 3].map((n) => ask(server, n, (answers) => turns === 2 && answers >= TURNS));
  const counts = (await Promise.all([...large, ...small])).map(({ length }) => length);
  t.diagnostic(`answers: ${counts.join(', ')}`);
  const evictions = await evictionsOf(server);
  assert.ok(evictions > 0, 'the large ones are not live at once');
  for (const count of counts.slice(2)) assert.ok(count >= TURNS, `${count} answers`);
});
