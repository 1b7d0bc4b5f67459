/** The messages of a rehearsal: the last ones behind a state in which no call was open, all of the present code. */
import { entriesFrom } from '../copies/index.ts';
import type { Place, Timeline } from '../timeline/index.ts';

/** Messages that are looked through before the wanted ones, for a state without open calls. */
const LOOKED_BACK_MAX = 1_000;
const ENDS_OF_CODE: ReadonlySet<string> = new Set(['install', 'reinstall', 'upgrade', 'restore', 'fork']);

interface MessageSpan {
  /** Number of the message behind which the span begins. */
  readonly from: number;
  readonly to: Place;
  /** Reason why the span has fewer messages than were asked for. */
  readonly why: string | undefined;
}

type Entries = Pick<Timeline, 'entries'>;

/** Returns the span of the last `messages`; a text says why there is none. Rejects as `Timeline` does. */
export async function spanOf(timeline: Entries, id: Uint8Array, messages: number): Promise<MessageSpan | string> {
  const { reach } = await timeline.entries(id, { from: undefined, to: undefined, limit: 1 });
  if (reach === undefined) return 'the timeline of the actor has no state yet: it begins with its first message';
  const { to } = reach;
  const wanted = to.seq - messages;
  const earliest = Math.max(reach.from.seq, wanted - LOOKED_BACK_MAX);
  let code = earliest;
  let isOfOtherCode = false;
  /** Numbers of messages behind which no call was open: the newest one up to `wanted`, and the first one after it. */
  let before: number | undefined;
  let after: number | undefined;
  for await (const { seq, note } of entriesFrom(timeline, id, earliest, to.seq)) {
    if (ENDS_OF_CODE.has(note.kind) && note.outcome === 'done') {
      code = seq;
      isOfOtherCode = seq > wanted;
      before = after = undefined;
    }
    if (note.openCalls > 0) continue;
    if (seq <= wanted) before = seq;
    else after ??= seq;
  }
  const from = before ?? after;
  if (from === undefined) return 'calls of the actor were open behind each of its last messages';
  if (from <= wanted) return { from, to, why: undefined };
  const why = isOfOtherCode
    ? `older messages were for other code, or before a restore (seq:${code})`
    : wanted < reach.from.seq
      ? `the timeline of the actor begins with seq:${reach.from.seq}`
      : `calls were open behind the messages before seq:${from}`;
  return { from, to, why };
}
