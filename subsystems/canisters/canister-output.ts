import type { Clock, Logger } from '../../kernel/index.ts';
import type { OutputLine } from '../ic/index.ts';
import { CanisterLog } from './canister-log.ts';
import type { CanisterStore } from './canister-store.ts';
import { ASLEEP_BYTES_MAX, DebugBuffer } from './debug-buffer.ts';
import type { DebugLine, OutputFollowing, OutputReader } from './index.ts';
import { OutputFeed } from './output-feed.ts';
import { OutputReaders } from './output-readers.ts';
import type { BudgetMember, SharedBudget } from './shared-budget.ts';

/**
 * Bytes that the output of all canisters may take together: a buffer of 1 MiB and a log of 64 KiB for each of 10,000
 * would be 10 GB. Beyond this bound the oldest lines of quiet canisters go first.
 */
export const OUTPUT_BYTES_MAX = 256 * 1024 * 1024;
/**
 * Bytes of these that lines may take which somebody has taken: whoever reads all logs keeps the memory small by that,
 * with any number of actors.
 */
export const TAKEN_BYTES_MAX = 8 * 1024 * 1024;

/** One for all canisters. */
export interface OutputNeeds {
  readonly clock: Clock;
  readonly log: Logger;
  /** Lines go to the log as well. */
  readonly forwardDebugOutput: boolean;
  /** Budget of the lines of all canisters. */
  readonly outputBudget: SharedBudget;
  /** Budget of those lines that somebody has taken. */
  readonly takenBudget: SharedBudget;
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
  #readers: OutputReaders | undefined;
  isRecent = true;
  #isEnded = false;
  #bytesTold = 0;
  /** Share of the lines that somebody has taken; undefined: nobody has taken any. */
  #taken: TakenLines | undefined;

  /** `name`: the canister's, for the log. */
  constructor(name: string, needs: OutputNeeds) {
    this.#name = name;
    this.#needs = needs;
    needs.outputBudget.join(this);
  }

  /**
   * A step has printed lines. Where state is kept they are shown when everything that is known now is durable.
   * `message`: number of the message that has printed them; 0: it has none.
   */
  stepEnded(lines: readonly OutputLine[], message: number): void {
    const { store, clock } = this.#needs;
    const timeMs = clock.nowMs();
    const print = (): void => {
      for (const line of lines) this.#print(timeMs, message, line);
    };
    if (store.isDurable) store.afterwards(print);
    else print();
  }

  #print(timeMs: number, message: number, line: OutputLine): void {
    const { text, record } = line;
    this.#buffer.append(timeMs, text, message);
    if (record !== undefined) this.log.append(timeMs, record);
    this.#feed?.printed();
    this.#readers?.printed();
    this.isRecent = true;
    this.#tell();
    if (this.#needs.forwardDebugOutput) this.#needs.log.info(`[${this.#name}] ${text}`);
  }

  /** Takes the lines since the last time, without those whose step is not durable. */
  take(): readonly DebugLine[] {
    const lines = this.#buffer.take();
    this.#tookLines();
    return lines;
  }

  follow(reader: OutputReader, lastSeq: number | undefined): OutputFollowing {
    this.#feed ??= new OutputFeed(this.#buffer, this.#needs.clock, () => this.#tookLines());
    return this.#feed.follow(reader, lastSeq);
  }

  /** Followers, or whoever reads the buffer at once, may have taken lines. */
  #tookLines(): void {
    if (this.#taken !== undefined) this.#taken.isRecent = true;
    else if (this.#buffer.takenBytes > 0) {
      this.#taken = new TakenLines(this.#buffer, this.#needs.takenBudget, () => this.#tell());
    }
    this.#tell();
  }

  /** Yields the lines that are kept behind the one with that number, also those that somebody has taken. */
  linesAfter(seq: number): Iterable<DebugLine> {
    return this.#buffer.linesAfter(seq);
  }

  /** Gives a reader all lines behind that one, and takes none. */
  read(reader: OutputReader, after: number): OutputFollowing {
    this.#readers ??= new OutputReaders(this.#buffer);
    return this.#readers.read(reader, after);
  }

  /** Makes the output small while the canister sleeps: that may be long, and there may be very many. */
  compact(): void {
    this.#buffer.keep(ASLEEP_BYTES_MAX);
    this.#tell();
  }

  /** Releases the output: the canister is gone. */
  end(): void {
    this.#feed?.end();
    this.#readers?.end();
    this.#isEnded = true;
    this.#tell();
    this.#needs.outputBudget.leave(this);
    this.#taken?.end();
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
    this.#taken?.tell();
    const bytes = this.#isEnded ? 0 : this.#buffer.bytes + this.log.bytes + (this.#feed?.bytes ?? 0);
    const more = bytes - this.#bytesTold;
    if (more === 0) return;
    this.#bytesTold = bytes;
    this.#needs.outputBudget.changed(more);
  }
}

/** Lines of one canister that somebody has taken, and that stay readable as long as all canisters' have room. */
class TakenLines implements BudgetMember {
  readonly #buffer: DebugBuffer;
  readonly #budget: SharedBudget;
  /** Called when lines have gone. */
  readonly #shrunk: () => void;
  isRecent = true;
  #bytesTold = 0;
  #isEnded = false;

  constructor(buffer: DebugBuffer, budget: SharedBudget, shrunk: () => void) {
    this.#buffer = buffer;
    this.#budget = budget;
    this.#shrunk = shrunk;
    budget.join(this);
  }

  tell(): void {
    const bytes = this.#isEnded ? 0 : this.#buffer.takenBytes;
    const more = bytes - this.#bytesTold;
    if (more === 0) return;
    this.#bytesTold = bytes;
    this.#budget.changed(more);
  }

  shrink(): void {
    this.#buffer.halveTaken();
    this.#shrunk();
  }

  end(): void {
    this.#isEnded = true;
    this.tell();
    this.#budget.leave(this);
  }
}
