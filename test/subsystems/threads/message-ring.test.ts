import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { createRing, RingConsumer, RingProducer } from '../../../subsystems/threads/index.ts';

/** A small generator, so that a failing run can be repeated. */
function seeded(seed: number): (below: number) => number {
  let state = seed >>> 0;
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

test('records come out in order and whole, whatever their sizes, over many turns of the ring', () => {
  const shared = createRing(4096);
  const producer = new RingProducer(shared);
  const consumer = new RingConsumer(shared);
  const random = seeded(7);
  const expected: { readonly type: number; readonly bytes: Uint8Array }[] = [];
  let received = 0;
  const take = (type: number, at: number, length: number): void => {
    const want = expected[received++];
    assert.ok(want);
    assert.equal(at % 8, 0, 'payloads are 8-aligned');
    assert.equal(type, want.type);
    assert.deepEqual(consumer.bytes.slice(at, at + length), want.bytes);
  };
  for (let round = 0; round < 20_000; round++) {
    const bytes = Uint8Array.from({ length: random(300) }, () => random(256));
    const at = producer.reserve(round, bytes.length);
    if (at < 0) {
      producer.publish();
      assert.ok(consumer.drain(take) > 0, 'a full ring has something to take');
      round--;
      continue;
    }
    producer.bytes.set(bytes, at);
    expected.push({ type: round, bytes });
  }
  producer.publish();
  consumer.drain(take);
  assert.equal(received, 20_000);
});

test('what is not published is not seen', () => {
  const shared = createRing(1024);
  const producer = new RingProducer(shared);
  const consumer = new RingConsumer(shared);
  producer.reserve(1, 8);
  assert.equal(
    consumer.drain(() => assert.fail('nothing is published')),
    0,
  );
  producer.publish();
  assert.equal(
    consumer.drain(() => undefined),
    1,
  );
});

test('a full ring refuses, and takes records again once there is room', () => {
  const shared = createRing(1024);
  const producer = new RingProducer(shared);
  const consumer = new RingConsumer(shared);
  let fitted = 0;
  while (producer.reserve(1, 56) >= 0) fitted++;
  assert.equal(fitted, 16, '1024 bytes hold 16 records of 56 + 8 bytes');
  producer.publish();
  consumer.drain(() => undefined);
  assert.ok(producer.reserve(1, 56) >= 0);
});

test('a consumer for which something comes at every wake leaves the event loop its turns', async () => {
  const ring = createRing(1024);
  const producer = new RingProducer(ring);
  const consumer = new RingConsumer(ring);
  let wakes = 0;
  const send = (): void => {
    producer.reserve(1, 8);
    producer.publish();
  };
  consumer.listen(() => {
    consumer.drain(() => undefined);
    if (++wakes < 1000) send();
  });
  send();
  await new Promise((resolve) => setTimeout(resolve, 1));
  await new Promise(setImmediate);
  assert.ok(wakes < 1000, `${wakes} wakes before anything else had its turn`);
  for (let turn = 0; wakes < 1000 && turn < 5000; turn++) await new Promise(setImmediate);
  assert.equal(wakes, 1000, 'none was lost');
  consumer.close();
});

test('a consumer that listens and looks for itself meanwhile is not woken for what it has found, and for all else', async (t) => {
  const shared = createRing(4096);
  const producer = new RingProducer(shared);
  const consumer = new RingConsumer(shared);
  const alive = setInterval(() => undefined, 1000);
  t.after(() => {
    clearInterval(alive);
    consumer.close();
  });
  let wakes = 0;
  let records = 0;
  const drain = (): void => void (records += consumer.drain(() => undefined));
  consumer.listen(() => {
    wakes++;
    drain();
  });
  const send = (): void => {
    producer.reserve(1, 8);
    producer.publish();
  };
  /** Once the records are there, and a moment later, in which nothing else comes. */
  const settled = async (count: number): Promise<readonly number[]> => {
    for (let k = 0; k < 1_000 && records < count; k++) await sleep(1);
    await sleep(10);
    return [wakes, records];
  };
  send();
  assert.deepEqual(await settled(1), [1, 1]);
  // Found while it looks.
  assert.equal(consumer.spinAwake(1), false);
  send();
  assert.equal(consumer.spinAwake(1), true);
  drain();
  consumer.doze();
  assert.deepEqual(await settled(2), [1, 2]);
  // Between the last look and the sleep.
  assert.equal(consumer.spinAwake(1), false);
  send();
  consumer.doze();
  assert.deepEqual(await settled(3), [2, 3]);
  // After it, and after it once more.
  for (const expected of [3, 4]) {
    send();
    assert.deepEqual(await settled(expected + 1), [expected, expected + 1]);
    consumer.spinAwake(1);
    consumer.doze();
  }
});

test('a producer that is held up after it has seen the consumer asleep takes no later wake-up away', async (t) => {
  const shared = createRing(4096);
  const producer = new RingProducer(shared);
  const consumer = new RingConsumer(shared);
  const words = new Int32Array(shared);
  const ASLEEP = 32;
  const alive = setInterval(() => undefined, 1000);
  const { waitAsync } = Atomics;
  t.after(() => {
    clearInterval(alive);
    consumer.close();
    Object.assign(Atomics, { waitAsync });
  });
  // It goes on just when the consumer, which has taken everything meanwhile, is about to wait.
  let heldUp = 1;
  const waitAsyncLate = (view: Int32Array, index: number, value: number): ReturnType<typeof Atomics.waitAsync> => {
    if (heldUp-- > 0) Atomics.exchange(words, ASLEEP, 0);
    return waitAsync(view, index, value);
  };
  Object.assign(Atomics, { waitAsync: waitAsyncLate });
  let records = 0;
  consumer.listen(() => void (records += consumer.drain(() => undefined)));
  await sleep(10);
  for (let count = 1; count <= 3; count++) {
    producer.reserve(1, 8);
    producer.publish();
    for (let k = 0; k < 1_000 && records < count; k++) await sleep(1);
    assert.equal(records, count);
  }
});

test('two threads exchange 100,000 records without losing one or a wake-up', { timeout: 60_000 }, async () => {
  const there = createRing(1 << 14);
  const back = createRing(1 << 14);
  const worker = new Worker(new URL('../../support/ring-echo-worker.ts', import.meta.url), {
    workerData: { inbox: there, outbox: back, count: 100_000 },
  });
  const exited = once(worker, 'exit');
  const producer = new RingProducer(there);
  const consumer = new RingConsumer(back);
  const random = seeded(11);
  let sent = 0;
  let received = 0;
  const finished = new Promise<void>((resolve) => {
    consumer.listen(() => {
      consumer.drain((_type, at) => {
        assert.equal(consumer.words[at >> 2], received++);
      });
      if (received === 100_000) resolve();
    });
  });
  // The main thread keeps the process alive: waitAsync does not.
  while (sent < 100_000) {
    for (let burst = random(200); burst >= 0 && sent < 100_000; burst--) {
      const at = producer.reserve(1, 8 + random(64));
      if (at < 0) break;
      producer.words[at >> 2] = sent++;
    }
    producer.publish();
    if (random(4) === 0) await sleep(0);
    else await new Promise(setImmediate);
  }
  await Promise.all([finished, exited]);
  consumer.close();
  assert.equal(received, 100_000);
});
