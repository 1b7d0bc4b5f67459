/**
 * A whole server in this process: all plugins over real sockets, threads and files, with a log that tests can read. It
 * starts in a third of the time of a separate process; tests of a process (signals, exit codes, streams) need
 * `server.ts`.
 */
import { type Clock, createKernel, systemClock, systemRandom } from '../../kernel/index.ts';
import { loadConfig } from '../../config/load.ts';
import { builtinPlugins } from '../../plugins/index.ts';
import { CACHE_HOME } from './caches.ts';
import { RecordingLogger } from './kernel.ts';
import type { TestOwner } from './server.ts';
import { temporaryDirectory } from './temporary-directory.ts';

export interface InProcessServer {
  readonly origin: string;
  readonly log: RecordingLogger;
  fetch(path: string, init?: RequestInit): Promise<Response>;
  post(path: string, body?: string | Uint8Array, headers?: Readonly<Record<string, string>>): Promise<Answer>;
  get(path: string, headers?: Readonly<Record<string, string>>): Promise<Answer>;
  /** Stops the server gracefully; it is stopped anyway when the tests are over. */
  stop(): Promise<void>;
}

export interface Answer {
  readonly status: number;
  readonly body: string;
}

interface InProcessOptions {
  /** Flags in addition to `--listen` and one executor. */
  readonly args?: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
  /** Default: none. */
  readonly manifestFile?: string;
  /** Directory in which the server seems to lie; default: an empty one. */
  readonly root?: string;
  /** Default: the system's. */
  readonly clock?: Clock;
}

export async function startInProcess(
  owner: TestOwner,
  { args = [], environment = {}, manifestFile, root, clock = systemClock }: InProcessOptions = {},
): Promise<InProcessServer> {
  const directory = await temporaryDirectory();
  const manifest = manifestFile === undefined ? ['--no-manifest'] : ['--manifest', manifestFile];
  const request = await loadConfig({
    argv: ['--listen', '127.0.0.1:0', '--executors', '1', ...manifest, ...args],
    environment: { XDG_CACHE_HOME: CACHE_HOME, ...environment },
    pluginNames: builtinPlugins.map(({ name }) => name),
    version: '0.0.0',
    build: 'test',
    directory,
    root: root ?? directory,
  });
  if (request.kind !== 'serve')
    throw new Error(request.kind === 'refused' ? request.problems.join('\n') : request.kind);
  const log = new RecordingLogger();
  const kernel = createKernel({
    plugins: builtinPlugins,
    config: { ...request.config },
    disabled: request.disabled,
    ambient: { clock, random: systemRandom, logger: log },
  });
  let stopping: Promise<void> | undefined;
  const stop = (): Promise<void> => (stopping ??= kernel.stop());
  owner.after(stop);
  await kernel.start();
  const listening = log.announced.find((line) => line.startsWith('listening on ')) ?? '';
  const origin = listening.slice('listening on '.length);
  const ask = async (path: string, init: RequestInit): Promise<Answer> => {
    const response = await fetch(origin + path, init);
    return { status: response.status, body: await response.text() };
  };
  return {
    origin,
    log,
    fetch: (path, init) => fetch(origin + path, init),
    post: (path, body = '[]', headers = {}) =>
      ask(path, { method: 'POST', headers, body: typeof body === 'string' ? body : new Uint8Array(body) }),
    get: (path, headers = {}) => ask(path, { headers }),
    stop,
  };
}
