/**
 * Requests that wait for the next owner of their actor's shard: one that is handed over has its next owner within a
 * moment, and one whose server was killed when the lease has run out. Nothing of what waits was executed.
 */
import type { Clock } from '../../../kernel/index.ts';
import type { Cluster, Peer, Place } from '../../cluster/index.ts';

/** Requests that wait at once; for more there is no owner at once. */
const WAITING_MAX = 1_000;
export const OWNER_WAIT_MS = 5_000;

interface OwnerLineNeeds {
  readonly cluster: Pick<Cluster, 'placeOf' | 'forget' | 'peerOf' | 'shard'>;
  readonly clock: Pick<Clock, 'nowMs'>;
  /** Milliseconds that a request waits. */
  readonly waitMs: number;
}

export class OwnerLine {
  readonly #needs: OwnerLineNeeds;
  #waiting = 0;

  constructor(needs: OwnerLineNeeds) {
    this.#needs = needs;
  }

  /** The way to this server itself, as another server has it. */
  get own(): Peer | undefined {
    const { cluster } = this.#needs;
    return cluster.peerOf(cluster.shard);
  }

  /** Forgets the place of an actor, which turned out to be wrong. */
  forget(reference: string): void {
    void this.#needs.cluster.forget(reference);
  }

  /**
   * Resolves with the place of an actor when it has an owner again, another than the one that was `tried`; or with what
   * is known when the time is over, or `isGone` says that nobody waits. Rejects if the store cannot be asked.
   */
  async next(reference: string, isGone: () => boolean, tried?: Peer): Promise<Place> {
    const { cluster, clock, waitMs } = this.#needs;
    const untilMs = clock.nowMs() + (this.#waiting < WAITING_MAX ? waitMs : 0);
    this.#waiting++;
    try {
      for (;;) {
        await cluster.forget(reference);
        const place = await cluster.placeOf(reference);
        const isThere = place.kind === 'here' || (place.kind === 'elsewhere' && place.peer !== tried);
        if (isThere || isGone() || clock.nowMs() >= untilMs) return place;
      }
    } finally {
      this.#waiting--;
    }
  }
}
