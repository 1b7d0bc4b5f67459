import type { IncomingMessage } from 'node:http';
import { ServerError } from '../../kernel/index.ts';
import { isGatewayTarget } from './request-target.ts';
import type { Route } from './route.ts';
import { notBuilt } from './routes/not-built.ts';

const SHOWN_CHARACTERS_MAX = 100;

/** The error for a target that no route has; it names the routes that were probably meant. */
export function notFound(request: IncomingMessage, routes: readonly Route[]): ServerError {
  const target = request.url ?? '';
  if (isGatewayTarget(target)) return notBuilt('serving websites (/site/<ACTOR>/<PATH>)');
  const first = firstSegmentOf(target);
  const meant = routes.filter(({ path }) => path !== '/' && firstSegmentOf(path) === first);
  const hint =
    meant.length === 0 ? '' : `; there is ${meant.map(({ method, path }) => `${method} ${readable(path)}`).join(', ')}`;
  const shown = target.length > SHOWN_CHARACTERS_MAX ? `${target.slice(0, SHOWN_CHARACTERS_MAX)}…` : target;
  return new ServerError('missing', 'no-such-path', `no such path: ${request.method ?? ''} ${shown}${hint}`);
}

function firstSegmentOf(path: string): string {
  return path.split(/[/?#]/, 2)[1] ?? '';
}

/** `/call/:actor/:method` → `/call/<ACTOR>/<METHOD>` */
function readable(path: string): string {
  return path.replace(/:(\w+)/g, (_whole, name: string) => `<${name.toUpperCase()}>`).replace('*', '<ENTRY>');
}
