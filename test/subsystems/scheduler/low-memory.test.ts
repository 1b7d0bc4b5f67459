/** Low-memory hooks: due once, reported when they have run, forgotten when they did not begin. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { AdmitOptions } from '../../../subsystems/scheduler/index.ts';
import type { Step } from '../../../subsystems/ic/index.ts';
import { DurableHost } from './durable-host.ts';
import { MODULE, STEP } from './held-execution.ts';

const HOOK = 4;
const module = { ...MODULE, entries: new Map([...MODULE.entries, ['canister_on_low_wasm_memory', HOOK]]) };
const UNAVAILABLE: Step = { ...STEP, charge: 0, fault: { kind: 'unavailable', code: 2, message: 'died' } };
const TRAPPED: Step = { ...STEP, fault: { kind: 'trap', code: 5, message: 'trapped' } };
/** Number of tasks that an executor takes in advance. */
const WINDOW = 128;

const hostWith = (options: AdmitOptions = {}): DurableHost => new DurableHost().admit([0], { module, ...options });
const begun = ({ execution }: DurableHost): number =>
  execution.started.filter(({ task }) => task.kind === 'system' && task.entry === HOOK).length;

suite('a low-memory hook', () => {
  for (const step of [STEP, TRAPPED])
    test(`runs once for however many say that it is due, and is told then, ${step.fault?.kind ?? 'well'}`, () => {
      const host = hostWith();
      for (let times = 0; times < 3; times++) host.scheduler.lowMemory(0, true);
      assert.deepEqual([begun(host), host.lowMemoryRan], [1, []]);
      host.execution.endOne(step);
      assert.deepEqual([begun(host), host.lowMemoryRan], [1, [0]]);
      host.scheduler.lowMemory(0, true);
      assert.equal(begun(host), 2);
    });

  test('that an executor did not begin before it died is not told, and runs when it is due again', async () => {
    const host = hostWith();
    host.scheduler.lowMemory(0, true);
    host.execution.endOne(UNAVAILABLE);
    host.execution.lose(0);
    assert.deepEqual(host.lowMemoryRan, []);
    host.scheduler.lowMemory(0, true);
    await host.commit();
    assert.deepEqual([host.woken, begun(host)], [[0], 2]);
    host.execution.endOne();
    assert.deepEqual(host.lowMemoryRan, [0]);
  });

  test('that waits for a canister which cannot be woken is forgotten', async () => {
    const host = hostWith({ isAsleep: true });
    host.wakeProblem = new Error('there is no room');
    host.scheduler.lowMemory(0, true);
    await host.commit();
    host.wakeProblem = undefined;
    host.scheduler.lowMemory(0, true);
    await host.commit();
    assert.equal(begun(host), 1);
  });

  for (const [said, times] of [
    [[true, false], 0],
    [[true, false, true], 1],
  ] as const)
    test(`that waits runs only if memory is low still: ${said.join(', ')}`, async () => {
      const host = hostWith({ isAsleep: true });
      host.holdsWakes = true;
      for (const isLow of said) host.scheduler.lowMemory(0, isLow);
      await host.commit();
      for (const { settle } of host.held) settle.resolve();
      await host.commit();
      host.execution.endAll();
      assert.deepEqual([host.woken, begun(host), host.lowMemoryRan.length], [[0], times, times]);
    });

  test('is told at once where the code has none', () => {
    const host = hostWith({ module: MODULE });
    host.scheduler.lowMemory(0, true);
    assert.deepEqual([host.execution.started.length, host.lowMemoryRan], [0, [0]]);
  });

  test('is not due while a canister does not run, or its code is being changed', async () => {
    const host = hostWith();
    const release = host.scheduler.lock(0);
    host.scheduler.lowMemory(0, true);
    release();
    await host.scheduler.stop(0);
    host.scheduler.lowMemory(0, true);
    host.scheduler.start(0);
    assert.equal(begun(host), 0);
    host.scheduler.lowMemory(0, true);
    assert.equal(begun(host), 1);
  });

  test('of code that was dropped does not run, and does not keep that of the next code from it', async () => {
    const host = hostWith();
    host.admit([1]);
    for (let n = 0; n < WINDOW; n++) host.deliver(1);
    host.scheduler.lowMemory(0, true);
    await host.scheduler.uninstall(0);
    host.scheduler.restored(0, module);
    host.scheduler.lowMemory(0, true);
    assert.equal(begun(host), 0);
    host.execution.endAll();
    assert.deepEqual([begun(host), host.lowMemoryRan], [1, [0]]);
  });

  test('that a stop comes before is not told', async () => {
    const host = hostWith();
    host.deliver(0);
    const drained = host.scheduler.drain();
    host.scheduler.lowMemory(0, true);
    host.execution.endOne();
    await host.commit();
    await drained;
    assert.deepEqual([begun(host), host.lowMemoryRan], [0, []]);
  });
});
