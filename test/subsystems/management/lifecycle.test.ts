import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { ManagementBench, OWNER, STRANGER, text } from './management-bench.ts';

/** Waits for more turns than any work here takes that waits for nothing. */
async function fewTurns(): Promise<void> {
  for (let turn = 0; turn < 20; turn++) await nextTurn();
}

async function isPending(promise: Promise<unknown>): Promise<boolean> {
  return (await Promise.race([promise, fewTurns().then(() => 'pending')])) === 'pending';
}

describe('stop_canister', () => {
  test('answers once no call is open any more, everyone who waits', async () => {
    const bench = new ManagementBench();
    const canister = bench.canister();
    canister.hasOpenCalls = true;
    const argument = { canister_id: text(canister.id) };
    const stopping = [bench.ok('stop_canister', argument), bench.ok('stop_canister', argument)];
    assert.ok(await isPending(Promise.race(stopping)));
    assert.equal(canister.status, 'stopping');
    bench.host.closeCalls(canister);
    await Promise.all(stopping);
    await bench.ok('stop_canister', argument);
  });

  test('is refused with IC0511 when the canister is started meanwhile', async () => {
    const bench = new ManagementBench();
    const canister = bench.canister();
    canister.hasOpenCalls = true;
    const argument = { canister_id: text(canister.id) };
    const stopping = bench.refused('stop_canister', argument);
    await bench.ok('start_canister', argument, { sender: STRANGER, isAdmin: true });
    const { code, message } = await stopping;
    assert.deepEqual([code, message.slice(0, 6)], [5, 'IC0511']);
    assert.equal(canister.status, 'running');
  });

  test('is refused when the canister is removed meanwhile', async () => {
    const bench = new ManagementBench();
    const canister = bench.canister();
    canister.hasOpenCalls = true;
    const stopping = bench.refused('stop_canister', { canister_id: text(canister.id) });
    await bench.host.remove(canister);
    assert.equal((await stopping).code, 3);
  });

  test('gives up after a while with code 2, and the canister goes on stopping', async () => {
    const bench = new ManagementBench();
    const canister = bench.canister();
    canister.hasOpenCalls = true;
    const refused = bench.refused('stop_canister', { canister_id: text(canister.id) });
    assert.ok(await isPending(refused));
    bench.clock.advance(299_999);
    assert.ok(await isPending(refused));
    bench.clock.advance(1);
    const { code, message } = await refused;
    assert.equal(bench.clock.pending, 0);
    assert.deepEqual([code, message.slice(0, 6)], [2, 'IC0206']);
    assert.equal(canister.status, 'stopping');
  });

  test('while it waits, other changes of the canister do not', async () => {
    const bench = new ManagementBench();
    const canister = bench.canister();
    canister.hasOpenCalls = true;
    const stopping = bench.ok('stop_canister', { canister_id: text(canister.id) });
    await bench.ok('update_settings', { canister_id: text(canister.id), settings: { compute_allocation: 3 } });
    bench.host.closeCalls(canister);
    await stopping;
  });
});

describe('delete_canister', () => {
  test('takes a stopped canister away for good', async () => {
    const bench = new ManagementBench();
    const canister = bench.canister();
    const argument = { canister_id: text(canister.id) };
    const running = await bench.refused('delete_canister', argument);
    assert.deepEqual([running.code, running.message.slice(0, 6)], [5, 'IC0510']);
    await bench.ok('stop_canister', argument);
    await bench.ok('delete_canister', argument);
    assert.equal((await bench.refused('canister_status', argument)).code, 3);
    assert.deepEqual(bench.host.list(), []);
  });

  test('a canister cannot delete itself', async () => {
    const bench = new ManagementBench();
    const canister = bench.canister();
    canister.controllers = [canister.id, OWNER];
    await bench.host.stop(canister);
    const { code, message } = await bench.refused(
      'delete_canister',
      { canister_id: text(canister.id) },
      bench.from(canister),
    );
    assert.equal(code, 5);
    assert.match(message, /cannot delete itself/);
  });
});
