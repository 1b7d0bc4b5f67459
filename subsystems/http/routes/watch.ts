import { bodyOf } from '../request-body.ts';
import { repeatedParameter } from '../request-target.ts';
import { WATCH_BYTES_MAX } from '../route-table.ts';
import type { Handlers, RouteHost } from '../route.ts';
import { LiveQueries } from '../watch/live-queries.ts';
import { WatchGroup } from '../watch/watch-group.ts';
import { watchesOfBody, watchesOfTarget } from '../watch/watch-list.ts';

type WatchRoutes = 'GET /watch/:actor/:method' | 'GET /watch' | 'POST /watch';

/**
 * `GET /watch/<ACTOR>/<METHOD>?args=<JSON array>`: a query's answer, and each further one when it changes, as
 * server-sent events. `GET /watch?q=…` and `POST /watch`: the same of several queries in one stream.
 */
export function watchHandlers(host: RouteHost): Pick<Handlers, WatchRoutes> {
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
    'GET /watch'(request, response, _parameters, query) {
      const watches = watchesOfTarget(query.has('q') ? repeatedParameter(request.url ?? '', 'q') : []);
      const caller = callers.callerOf(request.headers['x-caller']);
      new WatchGroup(host, queries).open(request, response, watches, { caller, isLossless: query.has('lossless') });
    },
    async 'POST /watch'(request, response, _parameters, query) {
      const caller = callers.callerOf(request.headers['x-caller']);
      const watches = watchesOfBody(await bodyOf(request, WATCH_BYTES_MAX));
      new WatchGroup(host, queries).open(request, response, watches, { caller, isLossless: query.has('lossless') });
    },
  };
}
