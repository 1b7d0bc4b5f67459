import type { EndedOutcall } from '../management/index.ts';
import { NOTED_ARGUMENT_BYTES_MAX } from '../scheduler/index.ts';

/** `DIDL`, no types, `(text)` and `(text, nat16)`. */
const TEXT = Uint8Array.from([...Buffer.from('DIDL'), 0, 1, 0x71]);
const TEXT_AND_STATUS = Uint8Array.from([...Buffer.from('DIDL'), 0, 2, 0x71, 0x7a]);
/** With these, the length in two bytes and the status it is at most as long as what is noted. */
const CHARACTERS_MAX = NOTED_ARGUMENT_BYTES_MAX - TEXT_AND_STATUS.length - 4;

/** What histories show of an outcall where other messages have their argument: a Candid message, `("GET https://…", 200 : nat16)`. */
export function outcallText({ method, url, status }: EndedOutcall): Uint8Array {
  const whole = `${method} ${url}`;
  // A URL is ASCII.
  const text = Buffer.from(whole.length > CHARACTERS_MAX ? `${whole.slice(0, CHARACTERS_MAX - 3)}...` : whole);
  const length = text.length < 128 ? [text.length] : [(text.length & 127) | 128, text.length >> 7];
  if (status === 0) return Buffer.concat([TEXT, Uint8Array.from(length), text]);
  return Buffer.concat([TEXT_AND_STATUS, Uint8Array.from(length), text, Uint8Array.of(status & 255, status >> 8)]);
}
