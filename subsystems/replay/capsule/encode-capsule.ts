/**
 * Makes capsules of an actor's timeline: a message at a time, so that two states are in memory at once. Main thread;
 * what is long happens in slices or in other threads.
 */
import { messageOf, ServerError } from '../../../kernel/index.ts';
import type { Execution } from '../../execution/index.ts';
import type { MeteringPolicy } from '../../metering/index.ts';
import type { PastMessage, ServerFacts, Timeline, TimelineEntry } from '../../timeline/index.ts';
import { messagesBefore } from '../call-before.ts';
import { freeStates } from '../freed-states.ts';
import type { CapsuleAsked } from '../index.ts';
import { refuseUnplayable } from '../played-message.ts';
import { fileHead, SECTION, SectionWriter, tooLarge } from './capsule-format.ts';
import { pagesBytes, pagesFound, partsOf } from './capsule-pages.ts';
import { endText, headText, messageText } from './capsule-texts.ts';

interface CapsuleNeeds {
  readonly execution: Pick<Execution, 'sharedEnvironment'>;
  readonly timeline: Pick<Timeline, 'messageAt' | 'entries'>;
  readonly facts: ServerFacts;
  readonly policy: MeteringPolicy;
}

/** Messages that come along because a callback answers one of their calls. */
const EARLIER_MAX = 100;
const NO_VARIABLES: ReadonlyMap<string, string> = new Map();

/**
 * Yields the bytes of a capsule. Before anything is yielded, rejects as `messageAt` does for the first message, and
 * with ServerError `replay-none` for one that cannot be executed again, `capsule-large`. Where a later message is not
 * kept, the capsule ends before it, and says so.
 */
export async function* capsulePieces(
  needs: CapsuleNeeds,
  asked: CapsuleAsked,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  const { timeline, execution, facts, policy } = needs;
  const { id, name, seq, count } = asked;
  refuseUnplayable(await timeline.messageAt(id, seq));
  const { earlier, last: lastSeq } = await spanOf(timeline, asked);
  const writer = new SectionWriter();
  const modules = new Set<string>();
  const { startingCycles: _cycles, ...terms } = policy;
  const variables = execution.sharedEnvironment?.() ?? NO_VARIABLES;
  const told = { actor: name, id, from: seq, hasCalls: earlier !== undefined, facts, policy: terms, variables };
  const head = Buffer.concat([fileHead(), await writer.section(SECTION.head, headText(told))]);
  let hasBegun = false;
  let last: PastMessage | undefined;
  let why = lastSeq < seq + count - 1 ? `the actor's newest message is seq:${lastSeq}` : undefined;
  let messages = 0;
  for (let at = seq - (earlier ?? 0); at <= lastSeq; at++) {
    signal.throwIfAborted();
    if (last !== undefined) freeStates(last.before);
    const message = await orWhy(at > seq, async () => {
      const found = await timeline.messageAt(id, at);
      if (!writer.hasRoom(sizeOf(found, last === undefined))) throw tooLarge();
      return found;
    });
    if (typeof message === 'string') {
      why = message;
      break;
    }
    if (!hasBegun) yield head;
    hasBegun = true;
    for await (const piece of messagePieces(writer, modules, last, message)) {
      signal.throwIfAborted();
      yield piece;
    }
    messages++;
    last = message;
  }
  yield await writer.section(SECTION.end, endText({ messages, why }));
}

/** Resolves with the text of a ServerError if that is what `work` rejects with, and it may be left out. */
async function orWhy<Result>(mayBeLeftOut: boolean, work: () => Promise<Result>): Promise<Result | string> {
  try {
    return await work();
  } catch (error) {
    if (mayBeLeftOut && error instanceof ServerError) return messageOf(error);
    throw error;
  }
}

interface Span {
  /** Messages before the first one that come along; undefined: a callback answers a call that is too long ago. */
  readonly earlier: number | undefined;
  readonly last: number;
}

/**
 * Resolves with the messages of a capsule. Callbacks may ask for the instructions of their whole call: the messages
 * since the last one that left no call open come along.
 */
async function spanOf(timeline: CapsuleNeeds['timeline'], { id, seq, count }: CapsuleAsked): Promise<Span> {
  const page = async (from: number, limit: number): Promise<readonly TimelineEntry[]> => {
    const asked = { from: { kind: 'seq', seq: from }, to: undefined, limit, argumentBytesMax: 0 } as const;
    return (await timeline.entries(id, asked)).entries;
  };
  const entries = await page(seq, count);
  // Numbers of messages go on behind a gap.
  const last = Math.min(seq + count - 1, entries.at(-1)?.seq ?? seq);
  if (!entries.some(({ note }) => note.kind === 'callback')) return { earlier: 0, last };
  const [before] = await page(seq - 1, 1);
  if (before?.seq === seq - 1 && before.note.openCalls === 0) return { earlier: 0, last };
  const [first] = await messagesBefore({ timeline }, id, seq);
  // The message that left no call open is the first one: it shows that there was none.
  const earlier = first === undefined ? Infinity : seq - first.seq + 1;
  if (earlier > EARLIER_MAX) return { earlier: undefined, last };
  const found = await orWhy(true, () => timeline.messageAt(id, seq - earlier));
  return { earlier: typeof found === 'string' ? undefined : earlier, last };
}

/** Returns an upper bound of what a message adds to a capsule, in bytes. */
function sizeOf({ entry, before, after }: PastMessage, isFirst: boolean): number {
  const { heap, stable } = after.changed;
  const found = isFirst ? before.heapBytes + before.image.stable.reduce((sum, { bytes }) => sum + bytes.length, 0) : 0;
  const modules = (before.wasm?.length ?? 0) + (after.wasm === before.wasm ? 0 : (after.wasm?.length ?? 0));
  return entry.note.argument.length + heap.bytes.length + stable.bytes.length + found + modules;
}

async function* messagePieces(
  writer: SectionWriter,
  modules: Set<string>,
  last: PastMessage | undefined,
  message: PastMessage,
): AsyncGenerator<Uint8Array> {
  const { before, after, entry } = message;
  for (const { moduleHash, wasm } of [before, after])
    if (moduleHash !== undefined && wasm !== undefined && !modules.has(moduleHash)) {
      modules.add(moduleHash);
      yield await writer.section(SECTION.module, wasm);
    }
  yield await writer.section(SECTION.message, messageText(message));
  yield await writer.section(SECTION.argument, entry.note.argument);
  const found = [
    [SECTION.heapBefore, pagesFound('heap', last, message)],
    [SECTION.stableBefore, pagesFound('stable', last, message)],
  ] as const;
  for (const [kind, parts] of found) for await (const part of parts) yield await writer.section(kind, pagesBytes(part));
  const changed = [
    [SECTION.heapBehind, after.changed.heap],
    [SECTION.stableBehind, after.changed.stable],
  ] as const;
  for (const [kind, pages] of changed)
    for (const part of partsOf(pages)) yield await writer.section(kind, pagesBytes(part));
}
