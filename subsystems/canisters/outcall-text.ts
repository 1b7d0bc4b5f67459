import type { EndedOutcall } from '../management/index.ts';
import { NOTED_ARGUMENT_BYTES_MAX } from '../scheduler/index.ts';

/** `DIDL`, no types, `(text)` and `(text, nat16)`. */
const TEXT = Uint8Array.from([...Buffer.from('DIDL'), 0, 1, 0x71]);
const TEXT_AND_STATUS = Uint8Array.from([...Buffer.from('DIDL'), 0, 2, 0x71, 0x7a]);
/** With these, the length in two bytes and the status it is at most as long as what is noted. */
const CHARACTERS_MAX = NOTED_ARGUMENT_BYTES_MAX - TEXT_AND_STATUS.length - 4;

/**
 * Returns the Candid message that histories show of an outcall in place of an argument: `("GET https://…", 200 :
 * nat16)`.
 */
export function outcallText({ method, url, status }: EndedOutcall): Uint8Array {
  const whole = `${method} ${url}`;
  // A URL is ASCII.
  const text = whole.length > CHARACTERS_MAX ? `${whole.slice(0, CHARACTERS_MAX - 3)}...` : whole;
  const { length } = text;
  const head = status === 0 ? TEXT : TEXT_AND_STATUS;
  const bytes = Buffer.allocUnsafe(head.length + (length < 128 ? 1 : 2) + length + (status === 0 ? 0 : 2));
  bytes.set(head);
  let at = head.length;
  if (length > 127) bytes[at++] = (length & 127) | 128;
  bytes[at++] = length < 128 ? length : length >> 7;
  at += bytes.write(text, at, 'latin1');
  if (status !== 0) bytes.writeUInt16LE(status, at);
  return bytes;
}
