import { notReadyText } from '../check-order.ts';
import type { Handlers, RouteHost } from '../route.ts';

/** `GET /health`: the process turns; `GET /health/ready`: it takes work. */
export function healthHandlers({
  cluster,
  readiness,
  responder,
}: RouteHost): Pick<Handlers, 'GET /health' | 'GET /health/ready'> {
  return {
    'GET /health': (_request, response) => responder.text(response, 200, 'ok'),
    'GET /health/ready'(_request, response) {
      const isReady = readiness.isReady && !responder.isClosing;
      const isLeaving = isReady && cluster.isLeaving;
      if (isLeaving) responder.text(response, 503, 'draining', ['retry-after', '1']);
      else if (isReady) responder.text(response, 200, 'ready');
      else responder.text(response, 503, notReadyText(readiness, responder.isClosing), ['retry-after', '1']);
    },
  };
}
