/**
 * Routes of the agent interface (`/api/v2` to `/api/v4`), which are there with `--agents`: the paths that clients of
 * the Internet Computer ask for, to the letter. What is asked and answered is `subsystems/agents`' business. Errors are
 * plain text, as these clients show them.
 */
import type { IncomingMessage } from 'node:http';
import { ServerError } from '../../kernel/index.ts';
import type { AgentChange, AgentRoute, Agents } from '../agents/index.ts';
import type { Auth } from '../auth/index.ts';
import type { AuditLog } from './audit-log.ts';
import type { BodyBudget } from './body-budget.ts';
import { bodyTooLarge, readBody } from './request-body.ts';
import { type RouteSpec } from './route-table.ts';
import type { Handler, RouteHost } from './route.ts';
import { ServedResponse } from './served-response.ts';

const CBOR_TYPE = 'application/cbor';
/** Requests of one address that may wait for their answers where no token is asked for. */
const WAITING_MAX = 1000;
const BASIC = /^basic +([\w+/=-]+)$/i;
const TARGET = /^\/api\/v(?:2\/status|[234]\/(?:canister|subnet)\/[^/?#]+\/(?:call|query|read_state))$/;

interface AgentRouteSpec extends RouteSpec {
  /** Undefined: the status, which has no body. */
  readonly agent: { readonly route: AgentRoute; readonly version: number } | undefined;
}

const JOBS = {
  call: 'call',
  query: 'query',
  read_state: 'read-state',
  subnet_call: 'call',
  subnet_query: 'query',
  subnet_read_state: 'read-state',
} as const;

function rowOf(version: number, route: AgentRoute): AgentRouteSpec {
  const isOnSubnet = route.startsWith('subnet_');
  const [place, action] = isOnSubnet ? ['subnet', route.slice('subnet_'.length)] : ['canister', route];
  return {
    method: 'POST',
    path: `/api/v${version}/${place}/:principal/${action}`,
    access: 'token',
    job: JOBS[route],
    request: 'envelope, CBOR',
    answer: JOBS[route] === 'query' ? 'CBOR, signed by the node' : 'CBOR with a certificate',
    agent: { route, version },
  };
}

export const AGENT_ROUTES: readonly AgentRouteSpec[] = [
  {
    method: 'GET',
    path: '/api/v2/status',
    access: 'token',
    request: '',
    answer: 'CBOR with the root key',
    agent: undefined,
  },
  ...[2, 3, 4].map((version) => rowOf(version, 'call')),
  ...[2, 3].map((version) => rowOf(version, 'query')),
  ...[2, 3].map((version) => rowOf(version, 'read_state')),
  ...[2, 3].map((version) => rowOf(version, 'subnet_read_state')),
  rowOf(4, 'subnet_call'),
  rowOf(3, 'subnet_query'),
];

/** Returns true for a target that is the agent interface's, whether that is on or off. */
export function isAgentTarget(target: string): boolean {
  return target.startsWith('/api/') && TARGET.test(target);
}

/**
 * Returns the `Authorization` of a client of the agent interface as everybody else sends it: the password of Basic
 * credentials, which those clients can send unmodified, is the token.
 */
export function asBearer(authorization: string | undefined): string | undefined {
  const [, encoded] = authorization === undefined ? [] : (BASIC.exec(authorization) ?? []);
  if (encoded === undefined) return authorization;
  const credentials = Buffer.from(encoded, 'base64').toString('latin1');
  const colon = credentials.indexOf(':');
  return colon < 0 ? undefined : `Bearer ${credentials.slice(colon + 1)}`;
}

/** Returns the error of a target of the agent interface where that is off. */
export function agentsOff(): ServerError {
  const text = 'the agent interface is off: start the server with --agents guarded (docs/agents.md)';
  return new ServerError('missing', 'agents-off', text);
}

/** Returns the rows with their handlers. `bodies`: the room for bodies of strangers, in mode `open`. */
export function agentHandlers(
  host: Pick<RouteHost, 'responder' | 'jobs'>,
  agents: Agents,
  bodies: BodyBudget,
  audit: Pick<AuditLog, 'beginChange'> | undefined,
  auth: Pick<Auth, 'needsToken' | 'allows'>,
): readonly (readonly [RouteSpec, Handler])[] {
  const sources = new WaitingSources(agents.mode === 'open' ? WAITING_MAX : Number.POSITIVE_INFINITY);
  return AGENT_ROUTES.map((spec) => {
    const { agent } = spec;
    if (agent === undefined) return [spec, statusHandler(host, agents)];
    return [spec, requestHandler(host, agents, agent, { sources, bodies, audit, auth })];
  });
}

function statusHandler({ responder }: Pick<RouteHost, 'responder'>, agents: Agents): Handler {
  return (_request, response) =>
    agents.status().then(
      (status) => responder.bytes(response, 200, CBOR_TYPE, status),
      (error: unknown) => responder.errorAsText(response, error),
    );
}

interface Bounds {
  readonly sources: WaitingSources;
  readonly bodies: BodyBudget;
  readonly audit: Pick<AuditLog, 'beginChange'> | undefined;
  readonly auth: Pick<Auth, 'needsToken' | 'allows'>;
}

function requestHandler(
  { responder, jobs }: Pick<RouteHost, 'responder' | 'jobs'>,
  agents: Agents,
  { route, version }: NonNullable<AgentRouteSpec['agent']>,
  { sources, bodies, audit, auth }: Bounds,
): Handler {
  const job = JOBS[route];
  const { bodyBytesMax } = agents;
  return (request, response, parameters) => {
    const startedMs = jobs.nowMs();
    const id = (parameters as unknown as Readonly<Record<string, string>>)['principal'] ?? '';
    const failed = (error: unknown): void => {
      const isUnread = error instanceof ServerError && error.code === 'website-bodies-full';
      if (isUnread) responder.refuseBody(response, error);
      else responder.errorAsText(response, error);
      jobs.failed(job, undefined, '', startedMs, error);
    };
    if (Number(request.headers['content-length'] ?? 0) > bodyBytesMax) return failed(bodyTooLarge(bodyBytesMax));
    const leave = sources.enter(request);
    if (leave === undefined) return failed(tooManyWaiting());
    response.once('close', leave);
    const held = agents.mode === 'open' ? bodies.begin(request) : undefined;
    const changing = (change: AgentChange): void => {
      if (response instanceof ServedResponse) audit?.beginChange(request, response, change);
    };
    // With `open` nobody was asked for the token yet.
    const showsToken = (): boolean => auth.needsToken && auth.allows(asBearer(request.headers.authorization));
    const isTrusted = agents.mode === 'guarded' || showsToken();
    const received = (body: Uint8Array): void => {
      agents
        .answer({ route, version, id, body, isTrusted, changing: audit && changing })
        .then(({ status, body: answer, called, failure }) => {
          responder.bytes(response, status, CBOR_TYPE, answer);
          const method = called?.method ?? '';
          if (failure === undefined) jobs.done(job, called, method, startedMs);
          else jobs.failed(job, called, method, startedMs, { message: failure });
        })
        .catch(failed)
        .finally(() => held?.free());
    };
    readBody(request, bodyBytesMax, received, failed, held);
    return undefined;
  };
}

function tooManyWaiting(): ServerError {
  return new ServerError('unavailable', 'agents-busy', `${WAITING_MAX} requests of this address wait already`);
}

/** Counts, by the address of the connection, requests that are not answered yet. */
class WaitingSources {
  readonly #max: number;
  readonly #waiting = new Map<string, number>();

  constructor(max: number) {
    this.#max = max;
  }

  /** Counts a request until the returned function is called, at most once; undefined: too many wait. */
  enter({ socket }: IncomingMessage): (() => void) | undefined {
    const source = socket.remoteAddress ?? '';
    const count = this.#waiting.get(source) ?? 0;
    if (count >= this.#max) return undefined;
    this.#waiting.set(source, count + 1);
    return () => {
      const left = (this.#waiting.get(source) ?? 1) - 1;
      if (left === 0) this.#waiting.delete(source);
      else this.#waiting.set(source, left);
    };
  }
}
