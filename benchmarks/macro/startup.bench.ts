/**
 * Measures the time from the start of a server's process to its first answer, and its memory when it has little to do.
 *
 *   node benchmarks/macro/startup.bench.ts [--rounds 11] [--dir FOLDER] [--quick]
 *
 * The server runs from the clone, without npm, beside a Node that prints a line. Caches are warm, except for the first
 * start ever, which has the bundle that `npm ci` makes, and no compiled code of any kind. The two actors are the
 * examples `counter` and `notes`; the first increment is requested as soon as the server listens, and again while it
 * answers 503; at the first start, which takes seconds, it is requested when the server prints that it is ready, since
 * a polling client takes time and memory that are not the server's. Servers take turns with the bare Node, so that both
 * see the same machine. `--quick`: few rounds, and no minute of waiting.
 */
import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { optionsOf } from '../options.ts';
import { findProgram } from '../../config/bundle.js';
import { COUNTER } from './actor-fixtures.ts';
import { median } from './quantile.ts';
import { scratchFolder } from './scratch.ts';
import { cpuMicrosecondsOf } from './server-process.ts';
import { printFigure, printSitting } from './sitting.ts';
import { memoryOf } from './svc-process.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const EXAMPLES = fileURLToPath(new URL('../../config/examples', import.meta.url));
/** A server without work has ended its starting threads after half of this. */
const REST_MS = 10_000;
const AFTER_COMPILING_MS = 60_000;
/** Interval of the requests for the first increment. */
const ASK_MS = 1;

const values = optionsOf({
  rounds: { type: 'string', default: '11' },
  dir: { type: 'string' },
  quick: { type: 'boolean', default: false },
});
const rounds = values.quick ? 3 : Number(values.rounds);

await using scratch = await scratchFolder(values.dir);
await printSitting('no load', `${rounds} rounds`);
const none = await manifest('none', {});
const two = await manifest('two', { counter: { main: COUNTER }, notes: { main: join(EXAMPLES, 'notes/Notes.mo') } });
const state = join(scratch.path, 'state');

interface Start {
  /** Time from the start of the process until it printed that it listens. */
  readonly listeningMs: number;
  /** Time until the first increment was answered; NaN: no increment was requested. */
  readonly answeredMs: number;
  /** Processor time until then of all its threads, and of the processes that it ran. */
  readonly cpuMs: number;
  /** Resident memory, MB, after `restMs`. */
  readonly residentMb: number;
}

interface Wanted {
  readonly args: readonly string[];
  /** State from which on the first increment is requested; undefined: it is not. */
  readonly asksWhen?: 'listening' | 'ready';
  /** Undefined: the process does not rest, and its memory is not read. */
  readonly restMs?: number;
  readonly environment?: Readonly<Record<string, string>>;
}

async function start({ args, asksWhen, restMs, environment }: Wanted): Promise<Start> {
  const startedMs = performance.now();
  const child = spawn(process.execPath, ['config/svc.js', '-l', '127.0.0.1:0', ...args], {
    cwd: ROOT,
    stdio: ['ignore', 'pipe', 'ignore'],
    env: { ...process.env, ...environment },
  });
  try {
    const printed = new Printed(child);
    const [, origin = ''] = await printed.find(/listening on (http:\S+)/);
    const listeningMs = performance.now() - startedMs;
    const pid = child.pid ?? 0;
    if (asksWhen === 'ready') await printed.find(/^ready: /m);
    if (asksWhen !== undefined) await increment(origin);
    const answeredMs = asksWhen === undefined ? Number.NaN : performance.now() - startedMs;
    const cpuMs = (cpuMicrosecondsOf(pid) ?? Number.NaN) / 1000;
    if (restMs !== undefined) await sleep(restMs);
    const residentMb = (memoryOf(pid).residentMib * 2 ** 20) / 1e6;
    return { listeningMs, answeredMs, cpuMs, residentMb };
  } finally {
    const exited = child.exitCode === null ? once(child, 'exit') : undefined;
    child.kill('SIGTERM');
    await exited;
  }
}

/** Output of a server. */
class Printed {
  readonly #child: ChildProcessByStdio<null, Readable, null>;
  #text = '';

  constructor(child: ChildProcessByStdio<null, Readable, null>) {
    this.#child = child;
    child.stdout.setEncoding('utf8').on('data', (text: string) => (this.#text += text));
  }

  /** Resolves as soon as the output has a match. */
  async find(wanted: RegExp): Promise<RegExpExecArray> {
    for (;;) {
      const found = wanted.exec(this.#text);
      if (found !== null) return found;
      if (this.#child.stdout.readableEnded) throw new Error(`svc ended, and has printed:\n${this.#text}`);
      await Promise.race([once(this.#child.stdout, 'data'), once(this.#child.stdout, 'end')]);
    }
  }
}

/** Requests an increment; repeats it while the server is not ready. */
async function increment(origin: string): Promise<void> {
  for (;;) {
    const response = await fetch(`${origin}/call-json/counter/inc`, { method: 'POST', body: '[]' });
    const text = await response.text();
    if (response.ok) return;
    if (response.status !== 503) throw new Error(`${response.status}: ${text}`);
    await sleep(ASK_MS);
  }
}

async function bareNode(): Promise<number> {
  const startedMs = performance.now();
  const child = spawn(process.execPath, ['-e', 'console.log("listening")'], { stdio: ['ignore', 'pipe', 'inherit'] });
  await once(child.stdout, 'data');
  const ms = performance.now() - startedMs;
  await once(child, 'exit');
  return ms;
}

async function manifest(name: string, actors: Readonly<Record<string, object>>): Promise<string> {
  const path = join(scratch.path, `${name}.json`);
  await writeFile(path, JSON.stringify({ actors }));
  return path;
}

/**
 * Starts as `npm ci` leaves a clone on a machine that has never seen the server: the bundle, no compiled code, no
 * compiled Motoko.
 */
async function firstEver(name: string): Promise<Start> {
  const environment = { XDG_CACHE_HOME: join(scratch.path, `cache-${name}`), NODE_COMPILE_CACHE: '' };
  await findProgram(ROOT);
  const args = ['-m', two, '--state', join(scratch.path, `state-${name}`)];
  return start({ args, asksWhen: 'ready', environment, restMs: values.quick ? 0 : AFTER_COMPILING_MS });
}

const first = await firstEver('first');
const again = values.quick ? first : await firstEver('again');
// Warms the caches of code and of Motoko.
await start({ args: ['-m', two, '--state', state], asksWhen: 'listening' });

const node: number[] = [];
const empty: Start[] = [];
const stored: Start[] = [];
for (let round = 0; round < rounds; round++) {
  node.push(await bareNode());
  empty.push(await start({ args: ['-m', none] }));
  stored.push(await start({ args: ['-m', two, '--state', state], asksWhen: 'listening' }));
}
const emptyAtRest = await start({ args: ['-m', none], restMs: REST_MS });
const storedAtRest = await start({ args: ['-m', two, '--state', state], asksWhen: 'listening', restMs: REST_MS });

const of = (starts: readonly Start[], field: keyof Start): number => median(starts.map((one) => one[field]));
const cpu = (starts: readonly Start[]): string => `${of(starts, 'cpuMs').toFixed(0)} ms of CPU`;
const atMost = (reach: number, aim: number) => ({ is: 'at most', reach, aim }) as const;
printFigure('a Node that prints a line', median(node), 'ms');
printFigure('spawn to listening', of(empty, 'listeningMs'), 'ms', cpu(empty), atMost(300, 180));
printFigure(
  'spawn to the first increment, two actors in the state',
  of(stored, 'answeredMs'),
  'ms',
  cpu(stored),
  atMost(500, 300),
);
printFigure(
  'first start ever, compiling two actors, to the first increment',
  of([first, again], 'answeredMs') / 1000,
  's',
  cpu([first, again]),
  atMost(5, 3),
);
console.log('');
printFigure('resident, empty', emptyAtRest.residentMb, 'MB', '', atMost(110, 80));
printFigure('resident, idle with two actors', storedAtRest.residentMb, 'MB', '', atMost(150, 100));
if (!values.quick) printFigure('resident, a minute after compiling', again.residentMb, 'MB', '', atMost(150, 100));
