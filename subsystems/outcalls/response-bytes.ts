/**
 * Brings the bytes of responses into the form that undici's parser takes, where RFC 9112 lets a server write them in
 * another one:
 *
 *     x: a <blanks> CRLF          without the blanks: the parser takes a tab there for a part of the value
 *     x: a CRLF <blanks> b        one line (5.2 asks that of who receives an answer)
 *     2 ; name = "value" CRLF     the length alone: extensions are read over (7.1.1)
 *     transfer-encoding: a, ,     without the empty elements (encoding-lines.ts)
 *
 * What does not change is passed on as it came, without a copy. Lines that are none are left to the parser, and refused
 * by it; only the lines between chunks are judged here, and the length of a chunk is told before its bytes come.
 */
import { ChunkLine, LINE_WRONG } from './chunk-line.ts';
import { EncodingLines } from './encoding-lines.ts';
import { malformed } from './outcall-failures.ts';

const CR = 0x0d;
const LF = 0x0a;
const SPACE = 0x20;
const TAB = 0x09;
/** Blanks that wait for what follows them; more are passed on, and the parser bounds them. */
const HELD_BYTES_MAX = 64 * 1024;
const NOTHING: Buffer = Buffer.alloc(0);

interface ResponseBytesEvents {
  /** Takes bytes for the parser, which may call `headEnded` and `ended`. Returns false if it takes no more. */
  readonly feed: (bytes: Buffer) => boolean;
  /** Called with the length of a chunk, which may be infinite; throws if that is too much. */
  readonly announced: (bytes: number) => void;
}

/** Stages of a response. `rest`: a body that is no chunks, or bytes behind an answer. */
type Stage = 'head' | 'rest' | 'length' | 'chunk' | 'trailer';

export class ResponseBytes {
  readonly #events: ResponseBytesEvents;
  readonly #line = new ChunkLine();
  readonly #encodings = new EncodingLines();
  #stage: Stage = 'head';
  /** The end of a line, or blanks that may come before one: what they mean is told by the next byte. */
  #held: Buffer = NOTHING;
  /** True behind the status line: an empty line ends the head, and blanks at the begin of a line fold it. */
  #hasStatus = false;
  /** True if the line under way has a byte, and if one of them is no blank. */
  #isLineBegun = false;
  #hasText = false;
  /** Bytes of the chunk under way that are still to come, with the CR LF behind them. */
  #chunkLeft = 0;

  constructor(events: ResponseBytesEvents) {
    this.#events = events;
  }

  /** True if the head has a `transfer-encoding` without any element. */
  get hasEmptyEncoding(): boolean {
    return this.#encodings.hasEmpty;
  }

  /** True while the lines behind the last chunk come. */
  get isInTrailer(): boolean {
    return this.#stage === 'trailer';
  }

  /** Called by the parser: the next bytes are a body, in chunks or not. */
  headEnded(isChunked: boolean): void {
    this.#stage = isChunked ? 'length' : 'rest';
  }

  /** Called by the parser when an answer is complete, an interim one, too: the next bytes are a head. */
  ended(): void {
    this.#stage = 'head';
    this.#encodings.begin();
    this.#beginLine(false);
  }

  /** Passes bytes on. Throws the Error of a chunk's line that is none, and what `announced` throws. */
  add(piece: Buffer): void {
    let bytes = piece;
    while (bytes.length > 0) {
      if (this.#stage === 'rest') return void this.#events.feed(bytes);
      const used = this.#mend(bytes);
      if (used === undefined) return;
      bytes = bytes.subarray(used);
    }
  }

  /**
   * Passes on a head to its end, chunks to the end of what is behind them, or all bytes. Returns how many bytes were
   * taken; undefined: the parser takes no more.
   */
  #mend(piece: Buffer): number | undefined {
    const before = this.#held.length;
    const bytes = before === 0 ? piece : Buffer.concat([this.#held, piece]);
    this.#held = NOTHING;
    const isHead = this.#stage === 'head';
    const kept = new KeptBytes(bytes);
    let at = 0;
    while (at < bytes.length && (this.#stage === 'length' || this.#stage === 'chunk'))
      at = this.#stage === 'length' ? this.#readLength(bytes, at, kept) : this.#passChunk(bytes, at);
    let end = bytes.length;
    if (at < bytes.length) {
      const whole = this.#readLines(bytes, at, kept);
      if (whole === undefined) this.#held = kept.heldBehind(HELD_BYTES_MAX);
      end = whole ?? bytes.length - this.#held.length;
    }
    const mended = isHead ? this.#encodings.add(kept.upTo(end)) : kept.upTo(end);
    if (mended.length > 0 && !this.#events.feed(mended)) return undefined;
    return end + this.#held.length - before;
  }

  /** Passes on what is there of a chunk and of the CR LF behind it. */
  #passChunk(bytes: Buffer, begin: number): number {
    let at = begin + Math.min(bytes.length - begin, Math.max(0, this.#chunkLeft - 2));
    this.#chunkLeft -= at - begin;
    for (; at < bytes.length && this.#chunkLeft > 0; at++) {
      if (bytes[at] !== (this.#chunkLeft === 2 ? CR : LF))
        throw malformed('a chunk does not end where its length says');
      this.#chunkLeft--;
    }
    if (this.#chunkLeft === 0) this.#stage = 'length';
    return at;
  }

  /** Leaves out what stands between the length and the end of the line. */
  #readLength(bytes: Buffer, begin: number, kept: KeptBytes): number {
    let outFrom: number | undefined;
    for (let at = begin; at < bytes.length; at++) {
      const isOut = !this.#line.add(bytes[at] ?? 0);
      if (isOut) outFrom ??= at;
      else if (outFrom !== undefined) {
        kept.leaveOut(outFrom, at);
        outFrom = undefined;
      }
      if (!this.#line.isWhole) continue;
      const length = this.#line.take();
      this.#events.announced(length);
      this.#chunkLeft = length + 2;
      this.#stage = length === 0 ? 'trailer' : 'chunk';
      this.#beginLine(true);
      return at + 1;
    }
    if (outFrom !== undefined) kept.leaveOut(outFrom, bytes.length);
    return bytes.length;
  }

  /** Returns where the lines end; undefined: they go on. */
  #readLines(bytes: Buffer, begin: number, kept: KeptBytes): number | undefined {
    for (let at = begin; ;) {
      const cr = bytes.indexOf(CR, at);
      // The parser would read over single ones before the status line.
      if (!this.#hasStatus && !this.#isLineBegun && bytes[at] === LF) throw malformed(LINE_WRONG);
      const end = cr < 0 ? bytes.length : cr;
      const blanks = kept.beginOfBlanks(end);
      this.#isLineBegun ||= end > at;
      this.#hasText ||= blanks > at;
      if (cr < 0 || cr + 1 === bytes.length) return undefined;
      at = cr + 2;
      // RFC 9112, 2.2. The parser would take two of them for the end of a head.
      if (bytes[cr + 1] !== LF) throw malformed(LINE_WRONG);
      if (!this.#isLineBegun) {
        if (this.#hasStatus) return at;
      } else if (at === bytes.length) return undefined;
      else if (this.#hasStatus && this.#hasText && isBlank(bytes[at])) kept.leaveOut(blanks, at);
      else {
        // A line of blanks alone would become the empty one, which ends a head.
        if (this.#hasText) kept.leaveOut(blanks, cr);
        this.#beginLine(true);
      }
    }
  }

  #beginLine(hasStatus: boolean): void {
    this.#hasStatus = hasStatus;
    this.#isLineBegun = false;
    this.#hasText = false;
  }
}

/** Bytes without what is left out of them. */
class KeptBytes {
  readonly #bytes: Buffer;
  readonly #kept: Buffer[] = [];
  #from = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  leaveOut(from: number, to: number): void {
    if (from === to) return;
    this.#kept.push(this.#bytes.subarray(this.#from, from));
    this.#from = to;
  }

  /** Returns what stands at the end and has no meaning yet: an end of line, and so many blanks before it. */
  heldBehind(blanksMax: number): Buffer {
    const bytes = this.#bytes;
    let end = bytes.length;
    if (bytes[end - 1] === LF && bytes[end - 2] === CR) end -= 2;
    else if (bytes[end - 1] === CR) end--;
    const begin = this.beginOfBlanks(end);
    return bytes.subarray(end - begin > blanksMax ? end : begin);
  }

  upTo(end: number): Buffer {
    if (this.#kept.length === 0) return this.#bytes.subarray(0, end);
    this.#kept.push(this.#bytes.subarray(this.#from, end));
    return Buffer.concat(this.#kept);
  }

  /** A regular expression would take quadratic time for many blanks. */
  beginOfBlanks(end: number): number {
    let begin = end;
    while (begin > this.#from && isBlank(this.#bytes[begin - 1])) begin--;
    return begin;
  }
}

function isBlank(byte: number | undefined): boolean {
  return byte === SPACE || byte === TAB;
}
