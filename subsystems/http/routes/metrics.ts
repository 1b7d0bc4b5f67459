import { queryParametersOf } from '../request-target.ts';
import type { Route, RouteHost } from '../route.ts';

/** `GET /metrics`: numbers for operators. Reading them is no job: a scraper would fill the log. */
export function metricsRoutes({ metrics, responder }: RouteHost): readonly Route[] {
  return [
    {
      method: 'GET',
      path: '/metrics',
      async handle(request, response) {
        queryParametersOf(request.url ?? '', []);
        responder.bytes(response, 200, metrics.contentType, Buffer.from(await metrics.page(), 'utf8'));
      },
    },
  ];
}
