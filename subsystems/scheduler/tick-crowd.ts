/**
 * Notices when more canisters have heartbeats and timers than may be awake: then most of the time goes into waking, and
 * theirs come late. A warning says so once, with what would mend it.
 *
 * Main thread; reads the clock.
 */
import type { Clock, Logger } from '../../kernel/index.ts';
import type { LivePlaces } from './live-places.ts';
import type { ScheduledCanister } from './scheduled-canister.ts';

/** The time in which heartbeats and timers count. A crowd whose ticks come more seldom is hardly noticed. */
const WINDOW_MS = 10_000;

export class TickCrowd {
  readonly #places: LivePlaces;
  readonly #clock: Clock;
  readonly #log: Pick<Logger, 'warn'> | undefined;
  /** Canisters whose heartbeats or timers came in this window. */
  readonly #seen = new Set<ScheduledCanister>();
  #sinceMs: number | undefined;
  #isOver: boolean;

  constructor(places: LivePlaces, clock: Clock, log: Pick<Logger, 'warn'> | undefined) {
    this.#places = places;
    this.#clock = clock;
    this.#log = log;
    this.#isOver = places.cap === 0 && places.bytesMax === 0;
  }

  /** A heartbeat or timer of the canister has come. */
  saw(canister: ScheduledCanister): void {
    if (this.#isOver) return;
    const nowMs = this.#clock.nowMs();
    this.#sinceMs ??= nowMs;
    if (nowMs - this.#sinceMs >= WINDOW_MS) {
      this.#sinceMs = nowMs;
      this.#judge();
      this.#seen.clear();
    }
    if (!this.#isOver) this.#seen.add(canister);
  }

  #judge(): void {
    const { cap, bytesMax } = this.#places;
    const seen = [...this.#seen].filter(({ state }) => state.kind !== 'deleted');
    const sizes = seen.map((canister) => this.#places.bytesOf(canister));
    const bytes = sizes.reduce((sum, size) => sum + size, 0);
    const oversized = sizes.filter((size) => this.#places.isOversized(size));
    const fitting = bytes - oversized.reduce((sum, size) => sum + size, 0);
    const flags: string[] = [];
    if (cap > 0 && seen.length > cap) flags.push(`--live-cap ${cap}: raise --live-cap to ${seen.length} at least`);
    if (bytesMax > 0 && (fitting > bytesMax || oversized.length > 1))
      flags.push(`--live-bytes ${bytesMax}: raise --live-bytes to ${bytes} at least`);
    if (flags.length === 0) return;
    this.#isOver = true;
    this.#log?.warn(
      `${seen.length} actors have had heartbeats or timers within ${WINDOW_MS / 1000} s, which is more than may be live at once by ` +
        `${flags.join(', and ')}, or let heartbeats (--heartbeat-ms) and timers come more seldom. ` +
        'Until then actors are put to sleep and woken for them all the time, which takes from all, and they come late',
    );
  }
}
