import { ServerError } from '../../kernel/index.ts';
import { firstSegmentOf, GATEWAY_BYTES_MAX, GUARDED_BYTES_MAX, type RouteSpec, ROUTES } from './route-table.ts';

const SLASH = 0x2f;
const NO_QUERY: ReadonlyMap<string, string> = new Map();

const SPECS: readonly RouteSpec[] = ROUTES;
/**
 * Targets that need no token when they are asked for with GET, matched on the whole target: `/health?x=1` is not
 * among them.
 */
const OPEN_TARGETS: ReadonlySet<string> = new Set(
  SPECS.filter(({ access }) => access !== 'token').map(({ path }) => path),
);
const PROBES: ReadonlySet<string> = new Set(SPECS.filter(({ access }) => access === 'probe').map(({ path }) => path));
/** Paths that take another size of body than most, by `capKeyOf`. */
const BODY_BYTES_MAX: ReadonlyMap<string, number> = new Map(
  SPECS.flatMap(({ method, path, bodyBytesMax }) =>
    bodyBytesMax === undefined ? [] : [[capKeyOf(method, path), bodyBytesMax]],
  ),
);

/** A body up to here is small enough for every target. */
export const BODY_BYTES_MIN = Math.min(GATEWAY_BYTES_MAX, GUARDED_BYTES_MAX, ...BODY_BYTES_MAX.values());

export function isOpenTarget(method: string | undefined, target: string): boolean {
  return method === 'GET' && OPEN_TARGETS.has(target);
}

export function isHealthProbe(method: string | undefined, target: string): boolean {
  return method === 'GET' && PROBES.has(target);
}

/** Returns the number of bytes that a body for this target may have; the target is no website's. */
export function bodyBytesMaxOf(method: string | undefined, target: string): number {
  return BODY_BYTES_MAX.get(capKeyOf(method, target)) ?? GUARDED_BYTES_MAX;
}

/** Returns method and first segment (`POST install`); of paths below `/x/`, which share theirs, the first three. */
function capKeyOf(method: string | undefined, path: string): string {
  return `${method ?? ''} ${/^\/x\/[^/?#]+\/[^/?#]+/.exec(path)?.[0] ?? firstSegmentOf(path)}`;
}

/**
 * The absolute form of a request target (`http://host/path`), which a proxy may send and every server must take, in its
 * parts; undefined if it is none.
 */
export function absoluteFormOf(target: string): { readonly host: string; readonly path: string } | undefined {
  const match = /^https?:\/\/([^/?#]+)/i.exec(target);
  if (match === null) return undefined;
  const rest = target.slice(match[0].length);
  return { host: match[1] ?? '', path: rest.charCodeAt(0) === SLASH ? rest : `/${rest}` };
}

/**
 * Returns the query parameters of a target, names and values decoded, all of them among those that the route takes.
 * Throws ServerError `missing` for an unknown parameter, an empty query, or a parameter
 * that is repeated and must not be, which makes the target one that does not
 * exist, and for a value other than those that a parameter takes. Throws ServerError `invalid` for any other value
 * that cannot be decoded.
 */
export function queryOf(
  target: string,
  { query: known = {}, repeated }: Pick<RouteSpec, 'query' | 'repeated'>,
): ReadonlyMap<string, string> {
  const start = target.indexOf('?');
  if (start < 0) return NO_QUERY;
  const parameters = new Map<string, string>();
  const query = target.slice(start + 1);
  for (const part of query.split('&')) {
    // Forms read over what is empty between two parameters.
    if (part === '' && query !== '') continue;
    const equals = part.indexOf('=');
    const written = equals < 0 ? part : part.slice(0, equals);
    const name = formDecoded(written) ?? written;
    const value = equals < 0 ? '' : formDecoded(part.slice(equals + 1));
    if (!Object.hasOwn(known, name)) throw noSuchTarget(unknownParameter(name, Object.keys(known)));
    if (parameters.has(name) && name !== repeated) throw noSuchTarget(`query parameter ${name} is given twice`);
    const expected = known[name];
    const allowed = typeof expected === 'string' ? [expected] : expected;
    if (allowed !== undefined && !(value !== undefined && allowed.includes(value)))
      throw noSuchTarget(`query parameter ${name}: expected ${allowed.map((each) => `${name}=${each}`).join(' or ')}`);
    if (value === undefined)
      throw new ServerError('invalid', 'bad-parameter', `query parameter ${name}: expected percent-encoded UTF-8`);
    parameters.set(name, value);
  }
  return parameters;
}

/** Returns all values of a parameter that may be repeated, of a target whose query `queryOf` has checked. */
export function repeatedParameter(target: string, wanted: string): readonly string[] {
  const parts = target.slice(target.indexOf('?') + 1).split('&');
  return parts.flatMap((part) => {
    const equals = part.indexOf('=');
    if (formDecoded(equals < 0 ? part : part.slice(0, equals)) !== wanted) return [];
    return [equals < 0 ? '' : (formDecoded(part.slice(equals + 1)) ?? '')];
  });
}

/**
 * Returns a name or a value of a query as its sender meant it (application/x-www-form-urlencoded, as
 * `URLSearchParams` and forms of browsers write it): `+` is a blank, `%hh` a byte of UTF-8. Returns undefined if the
 * text cannot be decoded.
 */
export function formDecoded(text: string): string | undefined {
  const spaced = text.includes('+') ? text.replaceAll('+', ' ') : text;
  if (!spaced.includes('%')) return spaced;
  try {
    return decodeURIComponent(spaced);
  } catch {
    return undefined;
  }
}

function unknownParameter(name: string, known: readonly string[]): string {
  const takes = known.length === 0 ? 'this path takes no query' : `this path takes ${known.join(', ')}`;
  return `unknown query parameter ${JSON.stringify(name.slice(0, 40))}: ${takes}`;
}

function noSuchTarget(message: string): ServerError {
  return new ServerError('missing', 'unknown-query', message);
}

/** Bytes written as `0x<hex>`. Throws ServerError `invalid`. */
export function hexParameter(parameters: ReadonlyMap<string, string>, name: string): Uint8Array | undefined {
  const value = parameters.get(name);
  if (value === undefined) return undefined;
  if (!/^0x(?:[0-9a-fA-F]{2})*$/.test(value)) {
    throw new ServerError(
      'invalid',
      'bad-argument',
      `query parameter ${name}: expected 0x and an even number of hex digits`,
    );
  }
  return Buffer.from(value.slice(2), 'hex');
}
