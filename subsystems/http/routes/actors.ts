import { queryParametersOf } from '../request-target.ts';
import type { Route, RouteHost } from '../route.ts';

/** `GET /actors`. */
export function actorRoutes({ canisters, jobs, responder }: RouteHost): readonly Route[] {
  return [
    {
      method: 'GET',
      path: '/actors',
      job: 'list',
      handle(request, response) {
        const startedMs = jobs.nowMs();
        queryParametersOf(request.url ?? '', []);
        const list = canisters.list().map(({ name, idHex }) => ({ name, id: idHex }));
        responder.json(response, 200, list);
        jobs.ended('list', '', '', true, startedMs);
      },
    },
  ];
}
