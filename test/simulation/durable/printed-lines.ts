/** Lines that the ledger prints for a message, and checks of the lines that were read. */
import assert from 'node:assert/strict';
import { DEBUG_BYTES_MAX, DEBUG_LINE_BYTES_MAX } from '../../../subsystems/execution/engine/system-api/debug-output.ts';
import { payload, payloadSeed } from './payload.ts';

/** Notices in place of missing lines. */
const MISSING = /^… \(\d+ more debug prints of this message were dropped\)$|^\(\d+ older lines? (?:was|were) dropped: /;

/** Lines about a trap: the ledger's own, or one of a payload that is too large for its carrier. */
const TRAPPED = /^unreachable$|^ic0\.\w+: application payload size \(\d+\) cannot be larger than \d+\.$/;
/** Functions that were open at a trap, below its line. */
const STACK = /\nCanister Backtrace:(?:\n[^\n]+)+$/;

/** Returns the lines of a message that prints so many bytes: a single one unless that exceeds a line by much. */
export function linesOf(number: number, bytes: number): readonly string[] {
  if (bytes === 0) return [];
  const text = Buffer.from(payload(payloadSeed(number, 'debug'), bytes).buffer, 0, bytes).toString('latin1');
  if (bytes <= DEBUG_LINE_BYTES_MAX) return [text];
  if (bytes < 2 * DEBUG_LINE_BYTES_MAX) {
    return [`${text.slice(0, DEBUG_LINE_BYTES_MAX)}… (${bytes - DEBUG_LINE_BYTES_MAX} more bytes)`];
  }
  const lines: string[] = [];
  for (let at = 0; at < Math.min(bytes, DEBUG_BYTES_MAX); at += DEBUG_LINE_BYTES_MAX) {
    lines.push(text.slice(at, at + DEBUG_LINE_BYTES_MAX));
  }
  return lines;
}

/** Throws if a line was not printed by any message. */
export function assertPrinted(actor: string, line: string, written: ReadonlySet<string>): void {
  if (written.has(line) || MISSING.test(line) || TRAPPED.test(line.replace(STACK, ''))) return;
  assert.fail(
    `${actor} has printed what nobody wrote: ${line.length} characters, ${JSON.stringify(line.slice(0, 80))}`,
  );
}
