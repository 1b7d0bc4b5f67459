import type { Handlers, RouteHost } from '../route.ts';

/** `GET /metrics`: numbers for operators. Reading them is no job: a scraper would fill the log. */
export function metricsHandlers({ metrics, responder }: RouteHost): Pick<Handlers, 'GET /metrics'> {
  return {
    async 'GET /metrics'(_request, response) {
      responder.bytes(response, 200, metrics.contentType, Buffer.from(await metrics.page(), 'utf8'));
    },
  };
}
