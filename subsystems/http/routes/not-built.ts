import { ServerError } from '../../../kernel/index.ts';
import type { Route } from '../route.ts';

/** Paths that later versions will serve: they say so, instead of looking like a typing error. */
const NOT_BUILT: readonly (readonly [method: Route['method'], path: string, what: string])[] = [
  ['GET', '/openapi/:actor', 'the OpenAPI document (GET /openapi/<ACTOR>)'],
  ['GET', '/events/:actor', 'the event stream (GET /events/<ACTOR>)'],
  ['GET', '/history/:actor', 'the history (GET /history/<ACTOR>)'],
  ['GET', '/mops/closure/*', 'the dependency closure (GET /mops/closure/<ENTRY>)'],
  ['GET', '/inspector', 'the inspector page (GET /inspector)'],
  ['GET', '/', 'the inspector page (GET /)'],
];

export function notBuiltRoutes(): readonly Route[] {
  return NOT_BUILT.map(([method, path, what]) => ({
    method,
    path,
    handle() {
      throw notBuilt(what);
    },
  }));
}

export function notBuilt(what: string): ServerError {
  return new ServerError('missing', 'not-built', `${what} is not built yet in this version`);
}
