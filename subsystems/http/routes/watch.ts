import { accessWithToken } from '../access.ts';
import { notOpen } from '../open-targets.ts';
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
 * server-sent events. `GET /watch?q=…` and `POST /watch`: the same of several queries in one stream. `access`: the
 * rights of who watches.
 */
export function watchHandlers(host: RouteHost, access = accessWithToken(host)): Pick<Handlers, WatchRoutes> {
  const queries = new LiveQueries(host, access);
  return {
    async 'GET /watch/:actor/:method'(request, response, { actor, method }, query) {
      const canister = access.resolve(actor, method);
      const caller = access.callerOf(request);
      const json = Buffer.from(query.get('args') ?? '[]', 'utf8');
      const isLossless = query.has('lossless');
      await queries.open(request, response, { canister, method, caller, json, isLossless });
    },
    'GET /watch'(request, response, _parameters, query) {
      const watches = watchesOfTarget(query.has('q') ? repeatedParameter(request.url ?? '', 'q') : []);
      const caller = access.callerOf(request);
      if (!access.mayWatchAny(watches)) throw notOpen();
      new WatchGroup(host, queries).open(request, response, watches, { caller, isLossless: query.has('lossless') });
    },
    async 'POST /watch'(request, response, _parameters, query) {
      const caller = access.callerOf(request);
      const watches = watchesOfBody(await bodyOf(request, WATCH_BYTES_MAX));
      if (!access.mayWatchAny(watches)) throw notOpen();
      new WatchGroup(host, queries).open(request, response, watches, { caller, isLossless: query.has('lossless') });
    },
  };
}
