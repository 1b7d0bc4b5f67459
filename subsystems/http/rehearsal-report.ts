import type { Codec } from '../codec/index.ts';
import { principalToText } from '../ic/index.ts';
import type { Difference, RehearsalReport, RehearsedHooks, ReplayedMessages } from '../rehearsal/index.ts';
import { candidPreview } from './candid-preview.ts';
import { endJson } from './played-end.ts';
import { shownPlace } from './routes/timeline.ts';

type Previews = Pick<Codec, 'previewText'>;

export interface RehearsalTexts {
  readonly codec: Previews;
  /** False: whoever asks has no right to the past, and gets counts alone. */
  readonly tellsPast: boolean;
}

/** Returns a rehearsal as clients get it (docs/time-travel.md, "Rehearsal"). */
export function rehearsalJson({ hooks, replayed, ms }: RehearsalReport, { codec, tellsPast }: RehearsalTexts): object {
  const told = tellsPast || replayed === undefined ? replayed : { ...replayed, differences: [], probes: [] };
  return { hooks: hooksJson(hooks), replayed: told === undefined ? null : replayedJson(told, codec), ms };
}

function hooksJson({ outcome, message, instructions, logs }: RehearsedHooks): object {
  return { outcome, message: message ?? null, instructions, logs };
}

function replayedJson(replayed: ReplayedMessages, codec: Previews): object {
  const { span, hooks, count, same, different, diverged, leftOut, broken, inexact, instructions, why } = replayed;
  return {
    from: span === undefined ? null : shownPlace(span.from),
    to: span === undefined ? null : shownPlace(span.to),
    why: why ?? null,
    hooks: hooks === undefined ? null : hooksJson(hooks),
    count,
    same,
    different,
    diverged,
    broken,
    leftOut,
    inexact,
    instructions,
    differences: replayed.differences.map((difference) => differenceJson(difference, codec)),
    probes: replayed.probes.map(({ method, isSame, was, is }) => ({
      method,
      same: isSame,
      was: endJson(was, codec),
      is: endJson(is, codec),
    })),
  };
}

function differenceJson(difference: Difference, codec: Previews): object {
  const { seq, kind, method, caller, argument, was, is, calls, isBehindDivergence } = difference;
  return {
    seq,
    kind,
    method,
    caller: principalToText(caller),
    args: candidPreview(codec, argument),
    was: endJson(was, codec),
    is: endJson(is, codec),
    calls,
    behindDivergence: isBehindDivergence,
  };
}
