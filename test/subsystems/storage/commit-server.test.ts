import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CommitServer } from '../../../subsystems/storage/commit-server.ts';
import type { StateStore } from '../../../subsystems/storage/state-store.ts';
import { MESSAGE, UNIT } from '../../../subsystems/storage/storage-wire.ts';
import { createRing, RingProducer } from '../../../subsystems/threads/index.ts';
import { MessageChannel, receiveMessageOnPort } from 'node:worker_threads';

test('units that would make one flush long are divided among flushes, in their order', (t) => {
  const { port1, port2 } = new MessageChannel();
  t.after(() => port1.close());
  const inbox = createRing(2 ** 25);
  const outbox = createRing(4096);
  const commits: number[][] = [];
  const store = {
    last: 0,
    commit: (units: readonly Uint8Array[]) => commits.push(units.map(({ length }) => length)),
    commitTook: () => undefined,
    settle: () => false,
  } as unknown as StateStore;
  const server = new CommitServer({ inbox, outbox, port: port2 }, store);
  const ring = new RingProducer(inbox);
  const sizes = [100, 3_000_000, 6_000_000, 200, 7_000_000, 300];
  for (const size of sizes) assert.ok(ring.reserve(UNIT, size) >= 0);
  ring.publish();
  while (server.hasMore) {
    server.take();
    server.round();
  }
  assert.deepEqual(commits, [
    [100, 3_000_000, 6_000_000],
    [200, 7_000_000, 300],
  ]);
});

test('what is asked and committed while a large canister is read does not wait for the end of it', (t) => {
  const { port1, port2 } = new MessageChannel();
  t.after(() => port1.close());
  const inbox = createRing(2 ** 16);
  const outbox = createRing(4096);
  const done: string[] = [];
  const none = { numbers: new Uint32Array(0), chunks: [] };
  const store = {
    last: 0,
    commit: () => done.push('commit'),
    commitTook: () => undefined,
    settle: () => false,
    reader: {
      *readingCanister([slices = 0]: Uint8Array) {
        for (let slice = 1; slice < slices; slice++) yield done.push(`slice ${slice} of ${slices}`);
        done.push(`all ${slices}`);
        const records = { bytes: new Uint8Array(0), ends: new Uint32Array(0) };
        return { memory: { heap: none, stable: none }, records };
      },
    },
  } as unknown as StateStore;
  const server = new CommitServer({ inbox, outbox, port: port2 }, store);
  const ring = new RingProducer(inbox);
  const ask = (call: number, slices: number): void => {
    port1.postMessage({ kind: 'request', call, request: { kind: 'canister', id: Uint8Array.of(slices) } });
    assert.ok(ring.reserve(MESSAGE, 0) >= 0);
    ring.publish();
  };
  const round = (): boolean => {
    server.take();
    return server.round();
  };
  ask(1, 4);
  assert.equal(round(), true, 'there is more of it');
  ask(2, 1);
  assert.ok(ring.reserve(UNIT, 100) >= 0);
  ring.publish();
  while (round());
  assert.deepEqual(done, ['slice 1 of 4', 'commit', 'slice 2 of 4', 'all 1', 'slice 3 of 4', 'all 4']);
  const answered: number[] = [];
  for (let said = receiveMessageOnPort(port1); said !== undefined; said = receiveMessageOnPort(port1)) {
    const message = said.message as { readonly kind: string; readonly call: number };
    if (message.kind === 'answer') answered.push(message.call);
  }
  assert.deepEqual(answered, [2, 1]);
});
