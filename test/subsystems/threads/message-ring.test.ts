import assert from 'node:assert/strict';
import { once } from 'node:events';
import { availableParallelism } from 'node:os';
import { test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { createRing, RingConsumer, RingListener, RingProducer } from '../../../subsystems/threads/index.ts';
import { listeningRing } from '../../support/listening-ring.ts';

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

for (const isMoreExpected of [false, true])
  test(`a consumer for which something comes at every wake${isMoreExpected ? ', and that expects it,' : ''} leaves the event loop its turns`, async () => {
    const ring = createRing(1024);
    const producer = new RingProducer(ring);
    const consumer = new RingListener(ring);
    let wakes = 0;
    const send = (): void => {
      producer.reserve(1, 8);
      producer.publish();
    };
    consumer.listen(() => {
      consumer.drain(() => undefined);
      if (++wakes < 1000) send();
      return isMoreExpected;
    });
    send();
    await new Promise((resolve) => setTimeout(resolve, 1));
    await new Promise(setImmediate);
    assert.ok(wakes < 1000, `${wakes} wakes before anything else had its turn`);
    for (let turn = 0; wakes < 1000 && turn < 5000; turn++) await new Promise(setImmediate);
    assert.equal(wakes, 1000, 'none was lost');
    consumer.close();
  });

/** `settled`: once the records are there, and a moment later, in which nothing else comes. */
function listening(t: TestContext) {
  const ring = listeningRing(t);
  const { seen } = ring;
  const settled = async (count: number): Promise<readonly number[]> => {
    for (let k = 0; k < 1_000 && seen.records < count; k++) await sleep(1);
    await sleep(10);
    return [seen.wakes, seen.records];
  };
  return Object.assign(ring, { settled });
}

test('a listener that expects something is awake, takes it in the next turn of the event loop, and then sleeps', async (t) => {
  const { producer, consumer, seen, send, settled } = listening(t);
  assert.equal(producer.isHeard, false);
  for (let round = 1; round <= 50; round++) {
    consumer.expect();
    assert.equal(producer.isHeard, availableParallelism() > 1);
    send();
    await new Promise(setImmediate);
    if (availableParallelism() > 1) assert.equal(seen.records, round, 'within a turn');
    assert.deepEqual(await settled(round), [round, round]);
    assert.equal(producer.isHeard, false);
  }
});

test('a listener that expects what does not come sleeps soon, is woken by it later, and expects less often', async (t) => {
  const { producer, consumer, send, settled } = listening(t);
  let awake = 0;
  for (let round = 1; round <= 50; round++) {
    consumer.expect();
    if (producer.isHeard) awake++;
    // On a busy machine the moment ends late: its last look needs the processor.
    for (let waits = 0; waits < 100 && (waits === 0 || producer.isHeard); waits++) await sleep(2);
    assert.equal(producer.isHeard, false, 'it looks for a moment only');
    send();
    assert.deepEqual(await settled(round), [round, round]);
  }
  assert.ok(awake <= 8, `${awake} of 50 times`);
});

test('what is published just as a listener that looked goes to sleep is told', async (t) => {
  const listener = listening(t);
  const { consumer, seen, send, settled } = listener;
  for (let round = 1; round <= 20; round++) {
    // The thread publishes while the consumer is awake, behind its last look.
    listener.onWake = () => {
      listener.onWake = undefined;
      send();
    };
    consumer.expect();
    send();
    await settled(2 * round);
    assert.equal(seen.records, 2 * round);
  }
});

test('a listener that is closed while it looks calls nobody any more', async (t) => {
  const { consumer, seen, send } = listening(t);
  consumer.expect();
  send();
  consumer.close();
  await sleep(10);
  assert.equal(seen.wakes, 0);
});

test('a ring that nobody listens to expects nothing', () => {
  const shared = createRing(1024);
  new RingListener(shared).expect();
  assert.equal(new RingProducer(shared).isHeard, true, 'who drains it himself is awake');
});

test('a producer that is held up after it has seen the consumer asleep takes no later wake-up away', async (t) => {
  const shared = createRing(4096);
  const producer = new RingProducer(shared);
  const consumer = new RingListener(shared);
  const words = new Int32Array(shared);
  const ASLEEP = 32;
  const alive = setInterval(() => undefined, 1000);
  const { waitAsync } = Atomics;
  t.after(() => {
    clearInterval(alive);
    consumer.close();
    Object.assign(Atomics, { waitAsync });
  });
  // The thread goes on just when the consumer, which has taken everything meanwhile, is about to wait.
  let heldUp = 1;
  const waitAsyncLate = (view: Int32Array, index: number, value: number): ReturnType<typeof Atomics.waitAsync> => {
    if (heldUp-- > 0) Atomics.exchange(words, ASLEEP, 0);
    return waitAsync(view, index, value);
  };
  Object.assign(Atomics, { waitAsync: waitAsyncLate });
  let records = 0;
  consumer.listen(() => {
    records += consumer.drain(() => undefined);
    return false;
  });
  await sleep(10);
  for (let count = 1; count <= 3; count++) {
    producer.reserve(1, 8);
    producer.publish();
    for (let k = 0; k < 1_000 && records < count; k++) await sleep(1);
    assert.equal(records, count);
  }
});

for (const expecting of ['never', 'at times', 'always'] as const)
  test(
    `two threads exchange 100,000 records without losing one or a wake-up; the listener expects more ${expecting}`,
    { timeout: 60_000 },
    async () => {
      const there = createRing(1 << 14);
      const back = createRing(1 << 14);
      const worker = new Worker(new URL('../../support/ring-echo-worker.ts', import.meta.url), {
        workerData: { inbox: there, outbox: back, count: 100_000 },
      });
      const exited = once(worker, 'exit');
      const producer = new RingProducer(there);
      const consumer = new RingListener(back);
      const random = seeded(11);
      const isExpected = (): boolean => expecting === 'always' || (expecting === 'at times' && random(3) === 0);
      let sent = 0;
      let received = 0;
      const finished = new Promise<void>((resolve) => {
        consumer.listen(() => {
          consumer.drain((_type, at) => {
            assert.equal(consumer.words[at >> 2], received++);
          });
          if (received === 100_000) resolve();
          return isExpected();
        });
      });
      // The main thread keeps the process alive: waitAsync does not.
      while (sent < 100_000) {
        for (let burst = random(200); burst >= 0 && sent < 100_000; burst--) {
          const at = producer.reserve(1, 8 + random(64));
          if (at < 0) break;
          producer.words[at >> 2] = sent++;
        }
        // A rouse wakes the consumer for nothing, or for records that are published while it looks.
        if (random(3) === 0) producer.rouse();
        producer.publish();
        if (isExpected()) consumer.expect();
        if (random(4) === 0) await sleep(0);
        else await new Promise(setImmediate);
      }
      await Promise.all([finished, exited]);
      consumer.close();
      assert.equal(received, 100_000);
    },
  );
