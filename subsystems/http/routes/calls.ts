import type { CallKind } from '../../ic/index.ts';
import { CanisterCall } from '../canister-call.ts';
import { idempotencyKeyOf } from '../idempotency-key.ts';
import { type JsonForm, jsonFormOf, mustAsk } from '../json-form.ts';
import { readBody } from '../request-body.ts';
import { GUARDED_BYTES_MAX } from '../route-table.ts';
import type { Handler, Handlers, RouteHost } from '../route.ts';

type CallRoutes = `POST /${'call' | 'query' | 'call-json' | 'query-json'}/:actor/:method`;

/**
 * Calls of clients. `POST /call/<ACTOR>/<METHOD>` and `/query/…` take Candid and answer with Candid: the body is the
 * argument as it is, also when it is empty. `/call-json/…` and `/query-json/…` take a JSON array of arguments, where
 * no body means `[]`, and answer with one of results.
 */
export function callHandlers(host: RouteHost): Pick<Handlers, CallRoutes> {
  return {
    'POST /call/:actor/:method': callHandler(host, 'update', false),
    'POST /query/:actor/:method': callHandler(host, 'query', false),
    'POST /call-json/:actor/:method': callHandler(host, 'update', true),
    'POST /query-json/:actor/:method': callHandler(host, 'query', true),
  };
}

function callHandler(host: RouteHost, kind: CallKind, isJson: boolean): Handler {
  const { canisters, callers, codec, jobs } = host;
  return (request, response, { actor, method }, query) => {
    const startedMs = jobs.nowMs();
    const canister = canisters.resolve(actor);
    const { headers } = request;
    const caller = callers.callerOf(headers['x-caller']);
    // A query has no effect that could come twice.
    const key = kind === 'update' ? idempotencyKeyOf(headers['idempotency-key']) : undefined;
    const start = (form: JsonForm | undefined): void => {
      const call = new CanisterCall(host, response, kind, [canister, actor], method, caller, form, key, startedMs);
      readBody(request, GUARDED_BYTES_MAX, (body) => call.start(body), call.failed);
    };
    if (!isJson) return start(undefined);
    const isLossless = query.has('lossless');
    const startJson = (): void => start(jsonFormOf(codec, canister, method, isLossless, caller));
    return mustAsk(canister, isLossless) ? canisters.interfaceOf(canister).then(startJson) : startJson();
  };
}
