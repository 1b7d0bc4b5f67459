import type { IncomingMessage } from 'node:http';
import { ServerError, suggestionFor } from '../../kernel/index.ts';
import { firstSegmentOf, readablePathOf, type RouteSpec, ROUTES } from './route-table.ts';

const SHOWN_CHARACTERS_MAX = 100;

/**
 * Returns the error for a target that no route has; it names the routes that were probably meant. `added`: routes of
 * plugins from outside.
 */
export function notFound(request: IncomingMessage, added: readonly RouteSpec[] = []): ServerError {
  const target = request.url ?? '';
  // The base of a client's URL often ends with a slash, and its path begins with one.
  const meant = target.replace(/^\/+/, '/');
  const routes = [...ROUTES, ...added];
  const shared = routes.filter(({ path }) => path !== '/' && beginningOf(path) === beginningOf(meant));
  const hint =
    shared.length > 0
      ? `; there is ${shared.map(({ method, path }) => `${method} ${readablePathOf(path)}`).join(', ')}`
      : suggestionFor(beginningOf(meant), new Set(routes.map(({ path }) => beginningOf(path))));
  const shown = target.length > SHOWN_CHARACTERS_MAX ? `${target.slice(0, SHOWN_CHARACTERS_MAX)}…` : target;
  return new ServerError('missing', 'no-such-path', `no such path: ${request.method ?? ''} ${shown}${hint}`);
}

/** Returns the part of a path that those meant together share: `/call`, and `/x/actors` below `/x/`. */
function beginningOf(path: string): string {
  const first = firstSegmentOf(path);
  return first === 'x' ? `/x/${firstSegmentOf(path.slice('/x'.length))}` : `/${first}`;
}
