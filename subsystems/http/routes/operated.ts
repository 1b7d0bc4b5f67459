import type { Canister } from '../../canisters/index.ts';
import type { JobKind } from '../job-log.ts';
import { bodyOf, bodyTooLarge } from '../request-body.ts';
import type { Handler, RouteHost, RouteParameters } from '../route.ts';

/** Longest body of these routes: ten controllers and twenty variables have some 7 KiB. */
const BODY_BYTES_MAX = 64 * 1024;

interface Asked {
  readonly canister: Canister;
  readonly body: Uint8Array;
  readonly parameters: RouteParameters;
  readonly query: ReadonlyMap<string, string>;
}

/** Returns the handler of something that the operator asks of an actor; text is answered as text, all else as JSON. */
export function operatedHandler(
  { canisters, jobs, responder }: RouteHost,
  job: JobKind,
  work: (asked: Asked) => Promise<unknown>,
): Handler {
  return async (request, response, parameters, query) => {
    const startedMs = jobs.nowMs();
    const canister = canisters.resolve(parameters.actor);
    const body = await bodyOf(request, BODY_BYTES_MAX);
    if (body.length > BODY_BYTES_MAX) throw bodyTooLarge(BODY_BYTES_MAX);
    try {
      const answer = await work({ canister, body, parameters, query });
      if (typeof answer === 'string') responder.text(response, 200, answer);
      else responder.json(response, 200, answer);
      jobs.done(job, canister, '', startedMs);
    } catch (error) {
      responder.error(response, error);
      jobs.failed(job, canister, '', startedMs, error);
    }
  };
}
