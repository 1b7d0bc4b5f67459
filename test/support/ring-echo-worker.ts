/** Sends the first word of every record back, sleeping whenever the ring is empty. */
import { workerData } from 'node:worker_threads';
import { RingConsumer, RingProducer } from '../../subsystems/threads/index.ts';

const { inbox, outbox, count } = workerData as {
  readonly inbox: SharedArrayBuffer;
  readonly outbox: SharedArrayBuffer;
  readonly count: number;
};
const consumer = new RingConsumer(inbox);
const producer = new RingProducer(outbox);
let echoed = 0;
while (echoed < count) {
  consumer.drain((_type, at) => {
    let to = producer.reserve(2, 8);
    while (to < 0) {
      producer.waitForRoom();
      to = producer.reserve(2, 8);
    }
    producer.words[to >> 2] = consumer.words[at >> 2] ?? -1;
    echoed++;
  });
  producer.publish();
  if (echoed < count) consumer.wait();
}
