import type { CallKind } from '../../ic/index.ts';
import { type AccessOf, accessWithToken } from '../access.ts';
import { CanisterCall } from '../canister-call.ts';
import { type JsonForm, jsonFormOf, mustAsk } from '../json-form.ts';
import { readBody } from '../request-body.ts';
import type { Handler, Handlers, RouteHost } from '../route.ts';

type CallRoutes = `POST /${'call' | 'query' | 'call-json' | 'query-json'}/:actor/:method`;

/**
 * Calls of clients. `POST /call/<ACTOR>/<METHOD>` and `/query/…` take Candid and answer with Candid: the body is the
 * argument as it is, also when it is empty. `/call-json/…` and `/query-json/…` take a JSON array of arguments, where
 * no body means `[]`, and answer with one of results. `accessOf`: the rights of who
 * calls, if they are not the router's.
 */
export function callHandlers(host: RouteHost, accessOf?: AccessOf): Pick<Handlers, CallRoutes> {
  const calls = accessOf ?? accessWithToken(host, 'call');
  const queries = accessOf ?? accessWithToken(host, 'query');
  return {
    'POST /call/:actor/:method': callHandler(host, calls, 'update', false),
    'POST /query/:actor/:method': callHandler(host, queries, 'query', false),
    'POST /call-json/:actor/:method': callHandler(host, calls, 'update', true),
    'POST /query-json/:actor/:method': callHandler(host, queries, 'query', true),
  };
}

function callHandler(host: RouteHost, accessOf: AccessOf, kind: CallKind, isJson: boolean): Handler {
  const { canisters, codec, jobs } = host;
  return (request, response, { actor, method }, query) => {
    const startedMs = jobs.nowMs();
    const access = accessOf(response);
    const { bodyBytesMax, bodies } = access;
    const canister = access.resolve(actor, method);
    const caller = access.callerOf(request);
    // A query has no effect that could come twice.
    const key = kind === 'update' ? access.keyOf(request) : undefined;
    const start = (form: JsonForm | undefined): void => {
      const call = new CanisterCall(host, response, kind, [canister, actor], method, caller, form, key, startedMs);
      call.tellsMessage = access.tellsMessages;
      const held = bodies?.begin(request);
      if (held !== undefined) call.ended = () => held.free();
      const received = (body: Uint8Array): void => {
        const refusal = access.refusal(canister, method);
        if (refusal === undefined) call.start(body);
        else call.failed(refusal);
      };
      readBody(request, bodyBytesMax, received, call.failed, held);
    };
    if (!isJson) return start(undefined);
    const isLossless = query.has('lossless');
    const startJson = (): void => start(jsonFormOf(codec, canister, method, isLossless, caller));
    return mustAsk(canister, isLossless) ? canisters.interfaceOf(canister).then(startJson) : startJson();
  };
}
