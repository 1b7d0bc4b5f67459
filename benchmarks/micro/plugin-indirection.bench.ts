/**
 * Measures the cost of having parts of the server come from plugins.
 *
 * Updates of one actor, 64 under way, as the HTTP server hands them over (`Canisters.call`), in one process: once
 * through parts that are wired by hand, with nothing of the kernel's, and once through a kernel that has the built-in
 * plugins with the executors, metering and outcalls from outside in their places, as `--plugin` puts them there. Each
 * has one executor. The parts wired by hand are there twice: the difference between the two is the error of this
 * sitting.
 *
 *   node benchmarks/micro/plugin-indirection.bench.ts [--processes 36]
 *
 * The measured value is the processor time of the main thread, where all of these parts are called, for each update;
 * not the time of executors, which look for work before they sleep. Rounds are short and take turns, and a ratio is
 * taken within a round, so other work of the machine is in both. The addresses at which a process has its parts change
 * the result by some percent: so there are many processes, in which the three are made in each order, and each counts
 * as one observation, the median of its rounds. The benchmark prints the median of these with its 95 % interval; the
 * result is settled when the interval is on one side of the reach.
 */
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { optionsOf } from '../options.ts';
import { loadConfig } from '../../config/load.ts';
import { createKernel, type Logger, systemClock, systemRandom } from '../../kernel/index.ts';
import { Clock, definePlugin, Execution, Logger as Log, Metering, Outcalls } from '../../plugins/api/plugin.ts';
import { builtinPlugins } from '../../plugins/index.ts';
import { composePlugins, type LoadedPlugin } from '../../plugins/loader/index.ts';
import { CanisterService } from '../../subsystems/canisters/canister-service.ts';
import { Canisters } from '../../subsystems/canisters/index.ts';
import { CodecPool } from '../../subsystems/codec/codec-pool.ts';
import { createCodec } from '../../subsystems/codec/codec.ts';
import { ExecutorPool } from '../../subsystems/execution/pool/executor-pool.ts';
import { ManagementCanister } from '../../subsystems/management/management-canister.ts';
import { createMetering } from '../../subsystems/metering/create-metering.ts';
import { NoRehearsal } from '../../subsystems/rehearsal/no-rehearsal.ts';
import { NoOutcalls } from '../../subsystems/outcalls/no-outcalls.ts';
import { RoundScheduler } from '../../subsystems/scheduler/round-scheduler.ts';
import { NoService } from '../../subsystems/storage/no-service.ts';
import { NoStorage } from '../../subsystems/storage/no-storage.ts';
import { wat } from '../../test/support/wat.ts';
import { type Figure, report } from '../figures.ts';
import { median } from '../macro/quantile.ts';

const UNDER_WAY = 64;
const UPDATES = 4_000;
const WARM_UP_ROUNDS = 12;
const ROUNDS = 30;
/** Number of processes, a multiple of the orders. */
const PROCESSES = 36;
const MEASURE = '--measure';
const REACH = 1.01;
const ANONYMOUS = Uint8Array.of(4);
const NONE = new Uint8Array(0);
const MODULE = wat(`(module
  (import "ic0" "msg_reply" (func $reply)) (memory 1)
  (func (export "canister_update inc")
    (i32.store (i32.const 0) (i32.add (i32.load (i32.const 0)) (i32.const 1))) (call $reply)))`);

const silent = (): void => undefined;
const complain = (message: string): void => void process.stderr.write(`${message}\n`);
const log: Logger = { event: silent, debug: silent, info: silent, warn: complain, error: complain, announce: silent };

async function configOf() {
  const request = await loadConfig({
    argv: ['--executors', '1', '--heartbeat-ms', '0', '--no-manifest'],
    environment: {},
    pluginNames: builtinPlugins.map(({ name }) => name),
    version: '0.0.0',
    build: 'benchmark',
    directory: import.meta.dirname,
  });
  if (request.kind !== 'serve')
    throw new Error(request.kind === 'refused' ? request.problems.join('\n') : request.kind);
  return request;
}
const { config, disabled } = await configOf();
const unused = (): Promise<never> => Promise.reject(new Error('a benchmark compiles nothing'));

interface Wired {
  readonly canisters: Canisters;
  readonly stop: () => Promise<void>;
}

/** Makes every part here, and hands it to the parts that need it. */
async function byHand(): Promise<Wired> {
  const clock = systemClock;
  const metering = createMetering(config.metering);
  const execution = new ExecutorPool({ policy: metering.policy, clock, log }, config.execution);
  const storage = new NoStorage();
  const queryInstructionsMax = metering.policy.instructionLimit;
  const scheduler = new RoundScheduler(
    { execution, clock, storage, log },
    { ...config.scheduler, queryInstructionsMax },
  );
  const pool = new CodecPool();
  const codec = createCodec(pool);
  const compiler = { compile: unused, sourcesOf: unused, closureOf: unused, compareStable: unused };
  const service = new NoService();
  const canisters = new CanisterService(
    {
      execution,
      scheduler,
      schedulerSetup: scheduler,
      metering,
      codec,
      compiler,
      storage,
      service,
      clock,
      log,
      manifest: { read: unused },
      compatibility: { compare: unused },
      rehearsal: new NoRehearsal(),
    },
    config.canisters,
  );
  const outcalls = new NoOutcalls();
  const parts = { host: canisters.backend, codec, clock, random: systemRandom, log, storage, service, outcalls };
  new ManagementCanister(parts, config.management).open();
  canisters.open();
  scheduler.beginTicking();
  const stop = async (): Promise<void> => {
    await scheduler.drain();
    await execution.close();
    await pool.close();
  };
  return { canisters, stop };
}

/** Makes the parts by a kernel, with some from outside. */
async function byPlugins(): Promise<Wired> {
  const guests = [
    definePlugin({
      apiVersion: 1,
      name: 'own-metering',
      provides: Metering,
      create: () => createMetering(config.metering),
    }),
    definePlugin({
      apiVersion: 1,
      name: 'own-execution',
      provides: Execution,
      requires: { metering: Metering, clock: Clock, log: Log },
      create: (granted) => new ExecutorPool({ ...granted, policy: granted.metering.policy }, config.execution),
      stop: (made) => (made instanceof ExecutorPool ? made.close() : undefined),
    }),
    definePlugin({ apiVersion: 1, name: 'own-outcalls', provides: Outcalls, create: () => new NoOutcalls() }),
  ];
  const loaded = guests.map((definition): LoadedPlugin => {
    const capability = definition.provides.name;
    const [module, file, replaces] = [capability, capability, capability];
    return { capability, module, file, definition, wraps: false, replaces, inherits: [] };
  });
  const { plugins } = composePlugins({ builtin: builtinPlugins.filter(({ name }) => name !== 'http'), loaded });
  const ambient = { clock: systemClock, random: systemRandom, logger: log };
  const kernel = createKernel({ plugins, disabled, config: { ...config }, ambient });
  await kernel.start();
  return { canisters: kernel.get(Canisters), stop: () => kernel.stop() };
}

/** Returns microseconds of the main thread for each update of a round. */
async function round(canisters: Canisters): Promise<number> {
  const canister = canisters.list()[0];
  if (canister === undefined) throw new Error('there is no actor');
  const message = { kind: 'update', method: 'inc', caller: ANONYMOUS, argument: NONE, addressedBy: 'name' } as const;
  let left = UPDATES;
  const client = async (): Promise<void> => {
    while (left-- > 0) {
      const { kind } = await canisters.call(canister, message);
      if (kind !== 'reply') throw new Error(`an update ended with ${kind}`);
    }
  };
  const before = process.threadCpuUsage();
  await Promise.all(Array.from({ length: UNDER_WAY }, client));
  const { user, system } = process.threadCpuUsage(before);
  return (user + system) / UPDATES;
}

/** Ratios of one process: medians of its rounds. */
interface Ratios {
  readonly plugins: number;
  readonly again: number;
  readonly directUs: number;
}

type Variant = 'direct' | 'plugins' | 'again';
const ORDERS: readonly (readonly Variant[])[] = [
  ['direct', 'plugins', 'again'],
  ['plugins', 'again', 'direct'],
  ['again', 'direct', 'plugins'],
  ['again', 'plugins', 'direct'],
  ['direct', 'again', 'plugins'],
  ['plugins', 'direct', 'again'],
];

async function measure(made: number): Promise<Ratios> {
  const alive = setInterval(silent, 60_000);
  const wired = new Map<Variant, Wired>();
  for (const name of ORDERS[made % ORDERS.length] ?? [])
    wired.set(name, await (name === 'plugins' ? byPlugins() : byHand()));
  for (const { canisters } of wired.values())
    await canisters.install('counter', MODULE, { argument: undefined, caller: ANONYMOUS });
  const rounds: Ratios[] = [];
  for (let n = -WARM_UP_ROUNDS; n < ROUNDS; n++) {
    // A later part in a round finds warmer caches: each part is at each place equally often.
    const us = { direct: 0, plugins: 0, again: 0 };
    for (const name of ORDERS[(n + WARM_UP_ROUNDS) % ORDERS.length] ?? []) {
      const parts = wired.get(name);
      if (parts !== undefined) us[name] = await round(parts.canisters);
    }
    const directUs = (us.direct + us.again) / 2;
    if (n >= 0) rounds.push({ plugins: us.plugins / directUs, again: us.again / us.direct, directUs });
  }
  for (const { stop } of wired.values()) await stop();
  clearInterval(alive);
  return {
    plugins: median(rounds.map(({ plugins }) => plugins)),
    again: median(rounds.map(({ again }) => again)),
    directUs: median(rounds.map(({ directUs }) => directUs)),
  };
}

function inProcess(made: number): Ratios {
  const node = [fileURLToPath(import.meta.url), MEASURE, String(made)];
  const { status, stdout } = spawnSync(process.execPath, node, {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  if (status !== 0) throw new Error(`measuring ended with ${status}`);
  return JSON.parse(stdout) as Ratios;
}

interface Estimate {
  readonly median: number;
  readonly low: number;
  readonly high: number;
}

/** Standard deviations to either side of the middle of 95 %. */
const NORMAL_95 = 1.96;

/**
 * Estimates by ranks, so that a disturbed process has no effect. The interval has the true median in 95 % of all
 * sittings.
 */
function estimate(values: readonly number[]): Estimate {
  const sorted = values.toSorted((a, b) => a - b);
  const beyond = Math.max(0, Math.floor(sorted.length / 2 - (NORMAL_95 / 2) * Math.sqrt(sorted.length)) - 1);
  return {
    median: median(sorted),
    low: sorted[beyond] ?? Number.NaN,
    high: sorted.at(-1 - beyond) ?? Number.NaN,
  };
}

const percent = (ratio: number): string => `${ratio < 1 ? '−' : '+'}${(Math.abs(ratio - 1) * 100).toFixed(2)} %`;

if (process.argv.includes(MEASURE)) {
  console.log(JSON.stringify(await measure(Number(process.argv.at(-1)))));
} else {
  const values = optionsOf({ processes: { type: 'string', default: String(PROCESSES) } });
  const all = Array.from({ length: Math.max(6, Number(values.processes)) }, (_, made) => inProcess(made));
  const row = (name: string, each: Estimate, verdict: string): Figure => ({
    panel: 'ratio',
    name,
    value: each.median,
    unit: '',
    note: `${percent(each.median)}, 95 % of ${all.length} processes: ${percent(each.low)} to ${percent(each.high)}${verdict}`,
  });
  const plugins = estimate(all.map((ratios) => ratios.plugins));
  const again = estimate(all.map((ratios) => ratios.again));
  const isSettled = plugins.high <= REACH || plugins.low > REACH;
  const verdict = isSettled ? '' : '; not settled: more processes';
  const us = median(all.map(({ directUs }) => directUs)).toFixed(2);
  report({ ...row(`update, parts from plugins / by hand (${us} µs)`, plugins, verdict), reach: REACH });
  report(row('update, by hand twice: what is noise', again, ''));
}
