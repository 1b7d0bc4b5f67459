/** A real `svc` with a state directory: its output, its resources, and its end, gentle or not. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { setTimeout as sleep } from 'node:timers/promises';
import { cpuMicrosecondsOf, type ServerProcess } from './server-process.ts';

const MAIN = fileURLToPath(new URL('../../config/svc.js', import.meta.url));
const POLL_MS = 2;
/** Limit for ten thousand actors on a slow disk. */
const READY_DEADLINE_MS = 15 * 60_000;
const STOP_DEADLINE_MS = 5 * 60_000;

interface SvcOptions {
  readonly manifest: string;
  /** `--state` and further arguments. */
  readonly args: readonly string[];
  /** Arguments for Node. */
  readonly nodeArgs?: readonly string[];
  /** Variables beside the ones of this process. */
  readonly environment?: Readonly<Record<string, string>>;
  /** True: resolve when it listens, since a standby that waits for another server is not ready. */
  readonly isStandby?: boolean;
}

export interface SvcProcess extends ServerProcess {
  readonly pid: number;
  /** Milliseconds from the start of the process until it printed that it is ready. */
  readonly readyMs: number;
  /** Returns the output so far. */
  readonly printed: () => string;
  /** Returns the log so far. */
  readonly log: () => string;
  /** Sends SIGTERM; resolves to the milliseconds until the end, rejects if the process did not end well. */
  stop(): Promise<number>;
  /** Sends SIGKILL; resolves when the process is gone. */
  kill(): Promise<void>;
}

/** Starts a server; resolves when it is ready. */
export async function startSvc(options: SvcOptions): Promise<SvcProcess> {
  const { manifest, args, nodeArgs = [], environment, isStandby = false } = options;
  const startedMs = performance.now();
  const child = spawn(process.execPath, [...nodeArgs, MAIN, '-m', manifest, '-l', '127.0.0.1:0', ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, ...environment },
  });
  let printed = '';
  let logged = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (printed += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (logged += text));
  const kill = async (): Promise<void> => {
    if (hasEnded(child)) return;
    const exited = once(child, 'exit');
    child.kill('SIGKILL');
    await exited;
  };
  const until = async (isThere: () => boolean): Promise<void> => {
    while (!isThere()) {
      if (hasEnded(child)) throw new Error(`svc ended with ${child.exitCode ?? child.signalCode}:\n${logged}`);
      if (performance.now() - startedMs > READY_DEADLINE_MS) throw new Error(`svc is not ready:\n${logged}`);
      await sleep(POLL_MS);
    }
  };
  let readyMs = 0;
  try {
    await until(() => (isStandby ? /listening on http/ : /^ready: /m).test(printed));
    readyMs = performance.now() - startedMs;
    if (printed.includes('REJECTED')) throw new Error(`svc rejected an actor:\n${printed}`);
    // The log is written a little later.
    if (!isStandby) await until(() => / ready: /.test(logged));
  } catch (error) {
    await kill();
    throw error;
  }
  const pid = child.pid ?? 0;
  return {
    pid,
    origin: /listening on (http:\S+)/.exec(printed)?.[1] ?? '',
    readyMs,
    printed: () => printed,
    log: () => logged,
    cpuMicroseconds: () => cpuMicrosecondsOf(pid),
    kill,
    stop: async () => {
      const start = performance.now();
      const exited = once(child, 'exit') as Promise<[number | null]>;
      child.kill('SIGTERM');
      const timer = setTimeout(() => child.kill('SIGKILL'), STOP_DEADLINE_MS);
      const [code] = await exited;
      clearTimeout(timer);
      if (code !== 0) throw new Error(`svc ended with ${code} instead of 0:\n${logged}`);
      return performance.now() - start;
    },
    [Symbol.asyncDispose]: kill,
  };
}

function hasEnded(child: ChildProcess): boolean {
  return child.exitCode !== null || child.signalCode !== null;
}

export interface Memory {
  readonly residentMib: number;
  /** Peak of the resident memory. */
  readonly peakMib: number;
}

export function memoryOf(pid: number): Memory {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  const mib = (field: string): number => Number(new RegExp(`${field}:\\s*(\\d+)`).exec(status)?.[1]) / 1024;
  return { residentMib: mib('VmRSS'), peakMib: mib('VmHWM') };
}

/** Returns a server's metrics page: values by series, as written there. */
export async function metricsOf(origin: string, token?: string): Promise<ReadonlyMap<string, number>> {
  const headers: Record<string, string> = token === undefined ? {} : { authorization: `Bearer ${token}` };
  const response = await fetch(`${origin}/metrics`, { headers });
  const text = await response.text();
  if (!response.ok) throw new Error(`/metrics answered ${response.status}: ${text}`);
  const lines = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  return new Map(
    lines.map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.slice(line.lastIndexOf(' ')))]),
  );
}
