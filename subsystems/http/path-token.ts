/**
 * `--agent-path-token`: the token as the first part of an agent's base address, `http://host:7000/t/<TOKEN>/`, for
 * clients that have no place for credentials. It is taken out of the target and put where a header would have it,
 * before anything else looks at the request: so the checks are those of the header, and no log, error or line of the
 * audit has a target with a token.
 */
import type { IncomingMessage } from 'node:http';

const PREFIX = '/t/';
const TARGET = /^\/t\/([^/?#]*)/;

/** Returns true if a path token may be in the target. */
export function mayHavePathToken(target: string): boolean {
  return target.startsWith(PREFIX);
}

/**
 * Makes the token of the path the `Authorization` of the request, whatever that was, and returns the target without it:
 * the path below `/api`, or for any other one that no route has.
 */
export function takePathToken({ headers }: Pick<IncomingMessage, 'headers'>, target: string): string {
  const [whole = '', token = ''] = TARGET.exec(target) ?? [];
  headers.authorization = `Bearer ${decoded(token)}`;
  const rest = target.slice(whole.length);
  // The token counts at `/api` alone, as the password of Basic credentials does.
  return rest.startsWith('/api/') ? rest : `/t${rest}`;
}

/** Returns the bytes of a percent-encoded text as node:http shows those of a header: one character for each. */
function decoded(text: string): string {
  return text.replaceAll(/%([\da-f]{2})/gi, (_whole, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
}
