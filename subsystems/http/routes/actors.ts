import type { Handlers, RouteHost } from '../route.ts';

/** `GET /actors`. */
export function actorHandlers({ canisters, jobs, responder }: RouteHost): Pick<Handlers, 'GET /actors'> {
  return {
    'GET /actors'(_request, response) {
      const startedMs = jobs.nowMs();
      const list = canisters.list().map(({ name, idHex }) => ({ name, id: idHex }));
      responder.json(response, 200, list);
      jobs.ended('list', '', '', true, startedMs);
    },
  };
}
