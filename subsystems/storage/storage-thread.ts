/**
 * The storage thread: opens the state directory when it is told to, and commits what comes (`commit-server.ts`) until
 * it is told to close. It sleeps in `Atomics.wait` when there is nothing to do.
 */
import { once } from 'node:events';
import { flushCompileCache } from 'node:module';
import { setImmediate, setTimeout } from 'node:timers/promises';
import { parentPort, workerData } from 'node:worker_threads';
import { ServerError } from '../../kernel/index.ts';
import { forgetIdentity, type UnitTaker } from '../archive/index.ts';
import { collectGarbage } from '../threads/index.ts';
import { CommitServer } from './commit-server.ts';
import { FileDisk } from './file-disk.ts';
import { FORMAT } from './format-steps.ts';
import { openTables } from './open-tables.ts';
import { openStateDirectory, type StateDirectory } from './state-directory.ts';
import { type KnownLog, StateStore } from './state-store.ts';
import { StepLog } from './step-log.ts';
import { carried, type FromStorageThread, type StorageThreadOptions } from './storage-wire.ts';
import { listenerOf, UnitFeed, type UnitListener } from './unit-feed.ts';

const LOCK_PATIENCE_MS = 3_000;
const LOCK_RETRY_MS = 50;

// For threads of later processes (config/code-cache.ts).
flushCompileCache();
const options = workerData as StorageThreadOptions;

// The thread's code is loaded by now, while the server did something else.
if (parentPort !== null) await once(parentPort, 'message');

let directory: StateDirectory | undefined;
try {
  directory = await openWhenFree(options.directory);
  warnOfExposed(directory);
  tellTakenOver(directory);
  const feeds = new Map(
    options.takers.map((taker) => [taker, new UnitFeed({ waiting: () => tellUnitsWait(taker) })] as const),
  );
  if (!feeds.has('archive')) await forgetIdentity(directory.path);
  await serve(new CommitServer(options.end, await openStore(directory, listenerOf(feeds)), feeds), directory);
} catch (error) {
  // A failure now (no descriptor is left to read the lock) must not replace the error.
  await directory?.close().catch(() => undefined);
  options.end.port.postMessage({ kind: 'failed', error: carried(error) } satisfies FromStorageThread);
}
options.end.port.close();

/** A process that was killed takes a while to go: its memory is given back first. */
async function openWhenFree(path: string): Promise<StateDirectory> {
  const untilMs = performance.now() + LOCK_PATIENCE_MS;
  for (;;) {
    try {
      return await openStateDirectory(path);
    } catch (error) {
      const isLocked = error instanceof ServerError && error.code === 'state-locked';
      if (!isLocked || performance.now() > untilMs) throw error;
      await setTimeout(LOCK_RETRY_MS);
    }
  }
}

function warnOfExposed({ path, exposed }: StateDirectory): void {
  if (exposed.length === 0) return;
  const text = `other users can read the state in ${path}, with the secrets of its signing keys: the rights of ${exposed.join(', ')} cannot be changed; give them to the user who runs svc`;
  options.end.port.postMessage({ kind: 'warning', text } satisfies FromStorageThread);
}

function tellTakenOver({ path, found }: StateDirectory): void {
  if (found === undefined || found === FORMAT) return;
  const text = `the state in ${path} was taken over from format ${found} to ${FORMAT}: an svc that reads up to format ${found} refuses it from now on`;
  options.end.port.postMessage({ kind: 'note', text } satisfies FromStorageThread);
}

function tellUnitsWait(taker: UnitTaker): void {
  options.end.port.postMessage({ kind: 'unitsWait', taker } satisfies FromStorageThread);
}

async function openStore({ tables, log }: StateDirectory, listener: UnitListener | undefined): Promise<StateStore> {
  const { isSynced } = options;
  const { tables: opened, writeOut, note } = await openTables(tables, options.tables);
  if (note !== undefined) options.end.port.postMessage({ kind: 'note', text: note } satisfies FromStorageThread);
  try {
    const garbage = (): void => collectGarbage('young');
    const openLog = (known: KnownLog): StepLog => StepLog.open(new FileDisk(log), known);
    const ways = { garbage, writeOut: isSynced ? writeOut : undefined };
    return new StateStore(opened, openLog, { isSynced, ...ways, ownsUnits: true, listener });
  } catch (error) {
    await opened.close();
    throw error;
  }
}

/** Serves until the thread is told to close. */
async function serve(server: CommitServer, { close }: StateDirectory): Promise<void> {
  for (let hasMore = false; !server.isClosing; hasMore = server.round()) {
    if (!hasMore && !server.hasMore) server.wait();
    server.take();
    if (server.isWaitingForDisk) await setImmediate();
  }
  await server.close(close);
}
