import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, it, type TestContext } from 'node:test';
import { type Logger, ServerError, systemClock } from '../../../kernel/index.ts';
import type { ExecutionBounds } from '../../../subsystems/execution/pool/execution-options.ts';
import { ExecutorPool } from '../../../subsystems/execution/pool/executor-pool.ts';
import { FullCollection } from '../../../subsystems/execution/thread/full-collection.ts';
import { type HeapCounts, HeapGarbage } from '../../../subsystems/execution/thread/heap-garbage.ts';
import { HEAP_ADDRESS_GIB_MAX, HeapBudget } from '../../../subsystems/execution/memory/heap-budget.ts';
import { IdleModules } from '../../../subsystems/execution/pool/idle-modules.ts';
import type { CodeChange, ModuleInfo } from '../../../subsystems/execution/index.ts';
import { FULL_LIMIT, type Step } from '../../../subsystems/ic/index.ts';
import { ModuleLoader } from '../../../subsystems/execution/pool/module-loader.ts';
import { fingerprintsOf, TypeBudget } from '../../../subsystems/execution/wire/type-budget.ts';
import { assemble, EMPTY_ARGS, load, POLICY, STACK_BYTES, TestCanister, type Width, WIDTHS } from './engine-fixture.ts';
import { FakeClock } from '../../support/fake-clock.ts';

const silent = (): void => undefined;
const log: Logger = {
  event: silent,
  debug: silent,
  info: silent,
  warn: silent,
  error: silent,
  announce: silent,
};
const CALLER = new Uint8Array([4]);
const INSTALL = { mode: 'install', argument: EMPTY_ARGS, caller: CALLER } as const;
const REINSTALL = { ...INSTALL, mode: 'reinstall' } as const;
const UPGRADE = {
  mode: 'upgrade',
  keepsHeap: true,
  skipsPreUpgrade: false,
  argument: EMPTY_ARGS,
  caller: CALLER,
} as const;

/** A module that answers `go` with an empty reply, different for each `number`. */
function plain(width: Width, number = 0): Uint8Array {
  return assemble(
    width,
    `(module
      (import "ic0" "msg_reply" (func $reply))
      (memory %index 1)
      (global i32 (i32.const ${number}))
      (func (export "canister_init") (if (i32.eqz (i32.const ${number === 13 ? 0 : 1})) (then unreachable)))
      (func (export "canister_update go") (call $reply)))`,
  );
}

function startPool(t: TestContext, bounds: ExecutionBounds): ExecutorPool {
  const pool = new ExecutorPool(
    { policy: POLICY, clock: systemClock, log },
    { executors: 2, wasmStackBytes: STACK_BYTES },
    bounds,
  );
  // The pool's threads do not keep a process alive.
  const alive = setInterval(silent, 1000);
  t.after(async () => {
    clearInterval(alive);
    await pool.close();
  });
  return pool;
}

function create(pool: ExecutorPool): number {
  return pool.create({ id: new Uint8Array(10), balance: POLICY.startingCycles, controllers: [], env: new Map() });
}

function change(pool: ExecutorPool, handle: number, module: ModuleInfo, how: CodeChange = INSTALL): Promise<Step> {
  return new Promise((resolve) => pool.change(handle, module, how, ({ step }) => resolve(step)));
}

function go(pool: ExecutorPool, handle: number, module: ModuleInfo): Promise<Step> {
  const entry = module.entries.get('canister_update go') ?? -1;
  const context = { caller: CALLER, deadlineNs: 0n, canAnswer: true, cyclesAvailable: 0n, instructions: 0 };
  const task = { kind: 'update', entry, argument: EMPTY_ARGS, context, instructionsMax: FULL_LIMIT } as const;
  return new Promise((resolve) => pool.run(handle, task, ({ step }) => resolve(step)));
}

function assertRefused({ fault }: Step): void {
  assert.equal(fault?.kind, 'unavailable');
  assert.match(fault.message, /^3 actors are live, .*2 with 64-bit memory, or 4 with 32-bit memory.*delete actors/);
}

describe('live heaps', () => {
  it('has room for 6,000 heaps of 64 bits, twice as many of 32, and for any mixture', () => {
    const budget = new HeapBudget(HEAP_ADDRESS_GIB_MAX);
    for (let k = 0; k < 5_999; k++) assert.equal(budget.take(64, false), undefined);
    assert.equal(budget.take(32, false), undefined);
    assert.match(budget.take(64, false) ?? '', /^6000 actors are live/);
    assert.equal(budget.take(32, false), undefined);
    assert.match(budget.take(32, false) ?? '', /6000 with 64-bit memory, or 12000 with 32-bit memory/);
    assert.equal(budget.take(64, true), undefined, 'an actor that has a heap may still get new code');
  });

  it('refuses an installation beyond the bound by name, and takes it when there is room again', async (t) => {
    const pool = startPool(t, { heapAddressGibMax: 32 });
    const wide = await pool.prepare(plain(64));
    const narrow = await pool.prepare(plain(32));
    const [first, second, third, fourth] = [create(pool), create(pool), create(pool), create(pool)];
    assert.equal((await change(pool, first, wide)).fault, undefined);
    assert.equal((await change(pool, second, narrow)).fault, undefined);
    assert.equal((await change(pool, third, narrow)).fault, undefined);
    assertRefused(await change(pool, fourth, narrow));
    assert.equal((await go(pool, fourth, narrow)).fault?.kind, 'unavailable', 'nothing was installed');

    // Live canisters get new code again and again: none of it counts twice.
    for (let k = 0; k < 100; k++) {
      assert.equal((await change(pool, second, narrow, k % 2 === 0 ? UPGRADE : REINSTALL)).fault, undefined);
    }
    assertRefused(await change(pool, fourth, narrow));
    assert.equal((await go(pool, second, narrow)).answer?.kind, 'reply');

    await pool.uninstall(third);
    assert.equal((await change(pool, fourth, narrow)).fault, undefined);
    assertRefused(await change(pool, third, narrow));
    pool.remove(fourth);
    assert.equal((await change(pool, third, narrow)).fault, undefined);
    assert.equal((await change(pool, first, narrow, REINSTALL)).fault, undefined, 'from 64 to 32 bits');
    assert.equal((await change(pool, create(pool), narrow)).fault, undefined);
  });

  it('does not count installations that failed, nor what was restored and replaced', async (t) => {
    const pool = startPool(t, { heapAddressGibMax: 16 });
    const failing = await pool.prepare(plain(64, 13));
    const module = await pool.prepare(plain(64));
    const handle = create(pool);
    for (let k = 0; k < 3; k++) assert.equal((await change(pool, handle, failing)).fault?.kind, 'trap');
    assert.equal((await change(pool, handle, module)).fault, undefined);
    const image = await pool.capture(handle, module);
    for (let k = 0; k < 3; k++) await pool.restore(handle, image);
    const other = create(pool);
    await assert.rejects(pool.restore(other, image), { code: 'too-many-heaps', kind: 'unavailable' });
    await pool.restore(handle, await pool.capture(other, undefined));
    await pool.restore(other, image);
    assert.equal((await go(pool, other, module)).answer?.kind, 'reply');
    assert.equal((await go(pool, handle, module)).fault?.kind, 'unavailable');
  });
});

/** Makes V8 fail as it does when no address space is left. */
function withoutRoom<T>(work: () => T): T {
  const { Memory } = WebAssembly;
  const failing = function noMemory(): never {
    throw new RangeError('WebAssembly.Memory(): could not allocate memory');
  };
  Object.assign(WebAssembly, { Memory: failing });
  try {
    return work();
  } finally {
    Object.assign(WebAssembly, { Memory });
  }
}

/** Counts that `HeapGarbage` reads, and the actions that it takes. */
function counted(): {
  counts: HeapCounts & { isMade: number; isLive: number; dropped: number; asked: number };
  collection: Pick<FullCollection, 'begin' | 'hasEnded' | 'atOnce'> & { calls: string[]; isOver: boolean };
  make: (garbage: HeapGarbage, count: number, keeps: boolean) => void;
} {
  const counts = {
    isMade: 0,
    isLive: 0,
    dropped: 0,
    asked: 0,
    made: () => counts.isMade,
    live: () => (counts.asked++, counts.isLive),
    droppedBytes: () => counts.dropped,
  };
  const calls: string[] = [];
  const collection = {
    calls,
    isOver: false,
    begin: () => void calls.push('begin'),
    hasEnded: () => (calls.push('hasEnded'), collection.isOver),
    atOnce: () => void calls.push('atOnce'),
  };
  const make = (garbage: HeapGarbage, count: number, keeps: boolean): void => {
    for (let k = 0; k < count; k++) {
      counts.isMade++;
      if (keeps) counts.isLive++;
      garbage.check();
    }
  };
  return { counts, collection, make };
}

/** Returns the address space that the process has reserved, in GiB. */
function addressGib(): number {
  return Number(/VmSize:\s*(\d+)/.exec(readFileSync('/proc/self/status', 'utf8'))?.[1]) / 2 ** 20;
}

describe('heaps that nobody uses', () => {
  it('are collected in the background when they become many, counted from what was made and what lives', () => {
    const { counts, collection, make } = counted();
    const garbage = new HeapGarbage(counts, 4, collection);
    make(garbage, 1_000, true);
    assert.deepEqual(collection.calls, [], 'nothing but live heaps');
    assert.ok(counts.asked < 40, 'counting is rare');
    make(garbage, 40, false);
    assert.deepEqual(collection.calls, []);
    make(garbage, 12, false);
    assert.deepEqual(collection.calls, ['begin']);
    // Heaps made since the collection began are left when it has ended.
    collection.isOver = true;
    make(garbage, 15, false);
    assert.deepEqual(collection.calls, ['begin', 'hasEnded']);
    make(garbage, 45, false);
    assert.deepEqual(collection.calls, ['begin', 'hasEnded', 'begin']);
    counts.isLive -= 500;
    make(garbage, 20, true);
    assert.equal(collection.calls.at(-1), 'atOnce', 'removed ones count when the next are made');
  });

  it('are collected at once when there are too many, and the collection in the background has not ended', () => {
    const { counts, collection, make } = counted();
    const garbage = new HeapGarbage(counts, 4, collection);
    make(garbage, 190, false);
    assert.deepEqual(new Set(collection.calls), new Set(['begin', 'hasEnded']));
    make(garbage, 1_000, false);
    const atOnce = collection.calls.filter((call) => call === 'atOnce').length;
    assert.ok(atOnce >= 5 && atOnce <= 6, `${atOnce}`);
    assert.ok(collection.calls.filter((call) => call === 'begin').length <= 7, 'never two at a time');
  });

  it('are collected for the bytes in them, too', () => {
    const { counts, collection } = counted();
    const garbage = new HeapGarbage(counts, 4, collection);
    for (let k = 0; k < 200; k++) {
      counts.dropped += 4 * 2 ** 20;
      garbage.check();
    }
    assert.equal(collection.calls[0], 'begin', '800 MiB of 1 GiB for each of four threads');
    assert.ok(!collection.calls.includes('atOnce'));
    counts.dropped += 2 ** 30;
    garbage.check();
    assert.equal(collection.calls.at(-1), 'atOnce');
  });

  it('are waited for while they are collected, also when no new ones are made', () => {
    const { counts, collection, make } = counted();
    const garbage = new HeapGarbage(counts, 4, collection);
    make(garbage, 60, false);
    for (let k = 0; k < 10_000; k++) garbage.check();
    assert.ok(collection.calls.length >= 3 && collection.calls.length < 5, String(collection.calls));
    collection.isOver = true;
    for (let k = 0; k < 10_000; k++) garbage.check();
    assert.ok(collection.calls.length < 6);
    make(garbage, 20, false);
    assert.ok(!collection.calls.includes('atOnce'));
  });

  it('are really gone when a collection has ended that was begun in the background', () => {
    const collection = new FullCollection();
    const reserved = addressGib();
    for (let k = 0; k < 100; k++) void new WebAssembly.Memory({ address: 'i64', initial: 1n, maximum: 2n }).buffer;
    if (process.platform === 'linux') assert.ok(addressGib() > reserved + 1_000);
    /** Allocates, so that collections go on, until `isSo`. */
    const until = (isSo: () => boolean): void => {
      const wasted: unknown[] = [];
      for (let round = 0; !isSo(); round++) {
        assert.ok(round < 200, 'it ends');
        const untilMs = performance.now() + 20;
        while (performance.now() < untilMs) wasted[wasted.length % 1000] = { round, text: `${wasted.length}` };
      }
    };
    collection.begin();
    until(() => collection.hasEnded());
    // Another thread gives the heaps back to the machine.
    if (process.platform === 'linux') until(() => addressGib() < reserved + 500);
    // A second collection, begun before.
    collection.begin();
    collection.atOnce();
    collection.begin();
    assert.equal(collection.hasEnded(), false);
    collection.atOnce();
  });

  it('do not pile up while code is replaced: a thread collects by itself', async (t) => {
    const pool = startPool(t, {});
    const module = await pool.prepare(plain(64));
    const handle = create(pool);
    const changes = Array.from({ length: 1_000 }, () => change(pool, handle, module, REINSTALL));
    for (const { fault } of await Promise.all(changes)) assert.equal(fault, undefined);
    if (process.platform !== 'linux') return;
    const reserved = addressGib();
    assert.ok(reserved < 850 * 16, `${reserved.toFixed(0)} GiB of address space are reserved`);
  });
});

describe('a heap that cannot be allocated', () => {
  for (const width of WIDTHS) {
    it(`fails the change of code cleanly and leaves the canister as it was, ${width}-bit`, () => {
      const canister = new TestCanister({ bytes: plain(width) });
      const other = load(plain(width, 1));
      const { version } = canister.state;
      for (const how of [REINSTALL, { ...UPGRADE, keepsHeap: false }]) {
        const { outcome } = withoutRoom(() => canister.change(how, other));
        assert.equal(outcome.kind, 'unavailable');
        assert.match(outcome.kind === 'unavailable' ? outcome.message : '', /heap cannot be allocated: .*could not/);
        assert.equal(canister.state.version, version);
        assert.equal(canister.run('update', 'go').outcome.kind, 'reply');
        canister.state.version = version;
      }
      assert.equal(canister.change(REINSTALL, other).outcome.kind, 'reply');
    });
  }
});

describe('modules that nobody uses', () => {
  it('are let go after their grace, and work again when somebody still holds them', async () => {
    const clock = new FakeClock();
    const gone: string[] = [];
    const idle = new IdleModules((hash) => gone.push(hash), clock, 1_000);
    idle.seen('never installed');
    idle.seen('installed');
    idle.take('installed');
    idle.take('installed');
    clock.advance(1_000);
    assert.deepEqual(gone, ['never installed']);
    idle.free('installed');
    clock.advance(5_000);
    idle.free('installed');
    clock.advance(999);
    idle.take('installed');
    clock.advance(5_000);
    idle.free('installed');
    clock.advance(999);
    assert.deepEqual(gone, ['never installed']);
    clock.advance(1);
    assert.deepEqual(gone, ['never installed', 'installed']);
    for (let k = 0; k < 40; k++) idle.seen(`uploaded ${k}`);
    assert.deepEqual(
      gone.slice(2),
      Array.from({ length: 8 }, (_, k) => `uploaded ${k}`),
      'few wait, the oldest go first',
    );
    idle.close();
    clock.advance(5_000);
    assert.equal(gone.length, 10);
  });

  it('are forgotten by all threads, not before the last canister is gone, and can come back', async (t) => {
    const pool = startPool(t, { idleModuleMs: 20 });
    const bytes = plain(32);
    const module = await pool.prepare(bytes);
    const [one, other] = [create(pool), create(pool)];
    await change(pool, one, module);
    await change(pool, other, module);
    pool.remove(one);
    await new Promise((resolve) => setTimeout(resolve, 60));
    assert.equal(await pool.prepare(bytes), module, 'the other canister has it');
    await pool.uninstall(other);
    await new Promise((resolve) => setTimeout(resolve, 60));
    const again = await pool.prepare(bytes);
    assert.notEqual(again, module);
    assert.deepEqual(again, module);
    await new Promise((resolve) => setTimeout(resolve, 60));
    for (const code of [module, again]) {
      assert.equal((await change(pool, other, code, REINSTALL)).fault, undefined);
      assert.equal((await go(pool, other, code)).answer?.kind, 'reply');
    }
  });

  it('may be loaded while they are being forgotten', async (t) => {
    const loader = new ModuleLoader({ wasmStackBytes: STACK_BYTES });
    t.after(() => loader.close());
    const bytes = plain(32);
    const first = await loader.load(bytes);
    const [known, , loaded] = await Promise.all([
      loader.load(bytes),
      loader.forget(first.info.hash),
      loader.load(bytes),
    ]);
    assert.equal(known, first);
    assert.notEqual(loaded, first);
    assert.equal(loaded.info.hash, first.info.hash);
    assert.equal(loader.count, 1);
  });
});

describe('types of functions', () => {
  const types = (count: number, at: number) =>
    Array.from({ length: count }, (_, k) => ({
      params: Array.from({ length: 16 }, (__, bit) => (((k + at) >> bit) & 1 ? 0x7e : 0x7f)),
      results: [],
    }));

  it('are counted once however often they come, twice for their two forms', () => {
    const budget = new TypeBudget(30_000);
    budget.add(fingerprintsOf(types(5_000, 0)));
    budget.add(fingerprintsOf(types(5_000, 0)));
    assert.equal(budget.used, 10_000);
    assert.ok(budget.hasRoom);
    budget.addUnknown();
    assert.equal(budget.used, 20_200);
    assert.ok(!budget.hasRoom, 'the largest module would not fit');
    const [none, param, result] = fingerprintsOf([
      { params: [], results: [] },
      { params: [0x7f], results: [] },
      { params: [], results: [0x7f] },
    ]);
    assert.equal(new Set([none, param, result]).size, 3);
  });

  it('that V8 might have no room for are a reason to refuse modules', async (t) => {
    const typesMax = 10_200 + 3;
    const loader = new ModuleLoader({ wasmStackBytes: STACK_BYTES, types: new TypeBudget(typesMax) });
    t.after(() => loader.close());
    // One type, the same in both: two forms.
    await loader.load(plain(32));
    await loader.load(plain(32, 1));
    const other = assemble(
      32,
      '(module (func (export "canister_init") (drop (call $f (f64.const 1)))) (func $f (param f64) (result f64) (local.get 0)))',
    );
    await loader.load(other);
    const refused = loader.load(plain(64, 2));
    await assert.rejects(refused, (error) => {
      assert.ok(error instanceof ServerError);
      assert.equal(error.code, 'types-exhausted');
      assert.equal(error.kind, 'unavailable');
      assert.match(error.message, /about 4 different function types.*restart the server/);
      return true;
    });
  });
});
