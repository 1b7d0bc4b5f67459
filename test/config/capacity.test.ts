/** `--capacity`, in parts: what actors and messages cost. All of it runs in test/system/capacity.test.ts. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, readdir, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { test } from 'node:test';
import { Budget } from '../../config/capacity/budget.ts';
import { type Costs, measure } from '../../config/capacity/measure.ts';
import { jsonOf, linesOf } from '../../config/capacity/report.ts';
import { CACHE_HOME } from '../support/caches.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';
import { wat } from '../support/wat.ts';

const MAIN = resolve(import.meta.dirname, '../../config/svc.js');
const COUNTER = wat(`(module
  (import "ic0" "msg_reply" (func $reply))
  (memory 2)
  (func (export "canister_update inc")
    (i32.store (i32.const 0) (i32.add (i32.load (i32.const 0)) (i32.const 1))) (call $reply))
  (func (export "canister_query get") (call $reply)))`);
const MIB = 1024 ** 2;

const MESSAGE = { aloneMs: 0.2, perSecond: 10_123, cpuMicroseconds: 80.4 };
const COSTS: Costs = {
  idleBytes: 80 * MIB,
  live: { bytes: 0.4 * MIB, installMs: 2.34 },
  query: MESSAGE,
  update: MESSAGE,
  durable: {
    update: { ...MESSAGE, aloneMs: 2 },
    asleep: { bytes: 400, diskBytes: 50_000, wakeMs: 3 },
    freeDiskBytes: 50_000_000,
  },
};
const HOST = { cores: 2, memoryBytes: 4096 * MIB, directory: '/srv/state' };

test('what is measured is told with units, and what ends first', () => {
  assert.deepEqual(linesOf(COSTS, HOST), [
    'host: 2 core(s); actors may have 4 GiB (--memory-bytes); a server without actors takes 80 MiB',
    'live actor: 410 KiB of memory; 2.3 ms to install',
    'sleeping actor: 400 bytes of memory, 49 KiB of disk; 3 ms to wake',
    'query: 0.2 ms alone; 10,000 a second with 32 under way, each 80 µs of processor time',
    'update: 0.2 ms alone; 10,000 a second with 32 under way, each 80 µs of processor time',
    'durable update: 2 ms alone; 10,000 a second with 32 under way, each 80 µs of processor time',
    'room: some 10,000 live actors, or 1,000 sleeping ones (the disk ends first), all as small as the example counter: what an actor holds comes on top',
  ]);
  const inMemory = linesOf({ ...COSTS, durable: undefined }, { ...HOST, directory: undefined });
  assert.match(inMemory.join('\n'), /not measured: --state DIR names the disk\nroom: some 10,000 live actors, all as/);
  const slow = linesOf(
    { ...COSTS, durable: { ...COSTS.durable, asleep: undefined, update: MESSAGE, freeDiskBytes: 1 } },
    HOST,
  );
  assert.match(slow.join('\n'), /sleeping actor: not measured: no time was left/);
  const json = JSON.parse(jsonOf(COSTS, HOST, 12.3456)) as Record<string, unknown>;
  assert.deepEqual(json['room'], { live: 10_240, asleep: 1000, asleepBound: 'disk' });
  assert.deepEqual([json['seconds'], json['cores'], json['query']], [12.35, 2, { ...MESSAGE, perSecond: 10_120 }]);
  assert.equal((JSON.parse(jsonOf({ ...COSTS, durable: undefined }, HOST, 1)) as { durable: unknown }).durable, null);
});

test('what a part does not use is for those behind it', () => {
  const budget = new Budget(10_000, { first: 1, second: 3, third: 1 });
  const first = budget.begin('first', 5000);
  assert.ok(first > 1900 && first <= 2000, `${first}`);
  const second = budget.begin('second', 60_000);
  assert.ok(second > 7000 && second <= 7500, `${second}`);
  assert.equal(budget.begin('third', 10), 10);
});

test('real servers are measured, in memory and on a disk', { timeout: 120_000 }, async (t) => {
  const stateFolder = await temporaryDirectory();
  const manifest = join(await temporaryDirectory(), 'actors.json');

  await writeFile(manifest, '{"actors":{}}');
  const told: string[] = [];
  const { durable, ...costs } = await measure({
    // As much as the parts need at least; on a busy machine the last one may have no time.
    workMs: 3000,
    program: [MAIN],
    environment: process.env,
    args: ['--manifest', manifest, '--executors', '2'],
    // The server in memory would refuse them.
    stateArgs: ['--fsync', 'off', '--tables', 'sqlite'],
    wasm: COUNTER,
    stateFolder,
    signal: t.signal,
    progress: (text) => void told.push(text),
  });
  assert.deepEqual(told.slice(0, 4), ['live actors', 'queries', 'updates', 'durable updates']);
  assert.ok(durable !== undefined);
  for (const { aloneMs, perSecond, cpuMicroseconds } of [costs.query, costs.update, durable.update])
    assert.ok(aloneMs > 0 && perSecond > 0 && cpuMicroseconds > 0 && cpuMicroseconds < 1e6);
  // Two pages of the module's own are the least.
  assert.ok(costs.live.bytes > 4096 && costs.live.bytes < 50 * MIB, `${costs.live.bytes} bytes`);
  assert.ok(costs.idleBytes > 20 * MIB && durable.freeDiskBytes > 0);
  const { asleep } = durable;
  if (asleep !== undefined) {
    assert.ok(asleep.bytes < costs.live.bytes && asleep.diskBytes > 0 && asleep.wakeMs > 0, JSON.stringify(asleep));
  }
});

interface Ended {
  readonly code: number | null;
  readonly stderr: string;
}

async function capacity(args: readonly string[], temporary: string, signalAt?: string): Promise<Ended> {
  const env = { ...process.env, XDG_CACHE_HOME: CACHE_HOME, TMPDIR: temporary };
  const child = spawn(process.execPath, [MAIN, '--capacity', ...args], { env, stdio: ['ignore', 'ignore', 'pipe'] });
  let stderr = '';
  let isSent = false;
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
    if (isSent || signalAt === undefined || !stderr.includes(signalAt)) return;
    isSent = true;
    child.kill('SIGINT');
  });
  const [code] = (await once(child, 'close')) as [number | null];
  return { code, stderr };
}

test('an interrupted measurement leaves nothing behind', { timeout: 120_000 }, async () => {
  const [temporary, state] = [await temporaryDirectory(), join(await temporaryDirectory(), 'state')];
  await mkdir(state);
  // Stops behind the start of a server in memory, without the flags that only a durable one takes.
  const flags = ['--state', state, '--fsync', 'off', '--tables', 'sqlite'];
  const { code, stderr } = await capacity(flags, temporary, 'measuring: queries');
  assert.equal(code, 1, stderr);
  assert.match(stderr, /cannot measure: SIGINT: stopped/);
  assert.deepEqual([await readdir(state), await readdir(temporary)], [[], []]);
});

test('what contradicts a measurement is bad usage', async () => {
  const temporary = await temporaryDirectory();
  const { code, stderr } = await capacity(['--check', '--state', temporary, '--restore', 'x'], temporary);
  assert.equal(code, 2);
  assert.match(stderr, /--capacity and --check are two tasks: choose one/);
  assert.match(stderr, /--capacity and --restore contradict each other/);
});
