/** Modules: facts about them, and refusals. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { gzipSync } from 'node:zlib';
import { CONTRACT_CANISTER } from '../support/contract-canister.ts';
import type { SuiteTest } from '../runner.ts';
import { type MakeExecution, Bench, NONE } from './bench.ts';

export function describeModules(test: SuiteTest, make: MakeExecution): void {
  test('a module is known by its bytes: hash, methods, entry points, globals', async (t) => {
    const bench = await Bench.over(await make(t, false));
    const { module, execution } = bench;
    assert.equal(module.hash, createHash('sha256').update(CONTRACT_CANISTER).digest('hex'));
    assert.equal(module.pointerWidth, 32);
    assert.deepEqual([module.methods.get('inc'), module.methods.get('get')], ['update', 'query']);
    assert.deepEqual(
      ['canister_init', 'canister_update inc', 'canister_global_timer', 'canister_heartbeat'].map((entry) =>
        module.entries.has(entry),
      ),
      [true, true, true, false],
    );
    assert.deepEqual(module.globals, [{ type: 'i32', at: 0 }]);
    assert.equal(
      await bench.until(execution.prepare(CONTRACT_CANISTER.slice())),
      module,
      'the same for the same bytes',
    );
    const packed = gzipSync(CONTRACT_CANISTER);
    const unpacked = await bench.until(execution.prepare(packed));
    assert.equal(unpacked.hash, createHash('sha256').update(packed).digest('hex'), 'the hash is that of the upload');
  });

  test('what is no module is refused as invalid, and the next one is taken', async (t) => {
    const bench = await Bench.over(await make(t, false));
    const cut = CONTRACT_CANISTER.subarray(0, -1);
    for (const bytes of [NONE, Uint8Array.of(0, 0x61, 0x73, 0x6d), cut, gzipSync(cut), Buffer.from('hello')])
      await bench.fails(bench.execution.prepare(bytes), 'invalid');
    await bench.until(bench.execution.prepare(CONTRACT_CANISTER));
  });
}
