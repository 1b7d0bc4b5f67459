import { JSON_TYPE } from '../responder.ts';
import type { Handlers, RouteHost } from '../route.ts';

/** `GET /mops/closure/<ENTRY>`: the sources that a Motoko file of the project depends on. */
export function mopsClosureHandlers({ mopsClosures, responder }: RouteHost): Pick<Handlers, 'GET /mops/closure/*'> {
  return {
    async 'GET /mops/closure/*'(_request, response, { '*': entry }) {
      const document = await mopsClosures.closureOf(entry);
      await responder.stream(response, JSON_TYPE, document.pieces());
    },
  };
}
