import { ServerError } from '../../../kernel/index.ts';
import { goneSignal } from '../gone-client.ts';
import { profileAnswer } from '../profile/profile-answer.ts';
import { replayJson } from '../replay-report.ts';
import { bodyOf, bodyTooLarge } from '../request-body.ts';
import type { Handlers, RouteHost } from '../route.ts';
import { WHAT_IF_BYTES_MAX } from '../time-routes.ts';
import { whatIfIn } from '../what-if-body.ts';

const GONE = new ServerError('unavailable', 'replay-ended', 'the replay was ended: its client has gone away');

/** A message of the past is executed again on a copy, as it was or with another argument or caller. */
export function replayHandlers(host: RouteHost): Pick<Handlers, 'POST /x/time/replay/:actor'> {
  const { canisters, codec, jobs, metrics, replay, responder } = host;
  for (const number of replay.numbers) metrics.show(number);
  return {
    async 'POST /x/time/replay/:actor'(request, response, { actor }, query) {
      const startedMs = jobs.nowMs();
      const canister = canisters.resolve(actor);
      const signal = goneSignal(response, GONE);
      try {
        const seq = seqIn(query);
        const body = await bodyOf(request, WHAT_IF_BYTES_MAX);
        if (body.length > WHAT_IF_BYTES_MAX) throw bodyTooLarge(WHAT_IF_BYTES_MAX);
        const { id, name } = canister;
        const isProfiled = query.has('with');
        const report = await replay.replay({ id, name, seq, whatIf: whatIfIn(body), isProfiled }, signal);
        const profile = profileAnswer(request.headers.accept, report);
        if (profile === undefined) responder.json(response, 200, replayJson(report, codec));
        else responder.bytes(response, 200, profile.type, Buffer.from(profile.text));
        jobs.done('replay', canister, report.entry.note.method, startedMs);
      } catch (error) {
        responder.error(response, error);
        jobs.failed('replay', canister, '', startedMs, error);
      }
    },
  };
}

function seqIn(query: ReadonlyMap<string, string>): number {
  const text = query.get('seq') ?? '';
  const seq = Number(text);
  if (/^\d{1,15}$/.test(text) && seq >= 1) return seq;
  throw new ServerError('invalid', 'point-bad', '?seq= is the number of a message, from 1 on, as in ?seq=1234');
}
