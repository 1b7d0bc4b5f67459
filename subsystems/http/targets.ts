/**
 * The meaning of a request's target: a path of the interface, or a website's. Everything that depends on it, from the
 * token to the body's cap, is decided by this one look, so that no two checks can take a target for different things.
 *
 *   /site/<ACTOR>/<PATH>   that actor's website; its links are relative to the slash, so one that lacks is put there
 *   with --site-hosts, at a host name that is an actor's: its website, where the path is not built in
 *   with --site-hosts, ?canisterId=<principal>: the same, at any host
 *   with --web ACTOR: its website, where the path is not built in
 *
 * With --agent-path-token everything below `/t/` is the interface's: a token, and the path of the agent interface.
 *
 * A path is built in if a route of the table has it, whatever the method and the query are. `/` is the inspector's,
 * unless a website is there, or `?canisterId=` asks for one.
 */
import type { IncomingMessage } from 'node:http';
import type { Gateway } from '../gateway/index.ts';
import { mayHavePathToken, takePathToken } from './path-token.ts';
import { absoluteFormOf, formDecoded } from './request-target.ts';
import { type RouteSpec, ROUTES } from './route-table.ts';

/** A website's target. */
export interface SiteTarget {
  /** The actor as it was written: name, hex id or principal. */
  readonly actor: string;
  /** Path and query as they were sent, which the actor gets to see. */
  readonly url: string;
  /** `/site/<ACTOR>/` of a target that is `/site/<ACTOR>`, with its query; undefined: the target has its slash. */
  readonly slashed?: string | undefined;
}

/** A path of the interface, or one that is nobody's. */
export const BUILT_IN = 'built-in';
export type Target = SiteTarget | typeof BUILT_IN;

export interface TargetOptions {
  /** The actor whose website is at the root. */
  readonly web?: string | undefined;
  /** Websites have host names. */
  readonly siteHosts?: boolean;
  /** The token may stand in the path (`--agent-path-token`). */
  readonly takesPathTokens?: boolean;
}

const SLASH = 0x2f;
const QUESTION_MARK = 0x3f;
const HASH = 0x23;
const SITE = '/site/';
const HOST_SUFFIX = '.localhost';
/** Longest label of a host name (RFC 1035). */
const LABEL_CHARACTERS_MAX = 63;
const CANISTER_ID = 'canisterId';
const PRINCIPAL = /^(?:[a-z2-7]{5}-){4}[a-z2-7]{3}$/;

export class Targets {
  readonly #gateway: Pick<Gateway, 'referenceOfHost'>;
  readonly #readiness: { readonly isReady: boolean };
  readonly #web: string | undefined;
  readonly #hasHosts: boolean;
  readonly #takesPathTokens: boolean;
  readonly #patterns: Patterns;
  /** The host that was asked last, and its label: most requests name the same. */
  #host: string | undefined = undefined;
  #label: string | undefined = undefined;

  /** `added`: routes of plugins from outside. */
  constructor(
    gateway: Pick<Gateway, 'referenceOfHost'>,
    readiness: { readonly isReady: boolean },
    { web, siteHosts = false, takesPathTokens = false }: TargetOptions,
    added: readonly Pick<RouteSpec, 'path'>[] = [],
  ) {
    this.#patterns = added.length === 0 ? PATTERNS : patternsOf([...ROUTES, ...added]);
    this.#gateway = gateway;
    this.#readiness = readiness;
    this.#web = web;
    this.#hasHosts = siteHosts;
    this.#takesPathTokens = takesPathTokens;
  }

  /** Leaves the target of the request in its origin form; undefined: it has no form that a server takes. */
  read(request: IncomingMessage): Target | undefined {
    let target = request.url ?? '';
    if (target.charCodeAt(0) !== SLASH) {
      if (target === '*' && request.method === 'OPTIONS') {
        request.url = '/*';
        return BUILT_IN;
      }
      const absolute = absoluteFormOf(target);
      if (absolute === undefined) return undefined;
      target = absolute.path;
      request.url = target;
      // RFC 9112, 3.2.2: it takes the place of the header. One that lacks has to be missed all the same.
      if (request.headers.host !== undefined || request.httpVersion === '1.0') request.headers.host = absolute.host;
    }
    if (this.#takesPathTokens && mayHavePathToken(target)) {
      request.url = takePathToken(request, target);
      return BUILT_IN;
    }
    if (target.startsWith(SITE)) return siteTargetOf(target);
    if (this.#web === undefined && !this.#hasHosts) return BUILT_IN;
    return this.#atRoot(request, target);
  }

  #atRoot({ headers }: IncomingMessage, target: string): Target {
    const path = pathOf(target);
    if (path !== '/' && this.#isBuiltIn(path)) return BUILT_IN;
    const byHost = this.#hasHosts ? this.#actorOfHost(headers.host) : undefined;
    if (byHost !== undefined) return { actor: byHost, url: target };
    const actor = (this.#hasHosts ? this.#actorOfQuery(target) : undefined) ?? this.#web;
    return actor === undefined ? BUILT_IN : { actor, url: target };
  }

  /** Returns true if some route has this path, which has no query. */
  #isBuiltIn(path: string): boolean {
    const end = path.indexOf('/', 1);
    const candidates = this.#patterns.get(end < 0 ? path.slice(1) : path.slice(1, end));
    if (candidates === undefined) return false;
    const segments = end < 0 ? [] : path.slice(end + 1).split('/');
    return candidates.some(({ rest, isOpen }) => {
      if (isOpen ? segments.length < rest.length : segments.length !== rest.length) return false;
      return rest.every((word, at) => (word === undefined ? segments[at] !== '' || isOpen : segments[at] === word));
    });
  }

  /**
   * Returns true if the router would see another path than the client wrote: the router percent-decodes the whole
   * path, ends it at a `#` and takes an empty segment for a parameter, but built-in paths are matched exactly. Only
   * what stands in a parameter's place (ACTOR, METHOD, a name) is decoded.
   */
  isDisguised(target: string): boolean {
    if (target.indexOf('#') >= 0 || (target.length > 1 && target.charCodeAt(target.length - 1) === SLASH)) return true;
    if (target.indexOf('%') < 0) return false;
    const path = pathOf(target);
    return path.includes('%') && !this.#isBuiltIn(path);
  }

  #actorOfHost(host: string | undefined): string | undefined {
    if (host !== this.#host) {
      this.#host = host;
      this.#label = host === undefined ? undefined : labelOf(host);
    }
    const label = this.#label;
    if (label === undefined) return undefined;
    // Which actors there are is not known yet, and whatever has such a name is told that the server starts.
    return this.#gateway.referenceOfHost(label) ?? (this.#readiness.isReady ? undefined : label);
  }

  /** `?canisterId=`, as front ends of the Internet Computer have it. */
  #actorOfQuery(target: string): string | undefined {
    const start = target.indexOf('?');
    if (start < 0) return undefined;
    const parameters = target.slice(start + 1).split('&');
    const parameter = parameters.find((part) => formDecoded(part.split('=', 1)[0] ?? '') === CANISTER_ID);
    const principal = parameter === undefined ? undefined : formDecoded(parameter.slice(parameter.indexOf('=') + 1));
    if (principal === undefined || !PRINCIPAL.test(principal)) return undefined;
    return this.#gateway.referenceOfHost(principal);
  }
}

/** `website` of `Website.localhost:7000`; undefined: it is no name of that kind. */
function labelOf(host: string): string | undefined {
  const name = hostNameOf(host);
  if (!name.endsWith(HOST_SUFFIX)) return undefined;
  const label = name.slice(0, -HOST_SUFFIX.length);
  return label === '' || label.length > LABEL_CHARACTERS_MAX || label.includes('.') ? undefined : label;
}

/** The name in a `Host`, in small letters, without its port and without the dot of a full name. */
export function hostNameOf(host: string): string {
  const name = host.toLowerCase().replace(/:\d*$/, '');
  return name.endsWith('.') ? name.slice(0, -1) : name;
}

function siteTargetOf(target: string): SiteTarget {
  let end = SITE.length;
  for (; end < target.length; end++) {
    const code = target.charCodeAt(end);
    if (code === SLASH || code === QUESTION_MARK || code === HASH) break;
  }
  const actor = decoded(target.slice(SITE.length, end));
  if (target.charCodeAt(end) === SLASH) return { actor, url: target.slice(end) };
  const url = `/${target.slice(end)}`;
  // A fragment is none that a browser sends.
  return target.charCodeAt(end) === HASH ? { actor, url } : { actor, url, slashed: target.slice(0, end) + url };
}

/** Returns a segment decoded, or as it is if it cannot be decoded: then it is nobody's name. */
function decoded(segment: string): string {
  if (!segment.includes('%')) return segment;
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

function pathOf(target: string): string {
  const query = target.indexOf('?');
  return query < 0 ? target : target.slice(0, query);
}

/** Segments behind the first one: a word, or undefined for any that is not empty; `isOpen`: more may follow. */
interface PathPattern {
  readonly rest: readonly (string | undefined)[];
  readonly isOpen: boolean;
}

type Patterns = ReadonlyMap<string, readonly PathPattern[]>;
const PATTERNS: Patterns = patternsOf(ROUTES);

function patternsOf(routes: readonly Pick<RouteSpec, 'path'>[]): Map<string, PathPattern[]> {
  const patterns = new Map<string, PathPattern[]>();
  for (const { path } of routes) {
    const [first = '', ...rest] = path.slice(1).split('/');
    const pattern = {
      rest: rest.map((segment) => (segment.startsWith(':') || segment === '*' ? undefined : segment)),
      isOpen: path.endsWith('*'),
    };
    patterns.set(first, [...(patterns.get(first) ?? []), pattern]);
  }
  return patterns;
}
