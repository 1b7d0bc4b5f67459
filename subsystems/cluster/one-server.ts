import { ServerError } from '../../kernel/index.ts';
import type { OpenableCluster, Place, ServiceStore, ShardOwner } from './index.ts';

const HERE: Place = { kind: 'here' };

/** A server that is a service by itself: everything is here. */
export class OneServer implements OpenableCluster {
  readonly isShared = false;
  readonly shards = 1;
  readonly shard = 0;
  readonly node = '';
  readonly isLeaving = false;
  readonly numbers = [];
  readonly owners: readonly (ShardOwner | undefined)[] = [];
  readonly waiting = [];
  readonly group = '';
  readonly processes = undefined;
  readonly moving = [];
  readonly #store: Pick<ServiceStore, 'shards'> | undefined;

  /** `store`: the storage, which has to say that the service has no other server. */
  constructor(store?: Pick<ServiceStore, 'shards'>) {
    this.#store = store;
  }

  open(): void {
    // There is no group.
  }

  ready(): void {
    // No process is started.
  }

  reread(): void {
    // There is no other process.
  }

  start(): Promise<void> {
    const { shards = 1 } = this.#store ?? {};
    if (shards === 1) return Promise.resolve();
    const text =
      `the service has ${shards} shards, so other servers have actors of it, and this server cannot be reached by ` +
      'them: name an address for that, --cluster-listen HOST:PORT';
    return Promise.reject(new ServerError('unavailable', 'cluster-unlinked', text));
  }

  placeOf(): Place {
    return HERE;
  }

  peerOf(): undefined {
    return undefined;
  }

  nextPlace(): Place {
    return HERE;
  }

  forget(): Promise<void> {
    return Promise.resolve();
  }

  leave(): void {
    const text = 'this server is a service by itself, and nobody would go on: stop it with SIGTERM';
    throw new ServerError('invalid', 'cluster-none', text);
  }

  enter(): undefined {
    return undefined;
  }

  move(): Promise<never> {
    const text = 'this server is a service by itself: there is no other shard';
    return Promise.reject(new ServerError('invalid', 'cluster-none', text));
  }

  serve(): void {
    // Nobody else connects.
  }

  drain(): Promise<void> {
    return Promise.resolve();
  }

  close(): void {
    // Nothing is kept.
  }
}
