import { ServerError } from '../../../kernel/index.ts';
import { preferredType } from '../accept.ts';
import { ActorSnapshots, type Page } from '../actor-snapshots.ts';
import { inspectStream } from '../inspect-stream.ts';
import { answerJsonArray } from '../json-array.ts';
import type { Handlers, RouteHost } from '../route.ts';

const HEX_ID = /^[0-9a-f]{20}$/;
const LIMIT = /^[1-9][0-9]{0,6}$/;

/**
 * `GET /inspect`: a snapshot of every actor, in order of their ids, or, with `after`, `limit` and `name`, of some of
 * them. The snapshot shows each actor as it is when its turn comes. A client that prefers events gets a snapshot every
 * two seconds, and what happened to the actor that it has open (`actor`): one stream is one job.
 */
export function inspectHandlers(host: RouteHost): Pick<Handlers, 'GET /inspect'> {
  const { jobs, responder } = host;
  return {
    async 'GET /inspect'(request, response, _parameters, query) {
      const startedMs = jobs.nowMs();
      const page = pageOf(query);
      const open = query.get('actor');
      if (preferredType(request.headers.accept, ['application/json', 'text/event-stream']) === 'text/event-stream') {
        inspectStream(host, page, open).answer(request, response);
        return;
      }
      if (open !== undefined) throw badParameter('actor', 'it beside Accept: text/event-stream alone');
      const snapshots = new ActorSnapshots(host);
      await answerJsonArray(responder, response, snapshots.chosen(page), (canister) => snapshots.textOf(canister));
      jobs.done('inspect', undefined, '', startedMs);
    },
  };
}

function pageOf(query: ReadonlyMap<string, string>): Page {
  const [after, limit = '9999999', name = ''] = [query.get('after'), query.get('limit'), query.get('name')];
  if (after !== undefined && !HEX_ID.test(after)) throw badParameter('after', 'the id of an actor in hex, 20 digits');
  if (!LIMIT.test(limit)) throw badParameter('limit', 'a number from 1 to 9999999');
  return { after, limit: Number(limit), name: name.toLowerCase() };
}

function badParameter(name: string, expected: string): ServerError {
  return new ServerError('invalid', 'bad-parameter', `query parameter ${name}: expected ${expected}`);
}
