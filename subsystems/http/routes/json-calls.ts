import { ServerError } from '../../../kernel/index.ts';
import type { Canister } from '../../canisters/index.ts';
import type { Codec } from '../../codec/index.ts';
import type { CallKind } from '../../ic/index.ts';
import { CanisterCall, type JsonForm } from '../canister-call.ts';
import { readBody } from '../request-body.ts';
import { GUARDED_BYTES_MAX } from '../route-table.ts';
import type { Handler, Handlers, RouteHost } from '../route.ts';

const PLAIN = { lossless: false };
const LOSSLESS = { lossless: true };

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
    const caller = callers.callerOf(request.headers['x-caller']);
    const form = jsonFormOf(codec, canister, method, query.has('lossless'));
    const call = new CanisterCall(host, response, kind, [canister, actor], method, caller, form, startedMs);
    readBody(request, GUARDED_BYTES_MAX, (body) => call.start(body), call.failed);
  };
}

/** By the method's types; the lossless form describes itself and so works without any. */
function jsonFormOf(codec: Pick<Codec, 'untyped'>, canister: Canister, method: string, isLossless: boolean): JsonForm {
  const encoding = isLossless ? LOSSLESS : PLAIN;
  const described = canister.candid?.methods.get(method);
  if (described !== undefined) return { args: described.args, results: described.results, encoding };
  if (!canister.module?.methods.has(method)) {
    throw new ServerError(
      'missing',
      'method-missing',
      `actor ${canister.name} has no method ${JSON.stringify(method)}`,
    );
  }
  if (isLossless) return { args: codec.untyped, results: codec.untyped, encoding };
  const reason = `${whyUndescribed(canister, method)}: use ?lossless=1, or /call and /query with Candid bytes`;
  throw new ServerError('invalid', 'no-interface', reason);
}

function whyUndescribed({ name, candid, candidProblem }: Canister, method: string): string {
  if (candid !== undefined) return `the Candid interface of ${name} does not describe method ${JSON.stringify(method)}`;
  if (candidProblem === undefined) return `actor ${name} has no Candid interface`;
  return `the Candid interface of ${name} was not understood (${candidProblem})`;
}
