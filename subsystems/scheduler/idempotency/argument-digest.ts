/**
 * The digest by which an argument is compared when its key comes again: a short argument itself, else its SHA-256.
 * Main thread; a large argument is hashed in pieces, a turn of the event loop each.
 */
import { createHash, hash } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';

/** As long as its hash. */
const VERBATIM_BYTES_MAX = 32;
/** About 5 ms. */
const PIECE_BYTES = 4 * 2 ** 20;

/** A character a byte. A promise only for what takes long; the argument must stay as it is meanwhile. */
export function digestOf(argument: Uint8Array): string | Promise<string> {
  const { length } = argument;
  if (length <= VERBATIM_BYTES_MAX) return `=${latin1Of(argument)}`;
  return length <= PIECE_BYTES ? `#${hash('sha256', argument, 'latin1')}` : inPieces(argument);
}

/** Returns a character for each of a few bytes. Spreading the bytes into arguments would take five times as long. */
export function latin1Of(bytes: Uint8Array): string {
  return String(Reflect.apply(String.fromCharCode, undefined, bytes));
}

async function inPieces(argument: Uint8Array): Promise<string> {
  const hashing = createHash('sha256');
  for (let at = 0; at < argument.length; at += PIECE_BYTES) {
    hashing.update(argument.subarray(at, at + PIECE_BYTES));
    await nextTurn();
  }
  return `#${hashing.digest('latin1')}`;
}
