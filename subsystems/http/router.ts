/**
 * The router: fastify finds the route of a request, and the route's handler answers it.
 *
 * Main thread.
 */
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { fastify, type FastifyInstance } from 'fastify';
import { ServerError } from '../../kernel/index.ts';
import type { Grant } from '../auth/index.ts';
import type { RequestTally } from '../metrics/index.ts';
import { servedRoutes } from './handlers.ts';
import type { PluginRouteSpec } from './index.ts';
import { HEADER_BYTES_MAX } from './parser-errors.ts';
import { type PluginAnswers, pluginHandler, pluginRouteSpec } from './plugin-routes.ts';
import { queryOf } from './request-target.ts';
import { endpointOf, type RouteSpec } from './route-table.ts';
import type { AuditLog } from './audit-log.ts';
import type { Handler, RouteHost, RouteParameters } from './route.ts';
import { admitScoped } from './scoped-requests.ts';
import type { VersionInfo } from './routes/version.ts';
import { ServedResponse } from './served-response.ts';
import { refuseClaim } from './x-caller.ts';

interface RouterParts {
  readonly server: Server;
  readonly host: RouteHost;
  readonly options: VersionInfo & {
    readonly pluginRoutes?: readonly PluginRouteSpec[];
    readonly refusesClaims?: boolean;
  };
  readonly agentRoutes: readonly (readonly [RouteSpec, Handler])[];
  readonly pluginAnswers: PluginAnswers;
  readonly audit: AuditLog | undefined;
  /** Requests for paths that do not exist. */
  readonly unknown: RequestTally;
  readonly notFound: (request: IncomingMessage, response: ServerResponse) => void;
  readonly parserStopped: (error: Error, socket: Socket) => void;
}

/** Makes the router over a server; it is not ready yet. */
export function createRouter({
  server,
  host,
  options,
  agentRoutes,
  pluginAnswers,
  audit,
  unknown,
  notFound,
  parserStopped,
}: RouterParts): FastifyInstance {
  const app = fastify({
    logger: false,
    serverFactory: () => server,
    exposeHeadRoutes: false,
    requestIdHeader: false,
    genReqId: () => '',
    // fastify's type of the error is wrong
    clientErrorHandler: (error, socket) => parserStopped(error as Error, socket),
    // No route has a schema; with compilers of its own, fastify would load a hundred files of ajv and others.
    schemaController: { compilersFactory: { buildValidator: hasNoSchemas, buildSerializer: hasNoSchemas } },
    routerOptions: {
      maxParamLength: HEADER_BYTES_MAX,
      querystringParser: () => ({}), // routes that take a query read it from the target, strictly
      defaultRoute: notFound,
      onBadUrl: (path: string, _request: IncomingMessage, response: ServerResponse) => {
        countedBy(unknown, response);
        const error = new ServerError(
          'invalid',
          'bad-path',
          `the path ${JSON.stringify(path.slice(0, 80))} is not valid percent-encoded UTF-8`,
        );
        host.responder.error(response, error);
      },
    },
  });
  const parts = { host, audit, refusesClaims: options.refusesClaims ?? false };
  for (const [spec, handle] of servedRoutes(host, options)) register(app, parts, spec, handle);
  for (const [spec, handle] of agentRoutes) register(app, parts, spec, handle);
  for (const route of options.pluginRoutes ?? [])
    register(app, parts, pluginRouteSpec(route), pluginHandler(route, host.responder, pluginAnswers));
  return app;
}

/**
 * Serves a route from its `onRequest` hook: fastify has routed by then, but has not looked at the content type
 * (which here may be anything, even malformed) nor touched the body.
 */
function register(
  app: FastifyInstance,
  { host, audit, refusesClaims }: Pick<RouterParts, 'host' | 'audit'> & { readonly refusesClaims: boolean },
  route: RouteSpec,
  handle: Handler,
): void {
  const { canisters, metrics, responder, jobs } = host;
  const refusesClaim = refusesClaims && route.takesCaller === true;
  const audited = route.isAudited === true ? audit : undefined;
  const requests = metrics.requestsOf(endpointOf(route.path));
  const failed = (response: ServerResponse, error: unknown): void => {
    responder.error(response, error);
    if (route.job !== undefined) jobs.failed(route.job, undefined, '', jobs.nowMs(), error);
  };
  app.route({
    method: route.method,
    url: route.path,
    onRequest: (request, reply) => {
      reply.hijack();
      const response = reply.raw;
      countedBy(requests, response, route.isOpenEnded);
      try {
        const parameters = request.params as RouteParameters;
        // Before a grant writes its own caller into the request.
        if (refusesClaim) refuseClaim(request.raw);
        const grant = grantOf(response);
        if (grant !== undefined) admitScoped(canisters, route, parameters, request.raw, grant);
        if (audited !== undefined && response instanceof ServedResponse)
          audited.begin(request.raw, response, route, parameters);
        const handled = handle(request.raw, response, parameters, queryOf(request.raw.url ?? '', route));
        if (handled !== undefined) handled.catch((error: unknown) => failed(response, error));
      } catch (error) {
        failed(response, error);
      }
    },
    handler: () => {
      throw new Error('unreachable: routes answer in onRequest');
    },
  });
}

/** Returns the rights that a request was admitted with; undefined: everything. */
function grantOf(response: ServerResponse): Grant | undefined {
  return response instanceof ServedResponse ? response.grant : undefined;
}

function hasNoSchemas(): never {
  throw new Error('no route of this server has a schema');
}

/** Counts a request under what it turned out to ask for; its answer will be counted there, too. */
export function countedBy(tally: RequestTally, response: ServerResponse, isOpenEnded = false): void {
  tally.value++;
  if (!(response instanceof ServedResponse)) return;
  response.tally = tally;
  response.isOpenEnded = isOpenEnded;
}
