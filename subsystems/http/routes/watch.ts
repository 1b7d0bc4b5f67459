import { type AccessOf, accessWithToken, type WatchBounds, WATCHES_WITH_TOKEN } from '../access.ts';
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
 * `accessOf`: the rights of who watches, if they are not the router's.
 */
export function watchHandlers(
  host: RouteHost,
  accessOf: AccessOf = accessWithToken(host, 'watch'),
  bounds: WatchBounds = WATCHES_WITH_TOKEN,
): Pick<Handlers, WatchRoutes> {
  const queries = new LiveQueries(host, bounds);
  return {
    async 'GET /watch/:actor/:method'(request, response, { actor, method }, query) {
      const access = accessOf(response);
      const canister = access.resolve(actor, method);
      const caller = access.callerOf(request);
      const json = Buffer.from(query.get('args') ?? '[]', 'utf8');
      const isLossless = query.has('lossless');
      await queries.open(request, response, { canister, method, caller, json, isLossless, access });
    },
    'GET /watch'(request, response, _parameters, query) {
      const watches = watchesOfTarget(query.has('q') ? repeatedParameter(request.url ?? '', 'q') : []);
      const access = accessOf(response);
      const caller = access.callerOf(request);
      access.checkWatches(watches);
      const asked = { caller, isLossless: query.has('lossless'), access };
      new WatchGroup(host, queries).open(request, response, watches, asked);
    },
    async 'POST /watch'(request, response, _parameters, query) {
      const access = accessOf(response);
      const caller = access.callerOf(request);
      const watches = watchesOfBody(await bodyOf(request, WATCH_BYTES_MAX));
      access.checkWatches(watches);
      const asked = { caller, isLossless: query.has('lossless'), access };
      new WatchGroup(host, queries).open(request, response, watches, asked);
    },
  };
}
