/**
 * Serves: starts the kernel with the built-in plugins and those from outside, and stops it on a signal. It is imported
 * when the cache of compiled code is set up.
 */
import { flushCompileCache } from 'node:module';
import { resolve } from 'node:path';
import { handleSignals, type Kernel, messageOf, ServerError, systemClock } from '../kernel/index.ts';
import type { LoadedPlugin } from '../plugins/loader/index.ts';
import { Auth } from '../subsystems/auth/index.ts';
import { Canisters } from '../subsystems/canisters/index.ts';
import { Cluster } from '../subsystems/cluster/index.ts';
import { HttpServer } from '../subsystems/http/index.ts';
import { Storage } from '../subsystems/storage/index.ts';
import type { TablesKind } from '../subsystems/storage/open-tables.ts';
import type { RestoreArchiveConfig } from './load.ts';
import { createLog, type LogOptions, type ServerLog } from './log.ts';
import { makeKernel, type ServeRequest } from './make-kernel.ts';
import * as memoryAtRest from './memory-at-rest.ts';
import { hasColors } from './terminal.ts';

export interface RunOptions {
  /** Reason why the sources run and not a bundle of them; undefined: this is a bundle. */
  readonly notBundled: string | undefined;
  /** True if the process was started to outlive its terminal (nohup). */
  readonly isHangupIgnored: boolean;
  /** The group of a shard process; undefined: nobody has started this one as such. */
  readonly group?: string | undefined;
}

interface ServeOptions extends RunOptions {
  /** The server's own directory. */
  readonly root: string;
  /** True if npm runs the server as a script, and passes SIGINT on to it once more. */
  readonly isScriptOfNpm: boolean;
  /** Environment of the processes that it starts. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** Process whose end stops the server. */
  readonly parent: number | undefined;
}

/** Ends the process at once, with exit code 1. */
type LeaveNow = (message: string, error?: unknown) => never;

/** Runs a server until it has stopped; returns the exit code. */
export async function serve(asked: ServeRequest, options: ServeOptions): Promise<number> {
  const startedMs = systemClock.nowMs();
  const isLinked = asked.config.cluster.link !== undefined;
  const part = isLinked
    ? (await import('./node-part.ts')).partOf(options.group, options.environment, options.isHangupIgnored)
    : undefined;
  const request = part?.requestOf(asked) ?? asked;
  const logOptions: LogOptions = {
    ...request.log,
    hasColor: hasColors(process.stderr),
    clock: systemClock,
    announce: (line) => void process.stdout.write(`${line}\n`),
  };
  const log = createLog(part?.logOptions(logOptions) ?? logOptions);
  const { notBundled, root } = options;
  if (notBundled !== undefined) log.debug(`the server runs from its sources: ${notBundled}`);
  for (const warning of request.warnings) log.warn(warning);
  // Writes them out now: they may tell why the system ends the process before the log is written by itself.
  if (request.warnings.length > 0) log.flushNow();
  const leaveNow: LeaveNow = (message, error) => {
    log.error(message, error);
    log.flushNow();
    process.exit(1);
  };
  // Node's own warnings would be prose among the JSON lines.
  process.removeAllListeners('warning').on('warning', (warning) => log.warn(`${warning.name}: ${warning.message}`));
  if (request.loaded.length > 0) await endOnFaultsOf(request.loaded, root, log, leaveNow);
  else endOnBugs(leaveNow);

  const kernel = await makeKernel(request, log);
  if (typeof kernel === 'number') return kernel;
  if (!(await prepareState(request, log))) {
    await log.close();
    return 1;
  }
  // Flushed now, before anyone waits for an answer: the first flush takes a tenth of a second.
  flushCompileCache();
  part?.onOrphaned(() => process.kill(process.pid, 'SIGTERM'));
  return runKernel(kernel, { request, log, leaveNow, startedMs, options });
}

/** Ends the server on a bug: an unknown state is worse, and the next start recovers everything durable. */
function endOnBugs(leaveNow: LeaveNow): void {
  process.on('uncaughtException', (error: unknown) =>
    error instanceof ServerError
      ? leaveNow(`the server ends: ${error.message}`)
      : leaveNow('the server ends because of a bug', error),
  );
}

/**
 * Installs handlers that end the server as without plugins from outside, and whose last line names the plugin at fault.
 */
async function endOnFaultsOf(
  loaded: readonly LoadedPlugin[],
  root: string,
  log: ServerLog,
  leaveNow: LeaveNow,
): Promise<void> {
  const { faultText } = await import('../plugins/loader/index.ts');
  for (const origin of ['uncaughtException', 'unhandledRejection'] as const)
    process.on(origin, (error: unknown) => {
      const text = faultText({ error, origin }, { loaded, root: resolve(root) });
      try {
        // The message of an operating error says everything.
        if (error instanceof Error && !(error instanceof ServerError))
          log.error(`${origin}, which ends the server`, error);
      } finally {
        leaveNow(text);
      }
    });
}

/** Makes files private, and restores a backup if one is given; returns false if that failed. */
async function prepareState(
  { config, loaded, restore, restoreArchive }: ServeRequest,
  log: ServerLog,
): Promise<boolean> {
  if (config.storage.directory !== undefined || loaded.some(({ definition }) => definition.isDurable === true)) {
    const { keepNewFilesPrivate } = await import('../subsystems/storage/private-files.ts');
    keepNewFilesPrivate();
  }
  const { tables } = config.storage;
  if (restore?.directory !== undefined && !(await restored(restore.file, restore.directory, { log, tables })))
    return false;
  return restoreArchive === undefined || restoredArchive(restoreArchive, { log, tables });
}

/** Puts the backup into the state directory; returns false if that failed, after reporting the reason. */
async function restored(
  file: string,
  directory: string,
  { log, tables }: { readonly log: ServerLog; readonly tables: TablesKind | undefined },
): Promise<boolean> {
  const { restoreBackup } = await import('../subsystems/storage/restore.ts');
  try {
    const { entries, bytes } = await restoreBackup(file, directory, { log, tables });
    log.announce(`restored ${entries} entries (${bytes} bytes) from ${file}`);
    return true;
  } catch (error) {
    if (!(error instanceof ServerError)) throw error;
    log.error(`cannot start: ${error.message}`);
    return false;
  }
}

/** Puts a moment of an archive into the state directory; returns false if that failed, after reporting the reason. */
async function restoredArchive(
  place: RestoreArchiveConfig,
  { log, tables }: { readonly log: ServerLog; readonly tables: TablesKind | undefined },
): Promise<boolean> {
  const { restoreArchive } = await import('../subsystems/storage/restore-archive.ts');
  const { catchUp, isFollowing } = await import('../subsystems/storage/follow-archive.ts');
  const { momentText } = await import('../subsystems/archive/index.ts');
  try {
    if (await isFollowing(place.directory)) {
      if (!place.follows) await catchUp(place, { log });
      return true;
    }
    const moment = await restoreArchive(place, { log, tables });
    const { entries, units, line } = moment;
    log.announce(`restored ${entries} entries and ${units} units, to ${momentText(moment)}, from line ${line}`);
    return true;
  } catch (error) {
    if (!(error instanceof ServerError)) throw error;
    log.error(`cannot start: ${error.message}`);
    return false;
  }
}

interface Run {
  readonly request: ServeRequest;
  readonly log: ServerLog;
  readonly leaveNow: LeaveNow;
  readonly startedMs: number;
  readonly options: ServeOptions;
}

/** Starts the kernel and waits until a signal has stopped it. */
async function runKernel(kernel: Kernel, run: Run): Promise<number> {
  const { log, leaveNow, options } = run;
  const stopped = Promise.withResolvers<number>();
  // Failures to stop have been logged, plugin by plugin.
  const stop = (): void =>
    void kernel.stop().then(
      () => {
        // A failed start stops everything itself and reports the reason: this stop has only waited for it.
        if (kernel.state !== 'stopped') return;
        announceStop(kernel, log);
        stopped.resolve(0);
      },
      () => stopped.resolve(1),
    );
  using signals = handleSignals({
    source: process,
    clock: systemClock,
    stopsOnHangup: !options.isHangupIgnored,
    ...(rereads(run.request) && { reread: () => reread(kernel) }),
    stop,
    force: (signal) => leaveNow(`${signal} again: leaving without waiting`),
    isPassedOn: options.isScriptOfNpm,
    ...(options.parent !== undefined && { parent: { pid: options.parent, current: () => process.ppid } }),
  });
  const alive = setInterval(() => undefined, 2 ** 30);
  try {
    await kernel.start();
    if (kernel.state === 'ready') await announceReady(kernel, run);
    using _memory = memoryGivenBack(log);
    const code = await stopped.promise;
    await signals.settled();
    return code;
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

/** Returns true if SIGHUP has files to read or to open again. */
function rereads({ config }: ServeRequest): boolean {
  const { tokensFile, jwt } = config.auth;
  return (tokensFile ?? jwt?.keysFile) !== undefined || config.http.audit?.file !== undefined;
}

/** Reads again what may have changed; before there is anything, the start reads it. */
function reread(kernel: Kernel): void {
  if (kernel.state !== 'starting' && kernel.state !== 'ready') return;
  kernel.get(HttpServer).reread(kernel.get(Auth).reread?.());
  kernel.get(Cluster).reread();
}

async function announceReady(kernel: Kernel, { request, log, startedMs }: Run): Promise<void> {
  const canisters = kernel.get(Canisters).list();
  const actors = canisters.length;
  const ms = Math.round(systemClock.nowMs() - startedMs);
  log.announce(`ready: ${actors} actor(s) in ${ms} ms`);
  // In a terminal both streams are read together: the event would say the same again.
  const isRead = !request.log.isJson && process.stdout.isTTY && process.stderr.isTTY;
  if (!isRead) return log.event('ready', { actors }, `ready: ${actors} actor(s)`);
  const { whereToLook } = await import('./where-to-look.ts');
  const { disabled, config } = request;
  const { origin } = kernel.get(HttpServer);
  const places = whereToLook({
    origin: origin ?? '',
    inspector: disabled.has('inspector') ? undefined : config.http.web === undefined ? '/' : '/inspector',
    hasSiteHosts: config.http.siteHosts,
    hasSites: !disabled.has('gateway'),
    hasToken: (config.auth.token ?? config.auth.tokensFile ?? config.auth.jwt) !== undefined && !disabled.has('auth'),
    actors: canisters.map(({ name, module, candid }) => {
      return { name, hasSite: module?.methods.has('http_request') ?? false, candid: candid?.text };
    }),
  });
  for (const line of places) log.info(line);
  return undefined;
}

function announceStop(kernel: Kernel, log: ServerLog): void {
  // Nothing is kept without a state directory, so nothing was checkpointed.
  const actors = kernel.get(Storage).isKept ? kernel.get(Canisters).list().length : 0;
  log.announce(`shutdown: ${actors} actor(s) checkpointed`);
  log.event('shutdown', { actors }, `stopped: ${actors} actor(s) checkpointed`);
}

/** Lets memory be given back at rest, where the C library can. */
function memoryGivenBack(log: ServerLog): Disposable | undefined {
  let free: () => void;
  try {
    free = memoryAtRest.trimmer();
  } catch (error) {
    log.debug(`what the C library keeps free is not given back at rest: ${messageOf(error)}`);
    return undefined;
  }
  return memoryAtRest.giveBackAtRest({ clock: systemClock, free });
}
