/**
 * Who follows what one canister prints. All followers, and whoever reads the buffer at once (`/logs`), share its lines:
 * each goes to exactly one of them. A follower is given lines while it has room for them; what nobody has room for
 * stays in the buffer, under the buffer's bound.
 *
 * A follower whose connection breaks may have been sent lines that never arrived. What it was given last is kept while
 * it follows and for a while afterwards; who comes instead says which line it saw last, and gets those behind it again,
 * once. It may come before anybody has noticed that the connection is broken: then it gets them when that is noticed.
 */
import type { Clock } from '../../kernel/index.ts';
import { bytesOfLine, type DebugBuffer } from './debug-buffer.ts';
import type { DebugLine, OutputFollowing, OutputReader } from './index.ts';

/** Ms for which the lines of a follower that has left are kept. */
const KEPT_MS = 30_000;
/** Bytes that are kept of the lines that one follower was given; all followers that have left have 1 MiB at most. */
const GIVEN_BYTES_MAX = 64 * 1024;
const LEFT_MAX = 16;
/** Bytes that are given at a time. */
const BATCH_BYTES_MAX = 64 * 1024;

/** Lines that a follower was given last. */
class GivenLines {
  readonly #lines: DebugLine[] = [];
  bytes = 0;
  /** Number of the first line that the follower was ever given; 0: none. */
  #firstSeq = 0;

  add(lines: readonly DebugLine[]): void {
    this.#firstSeq ||= lines[0]?.seq ?? 0;
    for (const line of lines) {
      this.#lines.push(line);
      this.bytes += bytesOfLine(line);
    }
    if (this.bytes > GIVEN_BYTES_MAX) this.#keep(GIVEN_BYTES_MAX / 2);
  }

  /** Drops the oldest lines until the rest counts for so many bytes at most. */
  #keep(bytesMax: number): void {
    let count = 0;
    for (const line of this.#lines) {
      if (this.bytes <= bytesMax) break;
      this.bytes -= bytesOfLine(line);
      count++;
    }
    this.#lines.splice(0, count);
  }

  forget(): void {
    this.#keep(0);
  }

  /** Returns the lines behind the one with this number; undefined: that line is not kept. */
  after(seq: number): readonly DebugLine[] | undefined {
    const at = this.#lines.findIndex((line) => line.seq === seq);
    return at < 0 ? undefined : this.#lines.slice(at + 1);
  }

  /** All that are kept, if the line with this number may be one of those before them; those between are missing. */
  allAfter(seq: number): readonly DebugLine[] | undefined {
    const first = this.#lines[0];
    return first !== undefined && this.#firstSeq <= seq && seq < first.seq ? this.#lines : undefined;
  }
}

interface Follower {
  readonly reader: OutputReader;
  readonly given: GivenLines;
  /** Lines that the follower is to get before anything else. */
  again: readonly DebugLine[];
  /** The line that it saw last on a connection that still seems to be there. */
  claim: number;
}

export class OutputFeed {
  readonly #buffer: DebugBuffer;
  readonly #clock: Pick<Clock, 'after'>;
  /** Called when the feed or the buffer holds more or less. */
  readonly #changed: () => void;
  /** Followers that may have room and miss nothing, the one whose turn it is first. */
  readonly #ready = new Set<Follower>();
  /** The others. */
  readonly #full = new Set<Follower>();
  /** Followers that claim the lines of another one that has not left. */
  readonly #claimants = new Set<Follower>();
  #left: { readonly given: GivenLines; readonly expiry: Disposable }[] = [];
  #isScheduled = false;
  /** Bytes that the feed holds besides the buffer. */
  bytes = 0;

  constructor(buffer: DebugBuffer, clock: Pick<Clock, 'after'>, changed: () => void) {
    this.#buffer = buffer;
    this.#clock = clock;
    this.#changed = changed;
  }

  /** `lastSeq`: the line that the reader saw last, before its connection broke. */
  follow(reader: OutputReader, lastSeq: number | undefined): OutputFollowing {
    const follower: Follower = { reader, given: new GivenLines(), again: [], claim: lastSeq ?? 0 };
    this.#full.add(follower);
    if (lastSeq !== undefined && !this.#takeOver(follower)) this.#claimants.add(follower);
    this.#resume(follower);
    return { resume: () => this.#resume(follower), end: () => this.#leave(follower) };
  }

  /** Something was printed. Followers get it when everything that was printed with it is there. */
  printed(): void {
    if (this.#isScheduled || this.#ready.size === 0) return;
    this.#isScheduled = true;
    queueMicrotask(() => {
      this.#isScheduled = false;
      this.#deliver();
    });
  }

  /** The canister is gone. */
  end(): void {
    this.shrink();
    const followers = [...this.#ready, ...this.#full];
    this.#ready.clear();
    this.#full.clear();
    this.#claimants.clear();
    for (const { reader } of followers) reader.ended();
  }

  /** Gives up what was kept for those that come back. */
  shrink(): void {
    for (const { expiry } of this.#left) expiry[Symbol.dispose]();
    this.#left = [];
    for (const followers of [this.#ready, this.#full]) for (const { given } of followers) given.forget();
    this.bytes = 0;
  }

  /**
   * Takes the lines of a follower that has left and was given the line that this one saw last; true if there is one.
   */
  #takeOver(follower: Follower): boolean {
    // The certain owner of the line comes before a possible one: readers share the numbers.
    const whose = this.#left.some(({ given }) => given.after(follower.claim) !== undefined) ? 'after' : 'allAfter';
    for (const [index, { given, expiry }] of this.#left.entries()) {
      const missed = given[whose](follower.claim);
      if (missed === undefined) continue;
      expiry[Symbol.dispose]();
      this.#left.splice(index, 1);
      this.bytes -= given.bytes;
      follower.again = missed;
      return true;
    }
    return false;
  }

  /** A follower may have room. */
  #resume(follower: Follower): void {
    if (!this.#full.has(follower)) return;
    const { reader } = follower;
    while (follower.again.length > 0 && reader.hasRoom) {
      const count = countOf(follower.again, BATCH_BYTES_MAX);
      const lines = follower.again.slice(0, count);
      follower.again = follower.again.slice(count);
      this.#give(follower, lines);
    }
    if (follower.again.length === 0 && reader.hasRoom && this.#full.delete(follower)) this.#ready.add(follower);
    this.#deliver();
  }

  /** Gives the followers that have room a batch each, in turn. */
  #deliver(): void {
    for (const follower of this.#ready) {
      if (this.#buffer.isEmpty) break;
      // Goes to the end of the line, and comes to its turn again in this loop.
      this.#ready.delete(follower);
      if (follower.reader.hasRoom) {
        this.#ready.add(follower);
        this.#give(follower, this.#buffer.take(BATCH_BYTES_MAX));
      } else this.#full.add(follower);
    }
    this.#changed();
  }

  #give({ reader, given }: Follower, lines: readonly DebugLine[]): void {
    this.#keepGiven(given, lines);
    reader.write(lines);
  }

  #keepGiven(given: GivenLines, lines: readonly DebugLine[]): void {
    this.bytes -= given.bytes;
    given.add(lines);
    this.bytes += given.bytes;
  }

  #leave(follower: Follower): void {
    if (!this.#ready.delete(follower) && !this.#full.delete(follower)) return;
    this.#claimants.delete(follower);
    const { given, again } = follower;
    this.#keepGiven(given, again);
    if (given.bytes > 0) {
      this.#keep(given);
      for (const claimant of this.#claimants) {
        if (!this.#takeOver(claimant)) continue;
        this.#claimants.delete(claimant);
        if (this.#ready.delete(claimant)) this.#full.add(claimant);
        this.#resume(claimant);
        break;
      }
    }
    this.#changed();
  }

  /** For whoever comes back. */
  #keep(given: GivenLines): void {
    const expiry = this.#clock.after(KEPT_MS, () => this.#forget(given));
    this.#left.push({ given, expiry });
    if (this.#left.length > LEFT_MAX) {
      const oldest = this.#left[0];
      oldest?.expiry[Symbol.dispose]();
      if (oldest !== undefined) this.#forget(oldest.given);
    }
  }

  #forget(given: GivenLines): void {
    this.#left = this.#left.filter((left) => left.given !== given);
    this.bytes -= given.bytes;
    this.#changed();
  }
}

function countOf(lines: readonly DebugLine[], bytesMax: number): number {
  let count = 0;
  let bytes = 0;
  for (const line of lines) {
    if (bytes >= bytesMax) break;
    bytes += bytesOfLine(line);
    count++;
  }
  return count;
}
