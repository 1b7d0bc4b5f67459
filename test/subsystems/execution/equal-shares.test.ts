/**
 * Endless loops in a thread of the shipped kind, with shipped engines and real code: each loop's share of the
 * processor.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import type { Logger } from '../../../kernel/index.ts';
import { Engine } from '../../../subsystems/execution/engine/engine.ts';
import { ControlMemory } from '../../../subsystems/execution/memory/control-memory.ts';
import { cpuMs } from '../../../subsystems/execution/thread/cpu-time.ts';
import type { CreateEngine } from '../../../subsystems/execution/thread/thread-engine.ts';
import { TURN_MS } from '../../../subsystems/execution/thread/long-messages.ts';
import { SteppedThreads } from '../../simulation/stepped-threads.ts';
import { FakeClock } from '../../support/fake-clock.ts';
import { wat } from '../../support/wat.ts';
import { ANONYMOUS, contextOf, EMPTY_ARGS, load, POLICY, STACK_BYTES } from './engine-fixture.ts';

/** A slice of `fill` takes a fraction of the time of one of `count`, which does not count at address 0: see ADR 49. */
const LOOPS = wat(`(module
  (memory 2)
  (func (export "canister_update count") (loop $l
    (i64.store (i32.const 2048) (i64.add (i64.load (i32.const 2048)) (i64.const 1))) (br $l)))
  (func (export "canister_update fill") (loop $l
    (memory.fill (i32.const 65536) (i32.const 1) (i32.const 4096)) (br $l))))`);
const METHODS = ['count', 'fill', 'count', 'fill', 'count', 'fill'];
const ROUNDS = 10;

test('loops in one thread have equal shares of its processor time, and those that do the same get as much done', async () => {
  // A loop that begins before a busy machine has optimised it stays in baseline code, which is slower by a factor of
  // 2.7. Inlining would depend on counts of the baseline code.
  setFlagsFromString('--no-liftoff');
  setFlagsFromString('--no-wasm-inlining');
  const problems: unknown[] = [];
  const report = (...problem: unknown[]): void => void problems.push(...problem);
  const ignore = (): void => undefined;
  const log: Logger = { info: ignore, warn: ignore, error: report, debug: ignore, announce: ignore, event: ignore };
  /** Slices by long message, in the order in which they begin: each has an engine of its own. */
  const slices: number[] = [];
  let running = 0;
  const createEngine: CreateEngine = ({ onYield = ignore, canSuspend = false }, shared, reportBug) => {
    const number = canSuspend ? slices.push(0) - 1 : undefined;
    const counting = (): unknown => {
      if (number !== undefined) {
        slices[number] = (slices[number] ?? 0) + 1;
        running = number;
      }
      return onYield();
    };
    const memory = { stackBytes: STACK_BYTES, journalBytesMax: 2 ** 24, canSuspend, onYield: counting };
    return new Engine({ policy: POLICY, control: new ControlMemory(memory), shared, reportBug });
  };
  let lookedMs = performance.now();
  const threads = new SteppedThreads({
    lanes: 1,
    policy: POLICY,
    clock: new FakeClock(1_000_000),
    log,
    wasmStackBytes: STACK_BYTES,
    passMs: () => {
      const beforeMs = lookedMs;
      lookedMs = performance.now();
      return lookedMs - beforeMs;
    },
    isHeard: () => false,
    loader: {
      prepare: () => undefined,
      load: (bytes) => Promise.resolve(load(bytes)),
      describe: () => Promise.resolve(undefined),
      storedIs: () => undefined,
      forget: () => Promise.resolve(),
      close: () => Promise.resolve(),
    },
    partsOf: () => ({ createEngine, cpuMs }),
  });
  const advance = async (): Promise<void> => {
    threads.execute(0);
    await threads.turnOf(0);
  };
  const module = await threads.prepare(LOOPS);
  let installed = 0;
  threads.attend({
    changed: ignore,
    settled: () => Promise.resolve(),
    credited: ignore,
    lost: () => report('the thread is lost'),
  });
  const handles = METHODS.map((_, n) => {
    const id = Uint8Array.of(0, 0, 0, 0, 0, 0, 0, n, 1, 1);
    const handle = threads.create({ id, balance: POLICY.startingCycles, controllers: [], env: new Map() });
    const change = { mode: 'install', argument: EMPTY_ARGS, caller: ANONYMOUS } as const;
    threads.change(handle, module, change, ({ step: { fault } }) => {
      installed++;
      if (fault !== undefined) report(fault);
    });
    return handle;
  });
  while (installed < METHODS.length) {
    await new Promise(setImmediate);
    if (threads.canExecute(0)) await advance();
    threads.tell(0);
  }
  // All of them start at once: a single one would never give way, and no other be heard in this thread.
  for (const [n, handle] of handles.entries()) {
    const entry = module.entries.get(`canister_update ${METHODS[n]}`);
    assert.ok(entry !== undefined);
    const context = contextOf(ANONYMOUS);
    const task = {
      kind: 'update',
      entry,
      argument: EMPTY_ARGS,
      context,
      instructionsMax: POLICY.instructionLimit,
    } as const;
    threads.run(handle, task, () => report('a loop has ended'));
  }
  await new Promise(setImmediate);
  while (slices.length < METHODS.length) await advance();
  const before = [...slices];
  const hadMs = METHODS.map(() => 0);
  let longestMs = 0;
  for (let n = 0; n < ROUNDS * METHODS.length; n++) {
    const fromMs = cpuMs();
    await advance();
    const turnMs = cpuMs() - fromMs;
    hadMs[running] = (hadMs[running] ?? 0) + turnMs;
    longestMs = Math.max(longestMs, turnMs);
  }
  const done = slices.map((each, n) => each - (before[n] ?? 0));
  threads.abandon();
  assert.deepEqual(problems, []);
  const shown = `${hadMs.map((ms) => ms.toFixed(1)).join(' ')} ms, ${done.join(' ')} slices`;
  const fairMs = hadMs.reduce((sum, ms) => sum + ms, 0) / METHODS.length;
  // A garbage collection, or a machine that itself is delayed, may make a turn long. The excess is taken from the
  // loop's next turns, which the last turns do not have here.
  const unevenMs = fairMs / 5 + longestMs - TURN_MS;
  for (const ms of hadMs)
    assert.ok(Math.abs(ms - fairMs) <= unevenMs, `${shown}, longest turn ${longestMs.toFixed(1)} ms`);
  // Other users of the processor's other half make a loop slower, but not by this much.
  for (const method of new Set(METHODS)) {
    const same = done.filter((_, n) => METHODS[n] === method);
    assert.ok(Math.min(...same) > Math.max(...same) / 2, shown);
  }
});
