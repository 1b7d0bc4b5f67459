import type { Canister } from '../../canisters/index.ts';
import type { JobKind } from '../job-log.ts';
import { bodyOf } from '../request-body.ts';
import { GUARDED_BYTES_MAX } from '../route-table.ts';
import type { Handler, Handlers, RouteHost } from '../route.ts';

/**
 * `POST /stop/<ACTOR>`, `POST /start/<ACTOR>` and `DELETE /actors/<ACTOR>`. Stopping answers when the actor is stopped:
 * when none of its calls is open any more. `DELETE` with `?force=true` ends them instead.
 */
export function lifeCycleHandlers(
  host: RouteHost,
): Pick<Handlers, 'POST /stop/:actor' | 'POST /start/:actor' | 'DELETE /actors/:actor'> {
  const { canisters } = host;
  return {
    'POST /stop/:actor': lifeCycleHandler(host, 'stop', 'stopped', (canister) => canisters.stop(canister)),
    'POST /start/:actor': lifeCycleHandler(host, 'start', 'started', (canister) => canisters.start(canister)),
    'DELETE /actors/:actor': lifeCycleHandler(host, 'delete', 'deleted', (canister, endsCalls) =>
      canisters.remove(canister, { endsCalls }),
    ),
  };
}

function lifeCycleHandler(
  { canisters, jobs, responder }: RouteHost,
  job: JobKind,
  done: string,
  change: (canister: Canister, isForced: boolean) => Promise<void>,
): Handler {
  return async (request, response, { actor }, query) => {
    const startedMs = jobs.nowMs();
    const canister = canisters.resolve(actor);
    // Nothing is expected in a body; what is sent all the same must not stay on the connection.
    await bodyOf(request, GUARDED_BYTES_MAX);
    try {
      await change(canister, query.has('force'));
      responder.text(response, 200, done);
      jobs.done(job, canister, '', startedMs);
    } catch (error) {
      responder.error(response, error);
      jobs.failed(job, canister, '', startedMs, error);
    }
  };
}
