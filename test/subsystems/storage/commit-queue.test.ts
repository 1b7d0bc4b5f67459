import assert from 'node:assert/strict';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, test } from 'node:test';
import type { ServerError } from '../../../kernel/index.ts';
import { CommitQueue, type StoragePort, type StorageReceiver } from '../../../subsystems/storage/commit-queue.ts';
import type { Entry, Storage } from '../../../subsystems/storage/index.ts';
import { MemoryTables } from '../../../subsystems/storage/memory-tables.ts';
import { type KnownLog, StateStore } from '../../../subsystems/storage/state-store.ts';
import { StepLog } from '../../../subsystems/storage/step-log.ts';
import type { CarriedError, ToStorage } from '../../../subsystems/storage/storage-wire.ts';
import { ThreadedStorage } from '../../../subsystems/storage/threaded-storage.ts';
import { applyWriteBatch, WriteBatch } from '../../../subsystems/storage/write-batch.ts';
import { describeCommitQueue, type MadeQueue } from '../../../plugins/api/contracts/commit-queue.ts';
import { SimulatedStorage } from '../../simulation/durable/simulated-storage.ts';
import { RecordingJournal } from '../../simulation/recording-journal.ts';
import { FaultyDisk } from '../../support/faulty-disk.ts';
import { RecordedStorage } from '../../support/recorded-storage.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';

const ALL = new Uint8Array(0);

describeCommitQueue('ThreadedStorage', async (t) => {
  const onFailure = (error: Error): void => assert.ifError(error);
  const queue = new ThreadedStorage({
    directory: await temporaryDirectory(),
    isSynced: true,
    onFailure,
    onWarning: assert.fail,
  });
  await queue.open();
  t.after(() => queue.close());
  return {
    queue,
    endTurn: nextTurn,
    catchUp: () => queue.settled(),
    stored: async () => valuesOf(await queue.range('queue', ALL)),
  };
});

for (const ringBytes of [undefined, 512]) {
  describeCommitQueue(`SimulatedStorage with ${ringBytes === undefined ? 'the shipped ring' : 'a tiny one'}`, (t) => {
    const openLog = (known: KnownLog): StepLog => StepLog.open(new FaultyDisk(), { ...known, segmentBytes: 2 ** 17 });
    const store = new StateStore(new MemoryTables(), openLog, { isSynced: true });
    const queue = new SimulatedStorage(store, ringBytes === undefined ? {} : { ringBytes });
    t.after(() => queue.abandon());
    const catchUp = (): void => {
      while (queue.canWork || queue.canTell || queue.canAnswer) {
        if (queue.canWork) queue.work(3);
        if (queue.canTell) queue.tell();
        if (queue.canAnswer) queue.answer();
      }
    };
    const stored = async (): Promise<ReadonlyMap<string, Uint8Array>> => {
      const entries = queue.range('queue', ALL);
      catchUp();
      return valuesOf(await entries);
    };
    const endTurn = async (): Promise<void> => {
      await nextTurn();
      queue.seal();
    };
    return Promise.resolve({ queue, endTurn, catchUp: () => Promise.resolve(catchUp()), stored });
  });
}

describeCommitQueue('RecordedStorage', () => {
  const queue = new RecordedStorage();
  return Promise.resolve({
    queue,
    endTurn: nextTurn,
    catchUp: () => queue.settled(),
    stored: async () => valuesOf(await queue.range('queue', ALL)),
  });
});

describeCommitQueue('RecordingJournal', () => {
  const queue = new RecordingJournal(undefined);
  const made: MadeQueue = {
    queue,
    endTurn: async () => {
      await nextTurn();
      queue.seal(() => undefined);
    },
    catchUp: () => Promise.resolve(queue.commit(queue.pending)),
    stored: () => Promise.resolve(valuesOf(queue.entries())),
  };
  return Promise.resolve(made);
});

function valuesOf(entries: readonly Entry[]): ReadonlyMap<string, Uint8Array> {
  return new Map(entries.map(([key, value]) => [Buffer.from(key).toString(), value]));
}

/** Takes records as far as there is room, and notes their order. It takes no pieces. */
class ScriptedPort implements StoragePort {
  /** Arrived records: `unit 7`, `copied 7`, `range` … and `published`. */
  readonly arrived: string[] = [];
  room = Number.POSITIVE_INFINITY;
  receiver: StorageReceiver | undefined;
  isEnded = false;

  open(receiver: StorageReceiver): void {
    this.receiver = receiver;
  }

  copy(unit: Uint8Array): boolean {
    return this.take(`copied ${nameOf(unit)}`);
  }

  send(message: ToStorage): boolean {
    return this.take(message.kind === 'unit' ? `unit ${nameOf(message.unit)}` : message.request.kind);
  }

  protected take(what: string): boolean {
    if (this.room <= 0) return false;
    this.room--;
    this.arrived.push(what);
    return true;
  }

  publish(): void {
    this.arrived.push('published');
  }

  end(): Promise<void> {
    this.isEnded = true;
    return Promise.resolve();
  }
}

class PiecesPort extends ScriptedPort {
  sendPieces(pieces: readonly Uint8Array[]): boolean {
    return this.take(`pieces ${pieces.map(nameOf).join('|')}`);
  }
}

function nameOf(unit: Uint8Array): string {
  const keys: string[] = [];
  const add = (_family: string, key: Uint8Array): void => void keys.push(Buffer.from(key).toString());
  applyWriteBatch(unit, { put: add, delete: add, clear: add, patch: () => assert.fail('no patch was expected') });
  return keys.join(',');
}

const FAILURE: CarriedError = { kind: 'unavailable', code: 'state-unwritable', message: 'the disk is gone' };

interface Scripted {
  readonly queue: CommitQueue;
  readonly port: ScriptedPort;
  readonly failures: ServerError[];
}

async function scripted(port: ScriptedPort = new ScriptedPort()): Promise<Scripted> {
  const failures: ServerError[] = [];
  const queue = new CommitQueue(port, { onFailure: (error) => void failures.push(error) });
  const opened = queue.open();
  port.receiver?.receive({ kind: 'opened', last: 41 });
  await opened;
  return { queue, port, failures };
}

function large(key: string): Uint8Array {
  const set = new WriteBatch();
  set.put('queue', Buffer.from(key), new Uint8Array(100_000));
  return set.take();
}

function change(queue: Storage, key: string): void {
  queue.unit.put('queue', Buffer.from(key), ALL);
  queue.markDirty();
}

describe('a commit queue', { timeout: 60_000 }, () => {
  test('goes on after the newest unit that there is', async () => {
    const { queue } = await scripted();
    assert.deepEqual([queue.durable, queue.current, queue.newest], [41, 42, 41]);
  });

  test('publishes once a turn, and what was asked in it comes after its unit', async () => {
    const { queue, port } = await scripted();
    change(queue, 'a');
    void queue.range('queue', ALL);
    void queue.figures();
    change(queue, 'b');
    assert.deepEqual(port.arrived, []);
    await nextTurn();
    assert.deepEqual(port.arrived, ['copied a,b', 'range', 'figures', 'published']);
    void queue.range('queue', ALL);
    assert.deepEqual(port.arrived.slice(4), ['range', 'published'], 'nothing has changed: at once');
  });

  test('tells who waits for a unit when that one is durable, and not with the one before', async () => {
    const { queue, port } = await scripted();
    const told: number[] = [];
    for (const unit of [42, 43, 44]) {
      change(queue, String(unit));
      queue.whenDurable(unit, () => told.push(unit));
      await nextTurn();
    }
    port.receiver?.durable(42);
    assert.deepEqual(told, [42]);
    port.receiver?.durable(44);
    assert.deepEqual(told, [42, 43, 44]);
  });

  test('keeps its order while the port has no room, whatever could be copied', async () => {
    const { queue, port } = await scripted();
    for (const key of ['a', 'b', 'c', 'd']) {
      port.room = key === 'a' ? 1 : key === 'd' ? 9 : 0;
      change(queue, key);
      if (key === 'b') void queue.range('queue', ALL);
      await nextTurn();
    }
    const arrived = (): readonly string[] => port.arrived.filter((what) => what !== 'published');
    assert.deepEqual(arrived(), ['copied a'], 'there is room for d, and not before those that wait');
    port.room = 2;
    port.receiver?.durable(42);
    assert.deepEqual(arrived(), ['copied a', 'unit b', 'range']);
    port.room = 9;
    port.receiver?.receive({ kind: 'answer', call: 1, answer: [] });
    assert.deepEqual(arrived().slice(3), ['unit c', 'unit d'], 'an answer makes room as well');
    assert.equal(port.arrived.at(-1), 'published');
  });

  for (const [port, what] of [
    [new PiecesPort(), 'pieces a|L|b|M'],
    [new ScriptedPort(), 'unit a,L,b,M'],
  ] as const) {
    test(`hands a large unit over as ${what}, and in its order when there was no room`, async () => {
      const { queue } = await scripted(port);
      for (const key of ['x', 'a', 'y']) {
        port.room = key === 'x' ? 1 : 0;
        change(queue, key);
        if (key === 'a') {
          queue.unit.append(large('L'));
          change(queue, 'b');
          queue.unit.append(large('M'));
        }
        await nextTurn();
      }
      const arrived = (): readonly string[] => port.arrived.filter((each) => each !== 'published');
      assert.deepEqual(arrived(), ['copied x']);
      port.room = 1;
      port.receiver?.durable(42);
      assert.deepEqual(arrived(), ['copied x', what]);
      port.room = 1;
      port.receiver?.durable(43);
      assert.deepEqual(arrived(), ['copied x', what, 'unit y']);
    });
  }

  test('that cannot be opened says why', async () => {
    const port = new ScriptedPort();
    const queue = new CommitQueue(port, { onFailure: () => assert.fail('it never was open') });
    const opened = queue.open();
    port.receiver?.receive({ kind: 'failed', error: FAILURE });
    await assert.rejects(opened, { code: 'state-unwritable' });
    await queue.close();
    assert.ok(port.isEnded);
  });

  test('whose commit fails tells nobody that anything is durable, and answers nothing', async () => {
    const { queue, port, failures } = await scripted();
    change(queue, 'a');
    queue.whenDurable(queue.current, () => assert.fail('it is not durable'));
    await nextTurn();
    const asked = queue.range('queue', ALL);
    port.receiver?.receive({ kind: 'failed', error: FAILURE });
    port.receiver?.receive({ kind: 'failed', error: FAILURE });
    await assert.rejects(asked, { code: 'state-unwritable' });
    assert.deepEqual(
      failures.map(({ code }) => code),
      ['state-unwritable'],
      'told once',
    );
    await assert.rejects(queue.figures(), { code: 'storage-failed' });
  });

  test('is closed with a last unit, of what nobody was in a hurry about', async () => {
    const { queue, port } = await scripted();
    queue.onSeal((unit) => unit.put('queue', Buffer.from('counted'), ALL));
    const closed = queue.close();
    assert.deepEqual(port.arrived, ['copied counted', 'published', 'close', 'published']);
    assert.equal(port.isEnded, false);
    port.receiver?.receive({ kind: 'answer', call: 1, answer: undefined });
    await closed;
    assert.ok(port.isEnded);
    await queue.close();
  });

  test('that fails while it is closed says so, instead of waiting for ever', async () => {
    const { queue, port, failures } = await scripted();
    const closed = queue.close();
    port.receiver?.receive({ kind: 'failed', error: FAILURE });
    await assert.rejects(closed, { code: 'state-unwritable' });
    assert.deepEqual(failures, [], 'whoever closes is told');
    assert.ok(port.isEnded);
  });
});
