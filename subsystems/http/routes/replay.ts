import { ServerError } from '../../../kernel/index.ts';
import { unwantedSignal } from '../unwanted-work.ts';
import { CAPSULE_MESSAGES_MAX, SPAN_MESSAGES_MAX, type SpanAsked } from '../../replay/index.ts';
import { namedPreviews } from '../named-previews.ts';
import { lineOf, profileAnswer, profileJson } from '../profile/profile-answer.ts';
import { replayJson, rootName } from '../replay-report.ts';
import { bodyOf, bodyTooLarge } from '../request-body.ts';
import { BYTES } from '../responder.ts';
import type { Handlers, RouteHost } from '../route.ts';
import { WHAT_IF_BYTES_MAX } from '../time-routes.ts';
import { whatIfIn } from '../what-if-body.ts';
import { shownPlace } from './timeline.ts';

const GONE = new ServerError('unavailable', 'replay-ended', 'the replay was ended: its client has gone away');

type ReplayRoute = 'POST /x/time/replay/:actor' | 'GET /x/time/capsule/:actor' | 'POST /x/time/profile/:actor';

/** Messages of a profile, when nothing else is asked for; and the longest time for which messages are awaited. */
const MESSAGES = 100;
const SPAN_SECONDS_MAX = 60;

/** Milliseconds for which the client of a capsule may take nothing: others wait until it is made. */
const CAPSULE_STALL_MS = 15_000;

/** Characters of a name that any system takes in the name of a file. */
const FILE_NAME = /^[\w-][\w.-]{0,63}$/;

/**
 * A message of the past is executed again on a copy, as it was or with another argument or caller; and is taken along
 * to be executed elsewhere.
 */
export function replayHandlers(host: RouteHost): Pick<Handlers, ReplayRoute> {
  const { canisters, codec, jobs, metrics, replay, responder } = host;
  for (const number of replay.numbers) metrics.show(number);
  return {
    async 'POST /x/time/replay/:actor'(request, response, { actor }, query) {
      const startedMs = jobs.nowMs();
      const canister = canisters.resolve(actor);
      const signal = unwantedSignal(response, canisters, canister, GONE);
      try {
        const seq = seqIn(query);
        const body = await bodyOf(request, WHAT_IF_BYTES_MAX);
        if (body.length > WHAT_IF_BYTES_MAX) throw bodyTooLarge(WHAT_IF_BYTES_MAX);
        const { id, name } = canister;
        const isProfiled = query.has('with');
        const report = await replay.replay({ id, name, seq, whatIf: whatIfIn(body), isProfiled }, signal);
        const { profile } = report;
        const alone = profile && profileAnswer(request.headers.accept, rootName(report), profile);
        if (alone === undefined) responder.json(response, 200, replayJson(report, namedPreviews(codec, canister)));
        else responder.bytes(response, 200, alone.type, Buffer.from(alone.text));
        jobs.done('replay', canister, report.entry.note.method, startedMs);
      } catch (error) {
        responder.error(response, error);
        jobs.failed('replay', canister, '', startedMs, error);
      }
    },
    async 'GET /x/time/capsule/:actor'(_request, response, { actor }, query) {
      const startedMs = jobs.nowMs();
      const canister = canisters.resolve(actor);
      const { id, idHex, name } = canister;
      const signal = unwantedSignal(response, canisters, canister, GONE);
      try {
        const seq = seqIn(query);
        const count = wholeIn('count', query.get('count') ?? '1', CAPSULE_MESSAGES_MAX);
        const file = `${FILE_NAME.test(name) ? name : idHex}-${seq}.capsule`;
        const more = ['content-disposition', `attachment; filename="${file}"`];
        const pieces = replay.capsule({ id, name, seq, count }, signal);
        await responder.stream(response, BYTES, pieces, { more, signal, stallMaxMs: CAPSULE_STALL_MS });
        jobs.done('capsule', canister, '', startedMs);
      } catch (error) {
        responder.error(response, error);
        jobs.failed('capsule', canister, '', startedMs, error);
      }
    },
    async 'POST /x/time/profile/:actor'(request, response, { actor }, query) {
      const startedMs = jobs.nowMs();
      const canister = canisters.resolve(actor);
      const signal = unwantedSignal(response, canisters, canister, GONE);
      try {
        const { from, to, messages, leftOut, profile } = await replay.profile(
          { id: canister.id, span: spanIn(query) },
          signal,
        );
        const name = lineOf(canister.name);
        const alone = profileAnswer(request.headers.accept, name, profile);
        const told = { from: shownPlace(from), to: shownPlace(to), messages, leftOut };
        if (alone === undefined) responder.json(response, 200, { ...told, profile: profileJson(name, profile) });
        else responder.bytes(response, 200, alone.type, Buffer.from(alone.text));
        jobs.done('profile', canister, '', startedMs);
      } catch (error) {
        responder.error(response, error);
        jobs.failed('profile', canister, '', startedMs, error);
      }
    },
  };
}

/** Returns the messages of a profile. Throws ServerError `bad-span`. */
function spanIn(query: ReadonlyMap<string, string>): SpanAsked['span'] {
  const [messages, seconds] = [query.get('messages'), query.get('seconds')];
  if (messages !== undefined && seconds !== undefined)
    throw new ServerError('invalid', 'bad-span', 'give ?messages= or ?seconds=, not both');
  if (seconds !== undefined) return { seconds: wholeIn('seconds', seconds, SPAN_SECONDS_MAX) };
  return { messages: wholeIn('messages', messages ?? String(MESSAGES), SPAN_MESSAGES_MAX) };
}

function wholeIn(name: string, text: string, most: number): number {
  const value = Number(text);
  if (/^\d{1,6}$/.test(text) && value >= 1 && value <= most) return value;
  throw new ServerError('invalid', 'bad-span', `?${name}= is a number from 1 to ${most}, as in ?${name}=10`);
}

function seqIn(query: ReadonlyMap<string, string>): number {
  const text = query.get('seq') ?? '';
  const seq = Number(text);
  if (/^\d{1,15}$/.test(text) && seq >= 1) return seq;
  throw new ServerError('invalid', 'point-bad', '?seq= is the number of a message, from 1 on, as in ?seq=1234');
}
