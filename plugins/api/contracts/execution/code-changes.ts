/** Changes of code: what each keeps, and what a failed one undoes. */
import assert from 'node:assert/strict';
import type { SuiteTest } from '../runner.ts';
import { type MakeExecution, Bench, INSTALL, PAGE_BYTES, countOf, upgrade } from './bench.ts';

export function describeCodeChanges(test: SuiteTest, make: MakeExecution): void {
  test('an installation, an upgrade with the heap, one without, a reinstallation: each keeps what it should', async (t) => {
    const bench = await Bench.over(await make(t, false));
    const it = await bench.installed(Uint8Array.of(7));
    const { module } = bench;
    assert.deepEqual(await bench.counts(it, 'inc'), [8]);
    assert.equal((await bench.change(it, module, upgrade(true))).fault, undefined);
    assert.deepEqual(await bench.counts(it, 'inc', 'grow'), [9, 9]);
    assert.equal((await bench.change(it, module, upgrade(false))).fault, undefined);
    assert.equal(it.last().heapBytes, PAGE_BYTES, 'a fresh heap');
    assert.deepEqual(await bench.counts(it, 'inc'), [10], 'from stable memory');
    assert.equal(it.last().stableBytes, PAGE_BYTES);
    assert.equal((await bench.change(it, module, { ...INSTALL, mode: 'reinstall' })).fault, undefined);
    assert.deepEqual(await bench.counts(it, 'get'), [0]);
    assert.equal(it.last().stableBytes, 0);
  });

  test('a change of code that traps changes nothing', async (t) => {
    const bench = await Bench.over(await make(t, false));
    const empty = bench.create();
    const argument = Uint8Array.of(255);
    const refused = await bench.change(empty, bench.module, { ...INSTALL, argument });
    assert.equal(refused.fault?.kind, 'calledTrap');
    assert.ok((await bench.update(empty, 'inc')).fault !== undefined, 'nothing was installed');
    const it = await bench.installed();
    await bench.update(it, 'inc');
    for (const change of [
      upgrade(true, argument),
      upgrade(false, argument),
      { ...INSTALL, mode: 'reinstall', argument } as const,
    ]) {
      assert.equal((await bench.change(it, bench.module, change)).fault?.kind, 'calledTrap');
      assert.equal(countOf(await bench.query(it, 'get')), 1, change.mode);
      assert.equal(it.last().stableBytes, 0, 'what canister_pre_upgrade did is undone');
    }
  });

  test('what is uninstalled is empty, and takes new code', async (t) => {
    const bench = await Bench.over(await make(t, false));
    const it = await bench.installed(Uint8Array.of(5));
    await bench.until(bench.execution.uninstall(it.handle));
    assert.ok((await bench.update(it, 'inc')).fault !== undefined);
    assert.equal((await bench.change(it, bench.module, INSTALL)).fault, undefined);
    assert.deepEqual(await bench.counts(it, 'inc'), [1]);
    bench.execution.remove(it.handle);
    assert.deepEqual(await bench.counts(await bench.installed(), 'inc'), [1]);
  });
}
