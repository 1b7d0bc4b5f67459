import { ServerError } from '../../../kernel/index.ts';
import type { Handlers, RouteHost } from '../route.ts';
import { LiveQueries } from '../watch/live-queries.ts';

/** `GET /watch/<ACTOR>/<METHOD>?args=<JSON array>`: a query's answer, and each further one when it changes, as server-sent events. */
export function watchHandlers(host: RouteHost): Pick<Handlers, 'GET /watch/:actor/:method'> {
  const queries = new LiveQueries(host);
  const { canisters, callers } = host;
  return {
    async 'GET /watch/:actor/:method'(request, response, { actor, method }, query) {
      const canister = canisters.resolve(actor);
      const caller = callers.callerOf(request.headers['x-caller']);
      const json = argumentsOf(query.get('args') ?? '[]');
      const isLossless = query.has('lossless');
      await queries.open(request, response, { canister, method, caller, json, isLossless });
    },
  };
}

/** Percent-decoded, once; `+` stays what it is. */
function argumentsOf(text: string): Uint8Array {
  try {
    return Buffer.from(decodeURIComponent(text), 'utf8');
  } catch (error) {
    const message = 'query parameter args: expected a JSON array as percent-encoded UTF-8';
    throw new ServerError('invalid', 'bad-args', message, { cause: error });
  }
}
