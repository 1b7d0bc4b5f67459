/**
 * Destination of the log's lines. Lines are gathered as bytes, and written in the background by pino's destination
 * (SonicBoom), in a thread of libuv, at most `FLUSH_MS` later.
 *
 * Lines are gathered here, because SonicBoom measures its whole buffer with every write. And they are not gathered in a
 * string: a string is a tree of pieces until it is written, and flattening and collecting that tree costs more than
 * encoding each line at once.
 *
 * If the reader stalls, lines are kept up to `BUFFER_BYTES_MAX` and then dropped: the log must neither stop the server
 * nor use up its memory. The number of dropped lines is logged once there is room again.
 */
import { writeSync } from 'node:fs';
import pino from 'pino';

/** Short enough for a person who watches; a busy server writes a few hundred lines with one call. */
const FLUSH_MS = 20;
/** This many bytes of lines are written without waiting for the timer. */
const BATCH_BYTES = 32 * 1024;
/** Bytes of one UTF-16 unit at most. */
const UTF8_BYTES_MAX = 3;
const BUFFER_BYTES_MAX = 16 * 1024 * 1024;
/** Milliseconds that the end of the process waits for a reader that has stalled. */
const CLOSE_MS = 2_000;
const RETRY_MS = 10;

/** SonicBoom's own fields: buffers that it has not begun to write, with their lengths. */
interface WaitingBytes {
  readonly fd: number;
  readonly _bufs: Buffer[][];
  readonly _lens: number[];
  _len: number;
}

/** Buffers lines and writes them. */
export class LogSink {
  readonly #destination: ReturnType<typeof pino.destination>;
  readonly #batch = Buffer.allocUnsafeSlow(BATCH_BYTES);
  #batchBytes = 0;
  #batchLines = 0;
  #isFlushScheduled = false;
  #isWriting = false;
  /** True if the last write failed. */
  #hasFailed = false;
  /** True if the reader is gone for good. */
  #isGone = false;
  #dropped = 0;

  /** `tellDropped` is called with the number of lost lines once there is room for more. */
  constructor(destination: number | string, tellDropped: (lines: number) => void) {
    this.#destination = pino.destination({
      dest: destination,
      sync: false,
      maxLength: BUFFER_BYTES_MAX,
      contentMode: 'buffer',
    });
    // SonicBoom's own method retries without end if the disk is full or the reader stalls, even when the process ends,
    // and joins buffers of failed writes with wrong lengths.
    this.#destination.flushSync = () => this.#writeWaiting();
    this.#destination.on('drop', () => {
      this.#dropped += this.#batchLines;
    });
    // The reader is gone or the disk is full: there is no place to report this. Lines that could not be written are
    // tried again with the next ones.
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

  /**
   * Flushes if the line does not fit. Not before, because lines that are written together stay in order even if the
   * process ends now.
   */
  #makeRoom(line: string): void {
    if (Buffer.byteLength(line) > BATCH_BYTES - this.#batchBytes) this.#flush();
  }

  #flush(): void {
    if (this.#batchBytes === 0) return;
    this.#send(Buffer.from(this.#batch.subarray(0, this.#batchBytes)));
    this.#batchBytes = 0;
  }

  /** Hands over the bytes of `#batchLines` lines; nobody may change the buffer afterwards. */
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
    if (this.#isWriting) {
      this.#flush();
      this.#writeWaiting();
      return;
    }
    const rest = this.#batch.subarray(0, this.#batchBytes);
    this.#batchBytes = 0;
    this.#batchLines = 0;
    this.#tryNow(rest);
  }

  /** Writes synchronously what SonicBoom has and has not begun to write; what fails once is not tried again. */
  #writeWaiting(): void {
    const waiting = this.#destination as unknown as WaitingBytes;
    while (!this.#hasFailed) {
      const [pieces] = waiting._bufs;
      if (pieces === undefined) return;
      const bytes = Buffer.concat(pieces);
      if (!this.#tryNow(bytes)) return;
      waiting._bufs.shift();
      waiting._lens.shift();
      waiting._len = Math.max(0, waiting._len - bytes.length);
    }
  }

  /** Writes synchronously; returns false if that failed. As for failed writes above, there is no place to report it. */
  #tryNow(bytes: Uint8Array): boolean {
    try {
      this.#writeNow(bytes);
      return true;
    } catch {
      this.#hasFailed = true;
      return false;
    }
  }

  /** Writes synchronously. Throws the system's error, but waits for a stalled reader as long as `close` does. */
  #writeNow(bytes: Uint8Array): void {
    const { fd } = this.#destination as unknown as WaitingBytes;
    let rest = bytes;
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
