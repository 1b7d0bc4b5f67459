/**
 * The meaning of a request without `Authorization`: a call of an open method, or nothing that it may ask for. The
 * target is read once, here; who serves the request takes actor and method from what this look has found, so that no
 * router can take the target for another one.
 */
import type { IncomingMessage } from 'node:http';
import { ServerError } from '../../kernel/index.ts';
import type { Canister } from '../canisters/index.ts';
import type { RouteKey } from './route-table.ts';
import type { ServedCanisters } from './route.ts';

type CallRoute = `POST /${'call' | 'query' | 'call-json' | 'query-json'}/:actor/:method`;
/** Routes that open methods answer at. */
export type OpenRoute = Extract<RouteKey, CallRoute | 'GET /watch/:actor/:method' | 'GET /watch' | 'POST /watch'>;

/** A target that may be asked for without the token; the queries of `/watch` alone are looked at later. */
export class OpenTarget {
  readonly route: OpenRoute;
  readonly actor: string;
  readonly method: string;

  constructor(route: OpenRoute, actor: string, method: string) {
    this.route = route;
    this.actor = actor;
    this.method = method;
  }
}

const CALL = /^\/(call|query|call-json|query-json)\/([^/?#]+)\/([^/?#]+)(?:\?[^#]*)?$/;
const WATCH = /^\/watch\/([^/?#]+)\/([^/?#]+)(?:\?[^#]*)?$/;
const WATCH_SEVERAL = /^\/watch(?:\?[^#]*)?$/;

type OpenCanisters = Pick<ServedCanisters, 'haveOpenMethods' | 'resolveIfAny'>;

/** Looks for what a request without `Authorization` may ask for. */
export class OpenTargets {
  readonly #canisters: OpenCanisters;
  /** Requests that were let in, and those for calls that were not, while any method is open. */
  admitted = 0;
  refused = 0;

  /** Returns true if another server has the actor of a request: that server knows what is open. */
  isElsewhere: (request: IncomingMessage) => boolean = () => false;

  constructor(canisters: OpenCanisters) {
    this.#canisters = canisters;
  }

  /** Returns what the request may ask for without the token; undefined: nothing. */
  find(request: IncomingMessage): OpenTarget | undefined {
    const { method = '', url = '', headers } = request;
    if (headers.authorization !== undefined) return undefined;
    if (this.isElsewhere(request)) return readTarget(method, url);
    if (!this.#canisters.haveOpenMethods) return undefined;
    const target = readTarget(method, url);
    if (target === undefined) return undefined;
    const isOpen = target.actor === '' || openCanister(this.#canisters, target.actor, target.method) !== undefined;
    if (isOpen) this.admitted++;
    else this.refused++;
    return isOpen ? target : undefined;
  }
}

/** Returns the actor if that method of it is open. */
export function openCanister(canisters: OpenCanisters, actor: string, method: string): Canister | undefined {
  let canister: Canister | undefined;
  try {
    canister = canisters.resolveIfAny(actor);
  } catch (error) {
    // A rejected actor; why is for whoever has the token.
    if (!(error instanceof ServerError)) throw error;
  }
  return canister?.openMethods.names.has(method) === true ? canister : undefined;
}

/** Returns the error of who asks for what is not open: the one of everybody without the right token. */
export function notOpen(): ServerError {
  return new ServerError('unauthenticated', 'token-missing', 'missing or wrong bearer token');
}

function readTarget(method: string, url: string): OpenTarget | undefined {
  const isWatch = url.startsWith('/watch');
  if (isWatch && WATCH_SEVERAL.test(url)) {
    const isServed = method === 'GET' || method === 'POST';
    return isServed ? new OpenTarget(`${method} /watch`, '', '') : undefined;
  }
  if (method !== (isWatch ? 'GET' : 'POST')) return undefined;
  const match = isWatch ? WATCH.exec(url) : CALL.exec(url);
  if (match === null) return undefined;
  const [encodedActor = '', encodedMethod = ''] = match.slice(-2);
  const [actor, name] = [decoded(encodedActor), decoded(encodedMethod)];
  if (actor === undefined || name === undefined) return undefined;
  if (isWatch) return new OpenTarget('GET /watch/:actor/:method', actor, name);
  return new OpenTarget(`POST /${match[1] as 'call'}/:actor/:method`, actor, name);
}

function decoded(segment: string): string | undefined {
  if (!segment.includes('%')) return segment;
  try {
    return decodeURIComponent(segment);
  } catch {
    return undefined;
  }
}
