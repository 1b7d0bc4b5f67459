import assert from 'node:assert/strict';
import { MessageChannel } from 'node:worker_threads';
import { test } from 'node:test';
import {
  createRing,
  postInOrder,
  receiveDue,
  RingConsumer,
  RingProducer,
  SpillLine,
} from '../../../subsystems/threads/index.ts';
import { seeded } from '../../support/seeded.ts';

const RECORD = 1;
const POSTED = 2;

test('records and messages arrive in one order, however often the ring is full', (t) => {
  const random = seeded(20);
  const { port1, port2 } = new MessageChannel();
  t.after(() => port1.close());
  const shared = createRing(256);
  const producer = new RingProducer(shared);
  const consumer = new RingConsumer(shared);
  let refused = 0;
  const line = new SpillLine<number>((item) => {
    const isTaken = item % 3 === 0 ? postInOrder(producer, port1, POSTED, item) : written(producer, item);
    if (!isTaken) refused++;
    return isTaken;
  });
  const arrived: number[] = [];
  const take = (type: number, at: number): void => {
    arrived.push(type === POSTED ? Number(receiveDue(port2)) : (consumer.words[at >> 2] ?? -1));
  };
  let sent = 0;
  while (sent < 2_000 || !line.isEmpty || consumer.hasMore) {
    if (sent < 2_000) for (let burst = random.below(40); burst > 0; burst--) line.send(sent++);
    producer.publish();
    let left = random.below(20);
    consumer.drain(take, () => left-- <= 0);
    if (line.refill()) producer.publish();
  }
  const inOrder = Array.from({ length: sent }, (_, at) => at);
  assert.deepEqual(arrived, inOrder);
  assert.ok(refused > 100, `the ring was full ${refused} times`);
});

test('a refill says whether anything has waited', () => {
  let room = 1;
  const taken: string[] = [];
  const line = new SpillLine<string>((item) => room-- > 0 && taken.push(item) > 0);
  line.send('a');
  assert.equal(line.refill(), false);
  line.send('b');
  room = 1;
  line.send('c');
  assert.deepEqual(taken, ['a'], 'nothing overtakes what waits');
  assert.ok(!line.isEmpty);
  assert.equal(line.refill(), true);
  assert.deepEqual(taken, ['a', 'b'], 'as far as there is room');
  room = 1;
  line.refill();
  assert.deepEqual(taken, ['a', 'b', 'c']);
  assert.ok(line.isEmpty);
});

test('a record that announces a message which is not there is a bug, and named', (t) => {
  const { port1, port2 } = new MessageChannel();
  t.after(() => port1.close());
  assert.throws(() => receiveDue(port2), /announces a message, and the port has none/);
});

function written(producer: RingProducer, item: number): boolean {
  const at = producer.reserve(RECORD, 8);
  if (at < 0) return false;
  producer.words[at >> 2] = item;
  return true;
}
