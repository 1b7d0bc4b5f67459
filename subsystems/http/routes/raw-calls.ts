import type { CallKind } from '../../ic/index.ts';
import { CanisterCall } from '../canister-call.ts';
import { idempotencyKeyOf } from '../idempotency-key.ts';
import { readBody } from '../request-body.ts';
import { GUARDED_BYTES_MAX } from '../route-table.ts';
import type { Handler, Handlers, RouteHost } from '../route.ts';

/** `POST /call/<ACTOR>/<METHOD>` and `/query/…`: Candid in, Candid out. The body is the argument as it is, also when it is empty. */
export function rawCallHandlers(
  host: RouteHost,
): Pick<Handlers, 'POST /call/:actor/:method' | 'POST /query/:actor/:method'> {
  return {
    'POST /call/:actor/:method': rawCallHandler(host, 'update'),
    'POST /query/:actor/:method': rawCallHandler(host, 'query'),
  };
}

function rawCallHandler(host: RouteHost, kind: CallKind): Handler {
  const { canisters, callers, jobs } = host;
  return (request, response, { actor, method }) => {
    const startedMs = jobs.nowMs();
    const canister = canisters.resolve(actor);
    const { headers } = request;
    const caller = callers.callerOf(headers['x-caller']);
    // A query has no effect that could come twice.
    const key = kind === 'update' ? idempotencyKeyOf(headers['idempotency-key']) : undefined;
    const call = new CanisterCall(host, response, kind, [canister, actor], method, caller, undefined, key, startedMs);
    readBody(request, GUARDED_BYTES_MAX, (body) => call.start(body), call.failed);
  };
}
