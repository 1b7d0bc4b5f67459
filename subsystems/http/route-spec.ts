import type { ActorScope, HostScope } from '../auth/index.ts';
import type { JobKind } from './job-log.ts';

type RouteMethod = 'GET' | 'POST' | 'PUT' | 'DELETE';

/** One method of one path, as a client sees it. */
export interface RouteSpec {
  readonly method: RouteMethod;
  /** Path in the router's notation: `/call/:actor/:method`. Segments after the first are percent-decoded, once. */
  readonly path: string;
  /** Open: needs no token when the target is this path to the letter. A probe answers while the server starts, too. */
  readonly access: 'token' | 'open' | 'probe';
  /**
   * The scope that a token with scopes needs here: one of the whole host, or one of the actor that the path names
   * (of `/watch`: that each query names). `any`: every token will do. Without a scope, the route takes no such token.
   */
  readonly scope?: HostScope | ActorScope | 'any';
  /** A further scope that such a token needs, of the actor that the path names. */
  readonly alsoScope?: ActorScope;
  /**
   * Query parameters by name, with the value or the values that a parameter takes, or undefined if the route reads the
   * value itself.
   */
  readonly query?: Readonly<Record<string, string | readonly string[] | undefined>>;
  /** The query parameter that may be there several times. */
  readonly repeated?: string;
  /** Bytes that a body may have; default GUARDED_BYTES_MAX. */
  readonly bodyBytesMax?: number;
  /** True if answers last as long as their clients like: the metrics do not tell how long. */
  readonly isOpenEnded?: true;
  /** True for what changes something or reads secrets: `--audit` tells of it. */
  readonly isAudited?: true;
  /** True where the header `x-caller` says who calls. */
  readonly takesCaller?: true;
  /** The log's name for this work, if it is a job. */
  readonly job?: JobKind;
  /** The bodies that a client sends and gets, for the table of docs/http.md. */
  readonly request: string;
  readonly answer: string;
}
