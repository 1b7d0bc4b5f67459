import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CommitServer } from '../../../subsystems/storage/commit-server.ts';
import type { StateStore } from '../../../subsystems/storage/state-store.ts';
import { UNIT } from '../../../subsystems/storage/storage-wire.ts';
import { createRing, RingProducer } from '../../../subsystems/threads/index.ts';
import { MessageChannel } from 'node:worker_threads';

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
