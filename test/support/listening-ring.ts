/** A ring whose consumer listens, and counts the records. */
import type { TestContext } from 'node:test';
import { createRing, RingListener, RingProducer } from '../../subsystems/threads/index.ts';

interface ListeningRing {
  readonly producer: RingProducer;
  readonly consumer: RingListener;
  readonly seen: { wakes: number; records: number };
  /** Publishes one record. */
  readonly send: () => void;
  /** Called at each wake, after the records were taken. */
  onWake: (() => void) | undefined;
}

/** Makes a ring whose consumer listens, and keeps the process alive, until the test ends. */
export function listeningRing(t: TestContext): ListeningRing {
  const shared = createRing(4096);
  const producer = new RingProducer(shared);
  const consumer = new RingListener(shared);
  const alive = setInterval(() => undefined, 1000);
  t.after(() => {
    clearInterval(alive);
    consumer.close();
  });
  const seen = { wakes: 0, records: 0 };
  const send = (): void => {
    producer.reserve(1, 8);
    producer.publish();
  };
  const ring: ListeningRing = { producer, consumer, seen, send, onWake: undefined };
  consumer.listen(() => {
    seen.wakes++;
    seen.records += consumer.drain(() => undefined);
    ring.onWake?.();
    return false;
  });
  return ring;
}
