/**
 * Ways of calls between this server and the owners of all other shards: each server opens one to every other, for the
 * calls of its own actors, opens it again when it has ended, and takes those of the others.
 *
 * Main thread; a timer, and streams by their shards.
 */
import type { Socket } from 'node:net';
import { type Clock, type Logger, messageOf, ServerError } from '../../../kernel/index.ts';
import type { CallExchange, Conversation } from '../../scheduler/index.ts';
import type { ServiceStore } from '../index.ts';
import type { OwnerTable } from '../owner-table.ts';
import { CallStream, type CallStreamOptions } from './call-stream.ts';
import type { Frame, MoveAsk } from './frames.ts';

const LOOK_MS = 250;
/** Milliseconds between two lines of the log about streams of others that have ended. */
const LOGGED_MS = 10_000;

/** Another server that asks. */
export interface Asking {
  readonly shard: number;
  readonly node: string;
}

interface CallLinksNeeds {
  readonly store: Pick<ServiceStore, 'shards' | 'shard' | 'node'>;
  readonly owners: Pick<OwnerTable, 'owners' | 'peerOf' | 'hurry'>;
  readonly exchange: CallExchange;
  readonly clock: Clock;
  readonly log: Pick<Logger, 'info'>;
  /** Answers what other servers ask about actors that move; undefined: none do. */
  readonly asked?: ((what: MoveAsk, id: Uint8Array, from: Asking) => Promise<string>) | undefined;
}

export class CallLinks {
  readonly #needs: CallLinksNeeds;
  /** Shards that a stream is open to, or being opened: undefined then. */
  readonly #out = new Map<number, CallStream | undefined>();
  readonly #streams = new Set<CallStream>();
  /** Shards whose owners did not let this server in the last time: that is told once. */
  readonly #unreached = new Set<number>();
  #loggedMs = Number.NEGATIVE_INFINITY;
  #numbers = 0;
  #timer: Disposable | undefined;
  #isOver = false;

  constructor(needs: CallLinksNeeds) {
    this.#needs = needs;
  }

  /** To be called when the owners are known. */
  start(): void {
    this.#timer = this.#needs.clock.every(LOOK_MS, () => this.#look());
  }

  /** Takes a connection for calls of another server, which has proven to be that process. */
  taken(socket: Socket, node: string): void {
    if (this.#isOver || !this.#needs.exchange.isOpen) {
      socket.destroy();
      return;
    }
    const { clock, log } = this.#needs;
    const name = socket.remoteAddress ?? 'another server';
    const wake = (): void => stream.wake();
    let shard = 0;
    const stream: CallStream = this.#stream(socket, {
      begun: (frame) => {
        ({ shard } = frame);
        return this.#begun(frame, node, wake);
      },
      asked: async (what, id) => (await this.#needs.asked?.(what, id, { shard, node })) ?? 'it moves no actors',
      ended: (reason) => {
        const nowMs = clock.nowMs();
        if (reason === undefined || nowMs - this.#loggedMs < LOGGED_MS) return;
        this.#loggedMs = nowMs;
        log.info(`a stream of calls from ${name} has ended: ${reason}`);
      },
    });
  }

  /** Ends all streams. What is on them is sent again when there are others. */
  close(): void {
    this.#isOver = true;
    this.#timer?.[Symbol.dispose]();
    for (const stream of this.#streams) stream.end(undefined);
  }

  #look(): void {
    for (const stream of this.#streams) stream.tick();
    const { store, exchange } = this.#needs;
    if (!exchange.isOpen) return;
    for (let shard = 0; shard < store.shards; shard++)
      if (shard !== store.shard && !this.#out.has(shard)) void this.#open(shard);
  }

  async #open(shard: number): Promise<void> {
    const { store, owners, exchange, log } = this.#needs;
    const peer = owners.peerOf(shard);
    const own = owners.owners[store.shard];
    // Calls wait: the next owner is asked for now, and not at the next look.
    if (peer === undefined) void owners.hurry();
    if (peer === undefined || own?.node !== store.node) return;
    this.#out.set(shard, undefined);
    let socket: Socket;
    try {
      socket = await peer.open();
    } catch (error) {
      this.#closed(shard, messageOf(error));
      return;
    }
    if (this.#isOver || owners.peerOf(shard) !== peer) {
      socket.destroy();
      this.#out.delete(shard);
      return;
    }
    const stream = this.#stream(socket, {
      heard: () => {
        if (this.#unreached.delete(shard)) log.info(`calls go to shard ${shard} again`);
      },
      ended: (reason = 'its owner has closed the connection') => this.#closed(shard, reason),
    });
    const way = { epoch: own.epoch, number: ++this.#numbers };
    this.#out.set(shard, stream);
    const conversation = exchange.callTo(shard, () => stream.wake());
    stream.begin({ kind: 'begin', shard: store.shard, way }, conversation);
  }

  /** Asks a shard's owner about an actor that moves. Resolves with why not, or with an empty text. */
  async ask(shard: number, what: MoveAsk, id: Uint8Array): Promise<string> {
    return (await this.#out.get(shard)?.ask(what, id)) ?? 'there is no connection to it now';
  }

  #closed(shard: number, reason: string): void {
    this.#out.delete(shard);
    if (this.#isOver || this.#unreached.has(shard)) return;
    this.#unreached.add(shard);
    this.#needs.log.info(`calls to actors of shard ${shard} wait: ${reason}`);
  }

  #stream(socket: Socket, options: Omit<CallStreamOptions, 'clock'>): CallStream {
    const stream: CallStream = new CallStream(socket, {
      ...options,
      clock: this.#needs.clock,
      ended: (reason) => {
        this.#streams.delete(stream);
        if (!this.#isOver) options.ended(reason);
      },
    });
    this.#streams.add(stream);
    return stream;
  }

  /** Lets the owner of a shard begin, as the store knows it: who has been that may repeat what is long over. */
  async #begun(
    { shard, way }: Frame & { readonly kind: 'begin' },
    node: string,
    wake: () => void,
  ): Promise<Conversation> {
    const { owners, exchange, store } = this.#needs;
    const isOwner = (): boolean => owners.owners[shard]?.node === node && owners.owners[shard].epoch === way.epoch;
    if (shard !== store.shard && !isOwner()) await owners.hurry();
    const conversation =
      shard !== store.shard && isOwner() && !this.#isOver ? exchange.callsFrom(shard, way, wake) : undefined;
    if (conversation === undefined)
      throw new ServerError('unavailable', 'link-refused', `that process does not own shard ${shard}`);
    return conversation;
  }
}
