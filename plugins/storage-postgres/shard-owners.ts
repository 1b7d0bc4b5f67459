/**
 * The owners of a service's shards, for a process that owns one. They are looked at again and again, because a lease
 * that has run out shows as silence alone; who asks gets what the newest look has found, or a new one.
 */
import type { Clock, Logger } from '../api/plugin.ts';
import type { ShardOwner } from '../api/storage.ts';
import type { Lease } from './lease.ts';
import type { Look, ShardWatches } from './shard-watches.ts';

interface ShardOwnersOptions {
  readonly lease: Lease;
  readonly leaseMs: number;
  readonly clock: Clock;
  readonly log: Pick<Logger, 'info'>;
}

type Owners = readonly (ShardOwner | undefined)[];

/** Looks in one lease; their distance has bounds in milliseconds. */
const LOOKS = 5;
const LOOK_MS_MIN = 100;
const LOOK_MS_MAX = 1_000;
/** Milliseconds for which a look answers whoever asks: many requests at once are one look. */
const FRESH_MS = 50;

export class ShardOwners implements Disposable {
  readonly #options: ShardOwnersOptions;
  readonly #watches: ShardWatches;
  #looks: Disposable | undefined;
  #looking: Promise<Owners> | undefined;
  #owners: Owners = [];
  #lookedMs = Number.NEGATIVE_INFINITY;

  constructor(options: ShardOwnersOptions) {
    this.#options = options;
    this.#watches = options.lease.watches(({ title }) => title);
  }

  /** Begins to look. This process owns a shard. */
  start(): void {
    const { clock, leaseMs } = this.#options;
    const everyMs = Math.min(LOOK_MS_MAX, Math.max(LOOK_MS_MIN, leaseMs / LOOKS));
    this.#looks = clock.every(everyMs, () => void this.#look());
  }

  [Symbol.dispose](): void {
    this.#looks?.[Symbol.dispose]();
  }

  /** Resolves with the owners as of now, or, while the database does not answer, with those of the newest look. */
  async now(): Promise<Owners> {
    const { clock } = this.#options;
    return clock.nowMs() - this.#lookedMs < FRESH_MS ? this.#owners : await this.#look();
  }

  #look(): Promise<Owners> {
    this.#looking ??= this.#lookOnce().finally(() => (this.#looking = undefined));
    return this.#looking;
  }

  async #lookOnce(): Promise<Owners> {
    const { lease, clock } = this.#options;
    try {
      const looks = await lease.ask(async (connection) => {
        const found = await this.#watches.look(connection);
        const owners = found.flatMap(([, , seen]) => seen?.owner ?? []);
        await lease.processes?.look(connection, new Set(owners));
        return found;
      });
      this.#owners = looks.map((look) => this.#ownerIn(look));
      this.#lookedMs = clock.nowMs();
    } catch {
      // Nobody could take a shard over meanwhile. Who writes tells that the database is away.
      this.#watches.beginAnew();
    }
    return this.#owners;
  }

  #ownerIn([{ index }, watch, seen]: Look): ShardOwner | undefined {
    if (seen === undefined || seen.owner === null) return undefined;
    const isOurs = seen.owner === this.#options.lease.owner;
    if (!isOurs) watch.saw(seen);
    if (!isOurs && watch.isSilent) return undefined;
    const { owner, holder, address, epoch = 0 } = seen;
    const group = this.#options.lease.processes?.groupOf(owner) ?? owner;
    const silentMs = isOurs ? 0 : watch.silentMs;
    return { shard: index, node: owner, group, holder, address: address ?? undefined, epoch, silentMs };
  }
}
