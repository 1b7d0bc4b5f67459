import type { Clock, Logger } from '../../kernel/index.ts';
import type { OutputLine } from '../ic/index.ts';
import { CanisterLog } from './canister-log.ts';
import type { CanisterStore } from './canister-store.ts';
import { ASLEEP_BYTES_MAX, DebugBuffer } from './debug-buffer.ts';
import type { DebugLine, OutputFollowing, OutputReader } from './index.ts';
import { OutputFeed } from './output-feed.ts';
import type { BudgetMember, SharedBudget } from './shared-budget.ts';

/**
 * Bytes that the output of all canisters may take together: a buffer of 1 MiB and a log of 64 KiB for each of 10,000
 * would be 10 GB. Beyond this bound the oldest lines of quiet canisters go first.
 */
export const OUTPUT_BYTES_MAX = 256 * 1024 * 1024;

/** One for all canisters. */
export interface OutputNeeds {
  readonly clock: Clock;
  readonly log: Logger;
  /** Lines go to the log as well. */
  readonly forwardDebugOutput: boolean;
  /** Budget of the lines of all canisters. */
  readonly outputBudget: SharedBudget;
  readonly store: Pick<CanisterStore, 'isDurable' | 'afterwards'>;
}

/**
 * Lines that one canister has printed. Made when it first prints, or is followed: most canisters never are. With a
 * state directory nobody sees a line before its step is durable.
 */
export class CanisterOutput implements BudgetMember {
  readonly #name: string;
  readonly #needs: OutputNeeds;
  readonly #buffer = new DebugBuffer();
  readonly log = new CanisterLog();
  #feed: OutputFeed | undefined;
  isRecent = true;
  #isEnded = false;
  #bytesTold = 0;

  /** `name`: the canister's, for the log. */
  constructor(name: string, needs: OutputNeeds) {
    this.#name = name;
    this.#needs = needs;
    needs.outputBudget.join(this);
  }

  /** A step has printed lines. Where state is kept they are shown when everything that is known now is durable. */
  stepEnded(lines: readonly OutputLine[]): void {
    const { store, clock } = this.#needs;
    const timeMs = clock.nowMs();
    const print = (): void => {
      for (const line of lines) this.#print(timeMs, line);
    };
    if (store.isDurable) store.afterwards(print);
    else print();
  }

  #print(timeMs: number, line: OutputLine): void {
    const { text, record } = line;
    this.#buffer.append(timeMs, text);
    if (record !== undefined) this.log.append(timeMs, record);
    this.#feed?.printed();
    this.isRecent = true;
    this.#tell();
    if (this.#needs.forwardDebugOutput) this.#needs.log.info(`[${this.#name}] ${text}`);
  }

  /** Takes the lines since the last time, without those whose step is not durable. */
  take(): readonly DebugLine[] {
    const lines = this.#buffer.take();
    this.#tell();
    return lines;
  }

  follow(reader: OutputReader, lastSeq: number | undefined): OutputFollowing {
    this.#feed ??= new OutputFeed(this.#buffer, this.#needs.clock, () => this.#tell());
    return this.#feed.follow(reader, lastSeq);
  }

  /** Makes the output small while the canister sleeps: that may be long, and there may be very many. */
  compact(): void {
    this.#buffer.keep(ASLEEP_BYTES_MAX);
    this.#tell();
  }

  /** Releases the output: the canister is gone. */
  end(): void {
    this.#feed?.end();
    this.#isEnded = true;
    this.#tell();
    this.#needs.outputBudget.leave(this);
  }

  shrink(): void {
    this.#feed?.shrink();
    // The newest line, too, if it is the only one: thousands of actors with one long line each would hold more than all
    // may.
    this.#buffer.halve();
    this.log.halve();
    this.#tell();
  }

  #tell(): void {
    const bytes = this.#isEnded ? 0 : this.#buffer.bytes + this.log.bytes + (this.#feed?.bytes ?? 0);
    const more = bytes - this.#bytesTold;
    if (more === 0) return;
    this.#bytesTold = bytes;
    this.#needs.outputBudget.changed(more);
  }
}
