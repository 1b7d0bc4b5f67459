import { ServerError } from '../../kernel/index.ts';

const MIB = 1024 * 1024;
/** Modules are large: the largest that the reference hosts take, with room for a wrapper. */
export const MODULE_BYTES_MAX = 192 * MIB;
export const GUARDED_BYTES_MAX = 64 * MIB;
export const GATEWAY_BYTES_MAX = 8 * MIB;

const SLASH = 0x2f;

/** Targets that need no token when they are asked for with GET, matched on the whole target: `/health?x=1` is not among them. */
const OPEN_TARGETS: ReadonlySet<string> = new Set(['/health', '/health/ready', '/version', '/inspector', '/']);
const HEALTH_PROBES: ReadonlySet<string> = new Set(['/health', '/health/ready']);

export function isGatewayTarget(target: string): boolean {
  return target.startsWith('/site/');
}

export function isOpenTarget(method: string | undefined, target: string): boolean {
  return (method === 'GET' && OPEN_TARGETS.has(target)) || isGatewayTarget(target);
}

export function isHealthProbe(method: string | undefined, target: string): boolean {
  return method === 'GET' && HEALTH_PROBES.has(target);
}

/** The class of endpoints that a route belongs to, for counting: the first segment of its path. */
export function endpointOf(path: string): string {
  return path === '/' ? 'inspector' : (path.split('/', 2)[1] ?? '');
}

/** How large a body this target takes. */
export function bodyBytesMaxOf(target: string): number {
  if (target.startsWith('/install/') || target.startsWith('/upgrade/')) return MODULE_BYTES_MAX;
  return isGatewayTarget(target) ? GATEWAY_BYTES_MAX : GUARDED_BYTES_MAX;
}

/**
 * The origin form of a request target. A proxy may send the absolute form (`http://host/path`), which every server
 * must take; undefined if it is neither.
 */
export function originFormOf(target: string): string | undefined {
  if (target.charCodeAt(0) === SLASH) return target;
  const scheme = /^https?:\/\/[^/?#]+/i.exec(target);
  if (scheme === null) return undefined;
  const rest = target.slice(scheme[0].length);
  return rest.charCodeAt(0) === SLASH ? rest : `/${rest}`;
}

/**
 * Whether the router would see another path than the client wrote: it percent-decodes the whole path, ends it at a `#`
 * and takes an empty segment for a parameter, but built-in paths are matched exactly. Only what follows the first
 * segment (ACTOR, METHOD, a name) is decoded.
 */
export function isDisguisedTarget(target: string): boolean {
  if (target.indexOf('#') >= 0 || (target.length > 1 && target.charCodeAt(target.length - 1) === SLASH)) return true;
  const percent = target.indexOf('%');
  if (percent < 0) return false;
  const segmentEnd = target.indexOf('/', 1);
  const queryStart = target.indexOf('?');
  return percent < (segmentEnd < 0 ? target.length : segmentEnd) && (queryStart < 0 || percent < queryStart);
}

/**
 * The query parameters of a target, all of them among `known`. An unknown, repeated or empty one makes it a target
 * that does not exist: ServerError `missing`. Values are raw (not percent-decoded).
 */
export function queryParametersOf(target: string, known: readonly string[]): ReadonlyMap<string, string> {
  const parameters = new Map<string, string>();
  const start = target.indexOf('?');
  if (start < 0) return parameters;
  for (const part of target.slice(start + 1).split('&')) {
    const equals = part.indexOf('=');
    const name = equals < 0 ? part : part.slice(0, equals);
    if (!known.includes(name)) {
      const takes = known.length === 0 ? 'this path takes no query' : `this path takes ${known.join(', ')}`;
      throw new ServerError(
        'missing',
        'unknown-query',
        `unknown query parameter ${JSON.stringify(name.slice(0, 40))}: ${takes}`,
      );
    }
    if (parameters.has(name))
      throw new ServerError('missing', 'unknown-query', `query parameter ${name} is given twice`);
    parameters.set(name, equals < 0 ? '' : part.slice(equals + 1));
  }
  return parameters;
}

/** Whether the flag `name` is set; its only value is 1. */
export function isFlagSet(parameters: ReadonlyMap<string, string>, name: string): boolean {
  const value = parameters.get(name);
  if (value === undefined) return false;
  if (value === '1') return true;
  throw new ServerError('missing', 'unknown-query', `query parameter ${name}: expected ${name}=1`);
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
