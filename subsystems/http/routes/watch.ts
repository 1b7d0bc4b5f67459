import type { Handlers, RouteHost } from '../route.ts';
import { LiveQueries } from '../watch/live-queries.ts';

/**
 * `GET /watch/<ACTOR>/<METHOD>?args=<JSON array>`: a query's answer, and each further one when it changes, as
 * server-sent events.
 */
export function watchHandlers(host: RouteHost): Pick<Handlers, 'GET /watch/:actor/:method'> {
  const queries = new LiveQueries(host);
  const { canisters, callers } = host;
  return {
    async 'GET /watch/:actor/:method'(request, response, { actor, method }, query) {
      const canister = canisters.resolve(actor);
      const caller = callers.callerOf(request.headers['x-caller']);
      const json = Buffer.from(query.get('args') ?? '[]', 'utf8');
      const isLossless = query.has('lossless');
      await queries.open(request, response, { canister, method, caller, json, isLossless });
    },
  };
}
