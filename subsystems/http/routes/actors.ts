import { answerJsonArray } from '../json-array.ts';
import type { Handlers, RouteHost } from '../route.ts';

/** `GET /actors`. */
export function actorHandlers({ canisters, jobs, responder }: RouteHost): Pick<Handlers, 'GET /actors'> {
  return {
    async 'GET /actors'(_request, response) {
      const startedMs = jobs.nowMs();
      const list = canisters.list();
      await answerJsonArray(responder, response, list, ({ name, idHex }) => JSON.stringify({ name, id: idHex }));
      jobs.done('list', undefined, '', startedMs);
    },
  };
}
