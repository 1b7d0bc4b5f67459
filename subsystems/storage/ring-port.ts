/**
 * A port of rings: small units are copied into the ring, larger ones and requests are posted, with a mark in the ring
 * where they belong. One ring so decides the order of everything.
 */
import { MessageChannel, type MessagePort } from 'node:worker_threads';
import { createRing, postInOrder, RingListener, RingProducer } from '../threads/index.ts';
import type { StoragePort, StorageReceiver } from './commit-queue.ts';
import {
  type ArchiveMessage,
  DURABLE,
  INLINE_BYTES_MAX,
  MESSAGE,
  RING_BYTES,
  type StorageEnd,
  type ToStorage,
  UNIT,
  type UnitPieces,
} from './storage-wire.ts';

const OUTBOX_BYTES = 64 * 1024;

/** Both ends of one way: what the queue's port is made of, and what the other side gets. */
export function createStorageEnds(ringBytes: number = RING_BYTES): {
  readonly near: StorageEnd;
  readonly far: StorageEnd;
} {
  const { port1, port2 } = new MessageChannel();
  const rings = { inbox: createRing(ringBytes), outbox: createRing(OUTBOX_BYTES) };
  return { near: { ...rings, port: port1 }, far: { ...rings, port: port2 } };
}

export class RingPort implements StoragePort {
  protected readonly port: MessagePort;
  protected readonly inbox: RingProducer;
  protected readonly outbox: RingListener;
  protected receiver: StorageReceiver | undefined;
  #last = 0;

  constructor({ inbox, outbox, port }: StorageEnd) {
    this.inbox = new RingProducer(inbox);
    this.outbox = new RingListener(outbox);
    this.port = port;
  }

  open(receiver: StorageReceiver): void {
    this.receiver = receiver;
  }

  copy(unit: Uint8Array): boolean {
    const ring = this.inbox;
    if (unit.length > INLINE_BYTES_MAX) return false;
    const at = ring.reserve(UNIT, unit.length);
    if (at < 0) return false;
    ring.bytes.set(unit, at);
    return true;
  }

  send(message: ToStorage): boolean {
    return this.#post(message, message.kind === 'unit' ? [message.unit] : []);
  }

  sendPieces(pieces: readonly Uint8Array[]): boolean {
    return this.#post({ kind: 'pieces', pieces }, pieces);
  }

  sendArchive(message: ArchiveMessage): boolean {
    return this.#post(message, []);
  }

  #post(message: ToStorage | UnitPieces | ArchiveMessage, given: readonly Uint8Array[]): boolean {
    const buffers = given.map(({ buffer }) => buffer as ArrayBuffer);
    return postInOrder(this.inbox, this.port, MESSAGE, message, buffers);
  }

  publish(): void {
    this.inbox.publish();
  }

  /** Units have become durable that the receiver has not been told of. */
  get hasDurable(): boolean {
    return this.outbox.hasMore;
  }

  /** Tells the receiver which units are durable. */
  tellDurable(): void {
    if (this.outbox.drain(this.#takeDurable) > 0) this.receiver?.durable(this.#last);
  }

  readonly #takeDurable = (type: number, at: number): void => {
    if (type === DURABLE) this.#last = Number(this.outbox.longs[at >> 3] ?? 0n);
  };

  end(): Promise<void> {
    this.outbox.close();
    this.port.close();
    return Promise.resolve();
  }
}
