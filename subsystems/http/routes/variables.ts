import { ServerError } from '../../../kernel/index.ts';
import type { AskedValue } from '../../variables/index.ts';
import { JSON_TYPE } from '../responder.ts';
import type { Handlers, RouteHost } from '../route.ts';

type VariablesRoute = 'GET /x/actors/:actor/variables';

/** `GET /x/actors/<ACTOR>/variables`: its stable variables, or with `path` the value of one. */
export function variablesHandlers({
  canisters,
  variables,
  responder,
  jobs,
}: RouteHost): Pick<Handlers, VariablesRoute> {
  return {
    async 'GET /x/actors/:actor/variables'(_request, response, { actor }, query) {
      const startedMs = jobs.nowMs();
      const canister = canisters.resolve(actor);
      try {
        const asked = askedIn(query);
        const answer = asked === undefined ? variables.list(canister) : variables.valueAt(canister, asked);
        responder.bytes(response, 200, JSON_TYPE, await answer);
        jobs.done('variables', canister, '', startedMs);
      } catch (error) {
        responder.error(response, error);
        jobs.failed('variables', canister, '', startedMs, error);
      }
    },
  };
}

function askedIn(query: ReadonlyMap<string, string>): AskedValue | undefined {
  const path = query.get('path');
  const [from, count, copy] = (['from', 'count', 'copy'] as const).map((name) => numberIn(query, name));
  if (path !== undefined) return { path, from, count, copy };
  if (from === undefined && count === undefined && copy === undefined) return undefined;
  throw new ServerError('invalid', 'bad-page', 'from, count and copy go with path: ?path=users&from=100');
}

function numberIn(query: ReadonlyMap<string, string>, name: string): number | undefined {
  const text = query.get(name);
  if (text === undefined) return undefined;
  if (/^\d{1,15}$/.test(text)) return Number(text);
  throw new ServerError('invalid', 'bad-page', `${name} is a whole number of at most 15 digits, as in ${name}=100`);
}
