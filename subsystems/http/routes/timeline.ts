import { ServerError } from '../../../kernel/index.ts';
import type { Codec } from '../../codec/index.ts';
import { principalToText } from '../../ic/index.ts';
import {
  parseTimePoint,
  type PastState,
  type Place,
  type TimelineEntry,
  type TimePoint,
} from '../../timeline/index.ts';
import { candidPreview, PREVIEW_BYTES_MAX } from '../candid-preview.ts';
import { namedPreviews } from '../named-previews.ts';
import type { Handlers, RouteHost } from '../route.ts';
import { operatedHandler } from './operated.ts';

type TimelineRoute =
  | 'GET /x/time/timeline/:actor'
  | 'GET /x/time/state/:actor'
  | 'POST /x/time/label/:actor/:label'
  | 'DELETE /x/time/label/:actor/:label';

const LIMIT_MAX = 1_000;
const LIMIT = 100;
const NOW: TimePoint = { kind: 'now' };

/** Arguments have megabytes, and their beginnings are shown. */
const PREVIEWS = { argumentBytesMax: PREVIEW_BYTES_MAX };

/** The past of an actor, below `/x/time/`: its messages, its state at a point, and names of points. */
export function timelineHandlers(host: RouteHost): Pick<Handlers, TimelineRoute> {
  const { timeline, canisters, codec, jobs, metrics, responder } = host;
  for (const number of timeline.numbers) metrics.show(number);
  return {
    async 'GET /x/time/timeline/:actor'(_request, response, { actor }, query) {
      const startedMs = jobs.nowMs();
      const canister = canisters.resolve(actor);
      try {
        const asked = { from: pointIn(query, 'from'), to: pointIn(query, 'to'), limit: limitIn(query), ...PREVIEWS };
        const { entries, next, reach } = await timeline.entries(canister.id, asked);
        if (next !== undefined) response.setHeader('svc-next', `seq:${next}`);
        if (reach !== undefined) response.setHeader('svc-reach', `unit:${reach.from.unit} unit:${reach.to.unit}`);
        const previews = namedPreviews(codec, canister);
        responder.json(
          response,
          200,
          entries.map((entry) => shownMessage(entry, previews)),
        );
        jobs.done('timeline', canister, '', startedMs);
      } catch (error) {
        responder.error(response, error);
        jobs.failed('timeline', canister, '', startedMs, error);
      }
    },
    'GET /x/time/state/:actor': operatedHandler(host, 'past-state', async ({ canister, query }) =>
      shownState(await timeline.stateAt(canister.id, pointIn(query, 'at') ?? NOW)),
    ),
    'POST /x/time/label/:actor/:label': operatedHandler(host, 'label', async ({ canister, parameters, query }) =>
      shownPlace(await timeline.label(canister.id, parameters.label, pointIn(query, 'at') ?? NOW)),
    ),
    'DELETE /x/time/label/:actor/:label': operatedHandler(host, 'label', async ({ canister, parameters }) => {
      await timeline.unlabel(canister.id, parameters.label);
      return 'deleted';
    }),
  };
}

/** Returns the point of a parameter; undefined: it is not there. Throws ServerError `point-bad`. */
export function pointIn(query: ReadonlyMap<string, string>, name: string): TimePoint | undefined {
  const text = query.get(name);
  return text === undefined ? undefined : parseTimePoint(text, `?${name}=`);
}

function limitIn(query: ReadonlyMap<string, string>): number {
  const text = query.get('limit');
  if (text === undefined) return LIMIT;
  const limit = Number(text);
  if (/^\d{1,4}$/.test(text) && limit >= 1 && limit <= LIMIT_MAX) return limit;
  throw new ServerError('invalid', 'bad-page', `limit is a whole number from 1 to ${LIMIT_MAX}, as in limit=${LIMIT}`);
}

/** Returns a place as clients see it. */
export function shownPlace({ seq, unit, timeMs }: Place): Readonly<Record<string, unknown>> {
  return { seq, unit, time: new Date(timeMs).toISOString() };
}

/** Returns the argument of a message as clients see it: of a callback, the reply, or the text of the reject. */
export function argumentText(
  { note: { kind, argument, call }, isArgumentCut }: Pick<TimelineEntry, 'note' | 'isArgumentCut'>,
  codec: Pick<Codec, 'previewText'>,
): string {
  const isText = kind === 'restore' || kind === 'fork' || (call?.answered?.rejectCode ?? 0) !== 0;
  if (!isText) return candidPreview(codec, argument, isArgumentCut);
  // A character that was cut is left out.
  return isArgumentCut ? `${new TextDecoder().decode(argument, { stream: true })}…` : Buffer.from(argument).toString();
}

function shownMessage(entry: TimelineEntry, codec: Pick<Codec, 'previewText'>): Readonly<Record<string, unknown>> {
  const { kind, method, caller, outcome, instructions, charge, openCalls } = entry.note;
  return {
    ...shownPlace(entry),
    kind,
    method,
    caller: principalToText(caller),
    args: argumentText(entry, codec),
    outcome,
    instructions,
    cycles: charge,
    bytes: entry.bytes,
    openCalls,
  };
}

function shownState(state: PastState): Readonly<Record<string, unknown>> {
  const { moduleHash, heapBytes, stableBytes, balance, version, status, timerMs, openCalls, sha256, image } = state;
  return {
    point: shownPlace(state),
    module: moduleHash ?? null,
    heapBytes,
    stableBytes,
    cycles: String(balance),
    version,
    status,
    timer: timerMs === Infinity ? null : new Date(timerMs).toISOString(),
    certifiedData: Buffer.from(image.certifiedData).toString('hex'),
    globals: Buffer.from(image.globals).toString('hex'),
    sha256,
    openCalls,
  };
}
