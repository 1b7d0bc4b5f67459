/** A server in a process of its own, started as this one was: the code that ships, with what it costs. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';

const STOP_MS = 5000;
/** Runs in the server: at each byte of stdin it collects garbage, until nothing is freed, and prints what is left. */
const REPORT = `import { isMainThread } from 'node:worker_threads';
if (isMainThread) {
  process.stdin.on('data', async () => {
    for (let round = 0; round < 5; round++) {
      gc();
      await new Promise((resolve) => setTimeout(resolve, 40));
    }
    const { heapUsed, external, rss } = process.memoryUsage();
    process.stdout.write('memory ' + (heapUsed + external) + ' ' + rss + '\\n');
  });
  process.stdin.unref();
}`;
const NODE_ARGS = ['--expose-gc', '--import', `data:text/javascript,${encodeURIComponent(REPORT)}`];

/** Memory that is left after a collection of garbage. */
interface ServerMemory {
  /** Memory of the main thread's JavaScript, with its buffers. */
  readonly heapBytes: number;
  /** Memory of the whole process. */
  readonly residentBytes: number;
}

interface ServerFigures {
  readonly cpuSeconds: number;
  /** Bytes on the disk; undefined without a state directory. */
  readonly stateBytes: number | undefined;
}

export interface Program {
  /** Arguments with which Node is this server. */
  readonly program: readonly string[];
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly signal: AbortSignal;
}

export class MeasuredServer implements AsyncDisposable {
  readonly origin: string;
  readonly #child: ChildProcess;
  readonly #signal: AbortSignal;
  #reported: ((memory: ServerMemory) => void) | undefined;

  private constructor(child: ChildProcess, origin: string, signal: AbortSignal) {
    this.#child = child;
    this.origin = origin;
    this.#signal = signal;
    child.stdout?.on('data', (text: string) => {
      const [, heap, resident] = /^memory (\d+) (\d+)$/m.exec(text) ?? [];
      if (heap !== undefined) this.#reported?.({ heapBytes: Number(heap), residentBytes: Number(resident) });
    });
  }

  /** Resolves when the server is ready. */
  static async start({ program, environment, signal }: Program, args: readonly string[]): Promise<MeasuredServer> {
    const child = spawn(
      process.execPath,
      [...process.execArgv, ...NODE_ARGS, ...program, '--listen', '127.0.0.1:0', ...args],
      {
        stdio: ['pipe', 'pipe', 'pipe'],
        // Behind npx a server stops when its parent is gone, however that has ended.
        env: { ...environment, npm_lifecycle_event: 'npx' },
      },
    );
    let printed = '';
    let logged = '';
    child.stderr.setEncoding('utf8').on('data', (text: string) => (logged = (logged + text).slice(-4096)));
    const ended = once(child, 'close');
    const ready = new Promise<void>((resolve) => {
      child.stdout.setEncoding('utf8').on('data', (text: string) => {
        printed += text;
        if (/^ready: /m.test(printed)) resolve();
      });
    });
    const aborted = once(signal, 'abort');
    const first = await Promise.race([ready, ended.then(() => 'ended'), aborted.then(() => 'aborted')]);
    const origin = /^listening on (http:\S+)/m.exec(printed)?.[1];
    const server = new MeasuredServer(child, origin ?? '', signal);
    if (first === undefined && origin !== undefined) return server;
    await server.#kill();
    signal.throwIfAborted();
    throw new Error(`a server to measure did not start: ${logged.trim() || printed.trim()}`);
  }

  /** Installs a module under a name; it is checked and compiled once. */
  async install(name: string, wasm: Uint8Array): Promise<void> {
    // A copy, because a body has to be in a buffer of its own.
    await this.#fetch(`/install/${name}`, { method: 'POST', body: new Blob([wasm.slice()]) });
  }

  /** Collects garbage, and resolves with what is left. */
  async memory(): Promise<ServerMemory> {
    const reported = new Promise<ServerMemory>((resolve) => {
      this.#reported = resolve;
    });
    this.#child.stdin?.write('\n');
    const aborted = once(this.#signal, 'abort');
    const memory = await Promise.race([reported, aborted]);
    this.#signal.throwIfAborted();
    return memory as ServerMemory;
  }

  async figures(): Promise<ServerFigures> {
    const page = await this.#fetch('/metrics', {});
    const read = (name: string): number | undefined => {
      const text = new RegExp(`^${name} (\\S+)$`, 'm').exec(page)?.[1];
      return text === undefined ? undefined : Number(text);
    };
    return {
      cpuSeconds: read('process_cpu_seconds_total') ?? Number.NaN,
      stateBytes: read('svc_state_bytes'),
    };
  }

  async #fetch(path: string, init: RequestInit): Promise<string> {
    const answer = await fetch(this.origin + path, { ...init, signal: this.#signal });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${path} answered ${answer.status}: ${text}`);
    return text;
  }

  /** Stops the server in order. */
  async stop(): Promise<void> {
    if (this.#hasEnded) return;
    const ended = once(this.#child, 'close');
    this.#child.kill('SIGTERM');
    const timer = setTimeout(() => this.#child.kill('SIGKILL'), STOP_MS);
    await ended;
    clearTimeout(timer);
  }

  async #kill(): Promise<void> {
    if (this.#hasEnded) return;
    const ended = once(this.#child, 'close');
    this.#child.kill('SIGKILL');
    await ended;
  }

  get #hasEnded(): boolean {
    return this.#child.exitCode !== null || this.#child.signalCode !== null;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#kill();
  }
}
