import assert from 'node:assert/strict';
import { Host } from '../e2e/semantics/host.ts';
import { startServer, type TestOwner } from './server.ts';

/** Longer than the slowest machine stands still: with another lease that runs out, the standby takes another shard. */
const LEASE_MS = 3000;

interface ShardedServiceOptions {
  /** Address of the database. */
  readonly url: string;
  readonly manifestFile: string;
  readonly shards: number;
  /** More flags. */
  readonly args?: readonly string[];
}

/** Servers of one service with a shard each, and a standby. */
export class ShardedService {
  readonly #t: TestOwner;
  readonly #options: ShardedServiceOptions;
  /** Servers by their shards. */
  owners: Host[] = [];
  #standby: Host | undefined;

  constructor(t: TestOwner, options: ShardedServiceOptions) {
    this.#t = t;
    this.#options = options;
  }

  async start(): Promise<void> {
    const { shards } = this.#options;
    const hosts = await Promise.all(Array.from({ length: shards }, () => this.#start('ready')));
    this.owners = hosts.toSorted((one, other) => shardOf(one) - shardOf(other));
    this.#standby = await this.#start('listening');
  }

  async #start(until: 'ready' | 'listening'): Promise<Host> {
    const { url, shards, manifestFile, args = [] } = this.#options;
    const given = [`storage.url=${url}`, `storage.shards=${shards}`, `storage.lease-ms=${LEASE_MS}`];
    const flags = [
      '--plugin',
      'storage=svc/storage-postgres',
      ...given.flatMap((each) => ['--plugin-option', each]),
      '--cluster-listen',
      '127.0.0.1:0',
      '--cluster-processes',
      '1',
      ...args,
    ];
    const env = { SVC_CLUSTER_KEY: 'a key of thirty-two characters or more' };
    return new Host(await startServer(this.#t, { manifestFile, args: flags, env, until }));
  }

  /** Kills the owner of a shard; resolves when the standby has taken over and there is another one. */
  async kill(shard: number): Promise<void> {
    const [owner, standby] = [this.owners[shard], this.#standby];
    assert.ok(owner !== undefined && standby !== undefined);
    await owner.server.kill();
    await standby.ready();
    assert.equal(shardOf(standby), shard);
    this.owners[shard] = standby;
    this.#standby = await this.#start('listening');
  }
}

function shardOf({ server }: Host): number {
  const [, shard] = /this server owns shard (\d+) of/.exec(server.output.stderr) ?? [];
  return Number(shard ?? assert.fail(server.output.stderr));
}
