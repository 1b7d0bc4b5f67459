/** Runs the suite of backends for the management canister on the shipped host, and on the fake of these tests. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { loadConfig } from '../../../config/load.ts';
import { createKernel, definePlugin, type Kernel, systemClock, systemRandom } from '../../../kernel/index.ts';
import { describeManagementBackend, type MadeBackend } from '../../../plugins/api/contracts/management-backend.ts';
import { CONTRACT_CANISTER } from '../../../plugins/api/contracts/support/contract-canister.ts';
import { builtinPlugins } from '../../../plugins/index.ts';
import {
  type HostedCanister,
  Management,
  ManagementBackend,
  type ManagementHooks,
} from '../../../subsystems/management/index.ts';
import { Scheduler } from '../../../subsystems/scheduler/index.ts';
import { recordOf } from '../../../subsystems/canisters/canister-record.ts';
import type { LowMemoryHook } from '../../../subsystems/ic/index.ts';
import { failuresOf } from '../../support/failing-suite.ts';
import { RecordingLogger } from '../../support/kernel.ts';
import { wat } from '../../support/wat.ts';
import { FakeCanister, FakeHost, moduleOf } from './fake-host.ts';

const NONE = new Uint8Array(0);

/** Makes the management canister of these tests, which notes events and gets canisters' calls. */
function hooksFor(host: ManagementBackend, calls: (() => void)[]) {
  const forgotten: HostedCanister[] = [];
  const hooks: ManagementHooks = {
    // The call is answered when the test says so.
    call: () =>
      new Promise((resolve) => {
        calls.push(() => resolve({ response: { kind: 'reply', data: NONE }, refunded: 0n }));
      }),
    restore: () => Promise.resolve(new Map()),
    forget: (canister) => void forgotten.push(canister),
    record: () => undefined,
  };
  host.attach(hooks);
  return { hooks, forgotten };
}

let shared: Promise<{ readonly kernel: Kernel; readonly made: MadeBackend }> | undefined;
after(async () => (await shared)?.kernel.stop());

async function startHost(): Promise<{ readonly kernel: Kernel; readonly made: MadeBackend }> {
  const request = await loadConfig({
    argv: ['--executors', '1', '--heartbeat-ms', '0'],
    environment: {},
    pluginNames: builtinPlugins.map(({ name }) => name),
    version: '0.0.0',
    build: 'test',
    directory: import.meta.dirname,
  });
  assert.ok(request.kind === 'serve');
  const calls: (() => void)[] = [];
  let forgotten: readonly HostedCanister[] = [];
  const management = definePlugin({
    name: 'management',
    provides: Management,
    requires: { host: ManagementBackend },
    create: ({ host }): Management => {
      const attached = hooksFor(host, calls);
      ({ forgotten } = attached);
      const unasked = (): never => assert.fail('nobody asks for it here');
      return Object.assign(attached.hooks, { outcalls: {} as Management['outcalls'], readUserCall: unasked });
    },
  });
  const without = ['http', 'management', 'metrics', 'hot-reload'];
  const kernel = createKernel({
    plugins: [...builtinPlugins.filter(({ name }) => !without.includes(name)), management],
    config: { ...request.config },
    disabled: new Set(['manifest', 'compiler']),
    ambient: { clock: systemClock, random: systemRandom, logger: new RecordingLogger() },
  });
  await kernel.start();
  const backend = kernel.get(ManagementBackend);
  const scheduler = kernel.get(Scheduler);
  const openCall = async (canister: HostedCanister): Promise<() => void> => {
    const before = calls.length;
    const task = { kind: 'update', method: 'ask', caller: Uint8Array.of(4), argument: Uint8Array.of(1) } as const;
    let early: string | undefined;
    void scheduler.deliver(recordOf(canister).handle, task).then((outcome) => (early = outcome.kind));
    while (calls.length === before) {
      assert.equal(early, undefined, 'it has ended without a call');
      await nextTurn();
    }
    return calls.at(-1) ?? (() => undefined);
  };
  const trapping = { wasm: CONTRACT_CANISTER, argument: Uint8Array.of(255) };
  return { kernel, made: { backend, wasm: CONTRACT_CANISTER, argument: NONE, trapping, openCall, forgotten } };
}

const makeHost = async (): Promise<MadeBackend> => (await (shared ??= startHost())).made;

function makeFake(): MadeBackend {
  const backend = new FakeHost();
  const { forgotten } = hooksFor(backend, []);
  return {
    backend,
    wasm: moduleOf({ 'icp:private globals': 'i32,i64' }),
    argument: NONE,
    trapping: { wasm: moduleOf({ 'icp:public traps': '' }), argument: NONE },
    openCall: async (canister) => {
      assert.ok(canister instanceof FakeCanister);
      canister.hasOpenCalls = true;
      return () => backend.closeCalls(canister);
    },
    forgotten,
  };
}

/** A module whose low-memory hook leaves one page more of stable memory. */
const WATCHFUL = wat(`(module
  (import "ic0" "stable64_grow" (func $grow (param i64) (result i64)))
  (memory 2)
  (func (export "canister_on_low_wasm_memory") (drop (call $grow (i64.const 1)))))`);
const ALWAYS_LOW = 2 ** 32 - 65_536;

test('the status of a low-memory hook that comes with a state is looked at again', async () => {
  const { backend } = await makeHost();
  const caller = Uint8Array.of(4);
  const module = await backend.prepare(WATCHFUL);
  const it = backend.create({ id: undefined, balance: undefined, settings: { controllers: [caller] } });
  await backend.change(it, { module, wasm: WATCHFUL }, { mode: 'install', argument: NONE, caller });
  const image = await backend.capture(it);
  const restore = (lowMemoryHook: LowMemoryHook | undefined): Promise<void> =>
    backend.restore(it, { image, wasm: WATCHFUL, timerNs: undefined, lowMemoryHook });
  const hasRun = async (times: number): Promise<void> => {
    while (it.lowMemoryHook === 'ready') await nextTurn();
    assert.equal((await backend.capture(it)).stablePages, times);
  };
  for (const status of ['ready', 'executed', undefined] as const) {
    await restore(status);
    assert.equal(it.lowMemoryHook, 'condition_not_satisfied', `${status}, and memory is not low`);
  }
  backend.configure(it, { wasmMemoryThreshold: ALWAYS_LOW });
  await hasRun(1);
  assert.equal(it.lowMemoryHook, 'executed');
  await restore('ready');
  await hasRun(1);
  await restore('executed');
  await hasRun(0);
  assert.equal(it.lowMemoryHook, 'executed');
  await restore('condition_not_satisfied');
  await hasRun(1);
});

describeManagementBackend('HostBackend', makeHost);
describeManagementBackend('FakeHost', () => Promise.resolve(makeFake()));

test('the suite finds a backend that forgets to say it, one that lends its buffers, and one that gives ids twice', async () => {
  const planted: Readonly<Record<string, (made: MadeBackend) => Partial<ManagementBackend>>> = {
    'what is removed': ({ backend }) => ({ remove: async (it) => void (await backend.stop(it)) }),
    'a state is captured as a copy': ({ backend }) => {
      const images = new Map<HostedCanister, ReturnType<ManagementBackend['capture']>>();
      return {
        capture: (it) => {
          const image = images.get(it) ?? backend.capture(it);
          images.set(it, image);
          return image;
        },
      };
    },
    'changes of a canister take turns': () => ({ inTurn: (_it, change) => change() }),
    'an id is given once': ({ backend }) => ({ create: (spec) => backend.create({ ...spec, id: undefined }) }),
  };
  for (const [title, mistake] of Object.entries(planted)) {
    const failures = await failuresOf((runner) =>
      describeManagementBackend(
        title,
        () => {
          const made = makeFake();
          const wrong = mistake(made);
          const backend = new Proxy(made.backend, {
            get: (target, key): unknown => Reflect.get(wrong, key) ?? bound(target, key),
          });
          return Promise.resolve({ ...made, backend });
        },
        runner,
      ),
    );
    assert.ok(
      failures.some((failed) => failed.startsWith(title)),
      `${title}: ${failures.join('; ')}`,
    );
  }
});

function bound(target: object, key: string | symbol): unknown {
  const value: unknown = Reflect.get(target, key);
  return typeof value === 'function' ? value.bind(target) : value;
}
