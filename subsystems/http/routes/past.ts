import { ServerError } from '../../../kernel/index.ts';
import type { Canister } from '../../canisters/index.ts';
import type { PastState, Place, TimePoint } from '../../timeline/index.ts';
import { accessWithToken } from '../access.ts';
import type { Handlers, RouteHost } from '../route.ts';
import { pointIn, shownPlace } from './timeline.ts';

type PastRoute = 'POST /x/time/restore/:actor' | 'POST /x/time/fork/:actor/:name';

/** An actor is restored to a point, or forked from one. */
export function pastHandlers(host: RouteHost): Pick<Handlers, PastRoute> {
  const { canisters, past: actors, timeline, jobs, responder } = host;
  const callers = accessWithToken(host, 'install');
  return {
    async 'POST /x/time/restore/:actor'(_request, response, { actor }, query) {
      const startedMs = jobs.nowMs();
      const canister = canisters.resolve(actor);
      try {
        const point = pointIn(query, 'to');
        if (point === undefined) throw pointLacking('to');
        const past = await timeline.stateAt(canister.id, point);
        const from = await timeline.placeOf(canister.id, { kind: 'now' });
        const isModuleOther = past.moduleHash !== canister.module?.hash;
        const isDry = query.has('dry');
        const undo = isDry ? undefined : await restored(host, canister, past, query.has('calls'));
        responder.json(response, 200, {
          from: shownPlace(from),
          to: shownPlace(past),
          ...(undo !== undefined && { undo: `seq:${undo.seq - 1}` }),
          module: past.moduleHash ?? null,
          isModuleOther,
          openCalls: past.openCalls,
          ms: Math.round(jobs.nowMs() - startedMs),
        });
        jobs.done('restore', canister, '', startedMs);
      } catch (error) {
        responder.error(response, error);
        jobs.failed('restore', canister, '', startedMs, error);
      }
    },
    async 'POST /x/time/fork/:actor/:name'(request, response, { actor, name }, query) {
      const startedMs = jobs.nowMs();
      const canister = canisters.resolve(actor);
      try {
        const point: TimePoint = pointIn(query, 'at') ?? { kind: 'now' };
        const past = await timeline.stateAt(canister.id, point);
        const caller = callers(response).callerOf(request);
        const fork = await actors.fork(canister, name, past, {
          caller,
          cycles: undefined,
          forked: (id, now) => timeline.restored('fork', id, past, now),
        });
        responder.text(response, 200, fork.idHex);
        jobs.done('fork', canister, '', startedMs);
      } catch (error) {
        responder.error(response, error);
        jobs.failed('fork', canister, '', startedMs, error);
      }
    },
  };
}

/** Restores an actor; resolves with the place of that in its timeline. */
async function restored(
  { past: actors, timeline }: RouteHost,
  canister: Canister,
  past: PastState,
  waits: boolean,
): Promise<Place> {
  let place: Place | undefined;
  await actors.restore(canister, past, {
    waits,
    async restored(now) {
      timeline.restored('restore', canister.id, past, now);
      // Nothing of the actor runs before that.
      place = await timeline.placeOf(canister.id, { kind: 'now' });
    },
  });
  if (place === undefined) throw new Error('a restored actor has no place in its timeline');
  return place;
}

function pointLacking(name: string): ServerError {
  return new ServerError('invalid', 'point-bad', `say the point, as in ?${name}=seq:1234 (docs/time-travel.md)`);
}
