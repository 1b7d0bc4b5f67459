/**
 * Real executor threads under the scheduler: large responses, long messages beside short ones, storms of calls, death.
 */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import type { Worker } from 'node:worker_threads';
import type { Logger } from '../../../kernel/index.ts';
import { ExecutorPool } from '../../../subsystems/execution/pool/executor-pool.ts';
import type { ModuleInfo } from '../../../subsystems/execution/index.ts';
import { type EndedStep, FULL_LIMIT, type Outcome, type Step, idToText } from '../../../subsystems/ic/index.ts';
import { NoStorage } from '../../../subsystems/storage/no-storage.ts';
import { NO_LISTENER, NO_LOADER } from '../../../subsystems/scheduler/canister-port.ts';
import { RoundScheduler } from '../../../subsystems/scheduler/round-scheduler.ts';
import { attempts } from '../../support/attempts.ts';
import { startCpuTimer } from '../../support/cpu-timer.ts';
import { FakeClock } from '../../support/fake-clock.ts';
import { wat } from '../../support/wat.ts';
import { ANONYMOUS, contextOf, POLICY, STACK_BYTES } from './engine-fixture.ts';

const CLOCK = new FakeClock(1_000_000);
/** Attempts of a test that depends on the clock. */
const ATTEMPTS = 5;
const errors: string[] = [];
const LOG: Logger = {
  info: () => undefined,
  warn: () => undefined,
  error: (text: string) => void errors.push(text),
  debug: () => undefined,
  announce: () => undefined,
  event: () => undefined,
};

/**
 * `forward` calls the method `back` of the canister whose id is its argument; the callback replies with the response.
 */
const MODULE = wat(`(module
  (import "ic0" "msg_arg_data_size" (func $size (result i32)))
  (import "ic0" "msg_arg_data_copy" (func $copy (param i32 i32 i32)))
  (import "ic0" "msg_reject_code" (func $code (result i32)))
  (import "ic0" "msg_reply_data_append" (func $append (param i32 i32)))
  (import "ic0" "msg_reply" (func $reply))
  (import "ic0" "call_new" (func $new (param i32 i32 i32 i32 i32 i32 i32 i32)))
  (import "ic0" "call_data_append" (func $data (param i32 i32)))
  (import "ic0" "call_perform" (func $perform (result i32)))
  (memory 8)
  (table funcref (elem $answered $again))
  (data (i32.const 0) "backping")
  (func (export "canister_update forward")
    (call $copy (i32.const 16) (i32.const 0) (i32.const 10))
    (call $new (i32.const 16) (i32.const 10) (i32.const 0) (i32.const 4)
      (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0))
    (drop (call $perform)))
  (func (export "canister_update back")
    (call $append (i32.const 0) (i32.const 200000)) (call $reply))
  ;; Calls ping of the canister again and again: a storm that does not end by itself.
  (func $call (call $new (i32.const 16) (i32.const 10) (i32.const 4) (i32.const 4)
      (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 0))
    (drop (call $perform)))
  (func (export "canister_update storm")
    (call $copy (i32.const 16) (i32.const 0) (i32.const 10))
    (call $call) (call $reply))
  (func $again (param i32) (call $call))
  (func (export "canister_update ping") (call $reply))
  (func $answered (param i32)
    (i32.store8 (i32.const 64) (call $code))
    (if (i32.eqz (call $code)) (then
      (call $copy (i32.const 4096) (i32.const 0) (call $size))
      (call $append (i32.const 4096) (call $size))))
    (if (call $code) (then (call $append (i32.const 64) (i32.const 1))))
    (call $reply))
  (func (export "canister_update quick") (call $reply))
  (func (export "canister_update medium") (local $i i32)
    (local.set $i (i32.const 300000))
    (loop $l (br_if $l (local.tee $i (i32.sub (local.get $i) (i32.const 1)))))
    (call $reply))
  ;; Some slices of fuel.
  (func (export "canister_update slices") (local $i i32)
    (local.set $i (i32.const 1500000))
    (loop $l (br_if $l (local.tee $i (i32.sub (local.get $i) (i32.const 1)))))
    (call $reply))
  (func $down (param $n i32) (result i32)
    (if (result i32) (local.get $n)
      (then (i32.add (i32.const 1) (call $down (i32.sub (local.get $n) (i32.const 1)))))
      (else (i32.const 0))))
  ;; As deep as it goes, and then some slices there.
  (func (export "canister_update deep") (local $i i32)
    (drop (call $down (i32.const 150000)))
    (local.set $i (i32.const 1500000))
    (loop $l (br_if $l (local.tee $i (i32.sub (local.get $i) (i32.const 1)))))
    (drop (call $down (i32.const 150000)))
    (call $reply))
  (func (export "canister_update long") (local $i i32)
    (local.set $i (i32.const 800000000))
    (loop $l (br_if $l (local.tee $i (i32.sub (local.get $i) (i32.const 1)))))
    (call $reply))
  ;; For those that end with their thread.
  (func (export "canister_update endless") (loop $l (br $l))))`);

interface Host {
  readonly pool: ExecutorPool;
  readonly scheduler: RoundScheduler;
  readonly add: (handle: number) => Promise<void>;
  readonly ended: () => number;
  readonly call: (handle: number, method: string, argument?: Uint8Array) => Promise<Outcome>;
}

const idOf = (handle: number): Uint8Array => Uint8Array.of(0, 0, 0, 0, 0, 0, 0, handle, 1, 1);

async function host(executors: number, canisters: number): Promise<Host> {
  const pool = new ExecutorPool({ policy: POLICY, clock: CLOCK, log: LOG }, { executors, wasmStackBytes: STACK_BYTES });
  after(() => pool.close());
  const options = { heartbeatMs: 0, timerMs: 0, queryInstructionsMax: 1e9 };
  const scheduler = new RoundScheduler({ execution: pool, clock: CLOCK, storage: new NoStorage() }, options);
  const counted = { ended: 0 };
  scheduler.attachCanisters(NO_LOADER, { ...NO_LISTENER, stepEnded: () => void counted.ended++ });
  const module: ModuleInfo = await pool.prepare(MODULE);
  const add = async (n: number): Promise<void> => {
    const spec = { id: idOf(n), balance: POLICY.startingCycles, controllers: [], env: new Map() };
    assert.equal(pool.create(spec), n);
    scheduler.admit(n, idToText(idOf(n)));
    const { step } = await scheduler.change(n, module, {
      mode: 'install',
      argument: new Uint8Array(0),
      caller: ANONYMOUS,
    });
    assert.equal(step.fault, undefined);
  };
  for (let n = 0; n < canisters; n++) await add(n);
  const call = (handle: number, method: string, argument: Uint8Array = new Uint8Array(0)): Promise<Outcome> =>
    scheduler.deliver(handle, { kind: 'update', method, caller: ANONYMOUS, argument });
  return { pool, scheduler, call, add, ended: () => counted.ended };
}

test('a large reply crosses from actor to actor', async () => {
  const { call } = await host(2, 2);
  const outcome = await call(0, 'forward', idOf(1));
  assert.ok(outcome.kind === 'reply', JSON.stringify(outcome));
  assert.equal(outcome.data.length, 200_000);
});

test('what is asked of a canister that has fallen asleep is refused, and its executor lives', async () => {
  const { pool, call } = await host(1, 1);
  const module = await pool.prepare(MODULE);
  const image = await pool.capture(0, undefined);
  const asleep = pool.createAsleep(0);
  const stopped = { code: 'executor-stopped', kind: 'unavailable' };
  await assert.rejects(pool.capture(asleep, undefined), stopped);
  await assert.rejects(pool.restore(asleep, image), stopped);
  await assert.rejects(pool.uninstall(asleep), stopped);
  await assert.rejects(pool.addCycles(asleep, 1n), stopped);
  const change = { mode: 'install', argument: new Uint8Array(0), caller: ANONYMOUS } as const;
  const { step } = await new Promise<EndedStep>((done) => pool.change(asleep, module, change, done));
  assert.equal(step.fault?.kind, 'unavailable');
  assert.equal((await call(0, 'quick')).kind, 'reply', 'its neighbour has not been lost with it');
});

test('an answer does not wait for the long message that came with it', async () => {
  const { call } = await host(1, 2);
  await attempts(ATTEMPTS, async () => {
    const before = performance.now();
    const tookMs = (): number => performance.now() - before;
    const [quickMs, longMs] = await Promise.all([call(0, 'quick').then(tookMs), call(1, 'long').then(tookMs)]);
    assert.ok(quickMs < longMs / 3, `the answer came after ${quickMs.toFixed(1)} of ${longMs.toFixed(1)} ms`);
  });
});

test('messages of a millisecond do not end up below a long one', async () => {
  const { call } = await host(1, 9);
  await call(0, 'long');
  await attempts(ATTEMPTS, async () => {
    const before = performance.now();
    const tookMs = (): number => performance.now() - before;
    const short = Array.from({ length: 8 }, (_, n) => call(1 + n, 'medium').then(tookMs));
    const long = call(0, 'long').then(tookMs);
    short.push(...Array.from({ length: 8 }, (_, n) => call(1 + n, 'medium').then(tookMs)));
    const shortMs = Math.max(...(await Promise.all(short)));
    const longMs = await long;
    assert.ok(shortMs < longMs * 0.75, `one of them took ${shortMs.toFixed(0)} of ${longMs.toFixed(0)} ms`);
  });
});

test('long messages recurse deep while others are under way', async () => {
  const canisters = 20;
  const { call } = await host(1, canisters);
  for (let k = 0; k < 3; k++) {
    const outcomes = await Promise.all(
      Array.from({ length: canisters }, (_, n) => call(n, n % 2 === 0 ? 'slices' : 'deep')),
    );
    for (const outcome of outcomes) assert.equal(outcome.kind, 'reply', JSON.stringify(outcome));
  }
});

test('a long message gets its share of its executor while others keep that busy', async () => {
  const { call } = await host(1, 9);
  await attempts(ATTEMPTS, async () => {
    const alone = performance.now();
    await call(0, 'long');
    const aloneMs = performance.now() - alone;
    let isLongDone = false;
    const flood = async (handle: number): Promise<void> => {
      while (!isLongDone && performance.now() < giveUp) {
        await call(handle, 'medium');
      }
    };
    const giveUp = performance.now() + 5000;
    const floods = Array.from({ length: 400 }, (_, n) => flood(1 + (n % 8)));
    const before = performance.now();
    await call(0, 'long');
    isLongDone = true;
    const tookMs = performance.now() - before;
    await Promise.all(floods);
    assert.ok(tookMs < 8 * aloneMs + 200, `${tookMs.toFixed(0)} ms instead of ${aloneMs.toFixed(0)}`);
  });
});

test('when an executor dies, whoever waits is answered, others go on, and new actors find a place', async () => {
  const threads: Worker[] = [];
  const note = (worker: Worker): void => void threads.push(worker);
  process.on('worker', note);
  const { call, scheduler, add } = await host(2, 4);
  process.off('worker', note);
  const forwarded = call(0, 'forward', idOf(1));
  assert.equal((await forwarded).kind, 'reply');
  const executing = call(1, 'endless');
  const waiting = call(1, 'quick');
  const open = call(0, 'forward', idOf(1));
  // The reply comes behind that call, which is open by then.
  assert.equal((await call(2, 'quick')).kind, 'reply');
  await threads.find((thread) => thread.threadName === 'executor 1')?.terminate();
  for (const outcome of [await executing, await waiting, await call(1, 'quick'), await call(3, 'quick')]) {
    assert.ok(outcome.kind === 'unavailable', JSON.stringify(outcome));
    assert.equal(outcome.message, "the actor's thread has stopped");
  }
  const rejected = await open;
  assert.ok(rejected.kind === 'reply');
  assert.deepEqual([...rejected.data], [2], 'the open call was rejected as transient, and the caller goes on');
  assert.equal((await call(2, 'quick')).kind, 'reply');
  await add(4);
  await add(5);
  assert.equal((await call(5, 'quick')).kind, 'reply', 'a new actor in the new thread');
  await Promise.all([0, 1, 2, 3].map((handle) => scheduler.stop(handle)));
  assert.ok(errors.some((line) => /executor 1 has stopped/.test(line)));
});

test('what is given to an executor while its end is told is answered before its canisters are lost', async () => {
  const threads: Worker[] = [];
  const note = (worker: Worker): void => void threads.push(worker);
  process.on('worker', note);
  const pool = new ExecutorPool(
    { policy: POLICY, clock: CLOCK, log: LOG },
    { executors: 1, wasmStackBytes: STACK_BYTES },
  );
  after(() => pool.close());
  // Pending work of the pool does not keep a process alive.
  const alive = setInterval(() => undefined, 1000);
  after(() => clearInterval(alive));
  const module = await pool.prepare(MODULE);
  const told: string[] = [];
  const spec = { id: idOf(1), balance: POLICY.startingCycles, controllers: [], env: new Map<string, string>() };
  const { promise: lost, resolve } = Promise.withResolvers<undefined>();
  pool.attend({
    changed: () => undefined,
    settled: () => Promise.resolve(),
    credited: () => undefined,
    lost: () => {
      told.push('lost');
      resolve(undefined);
    },
  });
  const handle = pool.create(spec);
  const argument = new Uint8Array(0);
  const install = { mode: 'install', argument, caller: ANONYMOUS } as const;
  const installed = await new Promise<Step>((done) => pool.change(handle, module, install, ({ step }) => done(step)));
  assert.equal(installed.fault, undefined);
  const task = { kind: 'update', entry: module.entries.get('canister_update endless') ?? -1, argument } as const;
  const run = (done: (step: Step) => void): void =>
    pool.run(handle, { ...task, context: contextOf(ANONYMOUS), instructionsMax: FULL_LIMIT }, ({ step }) => done(step));
  // As a scheduler does, the next task is given when one has ended.
  run(({ fault }) => {
    told.push(`first ${fault?.kind}`);
    run((step) => told.push(`second ${step.fault?.kind}`));
  });
  const busy = (): number => pool.executorFigures().executors[0]?.busySeconds ?? 0;
  for (const before = busy(); busy() < before + 0.01;) await new Promise((later) => setTimeout(later, 5));
  process.off('worker', note);
  await threads.find((thread) => thread.threadName === 'executor 0')?.terminate();
  await lost;
  assert.deepEqual(told, ['first unavailable', 'second unavailable', 'lost']);
});

test('an executor has a thread once it has an actor, or one that sleeps', async (t) => {
  const threads: Worker[] = [];
  const note = (worker: Worker): void => void threads.push(worker);
  process.on('worker', note);
  t.after(() => process.off('worker', note));
  const pool = new ExecutorPool(
    { policy: POLICY, clock: CLOCK, log: LOG },
    { executors: 3, wasmStackBytes: STACK_BYTES },
  );
  t.after(() => pool.close());
  const names = async (): Promise<readonly string[]> => {
    // Node lists a thread a moment after it was made.
    await new Promise((resolve) => setImmediate(resolve));
    return threads.map(({ threadName }) => threadName ?? '');
  };
  pool.shareEnvironment(new Map([['A', 'b']]));
  await pool.trim();
  assert.deepEqual(await names(), []);
  pool.createAsleep(CLOCK.nowMs());
  assert.deepEqual(await names(), ['executor 0']);
  pool.create({ id: idOf(1), balance: POLICY.startingCycles, controllers: [], env: new Map() });
  pool.createAsleep(CLOCK.nowMs());
  assert.deepEqual(await names(), ['executor 0', 'executor 1', 'executor 2']);
});

test('executors that die amid large messages leave nobody without an answer', async () => {
  const threads: Worker[] = [];
  const note = (worker: Worker): void => void threads.push(worker);
  process.on('worker', note);
  const { call, add } = await host(2, 2);
  const executors = (): Worker[] =>
    threads.filter((thread) => thread.threadName?.startsWith('executor') === true && thread.threadId > 0);
  for (let round = 1; round <= 6; round++) {
    const [first, second] = [2 * round - 2, 2 * round - 1];
    const outcomes = Array.from({ length: 60 }, (_, n) =>
      n % 2 === 0 ? call(first, 'forward', idOf(second)) : call(second, 'forward', idOf(first)),
    );
    await new Promise((resolve) => setTimeout(resolve, round * 3));
    const doomed = executors()[round % 2];
    assert.ok(doomed, 'there is an executor to end');
    await doomed.terminate();
    for (const { kind } of await Promise.all(outcomes)) assert.ok(kind === 'reply' || kind === 'unavailable', kind);
    await add(2 * round);
    await add(2 * round + 1);
  }
  process.off('worker', note);
  assert.equal((await call(12, 'forward', idOf(13))).kind, 'reply');
});

test('a drain lets long messages end, one on top of the other, and answers what waits for them', async () => {
  // If this thread was delayed, the messages may have ended before the drain began: such a run shows nothing.
  await attempts(20, async () => {
    const { call, scheduler } = await host(1, 5);
    await call(0, 'long');
    // The executor takes its work in order: once this is answered, all earlier work has begun.
    const begun = async (): Promise<void> => assert.equal((await call(4, 'quick')).kind, 'reply');
    const lower = call(0, 'long');
    await begun();
    const upper = call(1, 'long');
    await begun();
    // Calls that wait for the suspended message, for the executing one, and for another, and one that is open at the
    // executing one.
    const waiting = [call(0, 'quick'), call(1, 'quick'), call(2, 'forward', idOf(1))];
    await begun();
    const drained = scheduler.drain();
    waiting.push(call(3, 'quick'));
    const answers = await Promise.all(waiting);
    assert.equal((await upper).kind, 'reply');
    assert.equal((await lower).kind, 'reply');
    await drained;
    for (const outcome of answers) {
      assert.ok(outcome.kind === 'unavailable', JSON.stringify(outcome));
      assert.equal(outcome.message, 'the server is stopping');
    }
  });
});

test('executors close while answers of theirs have not been taken yet', async () => {
  const { pool } = await host(1, 1);
  const added = pool.addCycles(0, 1n).then(
    () => 'added',
    () => 'refused',
  );
  // The command is published in the next turn; then the thread answers while this one does not look.
  await new Promise((resolve) => setImmediate(resolve));
  const until = performance.now() + 50;
  while (performance.now() < until);
  await pool.close();
  assert.match(await added, /added|refused/);
});

test('while actors storm each other with calls, the event loop gets its turns', async () => {
  const { call, ended } = await host(2, 40);
  for (let n = 0; n < 40; n++) for (let k = 0; k < 8; k++) await call(n, 'storm', idOf((n * 7 + k) % 40));
  const before = ended();
  const cpuMs = startCpuTimer();
  for (let turn = 0; turn < 40; turn++) await new Promise((resolve) => setTimeout(resolve, 1));
  const spentMs = cpuMs();
  // Such turns come each millisecond when there is no other work.
  assert.ok(spentMs < 1_000, `40 turns of the event loop took ${spentMs.toFixed(0)} ms of its processor`);
  const giveUp = performance.now() + 60_000;
  while (ended() - before < 2_000) {
    assert.ok(performance.now() < giveUp, `the storm goes on: ${ended() - before} messages have ended`);
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
});

test('what executors do is told while they do it, and goes on when one is replaced', async () => {
  const threads: Worker[] = [];
  const note = (worker: Worker): void => void threads.push(worker);
  process.on('worker', note);
  const { pool, call, add } = await host(2, 2);
  const figuresOf = (at: number) => {
    const figures = pool.executorFigures().executors[at];
    assert.ok(figures);
    return figures;
  };
  const before = [figuresOf(0), figuresOf(1)];
  for (let n = 0; n < 10; n++) await call(0, 'medium');
  const after10 = figuresOf(0);
  assert.equal(after10.steps - (before[0]?.steps ?? 0), 10);
  const instructions = after10.instructions - (before[0]?.instructions ?? 0);
  assert.ok(instructions >= 3_000_000 && instructions < 20_000_000, String(instructions));
  assert.equal(figuresOf(1).steps, before[1]?.steps);
  assert.equal(after10.underWay, 0);

  // The thread sends nothing while it executes; its numbers still move, and nobody waits for them.
  const long = call(0, 'endless');
  const moved = async (): Promise<number> => {
    const { busySeconds } = figuresOf(0);
    while (figuresOf(0).busySeconds < busySeconds + 0.02) {
      assert.equal(figuresOf(0).underWay, 1, 'it was told before the message ended');
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    return figuresOf(0).busySeconds;
  };
  await moved();
  await moved();
  const busy = await moved();
  const doomed = threads.find((thread) => thread.threadName === 'executor 0');
  process.off('worker', note);
  await doomed?.terminate();
  assert.equal((await long).kind, 'unavailable');

  assert.equal(pool.executorFigures().replaced, 1);
  const replaced = figuresOf(0);
  assert.ok(replaced.busySeconds >= busy && replaced.steps === after10.steps);
  await add(2);
  await call(2, 'quick');
  assert.ok(figuresOf(0).steps > after10.steps);
});

test('an executor that has nothing to do is not busy', async () => {
  const { pool, call } = await host(1, 1);
  await call(0, 'slices');
  const busy = (): number => pool.executorFigures().executors[0]?.busySeconds ?? 0;
  // The thread may need a moment to notice that there is no work.
  await attempts(50, async () => {
    const busySeconds = busy();
    await new Promise((resolve) => setTimeout(resolve, 100));
    assert.equal(busy(), busySeconds);
  });
  assert.ok(busy() > 0);
});

test('memory by kind comes to what is counted in all, and a thread that dies has none', async () => {
  const threads: Worker[] = [];
  const note = (worker: Worker): void => void threads.push(worker);
  process.on('worker', note);
  const { pool, call } = await host(1, 3);
  await call(0, 'long');
  const settled = async (isSo: () => boolean): Promise<void> => {
    for (let waitedMs = 0; !isSo(); waitedMs += 5) {
      assert.ok(waitedMs < 10_000, JSON.stringify(pool.memoryByKind()));
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  };
  const sum = (): number =>
    Object.values(pool.memoryByKind() as unknown as Record<string, number>).reduce((a, b) => a + b, 0);
  await settled(() => sum() === pool.memory.bytesUsed);
  assert.ok(pool.memoryByKind().heaps > 0);
  const free = pool.holdMemory(10 * 4096);
  assert.equal(pool.memoryByKind().waking, 10 * 4096);
  free();
  // The canister's heap goes to the pool of the thread.
  await pool.uninstall(2);
  await settled(() => pool.memoryByKind().spare > 0);
  process.off('worker', note);
  await threads.find((thread) => thread.threadName === 'executor 0')?.terminate();
  await settled(() => pool.executorFigures().replaced === 1);
  assert.equal(pool.memoryByKind().spare, 0);
});
