/**
 * Measures the way from the main thread to an executor and back.
 *
 * A query that only replies (an empty one), through a real ExecutorPool with one executor: as a chain, each call made
 * in the answer of the one before (as calls between actors are); one at a time, each in a turn of the event loop of its
 * own (as requests from outside are); and with 64 under way. Once on one core, where the two threads take turns
 * (`taskset -c 0`), and once on all, where each wake-up crosses to a core that may be asleep. CPU time is that of the
 * whole process, both threads, so it includes their spinning; the query itself takes about 0.4 µs of it. Medians of the
 * rounds are shown.
 */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { optionsOf } from '../options.ts';
import { type Logger, systemClock } from '../../kernel/index.ts';
import { ExecutorPool } from '../../subsystems/execution/pool/executor-pool.ts';
import { type EndedStep, FULL_LIMIT, type Step } from '../../subsystems/ic/index.ts';
import { wat } from '../../test/support/wat.ts';
import { type Figure, report, written } from '../figures.ts';

const UNDER_WAY = 64;
const CALLS_ALONE = 10_000;
const CALLS_TOGETHER = 200_000;
const ROUNDS = 7;
const REACH_US = 10;
const MEASURE = '--measure';

interface Trip {
  readonly us: number;
  readonly cpuUs: number;
}
type Trips = Readonly<Record<'chain' | 'alone' | 'together', Trip>>;

async function measure(): Promise<Trips> {
  // The pool's threads do not keep a process alive.
  const alive = setInterval(() => undefined, 60_000);
  const complain = (message: string): void => void process.stderr.write(`${message}\n`);
  const silent = (): void => undefined;
  const log: Logger = { event: silent, debug: silent, info: silent, warn: complain, error: complain, announce: silent };
  const policy = {
    isEnabled: true,
    startingCycles: 10n ** 20n,
    cyclesPerMessage: 590_000,
    cyclesPer10Instructions: 4,
    instructionLimit: 40_000_000_000,
  };
  const pool = new ExecutorPool({ policy, clock: systemClock, log }, { executors: 1, wasmStackBytes: 4 << 20 });
  const module = await pool.prepare(
    wat(
      '(module (import "ic0" "msg_reply" (func $reply)) (memory 1) (func (export "canister_query empty") call $reply))',
    ),
  );
  const entry = module.entries.get('canister_query empty') ?? fail('no entry');
  const caller = Uint8Array.of(4);
  const argument = new Uint8Array(0);
  const spec = {
    id: new Uint8Array(10),
    balance: policy.startingCycles,
    controllers: [],
    env: new Map<string, string>(),
  };
  const handle = pool.create(spec);
  const change = { mode: 'install', argument, caller } as const;
  const { fault } = await new Promise<Step>((resolve) =>
    pool.change(handle, module, change, ({ step }) => resolve(step)),
  );
  if (fault !== undefined) fail(fault.message);
  const context = { caller, deadlineNs: 0n, canAnswer: true, cyclesAvailable: 0n, instructions: 0 };
  const task = { kind: 'query', entry, argument, context, instructionsMax: FULL_LIMIT } as const;

  /** Keeps `underWay` calls going until `calls` have been answered. */
  const trips = (calls: number, underWay: number, next: (go: () => void) => void): Promise<void> =>
    new Promise((resolve, reject) => {
      let started = 0;
      let ended = 0;
      const answered = ({ step }: EndedStep): void => {
        if (step.answer?.kind !== 'reply') reject(new Error(step.fault?.message ?? 'no reply'));
        else if (++ended === calls) resolve();
        else if (started < calls) next(go);
      };
      const go = (): void => {
        started++;
        pool.run(handle, task, answered);
      };
      for (let k = 0; k < underWay; k++) go();
    });
  const median = async (calls: number, underWay: number, next: (go: () => void) => void): Promise<Trip> => {
    await trips(calls, underWay, next);
    const rounds: Trip[] = [];
    for (let round = 0; round < ROUNDS; round++) {
      const cpu = process.cpuUsage();
      const start = performance.now();
      await trips(calls, underWay, next);
      const us = ((performance.now() - start) * 1000) / calls;
      const { user, system } = process.cpuUsage(cpu);
      rounds.push({ us, cpuUs: (user + system) / calls });
    }
    return rounds.toSorted((a, b) => a.us - b.us)[ROUNDS >> 1] ?? fail('no rounds');
  };

  const atOnce = (go: () => void): void => go();
  const result = {
    chain: await median(CALLS_ALONE, 1, atOnce),
    alone: await median(CALLS_ALONE, 1, (go) => void setImmediate(go)),
    together: await median(CALLS_TOGETHER, UNDER_WAY, atOnce),
  };
  await pool.close();
  clearInterval(alive);
  return result;
}

/** Measures in a process of its own, on one core or all. */
async function inProcess(isOneCore: boolean): Promise<Trips> {
  const node = [process.execPath, fileURLToPath(import.meta.url), MEASURE];
  const [command = '', ...args] = isOneCore ? ['taskset', '-c', '0', ...node] : node;
  const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  let text = '';
  child.stdout.on('data', (chunk: Buffer) => (text += chunk.toString()));
  const [code] = (await once(child, 'close')) as [number | null];
  if (code !== 0) fail(`measuring ended with ${code}`);
  return JSON.parse(text) as Trips;
}

/** On one core the CPU time is a trip's time, whatever other work the machine does; on several it is the wall time. */
function print(where: string, isOneCore: boolean, { chain, alone, together }: Trips): void {
  const figure = (name: string, { us, cpuUs }: Trip): Figure => ({
    panel: 'time',
    name: `${name}, ${where}`,
    value: isOneCore ? cpuUs : us,
    unit: 'µs',
    reach: REACH_US,
    note: isOneCore ? `CPU; ${written(us)} µs passed` : `passed; ${written(cpuUs)} µs of CPU`,
  });
  report(figure('round trip, in a chain', chain));
  report(figure('round trip, one at a time', alone));
  report(figure(`round trip, ${UNDER_WAY} under way`, together));
}

function fail(message: string): never {
  throw new Error(message);
}

if (process.argv.includes(MEASURE)) {
  console.log(JSON.stringify(await measure()));
} else {
  optionsOf({});
  const cores = availableParallelism();
  if (cores > 1 && spawnSync('taskset', ['-c', '0', 'true']).status !== 0)
    console.log('no taskset here: not measured on one core');
  else print('one core', true, await inProcess(cores > 1));
  if (cores > 1) print(`${cores} cores`, false, await inProcess(false));
}
