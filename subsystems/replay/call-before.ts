/**
 * The call that a callback works for: how many instructions its earlier messages took. Notes do not have that, so the
 * messages from the last state without open calls on are played.
 */
import { CopyPlayer, entriesFrom } from '../copies/index.ts';
import type { Execution } from '../execution/index.ts';
import type { PastMessage, Timeline, TimelineEntry } from '../timeline/index.ts';
import { pastCopy } from './past-copy.ts';

interface CallNeeds {
  readonly execution: Execution;
  readonly timeline: Pick<Timeline, 'messageAt' | 'entries'>;
}

interface CallBefore {
  readonly instructions: number;
  /** Messages that were played for it. */
  readonly messages: number;
}

/** Messages that are looked through for a state without open calls. */
const LOOKED_BACK_MAX = 1_000;
const ENDS_OF_CALLS: ReadonlySet<string> = new Set(['install', 'reinstall', 'upgrade', 'restore', 'fork']);

/** Resolves with the call of a callback; undefined: it cannot be told. Rejects as copies and timelines do. */
export async function callBefore(
  needs: CallNeeds,
  id: Uint8Array,
  { entry: { seq, note } }: PastMessage,
  terms: Parameters<typeof pastCopy>[2],
): Promise<CallBefore | undefined> {
  const callbacks = note.call?.answered?.callbacks;
  const messages = await messagesBefore(needs, id, seq);
  const [first] = messages;
  if (callbacks === undefined || first === undefined) return undefined;
  const { before } = await needs.timeline.messageAt(id, first.seq);
  if (before.wasm === undefined) return undefined;
  const module = await needs.execution.prepare(before.wasm);
  using _kept = needs.execution.keep(module);
  const [timerNs = 0n] = before.timersNs;
  const copy = await pastCopy(needs.execution, { id, module, past: before, timerNs }, terms);
  try {
    const player = new CopyPlayer(copy, id);
    for (const entry of messages) if (!(await isPlayedAsNoted(player, entry))) return undefined;
    const call = player.callWith(callbacks);
    return call && { instructions: call.context.instructions, messages: messages.length };
  } finally {
    copy.end();
  }
}

/** Resolves with the messages before another one, behind the last that left no call open; none: it is too long ago. */
export async function messagesBefore(
  { timeline }: Pick<CallNeeds, 'timeline'>,
  id: Uint8Array,
  seq: number,
): Promise<readonly TimelineEntry[]> {
  let messages: TimelineEntry[] | undefined;
  for await (const entry of entriesFrom(timeline, id, Math.max(1, seq - LOOKED_BACK_MAX), seq - 1)) {
    messages?.push(entry);
    if (entry.note.openCalls === 0 || ENDS_OF_CALLS.has(entry.note.kind)) messages = [];
  }
  return messages ?? [];
}

/** Plays a message; false: it took another course than it is noted to have taken. */
async function isPlayedAsNoted(player: CopyPlayer, { note }: TimelineEntry): Promise<boolean> {
  const answered = note.call?.answered;
  const call = answered && player.callWith(answered.callbacks);
  if (note.kind === 'callback' && call === undefined) return false;
  const { end } = await (answered === undefined || call === undefined
    ? player.play(note)
    : player.answer(call, note, answered));
  return end.instructions === note.instructions;
}
