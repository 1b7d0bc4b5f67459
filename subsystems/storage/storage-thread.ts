/**
 * The storage thread: commits what has come in since the last time, all with one flush; answers requests; and in between
 * brings what is durable into the tables, slice by slice. It sleeps in `Atomics.wait` when there is nothing to do.
 *
 * A commit that fails ends it: nobody knows what is on disk then, and only a new start finds out.
 */
import { setTimeout } from 'node:timers/promises';
import { receiveMessageOnPort, workerData } from 'node:worker_threads';
import { messageOf, ServerError } from '../../kernel/index.ts';
import { RingConsumer, RingProducer } from '../threads/index.ts';
import { BackupReader } from './backup.ts';
import { FileDisk } from './file-disk.ts';
import { RocksdbTables } from './rocksdb-tables.ts';
import { openStateDirectory, type StateDirectory } from './state-directory.ts';
import { StateStore } from './state-store.ts';
import { StepLog } from './step-log.ts';
import {
  type CarriedError,
  DURABLE,
  type FromStorage,
  MESSAGE,
  type StorageAnswers,
  type StorageRequest,
  type StorageThreadOptions,
  type ToStorage,
  UNIT,
} from './storage-wire.ts';

const LOCK_PATIENCE_MS = 3_000;
const LOCK_RETRY_MS = 50;

const options = workerData as StorageThreadOptions;
const inbox = new RingConsumer(options.inbox);
const outbox = new RingProducer(options.outbox);
const { port } = options;
/** Units of this round, and requests to be answered after them. */
let units: Uint8Array[] = [];
const requests: { readonly call: number; readonly request: StorageRequest }[] = [];
const backups = new Map<number, BackupReader>();
let backupsOpened = 0;

let directory: StateDirectory | undefined;
try {
  directory = await openWhenFree(options.directory);
  const store = await openStore(directory);
  send({ kind: 'opened', last: store.last });
  await serve(store, directory);
} catch (error) {
  await directory?.close();
  send({ kind: 'failed', error: carried(error) });
}
port.close();

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

async function openStore({ tables, log }: StateDirectory): Promise<StateStore> {
  const { isSynced } = options;
  const opened = await RocksdbTables.open(tables);
  try {
    return new StateStore(opened, (firstUnit) => StepLog.open(new FileDisk(log), { firstUnit }), { isSynced });
  } catch (error) {
    await opened.close();
    throw error;
  }
}

/** Until it is told to close. */
async function serve(store: StateStore, { close }: StateDirectory): Promise<void> {
  let hasMore = false;
  for (;;) {
    if (!hasMore && !inbox.hasMore) inbox.wait();
    inbox.drain(take);
    if (units.length > 0) commit(store);
    for (const { call, request } of requests.splice(0)) {
      if (request.kind === 'close') {
        store.fold();
        for (const backup of backups.values()) backup.close();
        await store.close();
        await close();
        send({ kind: 'answer', call, answer: undefined });
        return;
      }
      if (request.kind === 'openBackup') openBackup(store, call);
      else answer(store, call, request);
    }
    hasMore = store.settle();
  }
}

function take(type: number, at: number, length: number): void {
  if (type === UNIT) {
    units.push(inbox.bytes.slice(at, at + length));
    return;
  }
  if (type !== MESSAGE) throw new Error(`a record of type ${type} for the storage thread`);
  const message = receiveMessageOnPort(port)?.message as ToStorage | undefined;
  if (message === undefined) throw new Error('a message was announced and not sent');
  if (message.kind === 'unit') units.push(message.unit);
  else requests.push(message);
}

function commit(store: StateStore): void {
  const startedMs = performance.now();
  const last = store.commit(units);
  store.commitTook(performance.now() - startedMs);
  units = [];
  let at = outbox.reserve(DURABLE, 8);
  while (at < 0) {
    outbox.waitForRoom();
    at = outbox.reserve(DURABLE, 8);
  }
  outbox.longs[at >> 3] = BigInt(last);
  outbox.publish();
}

type AnsweredAtOnce = Exclude<StorageRequest, { readonly kind: 'close' | 'openBackup' }>;

function answer(store: StateStore, call: number, request: AnsweredAtOnce): void {
  try {
    const result = answerTo(store, request);
    const transferred: ArrayBuffer[] = [];
    if (request.kind === 'canister') {
      const { memory, records } = result as StorageAnswers['canister'];
      for (const { bytes } of [memory.heap, memory.stable, records]) transferred.push(bytes.buffer as ArrayBuffer);
    }
    if (request.kind === 'nextPiece' && result instanceof Uint8Array) transferred.push(result.buffer as ArrayBuffer);
    port.postMessage({ kind: 'answer', call, answer: result } satisfies FromStorage, transferred);
  } catch (error) {
    if (!(error instanceof ServerError)) throw error;
    send({ kind: 'refusal', call, error: carried(error) });
  }
}

function answerTo(store: StateStore, request: AnsweredAtOnce): unknown {
  switch (request.kind) {
    case 'range':
      return store.range(request.family, request.prefix);
    case 'canister':
      return store.canister(request.id);
    case 'figures':
      return store.figures;
    case 'nextPiece': {
      const piece = backups.get(request.backup)?.next();
      if (piece === undefined) closeBackup(request.backup);
      return piece;
    }
    case 'closeBackup':
      closeBackup(request.backup);
  }
  return undefined;
}

/** Answered when everything committed so far is in the tables. */
function openBackup(store: StateStore, call: number): void {
  store.takeSnapshot((snapshot) => {
    backups.set(++backupsOpened, new BackupReader(snapshot));
    send({ kind: 'answer', call, answer: backupsOpened });
  });
}

function closeBackup(backup: number): void {
  backups.get(backup)?.close();
  backups.delete(backup);
}

function send(message: FromStorage): void {
  port.postMessage(message);
}

function carried(error: unknown): CarriedError {
  if (error instanceof ServerError) return { kind: error.kind, code: error.code, message: error.message };
  const stack = error instanceof Error ? `\n${error.stack ?? ''}` : '';
  return {
    kind: 'unavailable',
    code: 'storage-failed',
    message: `the storage thread failed: ${messageOf(error)}${stack}`,
  };
}
