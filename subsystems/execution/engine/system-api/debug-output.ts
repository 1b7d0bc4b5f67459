/** Executor thread: debug prints of the message in progress. Kept when the message is undone. */
import type { OutputLine } from '../../../ic/index.ts';

const TEXT = new TextDecoder('utf-8', { ignoreBOM: true });

/** Bounds of one message's prints: lines beyond them are counted, not kept. */
export const DEBUG_BYTES_MAX = 256 * 1024;
export const DEBUG_LINES_MAX = 4096;
export const DEBUG_LINE_BYTES_MAX = 32 * 1024;

const NO_LINES: readonly OutputLine[] = Object.freeze([]);

/** The debug prints of the message in progress. They survive a rollback: they tell the reason for it. */
export class DebugOutput {
  #lines: OutputLine[] = [];
  #bytes = 0;
  #dropped = 0;

  /** Bytes this message may still print. */
  get bytesLeft(): number {
    return DEBUG_BYTES_MAX - this.#bytes;
  }

  /** Adds `source[at, at + size)` as one line, cut to the bytes that are left. */
  print(source: Uint8Array, at: number, size: number): void {
    const kept = Math.min(size, DEBUG_LINE_BYTES_MAX, this.bytesLeft);
    if (this.#lines.length >= DEBUG_LINES_MAX || (kept === 0 && size > 0)) {
      this.#dropped++;
      return;
    }
    this.#bytes += kept;
    const text = TEXT.decode(source.subarray(at, at + kept));
    this.#lines.push(printed(kept < size ? `${text}… (${size - kept} more bytes)` : text));
  }

  /** Adds a line of the host's own, in place of text that could not be printed. */
  note(text: string): void {
    if (this.#lines.length >= DEBUG_LINES_MAX) this.#dropped++;
    else this.#lines.push(printed(text));
  }

  /**
   * Adds the message's last line, with another text for the canister's log if `record` is given. Kept even if the
   * bounds are reached.
   */
  conclude(text: string, record?: string): void {
    this.#lines.push({ text, record });
  }

  /** Takes the lines; the next message starts with none. */
  take(): readonly OutputLine[] {
    if (this.#lines.length === 0 && this.#dropped === 0) return NO_LINES;
    const lines = this.#lines;
    if (this.#dropped > 0) lines.push(printed(`… (${this.#dropped} more debug prints of this message were dropped)`));
    this.#lines = [];
    this.#bytes = 0;
    this.#dropped = 0;
    return lines;
  }
}

function printed(text: string): OutputLine {
  return { text, record: text };
}
