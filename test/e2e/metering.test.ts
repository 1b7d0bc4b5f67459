/** Cycles as a client sees them: the cost of a message, the end of the cycles, and ways to add some. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { type InProcessServer, startInProcess } from '../support/in-process-server.ts';
import { compileCounter, compileMotoko } from '../support/motoko.ts';
import type { TestOwner } from '../support/server.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

const EMPTY_MESSAGE_CYCLES = 590_000n;

/** The manifest with the example counter alone: otherwise the other examples would be installed, too. */
const COUNTER = new URL('../fixtures/counter.json', import.meta.url).pathname;

function startCounter(t: TestOwner, args: readonly string[] = []): Promise<InProcessServer> {
  return startInProcess(t, { manifestFile: COUNTER, args });
}

async function cycles(server: InProcessServer): Promise<bigint> {
  const answer = await server.get('/cycles/counter');
  assert.equal(answer.status, 200);
  return BigInt(answer.body);
}

test('an update costs 590,000 cycles and 4 for ten instructions; a query costs nothing', async (t) => {
  const server = await startCounter(t);
  const before = await cycles(server);
  await server.post('/query-json/counter/get');
  assert.equal(await cycles(server), before);
  await server.post('/call-json/counter/inc');
  const first = before - (await cycles(server));
  assert.ok(first > EMPTY_MESSAGE_CYCLES && first < EMPTY_MESSAGE_CYCLES + 100_000n, String(first));
  await server.post('/call-json/counter/boom');
  const afterTrap = await cycles(server);
  assert.ok(before - first - afterTrap > EMPTY_MESSAGE_CYCLES, 'a trap is paid for');
});

test('the same message costs the same in every run', async (t) => {
  const costs: bigint[] = [];
  for (let run = 0; run < 2; run++) {
    const server = await startCounter(t);
    const before = await cycles(server);
    for (let i = 0; i < 20; i++) await server.post('/call-json/counter/inc');
    costs.push(before - (await cycles(server)));
  }
  assert.equal(costs[0], costs[1]);
});

test('a dry actor answers 402 until it is topped up; the state is as it was', async (t) => {
  const server = await startCounter(t, ['--cycles', '3000000']);
  // The installation has cost its share.
  let answer = await server.post('/call-json/counter/inc');
  let count = 0;
  while (answer.status === 200) {
    count++;
    assert.ok(count < 10, 'three million cycles buy at most five messages');
    answer = await server.post('/call-json/counter/inc');
  }
  assert.equal(answer.status, 402);
  assert.match(answer.body, /out of cycles/);
  assert.equal((await server.post('/query-json/counter/get')).status, 402);
  assert.ok((await cycles(server)) < EMPTY_MESSAGE_CYCLES);
  assert.match((await server.get('/inspect')).body, /"dry":true/);

  const topped = await server.post('/cycles/counter', '10000000000');
  assert.equal(topped.status, 200);
  assert.equal(BigInt(topped.body), await cycles(server));
  assert.deepEqual(await server.post('/query-json/counter/get'), { status: 200, body: `[${count}]` });
  for (const amount of ['', '-5', '1.5', 'many', '1e6']) {
    assert.equal((await server.post('/cycles/counter', amount)).status, 400, amount);
  }
});

test('a balance that pays for less than the limit ends the message with 402, rolled back', async (t) => {
  const server = await startCounter(t, ['--cycles', '50000000']);
  await server.post('/call-json/counter/inc');
  const spun = await server.post('/call-json/counter/spin');
  assert.equal(spun.status, 402);
  assert.match(spun.body, /out of cycles/);
  assert.ok((await cycles(server)) >= 0n);
  await server.post('/cycles/counter', '100000000');
  assert.deepEqual(await server.post('/query-json/counter/get'), { status: 200, body: '[1]' });
});

test('--cycles 0 disables metering: nothing is charged, and nothing can be added', async (t) => {
  const server = await startCounter(t, ['--cycles', '0']);
  await server.post('/call-json/counter/inc');
  assert.equal(await cycles(server), 0n);
  const refused = await server.post('/cycles/counter', '5');
  assert.equal(refused.status, 400);
  assert.match(refused.body, /metering is off/);
});

test('an actor whose manifest gives it cycles serves without metering, and a warning names it', async (t) => {
  const directory = await temporaryDirectory();
  await writeFile(join(directory, 'counter.wasm'), await compileCounter());
  const manifestFile = join(directory, 'actors.json');
  const actors = { rich: { wasm: 'counter.wasm', cycles: '5000000000000' }, plain: { wasm: 'counter.wasm' } };
  await writeFile(manifestFile, JSON.stringify({ actors }));
  for (const args of [['--cycles', '0'], ['--no-metering'], []]) {
    const server = await startInProcess(t, { manifestFile, args });
    const warnings = server.log.announced.filter((line) => line.startsWith('WARNING'));
    const warning = 'WARNING rich gets no cycles: metering is off (--cycles 0 or --no-metering)';
    assert.deepEqual(warnings, args.length === 0 ? [] : [warning]);
    assert.equal((await server.post('/call-json/rich/inc')).status, 200);
    await server.stop();
  }
});

test('metering that is turned off shows no balance and keeps it; who was made meanwhile is dry when it is on again', async (t) => {
  const folder = await temporaryDirectory();
  await writeFile(join(folder, 'counter.wasm'), await compileCounter());
  const manifestFile = join(folder, 'actors.json');
  await writeFile(manifestFile, JSON.stringify({ actors: { counter: { wasm: 'counter.wasm' } } }));
  const start = (...more: readonly string[]): Promise<InProcessServer> =>
    startInProcess(t, { manifestFile, args: ['--state', join(folder, 'state'), '--live-cap', '1', ...more] });
  const metered = await start();
  await metered.post('/call-json/counter/inc');
  const kept = await cycles(metered);
  assert.ok(kept > 0n);
  await metered.stop();

  const free = await start('--cycles', '0');
  assert.equal(await cycles(free), 0n);
  const { wasm } = await compileMotoko('persistent actor { public func hi() : async Nat { 1 } }');
  assert.equal((await free.post('/install/late', wasm)).status, 200);
  // Each call puts the other actor to sleep.
  for (let round = 2; round <= 4; round++) {
    assert.equal((await free.post('/call-json/counter/inc')).body, `[${round}]`);
    assert.equal((await free.post('/call-json/late/hi')).body, '[1]');
  }
  assert.equal(await cycles(free), 0n);
  const actors = JSON.parse((await free.get('/inspect')).body) as {
    name: string;
    cycles: string;
    dry: boolean;
    id: string;
  }[];
  assert.deepEqual(
    actors.map(({ name, cycles: shown, dry }) => [name, shown, dry]),
    [
      ['counter', '0', false],
      ['late', '0', false],
    ],
  );
  const page = (await free.get('/metrics')).body;
  for (const { id } of actors) assert.ok(page.includes(`svc_actor_cycles{actor="${id}"} 0\n`));
  await free.stop();

  const again = await start();
  assert.equal(await cycles(again), kept);
  assert.equal((await again.post('/call-json/counter/inc')).body, '[5]');
  assert.ok((await cycles(again)) < kept);
  assert.equal((await again.post('/call-json/late/hi')).status, 402);
  assert.equal((await again.post('/cycles/late', '10000000000')).status, 200);
  assert.equal((await again.post('/call-json/late/hi')).body, '[1]');
});

test('--instruction-limit stops a message at exactly that many instructions', async (t) => {
  const server = await startCounter(t, ['--instruction-limit', '1000000']);
  const before = await cycles(server);
  const stopped = await server.post('/call-json/counter/spin');
  assert.equal(stopped.status, 400);
  assert.match(stopped.body, /limit of 1000000 instructions/);
  assert.equal(before - (await cycles(server)), EMPTY_MESSAGE_CYCLES + 400_000n);
});
