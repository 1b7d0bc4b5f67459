/**
 * How many values an argument may have. The codec bounds its bytes, but a list of ten million empty blobs has ten megabytes, and as values
 * of JavaScript it takes gigabytes, and the main thread seconds.
 */
import { REFUSE } from './refusal.ts';

/** More than any use of the methods needs; reading and converting as many takes some 50 ms. */
export const ARGUMENT_VALUES_MAX = 65_536;
const COMMA = 0x2c;

/** Throws Refusal `IC0408` for a JSON text with more values. Commas are counted, of texts too: no method takes texts with so many. */
export function refuseManyValues(json: Uint8Array): void {
  let count = 1;
  for (let at = json.indexOf(COMMA); at >= 0; at = json.indexOf(COMMA, at + 1)) {
    if (++count > ARGUMENT_VALUES_MAX)
      throw REFUSE.badArgument(`the argument has more than ${ARGUMENT_VALUES_MAX} values`);
  }
}
