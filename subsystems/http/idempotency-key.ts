import { ServerError } from '../../kernel/index.ts';

/** Characters of a key: as many as a header's value has by good custom; the key is kept for a day. */
const LENGTH_MAX = 255;

/** The key that a client gives its call; undefined without the header. Throws ServerError `invalid`. */
export function idempotencyKeyOf(header: string | string[] | undefined): string | undefined {
  if (header === undefined) return undefined;
  // Node joins repeated ones by a comma and a blank, which no key has.
  const key = typeof header === 'string' ? header : header.join(', ');
  if (key.length > 0 && key.length <= LENGTH_MAX && isVisibleAscii(key)) return key;
  const reason =
    key.length === 0 || key.length > LENGTH_MAX
      ? `it has ${key.length} characters`
      : 'it holds something other than visible ASCII characters';
  throw new ServerError(
    'invalid',
    'idempotency-key-bad',
    `header idempotency-key: ${reason}; a key is 1 to ${LENGTH_MAX} visible ASCII characters, such as a UUID`,
  );
}

/** Not a regular expression: to call one takes longer than to look at so few characters. */
function isVisibleAscii(text: string): boolean {
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code < 0x21 || code > 0x7e) return false;
  }
  return true;
}
