import type { CallKind } from '../../ic/index.ts';
import { CanisterCall } from '../canister-call.ts';
import { idempotencyKeyOf } from '../idempotency-key.ts';
import { jsonFormOf, mustAsk } from '../json-form.ts';
import { readBody } from '../request-body.ts';
import { GUARDED_BYTES_MAX } from '../route-table.ts';
import type { Handler, Handlers, RouteHost } from '../route.ts';

/** `POST /call-json/<ACTOR>/<METHOD>` and `/query-json/…`: a JSON array of arguments in, one of results out. No body is `[]`. */
export function jsonCallHandlers(
  host: RouteHost,
): Pick<Handlers, 'POST /call-json/:actor/:method' | 'POST /query-json/:actor/:method'> {
  return {
    'POST /call-json/:actor/:method': jsonCallHandler(host, 'update'),
    'POST /query-json/:actor/:method': jsonCallHandler(host, 'query'),
  };
}

function jsonCallHandler(host: RouteHost, kind: CallKind): Handler {
  const { canisters, callers, codec, jobs } = host;
  return (request, response, { actor, method }, query) => {
    const startedMs = jobs.nowMs();
    const canister = canisters.resolve(actor);
    const { headers } = request;
    const caller = callers.callerOf(headers['x-caller']);
    // A query has no effect that could come twice.
    const key = kind === 'update' ? idempotencyKeyOf(headers['idempotency-key']) : undefined;
    const isLossless = query.has('lossless');
    const start = (): void => {
      const form = jsonFormOf(codec, canister, method, isLossless);
      const call = new CanisterCall(host, response, kind, [canister, actor], method, caller, form, key, startedMs);
      readBody(request, GUARDED_BYTES_MAX, (body) => call.start(body), call.failed);
    };
    return mustAsk(canister, isLossless) ? canisters.interfaceOf(canister).then(start) : start();
  };
}
