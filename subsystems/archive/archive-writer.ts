/**
 * Writes the archive of a running server: takes durable units from the storage, a segment at a time, and makes files of
 * them; begins a line, ends each gap and begins each day with a base. It runs in the main thread, all of its work is
 * asynchronous, and nobody waits for it: where the disk is slower than the units come, the storage drops them, which is
 * a gap.
 */
import { createHash } from 'node:crypto';
import { basename } from 'node:path';
import { type Clock, type Logger, messageOf, type Random, ServerError } from '../../kernel/index.ts';
import type { Archive, TakenUnits, UnitSource } from './index.ts';
import type { ShownNumber } from '../metrics/index.ts';
import { ArchiveLine, type BaseMarker } from './lines.ts';
import { baseFile, MARKER, segmentFile } from './names.ts';
import { claim, type OpenedLine, openLine, type OpenLineOptions } from './open-line.ts';
import { expiredFiles, type RetentionOptions } from './retention.ts';
import { SEGMENT_BYTES, segmentHeader } from './segment-format.ts';

export interface ArchiveOptions extends RetentionOptions {
  /** Absolute path of the archive. */
  readonly directory: string;
  /** Seconds of work that may be lost. */
  readonly secs: number;
}

interface ArchiveNeeds {
  readonly source: UnitSource;
  readonly clock: Pick<Clock, 'nowMs' | 'every' | 'after'>;
  readonly random: Random;
  readonly log: Pick<Logger, 'info' | 'warn' | 'debug'>;
  readonly filesOf?: OpenLineOptions['filesOf'];
}

/** Numbers for operators. */
interface ArchiveFigures {
  bytes: number;
  units: number;
  failures: number;
  gaps: number;
}

const LOOK_MS_MAX = 1_000;
/** Parts of `secs` after which is looked for units; those of the last two are for the writing. */
const LOOKS = 5;
const RETRY_MS_MAX = 5_000;
const DAY_MS = 86_400_000;
const RETENTION_MS = 3_600_000;
/** With a bound of bytes, a base is due when so much of it is segments since the last one: then the rest may go. */
const BASE_SHARE = 1 / 3;
/** Milliseconds that a stop waits for the last segment. */
const CLOSE_MS = 5_000;

export class ArchiveWriter implements Archive {
  readonly figures: ArchiveFigures = { bytes: 0, units: 0, failures: 0, gaps: 0 };
  readonly #needs: ArchiveNeeds;
  readonly #options: ArchiveOptions;
  #opened: OpenedLine | undefined;
  /** The newest unit that is in the archive, or in a base of it. */
  #archived = 0;
  #segmentsLast = 0;
  /** No unit up to this one waits in the storage. */
  #handled = 0;
  /** Units that were taken and are not written yet. */
  #pending: TakenUnits | undefined;
  /** When the first unit that is not archived was seen. */
  #behindSinceMs: number | undefined;
  #pumping: Promise<void> | undefined;
  #base: OpenedLine['base'];
  #isBaseNeeded = true;
  #baseWriting: Promise<void> | undefined;
  #bytesSinceBase = 0;
  #retryMs = 0;
  #retentionMs = 0;
  #isFailing = false;
  #timer: Disposable | undefined;
  #isClosing = false;

  constructor(needs: ArchiveNeeds, options: ArchiveOptions) {
    this.#needs = needs;
    this.#options = options;
  }

  get line(): string {
    return this.#opened?.name ?? '';
  }

  /** Numbers for the page of metrics. */
  get numbers(): readonly ShownNumber[] {
    const { figures } = this;
    return [
      number('bytes_total', 'counter', 'Bytes of segments and bases that were archived.', () => figures.bytes),
      number('units_total', 'counter', 'Units that were archived.', () => figures.units),
      number(
        'failures_total',
        'counter',
        'Writes of the archive that failed, and were tried again.',
        () => figures.failures,
      ),
      number('gaps_total', 'counter', 'Gaps: moments between two units that cannot be restored.', () => figures.gaps),
      number(
        'lag_seconds',
        'gauge',
        'Time for which the oldest unit that is not archived has waited.',
        () => this.lagSeconds,
      ),
      number('base_age_seconds', 'gauge', 'Age of the newest base.', () => this.baseAgeSeconds),
    ];
  }

  /** Seconds for which the oldest unit that is not archived has waited. */
  get lagSeconds(): number {
    const { clock, source } = this.#needs;
    if (this.#behindSinceMs === undefined || source.durable <= this.#handled) return 0;
    return (clock.nowMs() - this.#behindSinceMs) / 1000;
  }

  /** Seconds since the last base was taken; 0: there is none yet. */
  get baseAgeSeconds(): number {
    return this.#base === undefined ? 0 : Math.max(0, (this.#needs.clock.nowMs() - this.#base.timeMs) / 1000);
  }

  /** Begins, when the state is open. Rejects with ServerError `archive-unwritable`. */
  async start(): Promise<void> {
    const { source, clock } = this.#needs;
    await this.#attempt(() => this.#open());
    source.onWaiting(() => this.#pump());
    source.onClosing(() => this.#close());
    this.#timer = clock.every(Math.min(LOOK_MS_MAX, (this.#options.secs * 1000) / LOOKS), () => this.#look());
    this.#look();
  }

  /** Ends what is under way; the last units are written when the storage closes. */
  async stop(): Promise<void> {
    this.#timer?.[Symbol.dispose]();
    this.#isClosing = true;
    await this.#baseWriting;
  }

  /** Resolves when nothing is under way. */
  async rested(): Promise<void> {
    while (this.#pumping !== undefined || this.#baseWriting !== undefined) {
      await this.#pumping;
      await this.#baseWriting;
    }
  }

  async #open(): Promise<void> {
    if (this.#opened !== undefined) return;
    const { source, clock, random, log, filesOf } = this.#needs;
    const { directory } = this.#options;
    const files = filesOf === undefined ? {} : { filesOf };
    const opened = await openLine({ directory, source, nowMs: clock.nowMs(), random, ...files });
    if (opened.note !== undefined) log.warn(opened.note);
    log.debug(`the archive goes on in line ${opened.name}, epoch ${opened.epoch}`);
    this.#segmentsLast = opened.segmentsLast;
    this.#archived = Math.max(opened.segmentsLast, opened.base?.unit ?? 0);
    this.#base = opened.base;
    this.#isBaseNeeded = opened.base?.stateFormat !== source.stateFormat;
    this.#opened = opened;
  }

  /** Does what is due. */
  #look(): void {
    const { clock, source } = this.#needs;
    const nowMs = clock.nowMs();
    if (source.durable > this.#handled) this.#behindSinceMs ??= nowMs;
    else this.#behindSinceMs = undefined;
    if (nowMs < this.#retryMs || this.#isClosing) return;
    const waitMs = this.#options.secs * 1000 * (1 - 2 / LOOKS);
    const isDue = this.#behindSinceMs !== undefined && nowMs - this.#behindSinceMs >= waitMs;
    if (isDue || this.#pending !== undefined || this.#opened === undefined) this.#pump();
    if (this.#opened !== undefined && this.#isBaseDue(nowMs)) this.#writeBase();
    if (nowMs - this.#retentionMs >= RETENTION_MS && this.#opened !== undefined) {
      this.#retentionMs = nowMs;
      void this.#attempt(() => this.#retain());
    }
  }

  // ---- segments

  #pump(): void {
    if (this.#isClosing || this.#needs.clock.nowMs() < this.#retryMs) return;
    this.#pumping ??= this.#attempt(() => this.#writeWaiting(false)).finally(() => (this.#pumping = undefined));
  }

  /** Writes full segments, and then what is there, however little; `isLast`: until nothing is left. */
  async #writeWaiting(isLast: boolean): Promise<void> {
    const { source } = this.#needs;
    await this.#open();
    for (;;) {
      const { durable } = source;
      if (this.#pending === undefined) {
        const { units, isBehindGap } = await source.take(this.#handled);
        if (isBehindGap) this.#noteGap();
        this.#pending = units;
      }
      const units = this.#pending;
      if (units === undefined) {
        this.#handled = Math.max(this.#handled, durable);
        return;
      }
      const isFull = units.bytes >= SEGMENT_BYTES;
      if (units.last > this.#segmentsLast) await this.#writeSegment(units);
      this.#pending = undefined;
      this.#handled = Math.max(this.#handled, units.last);
      if (!isFull && !isLast) return;
    }
  }

  async #writeSegment(units: TakenUnits): Promise<void> {
    const { source, clock } = this.#needs;
    const opened = this.#line;
    if (units.first > this.#archived + 1 && this.#archived > 0) this.#noteGap();
    const { first, last, firstMs, lastMs, bytes } = units;
    const { name: line, epoch } = opened;
    const header = segmentHeader({ stateFormat: source.stateFormat, line, epoch, first, last, firstMs, lastMs, bytes });
    const takenMs = clock.nowMs();
    await this.#write(segmentFile({ epoch, first, last, timeMs: lastMs }), () => [header, ...units.frames]);
    this.#segmentsLast = last;
    this.#archived = Math.max(this.#archived, last);
    this.#behindSinceMs = source.durable > last ? takenMs : undefined;
    this.#bytesSinceBase += header.length + bytes;
    this.figures.bytes += header.length + bytes;
    this.figures.units += last - first + 1;
    this.#succeeded();
  }

  /** Writes a file; a line that has gone, because another disk is mounted there, is made again. */
  async #write(name: string, pieces: () => Iterable<Uint8Array> | AsyncIterable<Uint8Array>): Promise<void> {
    const { files, epoch } = this.#line;
    try {
      await files.write(name, pieces());
    } catch (error) {
      if (codeOf(error) !== 'ENOENT') throw error;
      await files.make();
      await claim(files, epoch);
      this.#noteGap();
      await files.write(name, pieces());
    }
  }

  #noteGap(): void {
    this.figures.gaps++;
    this.#isBaseNeeded = true;
    // Units behind the gap follow no unit before it.
    this.#archived = 0;
    this.#needs.log.warn(
      `the archive has a gap behind unit ${this.#segmentsLast}: moments in it cannot be restored; a new base ends it`,
    );
  }

  get #line(): OpenedLine {
    if (this.#opened === undefined) throw new Error('the archive is not open');
    return this.#opened;
  }

  // ---- bases

  #isBaseDue(nowMs: number): boolean {
    if (this.#isBaseNeeded || this.#base === undefined) return true;
    if (this.#needs.source.durable <= this.#base.unit) return false;
    const { bytes } = this.#options;
    return nowMs - this.#base.timeMs >= DAY_MS || (bytes > 0 && this.#bytesSinceBase > bytes * BASE_SHARE);
  }

  #writeBase(): void {
    if (this.#baseWriting !== undefined) return;
    this.#baseWriting = this.#attempt(() => this.#baseWritten()).finally(() => (this.#baseWriting = undefined));
  }

  async #baseWritten(): Promise<void> {
    const { source, clock } = this.#needs;
    const { gaps } = this.figures;
    const { epoch } = this.#line;
    const base = await source.base();
    const { unit } = base;
    const timeMs = base.timeMs > 0 ? base.timeMs : clock.nowMs();
    const name = baseFile({ epoch, unit, timeMs });
    const hash = createHash('sha256');
    let bytes = 0;
    const counted = async function* (this: ArchiveWriter): AsyncGenerator<Uint8Array> {
      for await (const piece of base.pieces) {
        if (this.#isClosing) throw new Abandoned();
        hash.update(piece);
        bytes += piece.length;
        yield piece;
      }
    };
    await this.#line.files.write(name, counted.call(this));
    const marker: BaseMarker & { readonly unit: number; readonly time: string } = {
      unit,
      time: new Date(timeMs).toISOString(),
      bytes,
      sha256: hash.digest('hex'),
      stateFormat: source.stateFormat,
    };
    await this.#line.files.write(name + MARKER, [Buffer.from(`${JSON.stringify(marker)}\n`)]);
    this.figures.bytes += bytes;
    this.#base = { unit, timeMs, stateFormat: source.stateFormat };
    this.#bytesSinceBase = 0;
    this.#archived = Math.max(this.#archived, unit);
    // A gap that came meanwhile is not ended by this base.
    if (this.figures.gaps === gaps) this.#isBaseNeeded = false;
    this.#succeeded();
    await this.#retain();
  }

  async #retain(): Promise<void> {
    const { days, bytes } = this.#options;
    if (days === 0 && bytes === 0) return;
    const { files } = this.#line;
    const line = await ArchiveLine.read(files.path);
    const sizes = new Map<string, number>();
    for (const { path } of bytes > 0 ? [...line.bases, ...line.segments] : [])
      sizes.set(basename(path), await files.sizeOf(basename(path)));
    const expired = expiredFiles(line, { days, bytes }, this.#needs.clock.nowMs(), (name) => sizes.get(name) ?? 0);
    for (const name of expired) await files.remove(name);
  }

  // ---- failures

  /** Does some of the work, and tells a failure, once until something succeeds again. */
  async #attempt(work: () => Promise<void>): Promise<void> {
    const { clock, log } = this.#needs;
    try {
      await work();
    } catch (error) {
      if (error instanceof Abandoned) return;
      if (error instanceof ServerError && error.code === 'archive-unwritable' && this.#timer === undefined) throw error;
      this.figures.failures++;
      this.#retryMs = clock.nowMs() + Math.min(this.#options.secs * 1000, RETRY_MS_MAX);
      if (this.#isFailing) return;
      this.#isFailing = true;
      log.warn(
        `the archive ${this.#options.directory} cannot be written: ${messageOf(error)}; serving goes on, and this is tried again`,
      );
    }
  }

  #succeeded(): void {
    this.#retryMs = 0;
    if (!this.#isFailing) return;
    this.#isFailing = false;
    this.#needs.log.info(`the archive ${this.#options.directory} is written again`);
  }

  // ---- the end

  async #close(): Promise<void> {
    const { clock, log, source } = this.#needs;
    const late = Promise.withResolvers<void>();
    using _late = clock.after(CLOSE_MS, late.resolve);
    const written = async (): Promise<void> => {
      await this.#pumping;
      await this.#attempt(() => this.#writeWaiting(true));
    };
    await Promise.race([written(), late.promise]);
    if (this.#handled >= source.durable) return;
    log.warn(`the archive lacks the units behind ${this.#handled}: the next start writes a new base`);
  }
}

function number(name: string, type: ShownNumber['type'], help: string, read: () => number): ShownNumber {
  return { name: `svc_archive_${name}`, type, help, read };
}

/** Thrown where a base is given up because the server stops. */
class Abandoned extends Error {}

function codeOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined;
}
