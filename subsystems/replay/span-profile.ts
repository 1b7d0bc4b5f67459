/**
 * Profile of several messages: their instructions, one message behind the other, are one line on which samples are
 * taken. A message without a sample is not executed at all.
 *
 * Main thread.
 */
import { type Clock, ServerError } from '../../kernel/index.ts';
import { entriesFrom } from '../copies/index.ts';
import type { Execution, ModuleInfo } from '../execution/index.ts';
import type { PastMessage, Timeline, TimelineEntry } from '../timeline/index.ts';
import type { SpanProfile } from './index.ts';
import { freeStates } from './freed-states.ts';
import { profileOf } from './message-profile.ts';
import type { pastCopy } from './past-copy.ts';
import { isProfilable } from './played-message.ts';
import { profiledModule } from './profiled-module.ts';
import { stackAt } from './sampled-stack.ts';

interface SpanNeeds {
  readonly execution: Execution;
  readonly timeline: Pick<Timeline, 'messageAt' | 'entries'>;
  readonly clock: Clock;
}

/** A message on the line of all instructions. */
interface Part {
  readonly entry: TimelineEntry;
  readonly begin: number;
  readonly end: number;
}

/** Resolves with the profile of the messages `from` to `to`. Rejects as copies and timelines do. */
export async function profileOfSpan(
  { execution, timeline, clock }: SpanNeeds,
  id: Uint8Array,
  { from, to }: { readonly from: number; readonly to: number },
  terms: Parameters<typeof pastCopy>[2],
): Promise<SpanProfile> {
  const { parts, leftOut } = await partsOf(timeline, id, from, to);
  const [first, last] = [parts[0], parts.at(-1)];
  if (first === undefined || last === undefined) throw noParts(from, to);
  using modules = new ProfiledModules(execution);
  const states = new PastStates(timeline, id);
  const at = async (instruction: number): Promise<readonly string[] | undefined> => {
    const { entry, begin } = partAt(parts, instruction);
    const before = await states.before(entry.seq);
    const module = before && (await modules.of(before));
    if (before === undefined || module === undefined) return [labelOf(entry)];
    const unknown = { timerNs: before.timersNs[0] ?? 0n, instructions: 0 };
    const sampled = { id, module, past: before, note: entry.note, unknown };
    const stack = await stackAt(execution, sampled, Math.max(1, instruction - begin), terms);
    return stack && [labelOf(entry), ...stack];
  };
  const profile = await profileOf(last.end, at, clock);
  states.refuseNone();
  return { from: first.entry, to: last.entry, messages: parts.length, leftOut, profile };
}

function noParts(from: number, to: number): ServerError {
  const why =
    to < from
      ? 'the actor executed no message in this time'
      : `from seq:${from} to seq:${to} there is no update or callback whose state before is kept`;
  return new ServerError('invalid', 'replay-none', `there is nothing to profile: ${why}`);
}

/** Resolves with the messages that have a profile and whose state before is kept, and the number of the others. */
async function partsOf(
  timeline: SpanNeeds['timeline'],
  id: Uint8Array,
  from: number,
  to: number,
): Promise<{ readonly parts: readonly Part[]; readonly leftOut: number }> {
  const { reach } = await timeline.entries(id, { from: undefined, to: undefined, limit: 1 });
  const parts: Part[] = [];
  let end = 0;
  let leftOut = 0;
  for await (const entry of entriesFrom(timeline, id, from, to)) {
    const { note, seq } = entry;
    if (reach === undefined || seq <= reach.from.seq || !isProfilable(note) || note.instructions === 0) leftOut++;
    else parts.push({ entry, begin: end, end: (end += note.instructions) });
  }
  return { parts, leftOut };
}

/** Returns the message that has the instruction. */
function partAt(parts: readonly Part[], instruction: number): Part {
  let [low, high] = [0, parts.length - 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((parts[middle]?.end ?? 0) < instruction) low = middle + 1;
    else high = middle;
  }
  const part = parts[low];
  if (part === undefined) throw new Error('a profile without messages has no samples');
  return part;
}

/** The name of a method may be any text. */
function labelOf({ note: { kind, method } }: TimelineEntry): string {
  return method === '' ? kind : method.replaceAll(/[\p{C}\p{Zl}\p{Zp}]/gu, '?');
}

/** States before the messages, one at a time. Where a heap was kept by its log, there is none. */
class PastStates {
  readonly #timeline: Pick<Timeline, 'messageAt'>;
  readonly #id: Uint8Array;
  #atHand: { readonly seq: number; readonly before: PastMessage['before'] | undefined } | undefined;
  #isAnyThere = false;
  #logged: ServerError | undefined;

  constructor(timeline: Pick<Timeline, 'messageAt'>, id: Uint8Array) {
    this.#timeline = timeline;
    this.#id = id;
  }

  async before(seq: number): Promise<PastMessage['before'] | undefined> {
    if (this.#atHand?.seq === seq) return this.#atHand.before;
    const { heapBytes = 0, stableBytes = 0 } = this.#atHand?.before ?? {};
    this.#atHand = undefined;
    freeStates({ heapBytes, stableBytes });
    const before = await this.#read(seq);
    this.#atHand = { seq, before };
    return before;
  }

  async #read(seq: number): Promise<PastMessage['before'] | undefined> {
    try {
      const { before } = await this.#timeline.messageAt(this.#id, seq);
      this.#isAnyThere = true;
      return before;
    } catch (error) {
      if (!(error instanceof ServerError && error.code === 'timeline-logged')) throw error;
      this.#logged = error;
      return undefined;
    }
  }

  /** Throws ServerError `timeline-logged` if no state was there. */
  refuseNone(): void {
    if (this.#logged !== undefined && !this.#isAnyThere) throw this.#logged;
  }
}

/** Modules of the messages, as they are compiled for profiles. */
class ProfiledModules implements Disposable {
  readonly #execution: Execution;
  readonly #modules = new Map<string, Promise<ModuleInfo>>();
  readonly #kept: Disposable[] = [];

  constructor(execution: Execution) {
    this.#execution = execution;
  }

  async of({ moduleHash, wasm }: PastMessage['before']): Promise<ModuleInfo | undefined> {
    if (moduleHash === undefined || wasm === undefined) return undefined;
    const known = this.#modules.get(moduleHash) ?? this.#prepared(wasm);
    this.#modules.set(moduleHash, known);
    return await known;
  }

  async #prepared(wasm: Uint8Array): Promise<ModuleInfo> {
    const module = await profiledModule(this.#execution, wasm);
    this.#kept.push(this.#execution.keep(module));
    return module;
  }

  [Symbol.dispose](): void {
    for (const kept of this.#kept) kept[Symbol.dispose]();
  }
}
