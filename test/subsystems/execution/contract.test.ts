/** Runs every execution's suite on the executors: the shipped ones, in threads, and those of the crash simulator. */
import assert from 'node:assert/strict';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { after, test } from 'node:test';
import { systemClock } from '../../../kernel/index.ts';
import { describeExecution } from '../../../plugins/api/contracts/execution.ts';
import { CONTRACT_CANISTER, CONTRACT_CANISTER_TEXT } from '../../../plugins/api/contracts/support/contract-canister.ts';
import type { Execution } from '../../../subsystems/execution/index.ts';
import { ExecutorPool } from '../../../subsystems/execution/pool/executor-pool.ts';
import { SimulatedThreads } from '../../simulation/durable/simulated-threads.ts';
import { failuresOf } from '../../support/failing-suite.ts';
import { fakeAmbient } from '../../support/kernel.ts';
import { wat } from '../../support/wat.ts';
import { POLICY, STACK_BYTES } from './engine-fixture.ts';

const LANES = 2;

function startPool(): ExecutorPool {
  const { logger: log } = fakeAmbient();
  const granted = { policy: POLICY, clock: systemClock, log };
  return new ExecutorPool(granted, { executors: LANES, wasmStackBytes: STACK_BYTES });
}

let shared: ExecutorPool | undefined;
// Threads of the pool do not keep a process alive.
const alive = setInterval(() => undefined, 1000);
after(async () => {
  clearInterval(alive);
  await shared?.close();
});

describeExecution('ExecutorPool', async (t, isOwn) => {
  if (!isOwn) return { execution: (shared ??= startPool()) };
  const execution = startPool();
  t.after(() => execution.close());
  return { execution };
});

describeExecution('SimulatedThreads', async (t) => {
  const { logger: log, clock } = fakeAmbient();
  const execution = new SimulatedThreads({
    lanes: LANES,
    policy: POLICY,
    clock,
    log,
    passMs: () => 0.01,
    isHeard: () => false,
  });
  t.after(() => execution.abandon());
  const turn = async (): Promise<void> => {
    for (let executorIndex = 0; executorIndex < LANES; executorIndex++) {
      while (execution.canExecute(executorIndex)) execution.execute(executorIndex);
      await execution.turnOf(executorIndex);
      if (execution.canTell(executorIndex)) execution.tell(executorIndex);
    }
    await nextTurn();
  };
  return { execution, turn };
});

test('the canister of the suites is what its text says', () => {
  assert.deepEqual(CONTRACT_CANISTER, new Uint8Array(wat(CONTRACT_CANISTER_TEXT)));
});

test('the suite finds who tells too little, who cuts arguments, who keeps every heap, and who restores nothing', async () => {
  const planted: Readonly<Record<string, (own: ExecutorPool) => Partial<Execution>>> = {
    'the end of a step is told once and later': (own) => ({
      run: (handle, task, ended) =>
        own.run(handle, task, (told) => ended(told.isReturned ? told : { ...told, heapBytes: 0 })),
    }),
    'updates keep what they change': (own) => ({
      run: (handle, task, done) =>
        own.run(handle, 'argument' in task ? { ...task, argument: task.argument.slice(0, 100) } : task, done),
    }),
    'an installation, an upgrade': (own) => ({
      change: (handle, module, change, done) =>
        own.change(handle, module, change.mode === 'upgrade' ? { ...change, keepsHeap: true } : change, done),
    }),
    'a state is captured whole': (own) => ({
      restore: (handle) => own.capture(handle, undefined).then(() => undefined),
    }),
  };
  for (const [title, mistake] of Object.entries(planted)) {
    const own = (shared ??= startPool());
    const wrong = mistake(own);
    const execution = new Proxy<Execution>(own, {
      get: (target, key): unknown => {
        const value: unknown = Reflect.get(wrong, key) ?? Reflect.get(target, key, target);
        return typeof value === 'function' ? (value.bind(target) as unknown) : value;
      },
    });
    const failures = await failuresOf((runner) => describeExecution(title, async () => ({ execution }), runner), {
      first: true,
    });
    assert.ok(failures[0]?.startsWith(title), `${title}: ${failures.join('; ')}`);
  }
});
