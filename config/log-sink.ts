/**
 * Where the log's lines go: gathered as the bytes that are written, and written in the background by pino's destination (SonicBoom), in
 * a thread of libuv, `FLUSH_MS` later at the latest.
 *
 * They are gathered here, not in SonicBoom: it measures what it has gathered with every write. And not in a string: that is a tree of
 * pieces until it is written, which costs more to flatten and to collect than each line's bytes cost at once.
 *
 * If whoever reads stalls, lines are kept up to `BUFFER_BYTES_MAX` and then dropped: a server must not stand still, or die of memory,
 * because of its log. How many were dropped is said once there is room again.
 */
import { writeSync } from 'node:fs';
import pino from 'pino';

/** A person watching sees a line at once; a busy server writes a few hundred lines with one call. */
const FLUSH_MS = 20;
/** Lines that fill this are written without waiting for the timer. */
const BATCH_BYTES = 32 * 1024;
/** Of one of JavaScript's characters. */
const UTF8_BYTES_MAX = 3;
const BUFFER_BYTES_MAX = 16 * 1024 * 1024;
/** How long the end of the process waits for a reader that has stalled. */
const CLOSE_MS = 2_000;
const RETRY_MS = 10;

/** Lines on their way out. */
export class LogSink {
  readonly #destination: ReturnType<typeof pino.destination>;
  readonly #batch = Buffer.allocUnsafeSlow(BATCH_BYTES);
  #batchBytes = 0;
  #batchLines = 0;
  #isFlushScheduled = false;
  #isWriting = false;
  /** The last write. */
  #hasFailed = false;
  /** Nobody will ever read. */
  #isGone = false;
  #dropped = 0;

  /** `tellDropped` is called with a number of lines that were lost, once there is room for more. */
  constructor(destination: number | string, tellDropped: (lines: number) => void) {
    this.#destination = pino.destination({
      dest: destination,
      sync: false,
      maxLength: BUFFER_BYTES_MAX,
      contentMode: 'buffer',
    });
    // Its own tries for ever where the disk is full, also when the process ends, and joins by wrong lengths what failed before.
    const flushSync = this.#destination.flushSync.bind(this.#destination);
    this.#destination.flushSync = () => {
      if (!this.#hasFailed) flushSync();
    };
    this.#destination.on('drop', () => {
      this.#dropped += this.#batchLines;
    });
    // The reader is gone or the disk is full: there is nobody left to tell. What could not be written is tried again with the
    // next lines.
    this.#destination.on('error', (error: NodeJS.ErrnoException) => {
      this.#isWriting = false;
      this.#hasFailed = true;
      this.#isGone ||= error.code === 'EPIPE';
    });
    this.#destination.on('drain', () => {
      this.#isWriting = false;
      this.#hasFailed = false;
      if (this.#dropped === 0) return;
      const dropped = this.#dropped;
      this.#dropped = 0;
      tellDropped(dropped);
    });
  }

  write(line: string): void {
    if (UTF8_BYTES_MAX * line.length > BATCH_BYTES - this.#batchBytes) this.#makeRoom(line);
    this.#batchLines++;
    if (UTF8_BYTES_MAX * line.length > BATCH_BYTES && Buffer.byteLength(line) > BATCH_BYTES)
      this.#send(Buffer.from(line));
    else this.#batchBytes += this.#batch.write(line, this.#batchBytes);
    if (this.#isFlushScheduled) return;
    this.#isFlushScheduled = true;
    setTimeout(() => {
      this.#isFlushScheduled = false;
      this.#flush();
    }, FLUSH_MS).unref();
  }

  /** What is written together stays in order also if the process ends now: no line goes ahead without need. */
  #makeRoom(line: string): void {
    if (Buffer.byteLength(line) > BATCH_BYTES - this.#batchBytes) this.#flush();
  }

  #flush(): void {
    if (this.#batchBytes === 0) return;
    this.#send(Buffer.from(this.#batch.subarray(0, this.#batchBytes)));
    this.#batchBytes = 0;
  }

  /** Hands over bytes of `#batchLines` lines that nobody changes any more. */
  #send(bytes: Buffer): void {
    if (!this.#isGone) {
      this.#isWriting = true;
      this.#destination.write(bytes as never);
    }
    this.#batchLines = 0;
  }

  close(): Promise<void> {
    this.#flush();
    const closed = Promise.withResolvers<void>();
    if (!this.#isWriting) closed.resolve();
    const timer = setTimeout(closed.resolve, CLOSE_MS);
    this.#destination.once('drain', closed.resolve).once('error', () => closed.resolve());
    return closed.promise.finally(() => clearTimeout(timer));
  }

  flushNow(): void {
    try {
      if (this.#isWriting) {
        this.#flush();
        this.#destination.flushSync();
      } else this.#writeNow();
    } catch {
      // The same as above: nobody is left to tell.
    }
  }

  /** Throws what the system says, but waits for a reader that has stalled as long as `close` does. */
  #writeNow(): void {
    const { fd } = this.#destination as unknown as { readonly fd: number };
    let rest = this.#batch.subarray(0, this.#batchBytes);
    this.#batchBytes = 0;
    this.#batchLines = 0;
    const end = performance.now() + CLOSE_MS;
    while (rest.length > 0) {
      try {
        rest = rest.subarray(writeSync(fd, rest));
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'EAGAIN' || performance.now() > end) throw error;
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, RETRY_MS);
      }
    }
  }
}
