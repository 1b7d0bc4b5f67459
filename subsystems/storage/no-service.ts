import { randomUUID } from 'node:crypto';
import { ServerError } from '../../kernel/index.ts';
import { MovedActors, type ServiceStore, type ShardOwner } from '../cluster/index.ts';

/** A server that is a service by itself: what keeps its state knows of no other. */
export class NoService implements ServiceStore {
  readonly shards = 1;
  readonly shard = 0;
  readonly node: string = randomUUID();
  readonly moved = new MovedActors();

  readonly waiting = [];

  join(): void {
    // There is no other process.
  }

  dismiss(): Promise<void> {
    return Promise.resolve();
  }

  announce(): Promise<void> {
    return Promise.resolve();
  }

  owners(): Promise<readonly (ShardOwner | undefined)[]> {
    return Promise.resolve([undefined]);
  }

  takeName(_name: string, id: Uint8Array): Promise<Uint8Array> {
    return Promise.resolve(id);
  }

  dropName(): Promise<void> {
    return Promise.resolve();
  }

  findName(): Promise<undefined> {
    return Promise.resolve(undefined);
  }

  namesOf(): Promise<ReadonlyMap<string, Uint8Array>> {
    return Promise.resolve(new Map());
  }

  reserveNames(): Promise<ReadonlyMap<string, Uint8Array>> {
    return Promise.resolve(new Map());
  }

  newMoves(): Promise<readonly []> {
    return Promise.resolve([]);
  }

  settleTables(): Promise<void> {
    return Promise.resolve();
  }

  move(): Promise<never> {
    return Promise.reject(new ServerError('invalid', 'cluster-none', 'there is no other server'));
  }

  secret(_name: string, fresh: Uint8Array): Promise<Uint8Array> {
    return Promise.resolve(fresh);
  }
}
