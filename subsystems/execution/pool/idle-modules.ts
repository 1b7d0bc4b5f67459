/**
 * Modules that no canister uses any more, so that they can be let go.
 *
 * A module that loses its last canister, or was prepared and not installed yet, is kept for a while, because the next
 * installation is often of the same module. Only a few modules are kept in this way, and the oldest goes first: a user
 * who uploads one module after the other must not fill the memory within the grace period.
 *
 * Main thread; a list with a clock, touches nothing else.
 */
import type { Clock } from '../../../kernel/index.ts';

/** Time for which an unused module is kept. */
const IDLE_GRACE_MS = 30_000;
const IDLE_MODULES_MAX = 32;

export class IdleModules {
  readonly #release: (hash: string) => void;
  readonly #clock: Clock;
  readonly #graceMs: number;
  readonly #uses = new Map<string, number>();
  /** Timers of unused modules, the oldest first. */
  readonly #idle = new Map<string, Disposable>();

  constructor(release: (hash: string) => void, clock: Clock, graceMs: number = IDLE_GRACE_MS) {
    this.#release = release;
    this.#clock = clock;
    this.#graceMs = graceMs;
  }

  /** Starts the grace period of an unused module anew. */
  seen(hash: string): void {
    if (this.#uses.has(hash)) return;
    this.#forgetTimer(hash);
    const grace = this.#clock.after(this.#graceMs, () => this.#expire(hash));
    this.#idle.set(hash, grace);
    const [oldest] = this.#idle.keys();
    if (this.#idle.size > IDLE_MODULES_MAX && oldest !== undefined) this.#expire(oldest);
  }

  take(hash: string): void {
    this.#forgetTimer(hash);
    this.#uses.set(hash, (this.#uses.get(hash) ?? 0) + 1);
  }

  free(hash: string): void {
    const uses = (this.#uses.get(hash) ?? 0) - 1;
    if (uses > 0) {
      this.#uses.set(hash, uses);
    } else {
      this.#uses.delete(hash);
      this.seen(hash);
    }
  }

  close(): void {
    for (const hash of this.#idle.keys()) this.#forgetTimer(hash);
  }

  #expire(hash: string): void {
    this.#forgetTimer(hash);
    this.#release(hash);
  }

  #forgetTimer(hash: string): void {
    this.#idle.get(hash)?.[Symbol.dispose]();
    this.#idle.delete(hash);
  }
}
