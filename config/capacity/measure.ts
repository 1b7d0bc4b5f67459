/**
 * Measures what actors and messages cost on this machine, by servers of their own processes: one that keeps everything
 * in memory, and with a folder for a state one that is durable. The actors are the example counter, the smallest actor
 * that remembers something.
 */
import { statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { Budget } from './budget.ts';
import { callOf, load, medianOf } from './load.ts';
import { MeasuredServer, type Program } from './measured-server.ts';

const UNDER_WAY = 32;
/** Actors that messages are sent to by turns. */
const CALLED = 16;
/** Actors that the durable server keeps awake. */
const LIVE_CAP = 32;
/** Milliseconds without which sleeping actors are not measured: two starts. */
const SLEEPERS_MS_MIN = 2000;
const INSTALLED_AT_ONCE = 4;
const INSTALLED_MAX = 2000;

export interface MessageCost {
  /** Milliseconds of one that is sent alone, until its answer is here. */
  readonly aloneMs: number;
  /** Number a second, with 32 under way. */
  readonly perSecond: number;
  /** Microseconds of the server's processor time for each of these. */
  readonly cpuMicroseconds: number;
}

/** Measured costs; bytes and milliseconds of one actor. */
export interface Costs {
  readonly idleBytes: number;
  readonly live: { readonly bytes: number; readonly installMs: number };
  readonly query: MessageCost;
  readonly update: MessageCost;
  /** Undefined without a folder for a state. */
  readonly durable: DurableCosts | undefined;
}

interface DurableCosts {
  readonly update: MessageCost;
  /** Undefined if no time was left. */
  readonly asleep: SleeperCosts | undefined;
  readonly freeDiskBytes: number;
}

interface SleeperCosts {
  /** Memory of the main thread. */
  readonly bytes: number;
  readonly diskBytes: number;
  /** Milliseconds of a query to an actor that sleeps. */
  readonly wakeMs: number;
}

interface MeasureOptions extends Program {
  /** Milliseconds after which nothing new is begun. */
  readonly workMs: number;
  /** Flags that the servers are started with. */
  readonly args: readonly string[];
  /** Flags of the durable ones besides. */
  readonly stateArgs: readonly string[];
  readonly wasm: Uint8Array;
  /** An empty folder on the disk that is to be measured. */
  readonly stateFolder: string | undefined;
  readonly progress: (text: string) => void;
}

type DurableOptions = MeasureOptions & { readonly stateFolder: string };

/** Takes as long as there is time. Rejects with an Error, or with the reason of the signal. */
export async function measure(options: MeasureOptions): Promise<Costs> {
  const { stateFolder, workMs } = options;
  const durable = { commits: 3, sleepers: 9 };
  const budget = new Budget(workMs, { live: 3, query: 2, update: 2, ...(stateFolder !== undefined && durable) });
  const inMemory = await measureInMemory(options, budget);
  if (stateFolder === undefined) return { ...inMemory, durable: undefined };
  return { ...inMemory, durable: await measureDurable({ ...options, stateFolder }, budget) };
}

async function measureInMemory(options: MeasureOptions, budget: Budget): Promise<Omit<Costs, 'durable'>> {
  const { args, signal, progress } = options;
  progress('live actors');
  await using server = await MeasuredServer.start(options, args);
  const { residentBytes: idleBytes } = await server.memory();
  // The first one compiles the module, and gives an executor its thread.
  await install(server, options, { from: 0, count: CALLED, ms: Number.POSITIVE_INFINITY });
  const before = await server.memory();
  const installed = await install(server, options, {
    from: CALLED,
    count: INSTALLED_MAX,
    ms: budget.begin('live', 4000),
  });
  const after = await server.memory();
  const live = {
    bytes: Math.max(0, (after.residentBytes - before.residentBytes) / installed.count),
    installMs: installed.ms / installed.count,
  };
  progress('queries');
  const query = await messageCost(server, 'query', budget.begin('query', 2500), signal);
  progress('updates');
  const update = await messageCost(server, 'call', budget.begin('update', 2500), signal);
  return { idleBytes, live, query, update };
}

async function measureDurable(options: DurableOptions, budget: Budget): Promise<DurableCosts> {
  options.progress('durable updates');
  const update = await withDurable(options, async (server) => {
    await install(server, options, { from: 0, count: CALLED, ms: Number.POSITIVE_INFINITY });
    return messageCost(server, 'call', budget.begin('commits', 3500), options.signal);
  });
  const asleep = budget.leftMs < SLEEPERS_MS_MIN ? undefined : await measureAsleep(options, budget);
  const { bavail, bsize } = await statfs(options.stateFolder);
  return { update, asleep, freeDiskBytes: bavail * bsize };
}

/** Compares two starts, after which all actors are asleep and nothing is left of the work before. */
async function measureAsleep(options: DurableOptions, budget: Budget): Promise<SleeperCosts> {
  const { signal } = options;
  options.progress('sleeping actors');
  const { few, count } = await withDurable(options, async (server) => {
    const before = { ...(await server.memory()), ...(await server.figures()) };
    const ms = budget.begin('sleepers', 4000);
    return { few: before, ...(await install(server, options, { from: CALLED, count: INSTALLED_MAX, ms })) };
  });
  return withDurable(options, async (server) => {
    const many = { ...(await server.memory()), ...(await server.figures()) };
    const wakes: number[] = [];
    for (let at = 0; at < CALLED; at++) {
      const woken = await load(server.origin, [callOf(`/query/a${at}/get`)], { underWay: 1, ms: 0, signal });
      wakes.push(woken.medianMs);
    }
    return {
      bytes: Math.max(0, (many.heapBytes - few.heapBytes) / count),
      diskBytes: Math.max(0, ((many.stateBytes ?? 0) - (few.stateBytes ?? 0)) / count),
      wakeMs: medianOf(wakes),
    };
  });
}

/** Works with a durable server, which is stopped in order. */
async function withDurable<T>(options: DurableOptions, work: (server: MeasuredServer) => Promise<T>): Promise<T> {
  const { stateFolder, stateArgs } = options;
  const state = ['--state', join(stateFolder, 'state'), '--live-cap', String(LIVE_CAP), ...stateArgs];
  const args = [...options.args, ...state];
  await using server = await MeasuredServer.start(options, args);
  const result = await work(server);
  await server.stop();
  return result;
}

interface Installations {
  /** Number of the first actor: `a0` is the name of the first of all. */
  readonly from: number;
  readonly count: number;
  /** None begins after so many milliseconds, but for the first ones. */
  readonly ms: number;
}

/** Installs actors and calls each once, so that all of what a live actor has is there. */
async function install(
  server: MeasuredServer,
  { wasm, signal }: MeasureOptions,
  { from, count, ms }: Installations,
): Promise<{ readonly count: number; readonly ms: number }> {
  const startMs = performance.now();
  let next = 0;
  const work = async (): Promise<void> => {
    while (next < count && (next < INSTALLED_AT_ONCE || performance.now() - startMs < ms)) {
      const name = `a${from + next++}`;
      await server.install(name, wasm);
      await load(server.origin, [callOf(`/call/${name}/inc`)], { underWay: 1, ms: 0, signal });
    }
  };
  await Promise.all(Array.from({ length: INSTALLED_AT_ONCE }, work));
  return { count: next, ms: performance.now() - startMs };
}

/** Measures messages of one kind: a third of the time each alone, then many at once. */
async function messageCost(
  server: MeasuredServer,
  kind: 'query' | 'call',
  ms: number,
  signal: AbortSignal,
): Promise<MessageCost> {
  const method = kind === 'query' ? 'get' : 'inc';
  const calls = Array.from({ length: CALLED }, (_, at) => callOf(`/${kind}/a${at}/${method}`));
  // Code that is called often is compiled first.
  await load(server.origin, calls, { underWay: UNDER_WAY, ms: ms / 6, signal });
  const alone = await load(server.origin, calls, { underWay: 1, ms: ms / 3, signal });
  const before = await server.figures();
  const together = await load(server.origin, calls, { underWay: UNDER_WAY, ms: ms / 2, signal });
  const after = await server.figures();
  return {
    aloneMs: alone.medianMs,
    perSecond: together.calls / together.seconds,
    cpuMicroseconds: ((after.cpuSeconds - before.cpuSeconds) * 1e6) / together.calls,
  };
}
