/**
 * Checks the argument of `http_request` and makes a request of it that is safe to send. Everything in the argument is
 * hostile.
 */
import { sameBytes } from '../../ic/index.ts';
import type { OutcallHeader, OutcallMethod, OutcallRequest } from '../../outcalls/index.ts';
import type { HttpRequestJson } from '../candid-types.ts';
import { tagOf, toBytes, toNat, toPrincipal } from '../candid-values.ts';
import { REFUSE } from '../refusal.ts';
import { NO_BYTES } from '../../bytes/index.ts';

/** Limit for headers and body of a request, and for those of a response, as on the IC. */
const OUTCALL_BYTES_MAX = 2_000_000;
const URL_CHARACTERS_MAX = 8192;
const HEADERS_MAX = 64;
/** Limit for a header's name, and for its value. */
const HEADER_BYTES_MAX = 8 * 1024;
/** Limit for all names and values together. */
const HEADERS_BYTES_MAX = 48 * 1024;
const SHOWN_CHARACTERS = 100;

/** Headers that are added if the canister sends none of the name; they are not counted. */
const DEFAULT_HEADERS: readonly OutcallHeader[] = [
  { name: 'user-agent', value: 'ic/1.0' },
  // Without this header a server may compress its response, which the canister would have to unpack.
  { name: 'accept-encoding', value: 'identity' },
];

/** Headers of the connection, which belongs to the host: with them a canister could smuggle in a second request. */
const OF_THE_CONNECTION = new Set([
  'connection',
  'expect',
  'http2-settings',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);

const METHODS = {
  get: 'GET',
  head: 'HEAD',
  post: 'POST',
  put: 'PUT',
  delete: 'DELETE',
  patch: 'PATCH',
} as const satisfies Record<string, OutcallMethod>;
/**
 * Methods that only one node may send on the IC. This host is always one node, but a request that asks for more would
 * fail there.
 */
const NOT_REPLICATED: ReadonlySet<OutcallMethod> = new Set<OutcallMethod>(['PUT', 'DELETE', 'PATCH']);

export interface CheckedTransform {
  readonly method: string;
  /** base64, as received. */
  readonly context: string;
}

export interface CheckedOutcall {
  readonly request: OutcallRequest;
  /** Host and port: the server, for the limit on requests to one server. */
  readonly host: string;
  /** Counted bytes of the request. */
  readonly bytes: number;
  readonly transform: CheckedTransform | undefined;
}

/** Returns the checked request. Throws Refusal IC0408 for anything that breaks a limit or a rule of HTTP. */
export function checkedOutcall(argument: HttpRequestJson, sender: Uint8Array): CheckedOutcall {
  const url = checkedUrl(argument.url);
  const method = METHODS[tagOf(argument.method)];
  if (NOT_REPLICATED.has(method) && argument.is_replicated !== false)
    throw REFUSE.badArgument(`method ${method.toLowerCase()} needs is_replicated = opt false`);
  const body = argument.body === null ? NO_BYTES : toBytes(argument.body);
  const { headers, bytes: headerBytes } = checkedHeaders(argument.headers, body.length);
  const bytes = headerBytes + body.length;
  if (bytes > OUTCALL_BYTES_MAX)
    throw REFUSE.badArgument(`headers and body have ${bytes} bytes: at most ${OUTCALL_BYTES_MAX} are allowed`);
  const responseBytesMax =
    argument.max_response_bytes === null ? OUTCALL_BYTES_MAX : toNat(argument.max_response_bytes);
  if (responseBytesMax > OUTCALL_BYTES_MAX)
    throw REFUSE.badArgument(`max_response_bytes is ${responseBytesMax}: at most ${OUTCALL_BYTES_MAX} are allowed`);
  return {
    request: { sender, method, url: url.href, headers, body, responseBytesMax: Number(responseBytesMax) },
    host: url.host,
    bytes,
    transform: checkedTransform(argument, sender),
  };
}

/** Returns the broken limit of a response's headers, the same limits as for requests; undefined if there is none. */
export function headersProblem(headers: readonly OutcallHeader[]): string | undefined {
  if (headers.length > HEADERS_MAX) return `there are ${headers.length} headers: at most ${HEADERS_MAX} are allowed`;
  let total = 0;
  for (const { name, value } of headers) {
    const bytes = [Buffer.byteLength(name), Buffer.byteLength(value)];
    if (bytes.some((length) => length > HEADER_BYTES_MAX))
      return `header ${shown(name)}: a name and a value have at most ${HEADER_BYTES_MAX} bytes each`;
    for (const length of bytes) total += length;
  }
  if (total > HEADERS_BYTES_MAX) return `the headers have ${total} bytes: at most ${HEADERS_BYTES_MAX} are allowed`;
  return undefined;
}

export function bytesOfHeaders(headers: readonly OutcallHeader[]): number {
  return headers.reduce((sum, { name, value }) => sum + Buffer.byteLength(name) + Buffer.byteLength(value), 0);
}

function checkedUrl(text: string): URL {
  if (text.length > URL_CHARACTERS_MAX)
    throw REFUSE.badArgument(`url has ${text.length} characters: at most ${URL_CHARACTERS_MAX} are allowed`);
  // The URL parser would remove these silently.
  if (/[\x00-\x20\x7f\\]/.test(text)) throw REFUSE.badArgument('url has a blank, a control character or a backslash');
  expectAuthority(text);
  const url = URL.parse(text);
  if (url === null)
    throw REFUSE.badArgument(`url ${shown(text)} is no absolute URL: what stands for host and port is neither`);
  // Setting `hash` rewrites the URL, so it is set only if needed.
  if (url.hash !== '' || url.href.endsWith('#')) url.hash = '';
  return url;
}

/**
 * Refuses URLs without a proper host. The URL parser uses the next part as the host if there is none, and removes an
 * empty user name: the request would go to another server than the one that was meant.
 */
function expectAuthority(text: string): void {
  const [, scheme, slashes = '', authority = ''] = /^([a-z][a-z0-9+.-]*:)(\/{0,2})([^/?#]*)/i.exec(text) ?? [];
  if (scheme === undefined) throw REFUSE.badArgument(`url ${shown(text)} is no absolute URL: it begins with no scheme`);
  if (!/^https?:$/i.test(scheme))
    throw REFUSE.badArgument(`url begins with ${shown(scheme)}: only https: and http: are allowed`);
  const place = `at character ${scheme.length + slashes.length + 1}`;
  if (slashes !== '//')
    throw REFUSE.badArgument(`url ${shown(text)} needs // ${place}, between ${scheme} and the host`);
  if (/^(?::|$)/.test(authority)) throw REFUSE.badArgument(`url ${shown(text)} has no host ${place}`);
  if (authority.includes('@'))
    throw REFUSE.badArgument(`url holds a user name or a password ${place}: send the header authorization`);
  if (/:0*$/.test(authority) && !authority.endsWith(':'))
    throw REFUSE.badArgument(`url ${shown(text)} has port 0, where nobody listens`);
}

function checkedHeaders(
  given: HttpRequestJson['headers'],
  bodyBytes: number,
): { readonly headers: readonly OutcallHeader[]; readonly bytes: number } {
  const problem = headersProblem(given);
  if (problem !== undefined) throw REFUSE.badArgument(problem);
  const headers: OutcallHeader[] = [];
  const names = new Set<string>();
  for (const { name, value } of given) {
    if (!/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(name)) throw REFUSE.badArgument(`${shown(name)} is no name of a header`);
    // Characters that end a header or a request.
    if (/[\x00-\x08\x0a-\x1f\x7f]/.test(value))
      throw REFUSE.badArgument(`header ${shown(name)}: the value has a control character`);
    const lower = name.toLowerCase();
    if (OF_THE_CONNECTION.has(lower)) throw REFUSE.badArgument(`header ${shown(name)} is the host's own: leave it out`);
    if (lower === 'host' && names.has(lower)) throw REFUSE.badArgument('header host is there twice');
    names.add(lower);
    // The host sends this header itself.
    if (lower !== 'content-length') headers.push({ name, value });
    else if (value !== String(bodyBytes))
      throw REFUSE.badArgument(`header content-length says ${shown(value)}, and the body has ${bodyBytes} bytes`);
  }
  for (const header of DEFAULT_HEADERS) if (!names.has(header.name)) headers.push(header);
  return { headers, bytes: bytesOfHeaders(given) };
}

function checkedTransform({ transform }: HttpRequestJson, sender: Uint8Array): CheckedTransform | undefined {
  if (transform === null) return undefined;
  const { principal, method } = transform.function;
  if (!sameBytes(toPrincipal(principal), sender))
    throw REFUSE.badArgument('transform.function is not one of the calling canister');
  return { method, context: transform.context };
}

function shown(text: string): string {
  return JSON.stringify(text.slice(0, SHOWN_CHARACTERS));
}
