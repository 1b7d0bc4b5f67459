/**
 * Measures the time to replay the log, against executing the same messages without HTTP and storage.
 *
 *   node benchmarks/macro/durable-replay.bench.ts [--work 10000] [--inc 100000] [--rounds 5] [--dir FOLDER] [--quick]
 *
 * With `--snapshot-below 0` a server takes updates of one kind through HTTP, and is killed. Its directory is copied; on
 * one copy a server is started and stopped gracefully, which leaves no log. Then, round after round: a server is
 * started on a directory with the log, and killed again when it is ready; one on a directory without a log; and in a
 * process of its own, so that V8 has compiled nothing yet, the same messages go through an ExecutorPool with 64 under
 * way. Replay is the difference of the two times until `ready`. There are two kinds of messages: `work`, about the work
 * of an ordinary update, and `inc`, which does almost nothing, so that reading the log weighs most. After each replay
 * the counter is checked to have all messages.
 *
 * Both sides of the comparison: replaying reads the step log, lays the records out, carries them to the executor in one
 * piece, decodes and executes them, and notes the pages that they touch. Executing is the way of messages in a server,
 * less HTTP, scheduler and storage: each crosses to the executor as a task and comes back as a step, while others
 * execute; the actor lives in memory only, so no pages are noted. Both begin with machine code that V8 has not seen
 * yet, and end with the same counter. A third figure shows the guest's own execution: the messages are executed one
 * after the other by an engine in its own thread, without crossing and without a state.
 */
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { cp } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { optionsOf } from '../options.ts';
import { type Logger, systemClock } from '../../kernel/index.ts';
import { ControlMemory } from '../../subsystems/execution/memory/control-memory.ts';
import { createStores, Engine } from '../../subsystems/execution/engine/engine.ts';
import { ExecutorPool } from '../../subsystems/execution/pool/executor-pool.ts';
import { FULL_LIMIT, type Step, type Task } from '../../subsystems/ic/index.ts';
import type { ModuleInfo } from '../../subsystems/execution/index.ts';
import { loadModule } from '../../subsystems/execution/thread/load-module.ts';
import { compiled, manifestOf, WORKER } from './actor-fixtures.ts';
import { Client, forEachOf, NO_ARGUMENTS } from './client.ts';
import { median } from './quantile.ts';
import { scratchFolder } from './scratch.ts';
import { printFigure, printSitting } from './sitting.ts';
import { startSvc } from './svc-process.ts';

const UNDER_WAY = 64;
const ANONYMOUS = Uint8Array.of(4);
const POLICY = {
  isEnabled: true,
  startingCycles: 10n ** 14n,
  cyclesPerMessage: 590_000,
  cyclesPer10Instructions: 4,
  instructionLimit: 40_000_000_000,
};
const SPEC = { id: new Uint8Array(10), balance: 10n ** 24n, controllers: [ANONYMOUS], env: new Map<string, string>() };
const INSTALL = { mode: 'install', argument: NO_ARGUMENTS, caller: ANONYMOUS } as const;
const STACK_BYTES = 4 << 20;
const CONTEXT = { caller: ANONYMOUS, deadlineNs: 0n, canAnswer: true, cyclesAvailable: 0n, instructions: 0 };

const values = optionsOf({
  work: { type: 'string', default: '10000' },
  inc: { type: 'string', default: '100000' },
  rounds: { type: 'string', default: '5' },
  dir: { type: 'string' },
  quick: { type: 'boolean', default: false },
  // Options for the benchmark's own processes.
  execute: { type: 'string' },
  alone: { type: 'boolean', default: false },
  messages: { type: 'string', default: '0' },
});
const rounds = values.quick ? 1 : Number(values.rounds);

if (values.execute === undefined) {
  await printSitting(`${rounds} rounds`);
  await compare('work', values.quick ? 1000 : Number(values.work));
  await compare('inc', values.quick ? 2000 : Number(values.inc));
} else {
  console.log(await (values.alone ? executeAlone : execute)(values.execute, Number(values.messages)));
}

async function compare(method: string, messages: number): Promise<void> {
  await using scratch = await scratchFolder(values.dir);
  const manifest = await manifestOf(scratch.path, 'worker', await compiled(WORKER, 'enhanced'), 1);
  const logged = join(scratch.path, 'logged');
  const stopped = join(scratch.path, 'stopped');
  const start = (state: string) =>
    startSvc({ manifest, args: ['--state', state, '--snapshot-below', '0', '--fsync', 'always'] });
  {
    await using svc = await start(logged);
    using client = new Client(svc.origin, UNDER_WAY);
    await forEachOf(messages, UNDER_WAY, async () => void (await client.send(`/call/a0/${method}`)));
    await svc.kill();
  }
  await cp(logged, stopped, { recursive: true });
  {
    await using svc = await start(stopped);
    await svc.stop();
  }

  const readyMs = async (state: string, replayed: number): Promise<number> => {
    await using svc = await start(state);
    const ran = Number(/recovered \S+ (\d+) message/.exec(svc.log())?.[1] ?? 0);
    using client = new Client(svc.origin, 1);
    const counted = await client.natural('/query/a0/get');
    if (ran !== replayed || counted !== messages) {
      throw new Error(`${ran} of ${replayed} messages were replayed, ${counted} of ${messages} counted:\n${svc.log()}`);
    }
    return svc.readyMs;
  };
  const ratios: number[] = [];
  const replays: number[] = [];
  const executions: number[] = [];
  const guests: number[] = [];
  for (let round = 0; round < rounds; round++) {
    const withLog = await readyMs(logged, messages);
    const withoutLog = await readyMs(stopped, 0);
    const executing = await inProcessOfItsOwn(method, messages);
    replays.push(withLog - withoutLog);
    executions.push(executing);
    guests.push(await inProcessOfItsOwn(method, messages, '--alone'));
    ratios.push((withLog - withoutLog) / executing);
  }
  const us = (ms: number): string => ((ms * 1000) / messages).toFixed(1);
  const note = `by round: ${ratios.map((ratio) => ratio.toFixed(2)).join(' ')}`;
  console.log(
    `${messages} × ${method}: replayed in ${median(replays).toFixed(0)} ms (${us(median(replays))} µs each), executed in ${median(executions).toFixed(0)} ms (${us(median(executions))} µs each), by an engine alone in ${median(guests).toFixed(0)} ms (${us(median(guests))} µs each)`,
  );
  const goal = { is: 'at most', reach: 1.2, aim: 1 } as const;
  printFigure(`replay of ${method} / executing the same messages`, median(ratios), '×', note, goal);
}

/** Returns milliseconds. */
async function inProcessOfItsOwn(method: string, messages: number, ...more: readonly string[]): Promise<number> {
  const args = [fileURLToPath(import.meta.url), '--execute', method, '--messages', String(messages), ...more];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  let text = '';
  child.stdout.on('data', (chunk: Buffer) => (text += chunk.toString()));
  const [code] = (await once(child, 'close')) as [number | null];
  if (code !== 0) throw new Error(`executing ${messages} × ${method} failed`);
  return Number(text);
}

async function execute(method: string, messages: number): Promise<number> {
  // The pool's threads do not keep a process alive.
  const alive = setInterval(() => undefined, 60_000);
  const silent = (): void => undefined;
  const complain = (message: string): void => void process.stderr.write(`${message}\n`);
  const log: Logger = { event: silent, debug: silent, info: silent, warn: complain, error: complain, announce: silent };
  const options = { executors: 2, wasmStackBytes: STACK_BYTES };
  const pool = new ExecutorPool({ policy: POLICY, clock: systemClock, log }, options);
  const module = await pool.prepare(await compiled(WORKER, 'enhanced'));
  const handle = pool.create(SPEC);
  answered(
    await new Promise<Step>((resolve) => pool.change(handle, module, INSTALL, ({ step }) => resolve(step))),
    'installation',
  );
  const start = performance.now();
  await forEachOf(messages, UNDER_WAY, () => run(pool, handle, module, method));
  const ms = performance.now() - start;
  await pool.close();
  clearInterval(alive);
  return ms;
}

async function run(pool: ExecutorPool, handle: number, module: ModuleInfo, method: string): Promise<void> {
  replied(
    await new Promise<Step>((resolve) => pool.run(handle, taskOf(module, method), ({ step }) => resolve(step))),
    method,
  );
}

/** Executes the messages without crossing: the time of the guest and its transactions, in milliseconds. */
async function executeAlone(method: string, messages: number): Promise<number> {
  const wasm = await compiled(WORKER, 'enhanced');
  const hash = createHash('sha256').update(wasm).digest('hex');
  const { code, info } = loadModule(wasm, hash, { wasmStackBytes: STACK_BYTES });
  const engine = new Engine({
    policy: POLICY,
    control: new ControlMemory({ stackBytes: STACK_BYTES, journalBytesMax: 1 << 28 }),
    shared: createStores({ stableBytesMax: 1 << 28 }),
    reportBug: (message, cause) => {
      throw new Error(message, { cause });
    },
  });
  const canister = engine.createCanister(SPEC);
  answered(engine.change(canister, code, INSTALL, systemClock.nowMs()).step, 'installation');
  const start = performance.now();
  for (let message = 0; message < messages; message++) {
    replied(engine.execute(canister, taskOf(info, method), systemClock.nowMs()).step, method);
  }
  return performance.now() - start;
}

function taskOf(module: ModuleInfo, method: string): Task {
  const entry = module.entries.get(`canister_update ${method}`);
  if (entry === undefined) throw new Error(`the worker has no ${method}`);
  return { kind: 'update', entry, argument: NO_ARGUMENTS, context: CONTEXT, instructionsMax: FULL_LIMIT };
}

function replied(step: Step, what: string): void {
  answered(step, what);
  if (step.answer?.kind !== 'reply') throw new Error(`${what} did not reply`);
}

function answered({ fault }: Step, what: string): void {
  if (fault !== undefined) throw new Error(`${what}: ${fault.message}`);
}
