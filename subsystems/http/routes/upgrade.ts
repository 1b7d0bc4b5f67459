import { ServerError } from '../../../kernel/index.ts';
import { accessWithToken } from '../access.ts';
import { namedPreviews } from '../named-previews.ts';
import { argumentFrom, factsIn, readUpload, refuseCycles } from '../code-upload.ts';
import { unwantedSignal } from '../unwanted-work.ts';
import { hexParameter } from '../request-target.ts';
import type { Handlers, RouteHost } from '../route.ts';
import { reportJson, reportOf } from '../upgrade-report.ts';

/** Messages of a rehearsal. */
const REPLAYED_MAX = 10_000;
const GONE = new ServerError('unavailable', 'rehearsal-ended', 'the rehearsal was ended: its client has gone away');

/**
 * `POST /upgrade/<ACTOR>`: the body is a module, raw or gzip, or a form with one, or nothing to read the manifest's
 * file again; `?arg=0x<hex>` is the Candid argument of its hook. `?report=1` answers with what changed, as JSON;
 * `?force=true` does not check what the module would lose. With `?replay=K` the new code first answers the actor's
 * last K messages on a copy, and with `?dry=1` that is all; the answer tells arguments of then, so it needs the scope
 * `time`.
 */
export function upgradeHandlers(host: RouteHost): Pick<Handlers, 'POST /upgrade/:actor'> {
  const { canisters, callers, codec, jobs, responder } = host;
  const past = accessWithToken(host, 'time');
  return {
    async 'POST /upgrade/:actor'(request, response, { actor }, query) {
      const startedMs = jobs.nowMs();
      const argument = hexParameter(query, 'arg');
      const rehearse = messagesIn(query);
      const isDry = query.has('dry');
      const isReported = isDry || query.has('report');
      const job = isDry ? 'rehearsal' : 'upgrade';
      const reads = past(response);
      const canister = rehearse === undefined ? canisters.resolve(actor) : reads.resolve(actor, '');
      const tellsPast = reads.refusal(canister, '') === undefined;
      const texts = { codec: namedPreviews(codec, canister), tellsPast };
      const caller = callers.callerOf(request.headers['x-caller']);
      try {
        const upload = await readUpload(request);
        refuseCycles(upload, 'an upgrade keeps the balance');
        const options = {
          argument: argumentFrom(argument, upload),
          caller,
          candidText: upload.candidText,
          ...factsIn(query),
          isForced: query.has('force'),
          isDry,
          isUnwanted: unwantedSignal(response, canisters, canister, GONE),
          ...(rehearse !== undefined && { rehearse }),
        };
        const report = await canisters.upgrade(canister, upload.module, options);
        if (isReported) responder.json(response, 200, reportJson(report, texts));
        else responder.text(response, 200, 'upgraded');
        jobs.done(job, canister, '', startedMs);
      } catch (error) {
        const report = isReported ? reportOf(error, texts) : undefined;
        responder.error(response, error, report);
        jobs.failed(job, canister, '', startedMs, error);
      }
    },
  };
}

/** Returns the number of messages of `?replay=K`. Throws ServerError `bad-replay`. */
function messagesIn(query: ReadonlyMap<string, string>): number | undefined {
  const text = query.get('replay');
  if (text === undefined) return undefined;
  const messages = Number(text);
  if (/^\d{1,5}$/.test(text) && messages >= 1 && messages <= REPLAYED_MAX) return messages;
  throw new ServerError(
    'invalid',
    'bad-replay',
    `replay is a whole number from 1 to ${REPLAYED_MAX}, as in replay=500`,
  );
}
