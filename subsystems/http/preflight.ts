/**
 * The answers to CORS preflights: which methods and headers a page of another origin may send. The server allows every
 * page everything that a client may send, so that the answer depends on the target alone, and for calls on what the
 * page asks for.
 */
import { firstSegmentOf } from './route-table.ts';

const METHODS = 'GET, POST, PUT, DELETE, OPTIONS';
/** Headers that routes read, and those by which traces go on (W3C Trace Context, Baggage). */
const HEADERS =
  'authorization, content-type, x-caller, idempotency-key, last-event-id, traceparent, tracestate, baggage';
/** Paths of calls: front ends have libraries before them that add headers of their own, and none is a secret here. */
const CALLS: ReadonlySet<string> = new Set(['call', 'call-json', 'query', 'query-json']);
/** Names of headers (RFC 9110, 5.6.2) with commas between them. */
const NAMES = /^[\w!#$%&'*+\-.^`|~]+(?:[ \t]*,[ \t]*[\w!#$%&'*+\-.^`|~]+)*$/;
/** Longer lists are no page's. */
const ASKED_CHARACTERS_MAX = 1024;

const ANSWER: readonly string[] = answerWith(HEADERS);

/**
 * Returns the headers of the answer, names and values by turns. `asked` is the request's
 * `Access-Control-Request-Headers`; what is no list of at most 1,024 characters counts as none.
 */
export function preflightHeaders(target: string, asked: string | undefined): readonly string[] {
  if (asked === undefined || asked.length > ASKED_CHARACTERS_MAX || !CALLS.has(firstSegmentOf(target))) return ANSWER;
  return NAMES.test(asked) ? answerWith(`${HEADERS}, ${asked}`) : ANSWER;
}

function answerWith(headers: string): readonly string[] {
  return [
    'access-control-allow-methods',
    METHODS,
    'access-control-allow-headers',
    headers,
    'access-control-max-age',
    '86400',
  ];
}
