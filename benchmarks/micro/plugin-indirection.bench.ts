/**
 * What does it cost that parts of the server come from plugins?
 *
 * Updates of one actor, 64 under way, as the HTTP server hands them over (`Canisters.call`), in one process: once through parts
 * that are wired by hand, with nothing of the kernel's, and once through a kernel that has the built-in plugins with
 * the executors, metering and outcalls from outside in their places, as `--plugin` puts them there. Each has one
 * executor. Rounds take turns; CPU time is that of the whole process, and the minimum of each counts. What is wired by hand is
 * there twice: how far the two are apart is what this sitting can tell. Where a process
 * has put its parts decides about some percent, so there are nine of them, and the median of their ratios counts.
 */
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
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
import { NoOutcalls } from '../../subsystems/outcalls/no-outcalls.ts';
import { RoundScheduler } from '../../subsystems/scheduler/round-scheduler.ts';
import { NoStorage } from '../../subsystems/storage/no-storage.ts';
import { wat } from '../../test/support/wat.ts';
import { report } from '../figures.ts';

const UNDER_WAY = 64;
const UPDATES = 20_000;
const WARM_UP_ROUNDS = 3;
const ROUNDS = 15;
const PROCESSES = 9;
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

/** Every part made here, and handed to whoever needs it. */
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
  const canisters = new CanisterService(
    {
      execution,
      scheduler,
      schedulerSetup: scheduler,
      metering,
      codec,
      compiler,
      storage,
      clock,
      log,
      manifest: { read: unused },
      compatibility: { compare: unused },
    },
    config.canisters,
  );
  const outcalls = new NoOutcalls();
  const parts = { host: canisters.host, codec, clock, random: systemRandom, log, storage, outcalls };
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

/** A kernel's, with parts from outside. */
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
    return { capability, module: capability, file: capability, definition, replaces: capability };
  });
  const { plugins } = composePlugins({ builtin: builtinPlugins.filter(({ name }) => name !== 'http'), loaded });
  const ambient = { clock: systemClock, random: systemRandom, logger: log };
  const kernel = createKernel({ plugins, disabled, config: { ...config }, ambient });
  await kernel.start();
  return { canisters: kernel.get(Canisters), stop: () => kernel.stop() };
}

/** Microseconds of CPU for each update of a round. */
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
  const before = process.cpuUsage();
  await Promise.all(Array.from({ length: UNDER_WAY }, client));
  const { user, system } = process.cpuUsage(before);
  return (user + system) / UPDATES;
}

/** Of one process. */
interface Ratios {
  readonly plugins: number;
  readonly again: number;
  readonly directUs: number;
}

async function measure(): Promise<Ratios> {
  const alive = setInterval(silent, 60_000);
  const wired = { direct: await byHand(), plugins: await byPlugins(), again: await byHand() };
  const best = { direct: Number.POSITIVE_INFINITY, plugins: Number.POSITIVE_INFINITY, again: Number.POSITIVE_INFINITY };
  for (const { canisters } of Object.values(wired))
    await canisters.install('counter', MODULE, { argument: undefined, caller: ANONYMOUS });
  for (let n = -WARM_UP_ROUNDS; n < ROUNDS; n++) {
    // Whoever comes later in a round finds warmer caches: each does so as often.
    const order = n % 2 === 0 ? (['direct', 'plugins', 'again'] as const) : (['again', 'plugins', 'direct'] as const);
    for (const name of order) {
      const us = await round(wired[name].canisters);
      if (n >= 0) best[name] = Math.min(best[name], us);
    }
  }
  for (const { stop } of Object.values(wired)) await stop();
  clearInterval(alive);
  // The better one of two would be better than one by chance alone.
  const directUs = (best.direct + best.again) / 2;
  return { plugins: best.plugins / directUs, again: best.again / best.direct, directUs };
}

function inProcess(): Ratios {
  const node = [fileURLToPath(import.meta.url), MEASURE];
  const { status, stdout } = spawnSync(process.execPath, node, {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  if (status !== 0) throw new Error(`measuring ended with ${status}`);
  return JSON.parse(stdout) as Ratios;
}

if (process.argv.includes(MEASURE)) {
  console.log(JSON.stringify(await measure()));
} else {
  const all = Array.from({ length: PROCESSES }, inProcess);
  const sorted = (of: (ratios: Ratios) => number): number[] => all.map(of).toSorted((a, b) => a - b);
  const median = (values: readonly number[]): number => values[values.length >> 1] ?? Number.NaN;
  const percent = (ratio = Number.NaN): string => `${((ratio - 1) * 100).toFixed(1)} %`;
  const ratio = (name: string, values: readonly number[]) =>
    ({
      panel: 'ratio',
      name,
      value: median(values),
      unit: '',
      note: `${percent(median(values))}, from ${percent(values[0])} to ${percent(values.at(-1))} in ${PROCESSES} processes`,
    }) as const;
  const us = median(sorted(({ directUs }) => directUs)).toFixed(2);
  report({
    ...ratio(
      `update, parts from plugins / by hand (${us} µs)`,
      sorted(({ plugins }) => plugins),
    ),
    reach: REACH,
  });
  report(
    ratio(
      'update, by hand twice: what is noise',
      sorted(({ again }) => again),
    ),
  );
}
