/**
 * The time that running all logs again would take if the process ended now; and checkpoints in the background, of the
 * canister with the longest log, so that this time stays within the operator's budget (`--replay-budget-secs`).
 * Sleeping canisters do not count: their logs have ended, unless their executor died. Main thread.
 */
import { type Clock, sleep } from '../../kernel/index.ts';
import type { PieceWritten } from '../execution/index.ts';

/** About half of what an executor does: other canisters' logs, and reading the checkpoints, take their time, too. */
const INSTRUCTIONS_PER_SECOND = 500_000_000;
/** Part of the budget from which on checkpoints are written: messages go on while that takes its time. */
const BEGIN_AT = 0.5;
/**
 * Between two pieces of a checkpoint messages have the executor and the disk to themselves for so many times as long as
 * the piece took: most of them never meet one. Less, the nearer the budget is; none when it is used up.
 */
const PAUSE_FACTOR = 3;
const PAUSE_MS_MAX = 100;

interface ReplayBudgetOptions<C> {
  readonly clock: Clock;
  /** Infinity: logs are as long as they are. */
  readonly seconds: number;
  /** Brings what is stored of a canister up to date; its log begins anew then. */
  readonly checkpoint: (canister: C, pause: PieceWritten) => Promise<void>;
  readonly report: (canister: C, error: unknown) => void;
}

/** `C`: how the host names a canister. */
export class ReplayBudget<C> {
  readonly #options: ReplayBudgetOptions<C>;
  readonly #instructionsMax: number;
  readonly #logged = new Map<C, number>();
  #instructions = 0;
  #isAtWork = false;

  constructor(options: ReplayBudgetOptions<C>) {
    this.#options = options;
    this.#instructionsMax = options.seconds * INSTRUCTIONS_PER_SECOND * BEGIN_AT;
  }

  /** About how long running all logs again would take. */
  get seconds(): number {
    return this.#instructions / INSTRUCTIONS_PER_SECOND;
  }

  /** A canister's log has become so long; 0: it has none. */
  logged(canister: C, instructions: number): void {
    const before = this.#logged.get(canister) ?? 0;
    if (before === instructions) return;
    this.#instructions += instructions - before;
    if (instructions === 0) this.#logged.delete(canister);
    else this.#logged.set(canister, instructions);
    if (this.#instructions > this.#instructionsMax && !this.#isAtWork) void this.#shorten();
  }

  async #shorten(): Promise<void> {
    this.#isAtWork = true;
    try {
      while (this.#instructions > this.#instructionsMax) {
        const [canister] = this.#longest();
        if (canister === undefined) break;
        try {
          await this.#options.checkpoint(canister, (pieceMs) => this.#pause(pieceMs));
        } catch (error) {
          // The canister's next message tries again.
          this.#options.report(canister, error);
        }
        this.logged(canister, 0);
      }
    } finally {
      // Whatever went wrong here: somebody has to write checkpoints again.
      this.#isAtWork = false;
    }
  }

  async #pause(pieceMs: number): Promise<void> {
    const used = this.seconds / this.#options.seconds;
    const ease = Math.min(1, (1 - used) / (1 - BEGIN_AT));
    const pauseMs = Math.min(pieceMs * PAUSE_FACTOR * ease, PAUSE_MS_MAX);
    if (pauseMs > 0) await sleep(this.#options.clock, pauseMs);
  }

  #longest(): [C | undefined, number] {
    let longest: [C | undefined, number] = [undefined, 0];
    for (const [canister, instructions] of this.#logged) {
      if (instructions > longest[1]) longest = [canister, instructions];
    }
    return longest;
  }
}
