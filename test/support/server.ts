import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { CACHE_HOME } from './caches.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const MAIN = join(ROOT, 'config/svc.js');
export const EXAMPLES = join(ROOT, 'config/examples/actors.json');

/** The limit allows for a cold cache, with which the examples are compiled first. */
const READY_DEADLINE_MS = 120_000;

export interface RunningServer {
  readonly origin: string;
  readonly process: ChildProcess;
  /** All output so far. */
  readonly output: { stdout: string; stderr: string };
  fetch(path: string, init?: RequestInit): Promise<Response>;
  /** Sends a POST of text; resolves to the status and the body. */
  post(
    path: string,
    body?: string | Uint8Array,
    headers?: Record<string, string>,
  ): Promise<{ status: number; body: string }>;
  get(path: string, headers?: Record<string, string>): Promise<{ status: number; body: string }>;
  /** Sends SIGTERM; resolves to the exit code. */
  stop(): Promise<number | null>;
  /** Sends SIGKILL; resolves when the process is gone. */
  kill(): Promise<void>;
}

export interface ServerOptions {
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** Manifest text, written to a fresh folder; default: the examples. Not with `--manifest` in `args`. */
  readonly manifest?: string;
  /** Path of an existing manifest. */
  readonly manifestFile?: string;
  /** The command in front of its flags; default: the server of this tree. */
  readonly command?: readonly [string, ...string[]];
  /** Working directory; default: this tree. */
  readonly directory?: string;
  /** A command that runs the rest of its arguments in the same process. */
  readonly wrapper?: readonly string[];
  /** Default: a free one. */
  readonly port?: number;
  /** `listening`: resolve when the listener is bound instead of when everything is ready. */
  readonly until?: 'listening' | 'ready';
}

/** Owner of started processes: a test, or a file of tests. */
export interface TestOwner {
  after(end: () => Promise<void>): void;
}

/** Starts a real `svc` on a free port; it is stopped when the test ends. */
export async function startServer(t: TestOwner, options: ServerOptions = {}): Promise<RunningServer> {
  const folder = await mkdtemp(join(tmpdir(), 'svc-test-'));
  let manifest = options.manifestFile ?? EXAMPLES;
  if (options.manifest !== undefined) {
    manifest = join(folder, 'actors.json');
    await writeFile(manifest, options.manifest);
  }
  const listen = `127.0.0.1:${options.port ?? 0}`;
  const { args = [], wrapper = [], command = [process.execPath, MAIN], directory = ROOT } = options;
  const named = args.includes('--manifest') ? [] : ['--manifest', manifest];
  const [program = '', ...rest] = [...wrapper, ...command, ...named, '--listen', listen, ...args];
  const child = spawn(program, rest, {
    cwd: directory,
    env: { ...process.env, XDG_CACHE_HOME: CACHE_HOME, ...options.env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const output = { stdout: '', stderr: '' };
  child.stdout.setEncoding('utf8').on('data', (text: string) => (output.stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (output.stderr += text));
  // `close` comes when all output has been read.
  const exited = once(child, 'close').then(([code]) => code as number | null);
  t.after(async () => {
    if (child.exitCode === null) child.kill('SIGKILL');
    await exited;
    await rm(folder, { recursive: true, force: true });
  });
  const shows = async (pattern: RegExp, stream: 'stdout' | 'stderr' = 'stdout'): Promise<RegExpExecArray> => {
    const deadline = Date.now() + READY_DEADLINE_MS;
    for (;;) {
      const match = pattern.exec(output[stream]);
      if (match !== null) return match;
      if (child.exitCode !== null || Date.now() > deadline) {
        throw new Error(`svc did not print ${pattern}:\n${output.stdout}\n${output.stderr}`);
      }
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  };
  const origin = (await shows(/listening on (http:\S+)/))[1] ?? '';
  if (options.until !== 'listening') {
    await shows(/^ready: /m);
    // The log is another pipe: once this line is there, all lines of the start are.
    await shows(/^\S+ \S+ ready: |"event":"ready"/m, 'stderr');
  }
  const request = async (path: string, init: RequestInit): Promise<{ status: number; body: string }> => {
    const response = await fetch(origin + path, init);
    return { status: response.status, body: await response.text() };
  };
  return {
    origin,
    process: child,
    output,
    fetch: (path, init) => fetch(origin + path, init),
    post: (path, body = '[]', headers = {}) => request(path, { method: 'POST', body, headers }),
    get: (path, headers = {}) => request(path, { headers }),
    stop: () => {
      child.kill('SIGTERM');
      return exited;
    },
    kill: async () => {
      child.kill('SIGKILL');
      await exited;
    },
  };
}
