/**
 * Plays recorded messages on two copies of an actor, one with the old code and one with the new, and compares. The old
 * code's answers are those of then: the engine is deterministic, and each is checked against what the timeline noted.
 *
 * Main thread.
 */
import type { CandidInterface } from '../codec/index.ts';
import { type CopyPlayer, isPlayable, type Played, type WaitingCall } from '../copies/index.ts';
import { REJECT_CODE } from '../ic/index.ts';
import type { Note, TimelineEntry } from '../timeline/index.ts';
import { callText, isFault, isOfCompiler, isSameEnd, matchCalls, shownBytes, shownEnd } from './compared-ends.ts';
import type { Difference, InstructionFigures } from './index.ts';

const DIFFERENCES_MAX = 20;
/** Executions of the new code for calls that the old code did not make, behind one message. */
const OWN_STEPS_MAX = 100;

/** Counts of a comparison, as `ReplayedMessages` has them. */
export class SideBySide {
  count = 0;
  same = 0;
  different = 0;
  diverged = 0;
  leftOut = 0;
  broken = 0;
  inexact = 0;
  readonly differences: Difference[] = [];
  readonly #old: CopyPlayer;
  readonly #new: CopyPlayer;
  readonly #candid: CandidInterface | undefined;
  /** Calls of the new code by the same call of the old one. */
  readonly #partners = new Map<WaitingCall, WaitingCall>();
  /** Calls of the new code to itself that the old code did not make, or whose answers come later. */
  readonly #own = new Set<WaitingCall>();
  readonly #instructions: { readonly was: number[]; readonly is: number[] } = { was: [], is: [] };

  /** `candid`: the interface of the old code. */
  constructor(old: CopyPlayer, fresh: CopyPlayer, candid: CandidInterface | undefined) {
    this.#old = old;
    this.#new = fresh;
    this.#candid = candid;
  }

  get instructions(): { readonly was: InstructionFigures; readonly is: InstructionFigures } {
    return { was: figuresOf(this.#instructions.was), is: figuresOf(this.#instructions.is) };
  }

  /** Gives both codes a message. */
  async play(entry: TimelineEntry): Promise<void> {
    // A change of code that failed has changed nothing.
    if (!isPlayable(entry.note.kind)) return;
    const played = await this.#played(entry);
    if (played === undefined) this.leftOut++;
    else await this.#compare(entry, ...played);
    await this.#settleOwn(entry.note.instantMs);
  }

  /** Resolves with the ends of a message; undefined: there is nothing to compare. */
  async #played({ note }: TimelineEntry): Promise<readonly [was: Played, is: Played] | undefined> {
    if (note.kind === 'callback') return await this.#answered(note);
    const own = this.#old.ownCallOf(note);
    if (own === undefined && isOfCompiler(note.method)) return undefined;
    if (own !== undefined) own.isPlayed = true;
    const was = await this.#old.play(note);
    if (own === undefined) return [was, await this.#new.play(note)];
    const partner = this.#partners.get(own);
    if (partner === undefined) return undefined;
    return [was, await this.#new.playOwn(partner, note.instantMs, note.call?.deadlineNs)];
  }

  async #answered(note: Note): Promise<readonly [was: Played, is: Played] | undefined> {
    const answered = note.call?.answered;
    const call = answered && this.#old.callWith(answered.callbacks);
    if (answered === undefined || call === undefined) return undefined;
    const partner = this.#partners.get(call);
    this.#partners.delete(call);
    const was = await this.#old.answer(call, note, answered);
    // The new code did not make the call.
    if (partner === undefined) return undefined;
    // A call to itself that never came to the code was answered by the host, and one whose time was over, too.
    const isOfHost = !call.isPlayed || answered.rejectCode === REJECT_CODE.SYS_UNKNOWN;
    if (isOfHost) return [was, await this.#new.answer(partner, note, answered)];
    const { answer } = partner;
    if (answer !== undefined)
      return [was, await this.#new.callBack(partner, answer.response, answer.refunded, note.instantMs)];
    // The new code has called itself and does not answer yet.
    this.#own.add(partner);
    return undefined;
  }

  async #compare(entry: TimelineEntry, was: Played, is: Played): Promise<void> {
    const { note } = entry;
    this.count++;
    this.#instructions.was.push(was.end.instructions);
    this.#instructions.is.push(is.end.instructions);
    if (was.end.outcome !== note.outcome || was.end.instructions !== note.instructions) this.inexact++;
    const { pairs, ...other } = matchCalls(was.calls, is.calls);
    for (const [before, now] of pairs) this.#partners.set(before, now);
    for (const call of other.added) if (this.#new.isOwn(call)) this.#own.add(call);
    const notMade = other.notMade.filter((call) => !this.#old.isOwn(call));
    const added = other.added.filter((call) => !this.#new.isOwn(call));
    await this.#rejectAll(added, note.instantMs);
    const isBehindDivergence = this.diverged > 0;
    const makesOtherCalls = notMade.length > 0 || added.length > 0;
    if (!isBehindDivergence && !isFault(was.end) && isFault(is.end)) this.broken++;
    if (!makesOtherCalls && (await isSameEnd(this.#candid, was.method, was.end, is.end))) {
      this.same++;
      return;
    }
    if (makesOtherCalls && !isFault(is.end)) this.diverged++;
    else this.different++;
    if (this.differences.length === DIFFERENCES_MAX) return;
    const calls = { notMade: notMade.map(callText), added: added.map(callText) };
    this.differences.push({
      ...shownMessage(entry, was),
      was: shownEnd(was.end),
      is: shownEnd(is.end),
      calls,
      isBehindDivergence,
    });
  }

  /** Rejects calls that the actor did not make then, and those that their callbacks make. */
  async #rejectAll(added: readonly WaitingCall[], instantMs: number): Promise<void> {
    const waiting = [...added];
    for (let steps = 0; ; steps++) {
      const call = waiting.shift();
      if (call === undefined) return;
      if (steps >= OWN_STEPS_MAX) this.#new.drop(call);
      else waiting.push(...this.#keepOwn(await this.#new.reject(call, instantMs)));
    }
  }

  /** Plays calls of the new code to itself that the old code did not make, and answers those that have ended. */
  async #settleOwn(instantMs: number): Promise<void> {
    for (let steps = 0; steps < OWN_STEPS_MAX; steps++) {
      const call = [...this.#own].find(({ isPlayed, answer }) => !isPlayed || answer !== undefined);
      if (call === undefined) return;
      const { answer } = call;
      if (answer !== undefined) this.#own.delete(call);
      const played =
        answer === undefined
          ? this.#new.playOwn(call, instantMs)
          : this.#new.callBack(call, answer.response, answer.refunded, instantMs);
      const added = this.#keepOwn(await played);
      if (added.length > 0) this.diverged++;
      await this.#rejectAll(added, instantMs);
    }
    for (const call of this.#own) this.#new.drop(call);
    this.#own.clear();
  }

  /** Keeps calls of the new code to itself for `settleOwn`; returns the others. */
  #keepOwn({ calls }: Played): readonly WaitingCall[] {
    for (const call of calls) if (this.#new.isOwn(call)) this.#own.add(call);
    return calls.filter((call) => !this.#new.isOwn(call));
  }
}

function shownMessage(
  { seq, note: { kind, caller, argument } }: TimelineEntry,
  { method }: Played,
): Pick<Difference, 'seq' | 'kind' | 'method' | 'caller' | 'argument'> {
  return { seq, kind, method, caller: new Uint8Array(caller), argument: shownBytes(argument) };
}

function figuresOf(instructions: readonly number[]): InstructionFigures {
  const sorted = instructions.toSorted((a, b) => a - b);
  return { p50: sorted[Math.floor((sorted.length - 1) / 2)] ?? 0, most: sorted.at(-1) ?? 0 };
}
