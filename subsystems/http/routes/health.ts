import { notReadyText } from '../check-order.ts';
import { queryParametersOf } from '../request-target.ts';
import type { Route, RouteHost } from '../route.ts';

/** `GET /health`: the process turns; `GET /health/ready`: it takes work. */
export function healthRoutes({ readiness, responder }: RouteHost): readonly Route[] {
  return [
    {
      method: 'GET',
      path: '/health',
      handle(request, response) {
        queryParametersOf(request.url ?? '', []);
        responder.text(response, 200, 'ok');
      },
    },
    {
      method: 'GET',
      path: '/health/ready',
      handle(request, response) {
        queryParametersOf(request.url ?? '', []);
        const isReady = readiness.isReady && !responder.isClosing;
        if (isReady) responder.text(response, 200, 'ready');
        else responder.text(response, 503, notReadyText(readiness, responder.isClosing), ['retry-after', '1']);
      },
    },
  ];
}
