/**
 * The server from command line to exit code: reads flags and environment, starts the kernel with the built-in plugins,
 * stops it on a signal. Exit codes: 0 after a graceful stop, 1 when the start or a stop failed, 2 for bad usage.
 *
 * All imports happen inside `run`, after the cache of compiled code is set up, and only for command lines that need
 * them.
 */
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Plugin } from '../kernel/index.ts';
import type { LoadedPlugin } from '../plugins/loader/index.ts';
import type { Request } from './load.ts';
import type { ServerLog } from './log.ts';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
/** Read before anything takes time: once the parent is gone, the number differs. */
const PARENT = process.ppid;

export interface RunOptions {
  /** Reason why the sources run and not a bundle of them; undefined: this is a bundle. */
  readonly notBundled: string | undefined;
  /** True if the process was started to outlive its terminal (nohup). */
  readonly isHangupIgnored: boolean;
}

/** Runs one server from command line to exit code. */
export async function run(options: RunOptions): Promise<number> {
  const { keepCompiledCode } = await import('./code-cache.ts');
  keepCompiledCode(process.env, ROOT);
  const { VERSION, readBuild } = await import('./version.ts');
  const { loadConfig } = await import('./load.ts');
  const { builtinPlugins } = await import('../plugins/index.ts');
  const directory = workingDirectory();
  if (directory === undefined) {
    process.stderr.write('svc: the working directory is not there any more: change to another one\n');
    return 1;
  }
  const request = await loadConfig({
    argv: process.argv.slice(2),
    environment: process.env,
    pluginNames: builtinPlugins.map(({ name }) => name),
    version: VERSION,
    build: await readBuild(),
    directory,
    root: ROOT,
    async loadPlugins(requests) {
      const { loadPlugins } = await import('../plugins/loader/index.ts');
      return loadPlugins(requests, { directory, builtin: builtinPlugins });
    },
  });
  switch (request.kind) {
    case 'help': {
      const { helpText } = await import('./help.ts');
      // Undefined if stdout is no terminal, which Node's types do not say.
      const columns: number | undefined = process.stdout.columns;
      process.stdout.write(
        helpText({
          version: VERSION,
          width: columns ?? 80,
          hasColor: hasColors(process.stdout),
          plugins: builtinPlugins,
          loaded: request.loaded,
        }),
      );
      await tell(request.problems);
      return 0;
    }
    case 'print':
      process.stdout.write(request.text);
      return 0;
    case 'version':
      process.stdout.write(`${VERSION}\n`);
      return 0;
    case 'refused':
      return refuse(request.problems);
    case 'serve':
      return serve(request, options);
  }
}

type ServeRequest = Extract<Request<LoadedPlugin>, { kind: 'serve' }>;

async function serve(request: ServeRequest, { notBundled, isHangupIgnored }: RunOptions): Promise<number> {
  const {
    config,
    disabled,
    log: { isJson, isVerbose },
    loaded,
    restore,
  } = request;
  const { createKernel, handleSignals, messageOf, ServerError, systemClock, systemRandom } =
    await import('../kernel/index.ts');
  const { createLog } = await import('./log.ts');
  const memoryAtRest = await import('./memory-at-rest.ts');
  const { builtinPlugins } = await import('../plugins/index.ts');
  const { Canisters } = await import('../subsystems/canisters/index.ts');
  const { Storage } = await import('../subsystems/storage/index.ts');
  const startedMs = systemClock.nowMs();
  const log = createLog({
    isJson,
    isVerbose,
    hasColor: hasColors(process.stderr),
    clock: systemClock,
    announce: (line) => void process.stdout.write(`${line}\n`),
  });
  if (notBundled !== undefined) log.debug(`the server runs from its sources: ${notBundled}`);
  for (const warning of request.warnings) log.warn(warning);
  const leaveNow = (message: string, error?: unknown): never => {
    log.error(message, error);
    log.flushNow();
    process.exit(1);
  };
  // Node's own warnings would be prose among the JSON lines.
  process.removeAllListeners('warning').on('warning', (warning) => log.warn(`${warning.name}: ${warning.message}`));
  if (loaded.length > 0) await endOnFaultsOf(loaded, log, leaveNow);
  else
    // Continuing in an unknown state is worse than ending: the next start recovers everything durable.
    process.on('uncaughtException', (error: unknown) =>
      error instanceof ServerError
        ? leaveNow(`the server ends: ${error.message}`)
        : leaveNow('the server ends because of a bug', error),
    );

  const { plugins, sections } = await compose(request, builtinPlugins);
  const kernel = attempt(() =>
    createKernel({
      plugins,
      disabled,
      config: sections,
      ambient: { clock: systemClock, random: systemRandom, logger: log },
    }),
  );
  if ('error' in kernel) {
    if (!(kernel.error instanceof ServerError)) throw kernel.error;
    // The server's own plugins alone always have a boot plan, so this is the user's mistake.
    if (kernel.error.code === 'plugin-needed' || loaded.length > 0) return refuse(kernel.error.message.split('\n'));
    log.error(`cannot start: ${kernel.error.message}`);
    await log.close();
    return 1;
  }

  if (config.storage.directory !== undefined || loaded.some(({ definition }) => definition.isDurable === true)) {
    const { keepNewFilesPrivate } = await import('../subsystems/storage/private-files.ts');
    keepNewFilesPrivate();
  }
  if (restore?.directory !== undefined && !(await restored(restore.file, restore.directory, log))) {
    await log.close();
    return 1;
  }

  // Flushed now, before anyone waits for an answer: the first flush takes a tenth of a second.
  const { flushCompileCache } = await import('node:module');
  flushCompileCache();

  const stopped = Promise.withResolvers<number>();
  // Failures to stop have been logged, plugin by plugin.
  const stop = (): void =>
    void kernel.value.stop().then(
      () => {
        // A failed start stops everything itself and reports the reason: this stop has only waited for it.
        if (kernel.value.state !== 'stopped') return;
        // Nothing is kept without a state directory, so nothing was checkpointed.
        const actors = kernel.value.get(Storage).isKept ? kernel.value.get(Canisters).list().length : 0;
        log.announce(`shutdown: ${actors} actor(s) checkpointed`);
        log.event('shutdown', { actors }, `stopped: ${actors} actor(s) checkpointed`);
        stopped.resolve(0);
      },
      () => stopped.resolve(1),
    );
  using _signals = handleSignals({
    source: process,
    clock: systemClock,
    stopsOnHangup: !isHangupIgnored,
    stop,
    force: (signal) => leaveNow(`${signal} again: leaving without waiting`),
    ...(isBehindShellOfNpx(process.env) && { parent: { pid: PARENT, current: () => process.ppid } }),
  });
  const alive = setInterval(() => undefined, 2 ** 30);
  try {
    await kernel.value.start();
    if (kernel.value.state === 'ready') {
      const actors = kernel.value.get(Canisters).list().length;
      const ms = Math.round(systemClock.nowMs() - startedMs);
      log.announce(`ready: ${actors} actor(s) in ${ms} ms`);
      log.event('ready', { actors }, `ready: ${actors} actor(s)`);
    }
    const trim = attempt(memoryAtRest.trimmer);
    using _memory = 'value' in trim ? memoryAtRest.giveBackAtRest({ clock: systemClock, free: trim.value }) : undefined;
    if ('error' in trim) log.debug(`what the C library keeps free is not given back at rest: ${messageOf(trim.error)}`);
    return await stopped.promise;
  } catch (error) {
    const cause = error instanceof Error ? error.cause : undefined;
    // An operating error says how to fix it; anything else is a bug, for which the stack helps.
    log.error(`cannot start: ${messageOf(error)}`, cause instanceof ServerError ? undefined : cause);
    return 1;
  } finally {
    clearInterval(alive);
    await log.close();
  }
}

/**
 * Installs handlers that end the server as without plugins from outside, and whose last line names the plugin at fault.
 */
async function endOnFaultsOf(
  loaded: readonly LoadedPlugin[],
  log: ServerLog,
  leaveNow: (message: string) => never,
): Promise<void> {
  const { ServerError } = await import('../kernel/index.ts');
  const { faultText } = await import('../plugins/loader/index.ts');
  for (const origin of ['uncaughtException', 'unhandledRejection'] as const)
    process.on(origin, (error: unknown) => {
      const text = faultText({ error, origin }, { loaded, root: resolve(ROOT) });
      try {
        // The message of an operating error says everything.
        if (error instanceof Error && !(error instanceof ServerError))
          log.error(`${origin}, which ends the server`, error);
      } finally {
        leaveNow(text);
      }
    });
}

/** Returns the plugins of this server, including those from outside, and the configuration of each. */
async function compose(
  { config, loaded, sections, restore }: ServeRequest,
  builtin: readonly Plugin[],
): Promise<Composed> {
  if (loaded.length === 0) return { plugins: builtin, sections: { ...config } };
  const { composePlugins } = await import('../plugins/loader/index.ts');
  const { ReadableBackup } = await import('../subsystems/storage/backup-file.ts');
  const backup = restore === undefined ? undefined : new ReadableBackup(restore.file);
  const { plugins, routes } = composePlugins({ builtin, loaded, backup });
  return { plugins, sections: { ...config, ...sections, http: { ...config.http, pluginRoutes: routes } } };
}

interface Composed {
  readonly plugins: readonly Plugin[];
  readonly sections: Readonly<Record<string, unknown>>;
}

/** Puts the backup into the state directory; returns false if that failed, after reporting the reason. */
async function restored(file: string, directory: string, log: ServerLog): Promise<boolean> {
  const { ServerError } = await import('../kernel/index.ts');
  const { restoreBackup } = await import('../subsystems/storage/restore.ts');
  try {
    const { entries, bytes } = await restoreBackup(file, directory, { log });
    log.announce(`restored ${entries} entries (${bytes} bytes) from ${file}`);
    return true;
  } catch (error) {
    if (!(error instanceof ServerError)) throw error;
    log.error(`cannot start: ${error.message}`);
    return false;
  }
}

function attempt<T>(work: () => T): { readonly value: T } | { readonly error: unknown } {
  try {
    return { value: work() };
  } catch (error) {
    return { error };
  }
}

async function refuse(problems: readonly string[]): Promise<number> {
  await tell([...problems, 'run svc --help for all flags']);
  return 2;
}

/** Prints the problems. They are made printable, because they may quote a file. */
async function tell(problems: readonly string[]): Promise<void> {
  const { indented } = await import('./printable.ts');
  for (const problem of problems) process.stderr.write(`svc: ${indented(problem)}\n`);
}

/** Returns undefined if the directory has been deleted. */
function workingDirectory(): string | undefined {
  try {
    return process.cwd();
  } catch {
    return undefined;
  }
}

/**
 * Returns true if npx started the server: `npx svc` starts a shell, which starts the server and waits. npx sends
 * SIGTERM to that shell alone, and the shell dies of it: its end is the server's signal.
 */
function isBehindShellOfNpx(environment: Readonly<Record<string, string | undefined>>): boolean {
  return environment['npm_lifecycle_event'] === 'npx';
}

function hasColors(stream: NodeJS.WriteStream): boolean {
  return stream.isTTY && stream.hasColors();
}

// Runs the sources as they are. The command is `svc.js`, which runs a bundle of them if it can.
if (import.meta.main) {
  process.stdout.on('error', () => undefined);
  process.exit(await run({ notBundled: 'config/main.ts was started', isHangupIgnored: false }));
}
