import type { CallKind } from '../../ic/index.ts';
import { CanisterCall } from '../canister-call.ts';
import { readBody } from '../request-body.ts';
import { GUARDED_BYTES_MAX, queryParametersOf } from '../request-target.ts';
import type { Route, RouteHost } from '../route.ts';

/** `POST /call/<ACTOR>/<METHOD>` and `/query/…`: Candid in, Candid out. The body is the argument as it is, also when it is empty. */
export function rawCallRoutes(host: RouteHost): readonly Route[] {
  return [rawCallRoute(host, '/call/:actor/:method', 'update'), rawCallRoute(host, '/query/:actor/:method', 'query')];
}

function rawCallRoute(host: RouteHost, path: string, kind: CallKind): Route {
  const { canisters, callers, jobs } = host;
  return {
    method: 'POST',
    path,
    job: kind === 'update' ? 'call' : 'query',
    handle(request, response, { actor, method }) {
      const startedMs = jobs.nowMs();
      const target = request.url ?? '';
      if (target.indexOf('?') >= 0) queryParametersOf(target, []);
      const canister = canisters.resolve(actor);
      const caller = callers.callerOf(request.headers['x-caller']);
      const call = new CanisterCall(host, response, kind, [canister, actor], method, caller, undefined, startedMs);
      readBody(request, GUARDED_BYTES_MAX, (body) => call.start(body), call.failed);
    },
  };
}
