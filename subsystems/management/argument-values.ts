/**
 * Limit on the number of values in an argument. The codec limits an argument's bytes, but a list of ten million empty
 * blobs has ten megabytes, and its values in JavaScript take gigabytes, and seconds of the main thread.
 */
import { REFUSE } from './refusal.ts';

/** More than any use of the methods needs; reading and converting this many takes some 50 ms. */
export const ARGUMENT_VALUES_MAX = 65_536;
const COMMA = 0x2c;

/**
 * Throws Refusal `IC0408` for a JSON text with more values. Counts commas, even those in texts: no method takes texts
 * with that many.
 */
export function refuseManyValues(json: Uint8Array): void {
  let count = 1;
  for (let at = json.indexOf(COMMA); at >= 0; at = json.indexOf(COMMA, at + 1)) {
    if (++count > ARGUMENT_VALUES_MAX)
      throw REFUSE.badArgument(`the argument has more than ${ARGUMENT_VALUES_MAX} values`);
  }
}
