/**
 * Messages by a port whose place in the order is a record of the ring beside it, and a line for whatever the ring has
 * no room for. One ring so decides the order of everything, and a thread that must not block never waits for room.
 */
import { type MessagePort, receiveMessageOnPort } from 'node:worker_threads';
import type { RingProducer } from './message-ring.ts';

/** Posts a message, with a record of `type` where it belongs. Returns false if the ring is full now. */
export function postInOrder(
  ring: RingProducer,
  port: MessagePort,
  type: number,
  message: unknown,
  given: ArrayBuffer[] = [],
): boolean {
  if (ring.reserve(type, 0) < 0) return false;
  port.postMessage(message, given);
  return true;
}

/** Returns the message of the port that a record announces. */
export function receiveDue(port: MessagePort): unknown {
  const received = receiveMessageOnPort(port);
  if (received === undefined) throw new Error('a record announces a message, and the port has none');
  return received.message;
}

/** Sends in order to a receiver that has no room for a while: the first item that is refused waits with all behind. */
export class SpillLine<T> {
  readonly #write: (item: T) => boolean;
  #spilled: T[] = [];

  /** `write` returns false if there is no room now; then it has taken nothing. */
  constructor(write: (item: T) => boolean) {
    this.#write = write;
  }

  /** Nothing waits: an item may also go to the receiver directly. */
  get isEmpty(): boolean {
    return this.#spilled.length === 0;
  }

  send(item: T): void {
    if (this.#spilled.length > 0 || !this.#write(item)) this.#spilled.push(item);
  }

  /** Sends what waits, as far as there is room. Returns false if nothing has waited. */
  refill(): boolean {
    if (this.#spilled.length === 0) return false;
    const spilled = this.#spilled;
    this.#spilled = [];
    for (const item of spilled) this.send(item);
    return true;
  }
}
