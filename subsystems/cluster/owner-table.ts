/**
 * Who owns which shard, as the store said last: asked about once a second, and at once when an owner turned out to be
 * another. Each owner has its kept connections, which end with its ownership.
 */
import { type Clock, type Logger, messageOf, sleep } from '../../kernel/index.ts';
import type { ServiceStore, ShardOwner } from './index.ts';
import type { LinkKey } from './link/handshake.ts';
import { Peer } from './link/peer.ts';

const LOOK_MS = 1_000;
/** Milliseconds between two looks that are asked for out of turn. */
const HURRY_MS = 100;

interface OwnerTableNeeds {
  readonly store: Pick<ServiceStore, 'owners' | 'shard' | 'node'>;
  readonly key: LinkKey;
  readonly clock: Clock;
  readonly log: Pick<Logger, 'info' | 'warn'>;
}

export class OwnerTable {
  readonly #needs: OwnerTableNeeds;
  #owners: readonly (ShardOwner | undefined)[] = [];
  readonly #peers = new Map<string, Peer>();
  #looking: Promise<void> | undefined;
  #hurrying: Promise<void> | undefined;
  #lookedMs = Number.NEGATIVE_INFINITY;
  #isFailing = false;
  #timer: Disposable | undefined;

  constructor(needs: OwnerTableNeeds) {
    this.#needs = needs;
  }

  /** Resolves when the owners are known for the first time. */
  async start(): Promise<void> {
    await this.look();
    this.#timer = this.#needs.clock.every(LOOK_MS, () => void this.look());
  }

  /** The owners by shard. */
  get owners(): readonly (ShardOwner | undefined)[] {
    return this.#owners;
  }

  /** Returns the connections to a shard's owner; undefined: there is none that can be reached. */
  peerOf(shard: number): Peer | undefined {
    const owner = this.#owners[shard];
    if (owner?.address === undefined) return undefined;
    let peer = this.#peers.get(owner.node);
    if (peer === undefined) {
      const { key, store } = this.#needs;
      peer = new Peer({ address: owner.address, node: owner.node, own: store.node, key });
      this.#peers.set(owner.node, peer);
    }
    return peer.isLeaving ? undefined : peer;
  }

  /**
   * Asks the store out of turn, all who want that together. Resolves when it has answered, or could not; never rejects.
   */
  hurry(): Promise<void> {
    this.#hurrying ??= this.#lookSoon().finally(() => (this.#hurrying = undefined));
    return this.#hurrying;
  }

  async #lookSoon(): Promise<void> {
    const { clock } = this.#needs;
    await sleep(clock, Math.max(0, this.#lookedMs + HURRY_MS - clock.nowMs()));
    await this.look();
  }

  look(): Promise<void> {
    this.#looking ??= this.#look().finally(() => (this.#looking = undefined));
    return this.#looking;
  }

  async #look(): Promise<void> {
    const { store, log, clock } = this.#needs;
    try {
      this.#lookedMs = clock.nowMs();
      const owners = await store.owners();
      if (this.#isFailing) log.info('who owns which shard is known again');
      this.#isFailing = false;
      this.#owners = owners;
      this.#leavePeers();
    } catch (error) {
      // Owners go on with what they own; whoever lost a shard says so itself.
      if (!this.#isFailing) log.warn(`who owns which shard cannot be asked now: ${messageOf(error)}`);
      this.#isFailing = true;
    }
  }

  /** Cuts connections to servers that own nothing any more: what they were asked has no known outcome. */
  #leavePeers(): void {
    const nodes = new Set(this.#owners.map((owner) => owner?.node));
    for (const [node, peer] of this.#peers) {
      if (nodes.has(node)) continue;
      this.#peers.delete(node);
      peer.close(new Error('that server owns its shard no more'));
    }
  }

  close(): void {
    this.#timer?.[Symbol.dispose]();
    for (const peer of this.#peers.values()) peer.close(new Error('this server stops'));
    this.#peers.clear();
  }
}
