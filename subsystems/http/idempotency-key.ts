import { ServerError } from '../../kernel/index.ts';

/** As long as a header's value is by good custom; it is kept for a day. */
const LENGTH_MAX = 255;
const VISIBLE_ASCII = /^[\x21-\x7e]+$/;

/** The key that a client gives its call; undefined without the header. Throws ServerError `invalid`. */
export function idempotencyKeyOf(header: string | string[] | undefined): string | undefined {
  if (header === undefined) return undefined;
  // Node joins repeated ones by a comma and a blank, which no key has.
  const key = typeof header === 'string' ? header : header.join(', ');
  if (key.length <= LENGTH_MAX && VISIBLE_ASCII.test(key)) return key;
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
