import type { Codec } from '../codec/index.ts';
import { NS_PER_MS, type OutgoingCall, principalToText } from '../ic/index.ts';
import type { ReplayReport, ReplayVerdict } from '../replay/index.ts';
import { candidPreview } from './candid-preview.ts';
import { endJson } from './played-end.ts';
import { lineOf, profileJson } from './profile/profile-answer.ts';
import { argumentText, shownPlace } from './routes/timeline.ts';

type Previews = Pick<Codec, 'previewText'>;

/** Calls that are shown, and lines: a message may make 50,000 calls. */
const CALLS_MAX = 100;
const LINES_MAX = 1_000;

/** Returns a replay as clients get it (docs/time-travel.md, "Replay"). */
export function replayJson(report: ReplayReport, codec: Previews): object {
  const { entry, end, calls, timerNs, changedBytes, lines, verdict, earlier } = report;
  const { kind, method, caller } = entry.note;
  return {
    ...(verdict !== undefined && verdictJson(verdict)),
    ...shownPlace(entry),
    kind,
    method,
    caller: principalToText(caller),
    args: argumentText(entry, codec),
    ...endJson(end, codec),
    effects: {
      calls: calls.slice(0, CALLS_MAX).map((call) => callJson(call, codec)),
      ...(calls.length > CALLS_MAX && { moreCalls: calls.length - CALLS_MAX }),
      timer: timerText(timerNs),
      bytes: changedBytes,
    },
    debug: lines.slice(0, LINES_MAX),
    ...(lines.length > LINES_MAX && { moreLines: lines.length - LINES_MAX }),
    ...(earlier > 0 && { earlier }),
    ...(report.profile !== undefined && { profile: profileJson(rootName(report), report.profile) }),
  };
}

/** Returns the name of the root of the message's profile. */
export function rootName({ entry: { note, seq } }: ReplayReport): string {
  return `${note.method === '' ? note.kind : lineOf(note.method)} seq:${seq}`;
}

function verdictJson(verdict: ReplayVerdict): object {
  switch (verdict.kind) {
    case 'exact':
      return { exact: true };
    case 'different':
      return { exact: false, difference: verdict.difference };
    case 'unsure':
      return { exact: null, difference: verdict.difference, why: verdict.why };
  }
}

function callJson({ callee, method, payload, cycles }: OutgoingCall, codec: Previews): object {
  return { callee: principalToText(callee), method, args: candidPreview(codec, payload), cycles: String(cycles) };
}

/** Returns when a timer is due; `off`, or null where the message set none. */
function timerText(timerNs: bigint | undefined): string | null {
  if (timerNs === undefined) return null;
  if (timerNs === 0n) return 'off';
  const date = new Date(Number(timerNs) / NS_PER_MS);
  return Number.isNaN(date.getTime()) ? `${timerNs} ns` : date.toISOString();
}
