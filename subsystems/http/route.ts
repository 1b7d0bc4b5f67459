import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Clock, Logger, Readiness } from '../../kernel/index.ts';
import type { Canisters } from '../canisters/index.ts';
import type { Codec } from '../codec/index.ts';
import type { Metrics } from '../metrics/index.ts';
import type { Storage } from '../storage/index.ts';
import type { JobKind, JobLog } from './job-log.ts';
import type { Responder } from './responder.ts';
import type { CallerClaims } from './x-caller.ts';

/** Percent-decoded segments of the path; a route names the ones it has. */
export interface RouteParameters {
  readonly actor: string;
  readonly method: string;
  readonly name: string;
}

/** One path of the interface (docs/http.md). Whoever handles it answers through the host's responder, exactly once. */
export interface Route {
  readonly method: 'GET' | 'POST' | 'DELETE';
  /** In the router's notation: `/call/:actor/:method`. */
  readonly path: string;
  /** What the log calls this work, if it is a job. The route logs what it did; what it throws is logged by its caller. */
  readonly job?: JobKind;
  /** What it throws, or rejects with, is answered as an error. */
  handle(request: IncomingMessage, response: ServerResponse, parameters: RouteParameters): void | Promise<void>;
}

/** What HTTP does with canisters. */
export type ServedCanisters = Pick<
  Canisters,
  | 'resolve'
  | 'list'
  | 'call'
  | 'install'
  | 'upgrade'
  | 'reinstall'
  | 'stop'
  | 'start'
  | 'remove'
  | 'addCycles'
  | 'takeLogs'
>;

/** What routes work with. */
export interface RouteHost {
  readonly canisters: ServedCanisters;
  readonly codec: Pick<Codec, 'untyped'>;
  readonly storage: Pick<Storage, 'backup'>;
  readonly metrics: Metrics;
  readonly readiness: Readiness;
  readonly clock: Clock;
  readonly log: Logger;
  readonly responder: Responder;
  readonly jobs: JobLog;
  readonly callers: CallerClaims;
}
