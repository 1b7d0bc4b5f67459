import { ServerError } from '../../../kernel/index.ts';
import type { Canister } from '../../canisters/index.ts';
import type { JobKind } from '../job-log.ts';
import { bodyOf } from '../request-body.ts';
import { GUARDED_BYTES_MAX, queryParametersOf } from '../request-target.ts';
import type { Route, RouteHost } from '../route.ts';

/**
 * `POST /stop/<ACTOR>`, `POST /start/<ACTOR>` and `DELETE /actors/<ACTOR>`. Stopping answers when the actor is stopped:
 * when none of its calls is open any more. `DELETE` with `?force=true` ends them instead.
 */
export function lifeCycleRoutes(host: RouteHost): readonly Route[] {
  const { canisters } = host;
  return [
    lifeCycleRoute(host, 'POST', '/stop/:actor', 'stop', 'stopped', (canister) => canisters.stop(canister)),
    lifeCycleRoute(host, 'POST', '/start/:actor', 'start', 'started', (canister) => canisters.start(canister)),
    lifeCycleRoute(host, 'DELETE', '/actors/:actor', 'delete', 'deleted', (canister, endsCalls) =>
      canisters.remove(canister, { endsCalls }),
    ),
  ];
}

function lifeCycleRoute(
  { canisters, jobs, responder }: RouteHost,
  method: Route['method'],
  path: string,
  job: JobKind,
  done: string,
  change: (canister: Canister, isForced: boolean) => Promise<void>,
): Route {
  return {
    method,
    path,
    job,
    async handle(request, response, { actor }) {
      const startedMs = jobs.nowMs();
      const isForced = isForce(queryParametersOf(request.url ?? '', method === 'DELETE' ? ['force'] : []));
      const canister = canisters.resolve(actor);
      // Nothing is expected in a body; what is sent all the same must not stay on the connection.
      await bodyOf(request, GUARDED_BYTES_MAX);
      try {
        await change(canister, isForced);
        responder.text(response, 200, done);
        jobs.ended(job, canister.idHex, '', true, startedMs);
      } catch (error) {
        responder.error(response, error);
        jobs.ended(job, canister.idHex, '', false, startedMs);
      }
    },
  };
}

function isForce(parameters: ReadonlyMap<string, string>): boolean {
  const force = parameters.get('force');
  if (force !== undefined && force !== 'true') {
    throw new ServerError('missing', 'unknown-query', 'query parameter force: expected force=true');
  }
  return force === 'true';
}
