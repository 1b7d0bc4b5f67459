import type { IncomingMessage, ServerResponse } from 'node:http';
import { type Access, openAccess, WATCHES_OF_STRANGERS } from './access.ts';
import type { BodyBudget } from './body-budget.ts';
import type { OpenRoute, OpenTarget } from './open-targets.ts';
import { queryOf } from './request-target.ts';
import { endpointOf, routeKeyOf, type RouteSpec, ROUTES } from './route-table.ts';
import { countedBy } from './router.ts';
import type { Handlers, RouteHost, RouteParameters } from './route.ts';
import { callHandlers } from './routes/calls.ts';
import { watchHandlers } from './routes/watch.ts';
import { refuseClaim } from './x-caller.ts';

/** Serves requests for open methods: by the handlers of the routes, with the rights of strangers. */
export class OpenCalls {
  readonly #host: RouteHost;
  readonly #refusesClaims: boolean;
  readonly #handlers: Pick<Handlers, OpenRoute>;

  /** `refusesClaims`: the reason for which no caller may be claimed is then the flag. */
  constructor(host: RouteHost, bodies: BodyBudget, refusesClaims = false) {
    this.#host = host;
    this.#refusesClaims = refusesClaims;
    const access = openAccess(host, bodies);
    const accessOf = (): Access => access;
    this.#handlers = { ...callHandlers(host, accessOf), ...watchHandlers(host, accessOf, WATCHES_OF_STRANGERS) };
  }

  serve(request: IncomingMessage, response: ServerResponse, { route, actor, method }: OpenTarget): void {
    const { metrics, responder, jobs } = this.#host;
    const spec = SPECS.get(route);
    if (spec === undefined) throw new Error(`the table has no route ${route}`);
    countedBy(metrics.requestsOf(endpointOf(spec.path)), response, spec.isOpenEnded);
    const failed = (error: unknown): void => {
      responder.error(response, error);
      if (spec.job !== undefined) jobs.failed(spec.job, undefined, '', jobs.nowMs(), error);
    };
    try {
      if (this.#refusesClaims) refuseClaim(request);
      const parameters: RouteParameters = { actor, method, name: '', snapshot: '', message: '', label: '', '*': '' };
      const query = queryOf(request.url ?? '', spec);
      this.#handlers[route](request, response, parameters, query)?.catch(failed);
    } catch (error) {
      failed(error);
    }
  }
}

const SPECS: ReadonlyMap<string, RouteSpec> = new Map(ROUTES.map((spec) => [routeKeyOf(spec), spec]));
