import type { CallKind } from '../../ic/index.ts';
import { type AccessOf, accessWithToken } from '../access.ts';
import { CanisterCall } from '../canister-call.ts';
import { type JsonForm, jsonFormOf, mustAsk } from '../json-form.ts';
import { notOpen } from '../open-targets.ts';
import { answerPastQuery } from '../past-query.ts';
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
  // Open methods have no open past.
  const past = accessOf === undefined ? accessWithToken(host, 'time') : undefined;
  return {
    'POST /call/:actor/:method': callHandler(host, calls, 'update', false),
    'POST /query/:actor/:method': queryHandler(host, queries, past, false),
    'POST /call-json/:actor/:method': callHandler(host, calls, 'update', true),
    'POST /query-json/:actor/:method': queryHandler(host, queries, past, true),
  };
}

/** `past`: the rights that `?at=POINT` needs besides; undefined: the past is not told. */
function queryHandler(host: RouteHost, accessOf: AccessOf, past: AccessOf | undefined, isJson: boolean): Handler {
  const now = callHandler(host, accessOf, 'query', isJson);
  return (request, response, parameters, query) => {
    const at = query.get('at');
    if (at === undefined) return now(request, response, parameters, query);
    if (past === undefined) throw notOpen();
    const { actor, method } = parameters;
    const access = accessOf(response);
    past(response).resolve(actor, method);
    const canister = access.resolve(actor, method);
    const caller = access.callerOf(request);
    const form = { isJson, isLossless: query.has('lossless'), bodyBytesMax: access.bodyBytesMax };
    return answerPastQuery(host, request, response, { canister, method, caller, at, ...form });
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
