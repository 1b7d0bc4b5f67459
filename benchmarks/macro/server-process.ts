/** Servers under load: processes of their own, stopped at the benchmark's end, with their processor time. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

/** `getconf CLK_TCK`; 100 on every Linux that Node runs on. */
const TICKS_PER_SECOND = 100;
const POLL_MS = 50;

export interface ServerProcess extends AsyncDisposable {
  readonly origin: string;
  /** Returns user and system time of all its threads so far, in µs; undefined without /proc. */
  cpuMicroseconds(): number | undefined;
}

interface Command {
  readonly file: string;
  readonly args: readonly string[];
  /** A path that answers with 2xx once the server is up. */
  readonly readyPath: string;
  readonly readyDeadlineMs: number;
}

/** Starts a server that will listen at `origin`; resolves when it answers. */
export async function startProcess(origin: string, command: Command): Promise<ServerProcess> {
  const child = spawn(command.file, command.args, { stdio: ['ignore', 'ignore', 'ignore'] });
  const failed = once(child, 'error').then(([error]) => {
    throw new Error(`cannot run ${command.file}`, { cause: error });
  });
  const stop = (): Promise<void> => stopped(child);
  try {
    await Promise.race([answers(child, origin + command.readyPath, command.readyDeadlineMs), failed]);
  } catch (error) {
    await stop();
    throw error;
  }
  return { origin, cpuMicroseconds: () => cpuMicrosecondsOf(child.pid ?? 0), [Symbol.asyncDispose]: stop };
}

/** Returns a port that was free a moment ago. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}

async function answers(child: ChildProcess, url: string, deadlineMs: number): Promise<void> {
  const until = performance.now() + deadlineMs;
  while (performance.now() < until) {
    if (child.exitCode !== null) throw new Error(`${child.spawnargs.join(' ')} ended with ${child.exitCode}`);
    const status = await fetch(url).then(
      async (response) => (await response.arrayBuffer(), response.status),
      () => 0,
    );
    if (status >= 200 && status < 300) return;
    await sleep(POLL_MS);
  }
  throw new Error(`${url} did not answer within ${deadlineMs} ms`);
}

async function stopped(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined) return;
  const exited = once(child, 'exit');
  child.kill('SIGTERM');
  const timer = setTimeout(() => child.kill('SIGKILL'), 5000);
  await exited;
  clearTimeout(timer);
}

/** Returns user and system time of all threads of a process so far, in µs. */
export function cpuMicrosecondsOf(pid: number): number | undefined {
  return microsecondsOf(`/proc/${pid}/stat`);
}

/** Returns user and system time of the main thread of a process so far, in µs; NaN without /proc. */
export function mainThreadMicrosecondsOf(pid: number): number {
  return microsecondsOf(`/proc/${pid}/task/${pid}/stat`) ?? Number.NaN;
}

function microsecondsOf(file: string): number | undefined {
  try {
    // The program's name, in brackets, may have any characters; utime and stime are the 12th and 13th field after it.
    const fields = readFileSync(file, 'utf8')
      .replace(/^.*\) /s, '')
      .split(' ');
    return ((Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND) * 1e6;
  } catch {
    return undefined;
  }
}
