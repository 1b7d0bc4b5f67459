/**
 * Measures how long one who waits for a namespace has heard nothing of its owner. Only time counts in which the owner
 * could have been heard: the database answered, look after look, and took writes. Where the database was away the clock
 * begins anew, so that an owner that lives has the whole lease to be heard, however much sooner this process is
 * connected again.
 */
import type { Clock, Logger } from '../api/plugin.ts';

/** Facts that are known of an owner. */
export interface Seen {
  readonly owner: string | null;
  readonly holder: string;
  readonly leaseMs: number;
  readonly beat: string;
}

/** `quiet`: for so long that the database has to show that it takes writes: without that the owner cannot be heard. */
type Silence = 'free' | 'quiet' | 'alive';

export interface WatchOptions {
  /** Name of the owned thing in the log. */
  readonly title: string;
  readonly leaseMs: number;
  readonly clock: Pick<Clock, 'nowMs'>;
  readonly log: Pick<Logger, 'info'>;
}

/**
 * The part of a lease within which an owner that lives is heard. The next look comes within that time, too, or
 * something stood still.
 */
const QUIET = 1 / 2;
/**
 * The part of a lease for which the database takes writes before the namespace is taken: one look less than the rest of
 * the lease, because all of the rest would wait for another look.
 */
const WRITABLE = 2 / 5;

export class Watch {
  readonly #options: WatchOptions;
  #seen: Seen | undefined;
  #sinceMs = 0;
  #lookedMs = Number.NEGATIVE_INFINITY;
  #writableMs = Number.POSITIVE_INFINITY;
  #takesWrites = true;

  constructor(options: WatchOptions) {
    this.#options = options;
  }

  /** The longer one of the owner's and ours. */
  get leaseMs(): number {
    return Math.max(this.#options.leaseMs, this.#seen?.leaseMs ?? 0);
  }

  /** False if nobody has been seen to write since the database was away or refused something. */
  get takesWrites(): boolean {
    return this.#takesWrites;
  }

  /** True if the owner, as of the newest look, was silent for its lease: it answers nothing that was read. */
  get isSilent(): boolean {
    return this.silentMs >= this.leaseMs;
  }

  /** Milliseconds from the owner's last sign of life to the newest look. */
  get silentMs(): number {
    return Math.max(0, this.#lookedMs - this.#sinceMs);
  }

  /** The database was away, or refuses something: nobody could be heard. */
  beginAnew(): void {
    this.#takesWrites = false;
    this.#lookedMs = Number.NEGATIVE_INFINITY;
  }

  /** Takes the findings of a look that was answered just now, and returns how silent the owner is. */
  saw(seen: Seen): Silence {
    const { clock, log, title } = this.#options;
    if (seen.owner === null) return 'free';
    if (this.#seen?.owner !== seen.owner) log.info(`${title} is owned by ${seen.holder} (lease ${seen.leaseMs} ms)`);
    const nowMs = clock.nowMs();
    const isHeard = this.#seen?.beat !== seen.beat;
    if (isHeard) this.#takesWrites = true;
    this.#seen = seen;
    const stoodStill = nowMs - this.#lookedMs > this.leaseMs * QUIET;
    this.#lookedMs = nowMs;
    if (isHeard || stoodStill) {
      this.#sinceMs = nowMs;
      this.#writableMs = Number.POSITIVE_INFINITY;
    }
    const silentMs = nowMs - this.#sinceMs;
    if (silentMs >= this.leaseMs && nowMs - this.#writableMs >= this.leaseMs * WRITABLE) return 'free';
    return silentMs >= this.leaseMs * QUIET ? 'quiet' : 'alive';
  }

  /** The database has taken a write while the owner was quiet. */
  isWritable(): void {
    this.#takesWrites = true;
    this.#writableMs = Math.min(this.#writableMs, this.#options.clock.nowMs());
  }
}
