import type { Clock } from '../../kernel/index.ts';
import type { OutputLine } from '../ic/index.ts';
import { CanisterLog } from './canister-log.ts';
import { ASLEEP_BYTES_MAX, DebugBuffer } from './debug-buffer.ts';
import type { DebugLine, OutputFollowing, OutputReader } from './index.ts';
import { OutputFeed } from './output-feed.ts';
import type { BudgetMember, SharedBudget } from './shared-budget.ts';

/**
 * What the output of all canisters may take together: a buffer of 1 MiB and a log of 64 KiB for each of 10,000 would be
 * 10 GB. Beyond it the oldest lines of canisters that were quiet go first.
 */
export const OUTPUT_BYTES_MAX = 256 * 1024 * 1024;

/** What one canister has printed. Made when it first prints, or is followed: most never are. */
export class CanisterOutput implements BudgetMember {
  readonly #buffer = new DebugBuffer();
  readonly log = new CanisterLog();
  readonly #budget: SharedBudget;
  #feed: OutputFeed | undefined;
  isRecent = true;
  #isEnded = false;
  #bytesTold = 0;
  /** Lines of a step that has not ended, or is not durable. */
  unprinted: { readonly timeMs: number; readonly line: OutputLine }[] = [];

  constructor(budget: SharedBudget) {
    this.#budget = budget;
    budget.join(this);
  }

  print(timeMs: number, { text, record }: OutputLine): void {
    this.#buffer.append(timeMs, text);
    if (record !== undefined) this.log.append(timeMs, record);
    this.#feed?.printed();
    this.isRecent = true;
    this.#tell();
  }

  /** Takes the lines since the last time. */
  take(): readonly DebugLine[] {
    const lines = this.#buffer.take();
    this.#tell();
    return lines;
  }

  follow(reader: OutputReader, lastSeq: number | undefined, clock: Pick<Clock, 'after'>): OutputFollowing {
    this.#feed ??= new OutputFeed(this.#buffer, clock, () => this.#tell());
    return this.#feed.follow(reader, lastSeq);
  }

  /** Its canister sleeps: it may do so for long, and there may be very many. */
  compact(): void {
    this.#buffer.keep(ASLEEP_BYTES_MAX);
    this.#tell();
  }

  /** Its canister is gone. */
  end(): void {
    this.#feed?.end();
    this.#isEnded = true;
    this.#tell();
    this.#budget.leave(this);
  }

  shrink(): void {
    this.#feed?.shrink();
    this.#buffer.keep(this.#buffer.bytes / 2);
    this.log.keep(this.log.bytes / 2);
    this.#tell();
  }

  #tell(): void {
    const bytes = this.#isEnded ? 0 : this.#buffer.bytes + this.log.bytes + (this.#feed?.bytes ?? 0);
    const more = bytes - this.#bytesTold;
    if (more === 0) return;
    this.#bytesTold = bytes;
    this.#budget.changed(more);
  }
}
