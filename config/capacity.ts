/**
 * `--capacity`: measures what actors and messages cost on this machine, within 20 s, and says what the machine can
 * host. Servers of their own processes are measured over HTTP on 127.0.0.1, with clients beside them; with
 * `--state DIR` a durable one, too, in a folder of its own on the disk of DIR, which is removed.
 *
 * The figures are lines on stdout, or with `--log-json` one JSON object; progress is told on stderr. Exit codes: 0 when
 * everything was measured, 1 if not.
 */
import { existsSync } from 'node:fs';
import { mkdtemp, rm, stat, writeFile } from 'node:fs/promises';
import { availableParallelism, tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { messageOf, systemClock } from '../kernel/index.ts';
import type { LoadedPlugin } from '../plugins/loader/index.ts';
import { createCompiler } from '../subsystems/compiler/motoko-compiler.ts';
import { measure } from './capacity/measure.ts';
import { jsonOf, linesOf } from './capacity/report.ts';
import type { Request } from './load.ts';
import { createLog, type ServerLog } from './log.ts';
import { hasColors } from './terminal.ts';

type CapacityRequest = Extract<Request<LoadedPlugin>, { kind: 'serve' }>;

/** Less than the 20 s that are promised: the end of a server and the removal of its folder take time, too. */
const TIME_MAX_MS = 19_000;
/** Time for the work, with room for the start and the end of a server that are under way by then. */
const WORK_MS = 14_500;
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

interface CapacityOptions {
  /** The server's own directory. */
  readonly root: string;
  readonly environment: Readonly<Record<string, string | undefined>>;
}

/** Measures, prints what was found, and returns the exit code. */
export async function capacity(request: CapacityRequest, options: CapacityOptions): Promise<number> {
  const startMs = performance.now();
  const log = createLog({
    ...request.log,
    hasColor: hasColors(process.stderr),
    clock: systemClock,
    announce: (line) => void process.stdout.write(`${line}\n`),
  });
  const stop = new AbortController();
  const interrupt = (signal: string): void => stop.abort(new Error(`${signal}: stopped`));
  for (const signal of SIGNALS) process.on(signal, interrupt);
  const tooLate = new Error(`not measured within ${TIME_MAX_MS / 1000} s: this machine is too slow, or too busy`);
  const timer = setTimeout(() => stop.abort(tooLate), TIME_MAX_MS);
  try {
    const costs = await measureIn(request, { ...options, log, signal: stop.signal });
    const { memoryBytes } = request.config.execution;
    const host = { cores: availableParallelism(), memoryBytes, directory: request.config.storage.directory };
    const seconds = (performance.now() - startMs) / 1000;
    for (const line of request.log.isJson ? [jsonOf(costs, host, seconds)] : linesOf(costs, host)) log.announce(line);
    return costs.durable !== undefined && costs.durable.asleep === undefined ? 1 : 0;
  } catch (error) {
    log.error(`cannot measure: ${messageOf(stop.signal.aborted ? stop.signal.reason : error)}`);
    return 1;
  } finally {
    clearTimeout(timer);
    for (const signal of SIGNALS) process.off(signal, interrupt);
    await log.close();
  }
}

/** Measures with folders for manifests and a state, which are removed whatever happens. */
async function measureIn(
  { config }: CapacityRequest,
  options: CapacityOptions & { readonly log: ServerLog; readonly signal: AbortSignal },
): ReturnType<typeof measure> {
  const { root, log, signal } = options;
  // Without the token of the server that is to be: what is measured is asked by this process alone.
  const { SVC_TOKEN: _token, SVC_TOKEN_FILE: _file, ...environment } = options.environment;
  const { directory } = config.storage;
  const scratch = await mkdtemp(join(tmpdir(), 'svc-capacity-'));
  let stateFolder: string | undefined;
  try {
    if (directory !== undefined) stateFolder = await mkdtemp(join(await existing(directory), 'svc-capacity-'));
    const manifest = join(scratch, 'actors.json');
    await writeFile(manifest, '{"actors":{}}');
    log.info('measuring: the example counter is compiled');
    const wasm = await counterModule(config, root, signal);
    const program = [resolve(process.argv[1] ?? '')];
    const args = ['--manifest', manifest, ...costFlags(config)];
    const stateArgs = stateFlags(config);
    const progress = (text: string): void => log.info(`measuring: ${text}`);
    return await measure({
      workMs: WORK_MS,
      program,
      environment,
      args,
      stateArgs,
      wasm,
      stateFolder,
      signal,
      progress,
    });
  } finally {
    for (const folder of [scratch, stateFolder])
      if (folder !== undefined) await rm(folder, { recursive: true, force: true });
  }
}

/** Returns the directory, or the nearest one above it that is there. */
async function existing(directory: string): Promise<string> {
  const status = await stat(directory).catch(() => undefined);
  if (status?.isDirectory() === true || dirname(directory) === directory) return directory;
  return existing(dirname(directory));
}

async function counterModule(
  { compiler: options }: CapacityRequest['config'],
  root: string,
  signal: AbortSignal,
): Promise<Uint8Array> {
  const compiler = createCompiler({ ...options, cacheDirectory: undefined });
  const aborted = new Promise<never>((_resolve, reject) =>
    signal.addEventListener('abort', () => reject(new Error('stopped'))),
  );
  try {
    const compiling = compiler.compile(exampleOf(root));
    return (await Promise.race([compiling, aborted])).wasm;
  } finally {
    await compiler.close();
  }
}

/** Returns the path of the example counter; a package has its examples beside the folder that was built. */
function exampleOf(root: string): string {
  const places = [root, dirname(root)].map((folder) => join(folder, 'config/examples/counter/Counter.mo'));
  return places.find((path) => existsSync(path)) ?? join(root, 'config/examples/counter/Counter.mo');
}

/** Returns the flags of this command line that change what actors and messages cost. */
function costFlags({ execution, metering }: CapacityRequest['config']): readonly string[] {
  const flags = ['--executors', String(execution.executors), '--memory-bytes', String(execution.memoryBytes)];
  if (!metering.isEnabled) flags.push('--cycles', '0');
  return flags;
}

/** Returns those that only a server with a state takes. */
function stateFlags({ storage }: CapacityRequest['config']): readonly string[] {
  const flags = storage.isSynced ? [] : ['--fsync', 'off'];
  return storage.tables === undefined ? flags : [...flags, '--tables', storage.tables];
}
