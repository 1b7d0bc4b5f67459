/**
 * Measures thousands of actors live at once: the cost to create, replace and call one, and its memory.
 *
 *   node benchmarks/macro/live-actors.bench.ts [--live 1,1000,5000] [--persistence enhanced,classical]
 *       [--executors 2] [--json]
 *
 * The example counter, 64-bit (`enhanced`) and 32-bit (`classical`), in an ExecutorPool; each case in a process of its
 * own, so that no other case affects its memory. Actors are created one after the other, each awaited. Then, with all
 * of them live, `inc` goes to one after the other in random order (`inc`: 1 under way, so with both wake-ups; `inc
 * busy`: 64 under way); then actors picked at random are removed, each one replaced by a new one before the next goes
 * (`replace`: instantiate and place pages with all the others live). `resident` is the process's growth for each actor
 * after its `inc`; `pause` is the longest time that an actor of an executor had to wait for an answer while the others
 * were called; `creating` and `replacing` are the same while actors were created and replaced; `main` is the longest
 * time for which the event loop of the benchmark itself stood still meanwhile.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { fileURLToPath } from 'node:url';
import { optionsOf } from '../options.ts';
import { type Logger, systemClock } from '../../kernel/index.ts';
import { ExecutorPool } from '../../subsystems/execution/pool/executor-pool.ts';
import { FULL_LIMIT, type Step } from '../../subsystems/ic/index.ts';
import type { ModuleInfo } from '../../subsystems/execution/index.ts';
import { createCompiler, type Persistence } from '../../subsystems/compiler/motoko-compiler.ts';

interface Figures {
  readonly persistence: string;
  readonly live: number;
  readonly createMs: Spread;
  readonly replaceMs: Spread;
  readonly incUs: Spread;
  readonly incBusyUs: number;
  readonly residentKib: number;
  readonly pauseMs: number;
  readonly pauseCreatingMs: number;
  readonly pauseReplacingMs: number;
  readonly mainMs: number;
}

interface Spread {
  readonly mean: number;
  readonly p50: number;
  readonly p99: number;
}

const CALLS = 20_000;
const BUSY_CALLS = 100_000;
const UNDER_WAY = 64;
const REPLACED = 1_000;
const PING_EVERY_MS = 1;
const NO_ARGUMENTS = Buffer.from('4449444c0000', 'hex');
const CALLER = Uint8Array.of(4);
const CONTEXT = { caller: CALLER, deadlineNs: 0n, canAnswer: true, cyclesAvailable: 0n, instructions: 0 };

const policy = {
  isEnabled: true,
  startingCycles: 10n ** 14n,
  cyclesPerMessage: 590_000,
  cyclesPer10Instructions: 4,
  instructionLimit: 40_000_000_000,
} as const;
const silent = (): void => undefined;
const quietLog: Logger = {
  event: silent,
  debug: silent,
  info: silent,
  warn: complain,
  error: complain,
  announce: silent,
};
const values = optionsOf({
  live: { type: 'string', default: '1,1000,5000' },
  persistence: { type: 'string', default: 'enhanced,classical' },
  executors: { type: 'string', default: '2' },
  json: { type: 'boolean', default: false },
  alone: { type: 'boolean', default: false },
});

const executors = Number(values.executors);

if (values.alone) {
  console.log(JSON.stringify(await measure(values.persistence as Persistence, Number(values.live))));
} else {
  const all: Figures[] = [];
  for (const persistence of values.persistence.split(','))
    for (const live of values.live.split(',')) all.push(await inProcessOfItsOwn(persistence, live));
  if (values.json) console.log(JSON.stringify(all, undefined, 2));
  else print(all);
}

async function inProcessOfItsOwn(persistence: string, live: string): Promise<Figures> {
  const file = fileURLToPath(import.meta.url);
  const args = [
    ...process.execArgv,
    file,
    '--alone',
    '--persistence',
    persistence,
    '--live',
    live,
    '--executors',
    values.executors,
  ];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  let text = '';
  child.stdout.on('data', (chunk: Buffer) => (text += chunk.toString()));
  const [code] = (await once(child, 'close')) as [number | null];
  if (code !== 0) throw new Error(`the case ${persistence} ${live} failed`);
  return JSON.parse(text) as Figures;
}

async function measure(persistence: Persistence, live: number): Promise<Figures> {
  // The pool's threads do not keep a process alive.
  const alive = setInterval(() => undefined, 60_000);
  const source = fileURLToPath(new URL('../../config/examples/counter/Counter.mo', import.meta.url));
  const cacheDirectory = fileURLToPath(new URL('../../node_modules/.cache/svc-bench', import.meta.url));
  const compiler = createCompiler({ cacheDirectory, processesMax: 1, idleMs: 200 });
  const { wasm } = await compiler.compile(source, { persistence });
  const pool = new ExecutorPool({ policy, clock: systemClock, log: quietLog }, { executors, wasmStackBytes: 4 << 20 });
  const module = await pool.prepare(wasm);
  const entry = (name: string): number => module.entries.get(name) ?? fail(`the counter has no ${name}`);
  const inc = entry('canister_update inc');
  const get = entry('canister_query get');

  // One actor in each executor answers the pings, so that its code is warm and it is no part of the measured actors.
  const pingers: number[] = [];
  for (let lane = 0; lane < executors; lane++) pingers.push(await create(pool, module));
  for (let k = 0; k < 2_000; k++) for (const handle of pingers) await call(pool, handle, 'query', get);
  await new Promise((resolve) => setTimeout(resolve, 500));
  const before = residentKib();

  const eventLoop = monitorEventLoopDelay({ resolution: 1 });
  eventLoop.enable();
  const pingsCreating = startPings(pool, pingers, get);
  const handles: number[] = [];
  const creating: number[] = [];
  for (let k = 0; k < live; k++) {
    const start = performance.now();
    handles.push(await create(pool, module));
    creating.push(performance.now() - start);
  }
  const pauseCreatingMs = await pingsCreating.stop();

  // Each actor is called once, so that all have done some work.
  for (const handle of handles) await call(pool, handle, 'update', inc);
  const residentOfEach = (residentKib() - before) / live;

  const pings = startPings(pool, pingers, get);
  const calling: number[] = [];
  for (let k = 0; k < CALLS; k++) {
    const handle = anyOf(handles);
    const start = performance.now();
    await call(pool, handle, 'update', inc);
    calling.push((performance.now() - start) * 1000);
  }
  const busyStart = performance.now();
  let left = BUSY_CALLS;
  await Promise.all(
    Array.from({ length: UNDER_WAY }, async () => {
      while (left-- > 0) await call(pool, anyOf(handles), 'update', inc);
    }),
  );
  const incBusyUs = ((performance.now() - busyStart) * 1000) / BUSY_CALLS;
  const pauseMs = await pings.stop();

  const pingsReplacing = startPings(pool, pingers, get);
  const replacing: number[] = [];
  for (let k = 0; k < REPLACED; k++) {
    const index = Math.floor(Math.random() * handles.length);
    const start = performance.now();
    pool.remove(handles[index] ?? 0);
    handles[index] = await create(pool, module);
    replacing.push(performance.now() - start);
  }
  const pauseReplacingMs = await pingsReplacing.stop();
  eventLoop.disable();
  await pool.close();
  clearInterval(alive);
  return {
    persistence,
    live,
    createMs: spreadOf(creating),
    replaceMs: spreadOf(replacing),
    incUs: spreadOf(calling),
    incBusyUs,
    residentKib: residentOfEach,
    pauseMs,
    pauseCreatingMs,
    pauseReplacingMs,
    mainMs: eventLoop.max / 1e6,
  };
}

async function create(pool: ExecutorPool, module: ModuleInfo): Promise<number> {
  const handle = pool.create(specOf());
  const change = { mode: 'install', argument: NO_ARGUMENTS, caller: CALLER } as const;
  const { fault } = await new Promise<Step>((resolve) =>
    pool.change(handle, module, change, ({ step }) => resolve(step)),
  );
  return fault === undefined ? handle : fail(fault.message);
}

function specOf(): Parameters<ExecutorPool['create']>[0] {
  return { id: new Uint8Array(10), balance: 10n ** 24n, controllers: [CALLER], env: new Map() };
}

function call(pool: ExecutorPool, handle: number, kind: 'update' | 'query', entry: number): Promise<void> {
  const task = { kind, entry, argument: NO_ARGUMENTS, context: CONTEXT, instructionsMax: FULL_LIMIT } as const;
  return new Promise((resolve, reject) => {
    pool.run(handle, task, ({ step: { answer, fault } }) => {
      if (answer?.kind === 'reply') resolve();
      else reject(new Error(fault?.message ?? 'no reply'));
    });
  });
}

/** Calls an actor of each executor again and again; `stop` returns the longest wait for an answer. */
function startPings(pool: ExecutorPool, handles: readonly number[], entry: number): { stop(): Promise<number> } {
  let isStopping = false;
  let longest = 0;
  const loops = handles.map(async (handle) => {
    while (!isStopping) {
      const start = performance.now();
      await call(pool, handle, 'query', entry);
      longest = Math.max(longest, performance.now() - start);
      await new Promise((resolve) => setTimeout(resolve, PING_EVERY_MS));
    }
  });
  return {
    stop: async () => {
      isStopping = true;
      await Promise.all(loops);
      return longest;
    },
  };
}

function residentKib(): number {
  return Number(/VmRSS:\s*(\d+)/.exec(readFileSync('/proc/self/status', 'utf8'))?.[1]);
}

function anyOf(handles: readonly number[]): number {
  return handles[Math.floor(Math.random() * handles.length)] ?? fail('no actors');
}

function spreadOf(samples: number[]): Spread {
  const sorted = samples.toSorted((a, b) => a - b);
  const at = (share: number): number => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
  return { mean: sorted.reduce((sum, one) => sum + one, 0) / sorted.length, p50: at(0.5), p99: at(0.99) };
}

function print(all: readonly Figures[]): void {
  const spread = ({ mean, p50, p99 }: Spread): string => `${mean.toFixed(2)} / ${p50.toFixed(2)} / ${p99.toFixed(2)}`;
  console.log(
    '| width | live | create ms, mean / p50 / p99 | replace ms | inc µs | inc busy µs | resident KiB | pause ms: calling | creating | replacing | main ms |',
  );
  console.log('|---|---|---|---|---|---|---|---|---|---|---|');
  for (const one of all) {
    const cells = [
      one.persistence === 'classical' ? '32' : '64',
      one.live,
      spread(one.createMs),
      spread(one.replaceMs),
      spread(one.incUs),
      one.incBusyUs.toFixed(2),
      one.residentKib.toFixed(0),
      one.pauseMs.toFixed(1),
      one.pauseCreatingMs.toFixed(1),
      one.pauseReplacingMs.toFixed(1),
      one.mainMs.toFixed(1),
    ];
    console.log(`| ${cells.join(' | ')} |`);
  }
}

function complain(this: void, ...words: readonly unknown[]): void {
  process.stderr.write(`${words.map(String).join(' ')}\n`);
}

function fail(message: string): never {
  throw new Error(message);
}
