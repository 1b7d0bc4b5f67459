/**
 * Replays messages on copies that nobody can address, in the executors of the other actors: a copy takes its turns as
 * they do. The copy has the state, the settings, the cycles, the version and the time of then. Main thread.
 */
import { type Clock, ServerError, sleep, unlessAborted } from '../../kernel/index.ts';
import type { Codec } from '../codec/index.ts';
import type { ActorCopy } from '../copies/index.ts';
import type { Execution, ModuleInfo } from '../execution/index.ts';
import type { ShownNumber } from '../metrics/index.ts';
import type { Note, PastMessage, Timeline } from '../timeline/index.ts';
import { callBefore } from './call-before.ts';
import { Capsules, type CapsuleServer } from './capsule/capsules.ts';
import { changedNote } from './changed-note.ts';
import { compareMessage } from './compared-message.ts';
import {
  type CapsuleAsked,
  type Replay,
  type ReplayAsked,
  type ReplayReport,
  type ReplayVerdict,
  SPAN_MESSAGES_MAX,
  type SpanAsked,
  type SpanProfile,
} from './index.ts';
import { profileOf } from './message-profile.ts';
import { profiledModule } from './profiled-module.ts';
import { pastCopy } from './past-copy.ts';
import { playNoted, refuseUnplayable, refuseUnprofiled } from './played-message.ts';
import { stackAt, type Unknown } from './sampled-stack.ts';
import { profileOfSpan } from './span-profile.ts';

interface ReplayNeeds {
  readonly execution: Execution;
  readonly timeline: Pick<Timeline, 'messageAt' | 'entries' | 'placeOf'>;
  readonly codec: Pick<Codec, 'untyped' | 'parseInterfaceAnySize'>;
  readonly clock: Clock;
}

/** Replays at once: each has the memory of an actor, and three states of it on the main thread. */
const REPLAYS_MAX = 2;
const REPLAY_MS_MAX = 60_000;
const NOW = { kind: 'now' } as const;

export class MessageReplays implements Replay {
  readonly #needs: ReplayNeeds;
  readonly #capsules: Capsules;
  #underWay = 0;
  #replays = 0;
  #mismatches = 0;
  readonly numbers: readonly ShownNumber[] = [
    counter('svc_replays_total', 'Messages that were executed again.', () => this.#replays),
    counter(
      'svc_replay_mismatch_total',
      'Messages that did not end as they had been recorded.',
      () => this.#mismatches,
    ),
    counter('svc_capsules_total', 'Capsules that were made.', () => this.#capsules.made),
  ];

  /** `server`: what capsules tell of this one. */
  constructor(needs: ReplayNeeds, server: CapsuleServer) {
    this.#needs = needs;
    this.#capsules = new Capsules(needs, server);
  }

  capsule(asked: CapsuleAsked, signal: AbortSignal): AsyncGenerator<Uint8Array> {
    return this.#capsules.make(asked, signal);
  }

  async replay(asked: ReplayAsked, signal: AbortSignal): Promise<ReplayReport> {
    const report = await this.#limited(`seq:${asked.seq}`, signal, (limited) => this.#replay(asked, limited));
    this.#replays++;
    if (report.verdict?.kind === 'different') this.#mismatches++;
    return report;
  }

  async profile({ id, span }: SpanAsked, signal: AbortSignal): Promise<SpanProfile> {
    const { timeline, clock } = this.#needs;
    const begun = await timeline.placeOf(id, NOW);
    const isAhead = 'seconds' in span;
    if (isAhead) await unlessAborted(signal, sleep(clock, span.seconds * 1000));
    const { seq: to } = isAhead ? await timeline.placeOf(id, NOW) : begun;
    const from = isAhead ? Math.max(begun.seq + 1, to - SPAN_MESSAGES_MAX + 1) : Math.max(1, to - span.messages + 1);
    return await this.#limited('the profile', signal, (limited) =>
      profileOfSpan(this.#needs, id, { from, to }, { signal: limited, lost }),
    );
  }

  /** Executes `work` as one of few, for a minute at most. `what`: the thing that is late then. */
  async #limited<Result>(
    what: string,
    signal: AbortSignal,
    work: (signal: AbortSignal) => Promise<Result>,
  ): Promise<Result> {
    if (this.#underWay >= REPLAYS_MAX)
      throw new ServerError('unavailable', 'replay-busy', `${REPLAYS_MAX} replays are under way: try again`);
    this.#underWay++;
    try {
      const limit = new AbortController();
      using _limit = this.#needs.clock.after(REPLAY_MS_MAX, () => limit.abort(late(what)));
      return await work(AbortSignal.any([signal, limit.signal]));
    } finally {
      this.#underWay--;
    }
  }

  async #replay(asked: ReplayAsked, signal: AbortSignal): Promise<ReplayReport> {
    const { execution, timeline, codec } = this.#needs;
    const { id, seq, whatIf } = asked;
    const message = await timeline.messageAt(id, seq);
    refuseUnplayable(message);
    const { from, to } = await this.#modulesOf(message);
    using _from = execution.keep(from);
    using _to = execution.keep(to);
    const note = whatIf === undefined ? message.entry.note : await changedNote(codec, message, to, whatIf);
    if (asked.isProfiled) refuseUnprofiled(note, seq);
    const terms = { signal, lost };
    const attempt = async (unknown: Unknown): Promise<Attempt> => {
      const spec = { id, module: from, past: message.before, timerNs: unknown.timerNs };
      const report = await played(await pastCopy(execution, spec, terms), id, message, note, to, unknown);
      return { report: whatIf === undefined ? report : { ...report, verdict: undefined }, unknown };
    };
    const { report, unknown } = await this.#best(id, message, attempt, terms);
    const { wasm } = message.before;
    if (!asked.isProfiled || wasm === undefined) return report;
    const profiled = await profiledModule(execution, wasm);
    using _profiled = execution.keep(profiled);
    const sampled = { id, module: profiled, past: message.before, note, unknown };
    const at = (instruction: number): ReturnType<typeof stackAt> => stackAt(execution, sampled, instruction, terms);
    return { ...report, profile: await profileOf(report.end.instructions, at, this.#needs.clock) };
  }

  /** Tries what is not recorded until the message ends as it was recorded. */
  async #best(
    id: Uint8Array,
    message: PastMessage,
    attempt: (unknown: Unknown) => Promise<Attempt>,
    terms: ConstructorParameters<typeof ActorCopy>[3],
  ): Promise<Attempt> {
    const [timerNs = 0n, ...otherTimers] = message.before.timersNs;
    const first = await attempt({ timerNs, instructions: 0 });
    const { verdict } = first.report;
    if (verdict === undefined || verdict.kind === 'exact') return first;
    for (const otherNs of otherTimers) {
      const other = await attempt({ timerNs: otherNs, instructions: 0 });
      if (other.report.verdict?.kind === 'exact') return other;
    }
    if (message.entry.note.kind !== 'callback') return first;
    const call = await callBefore(this.#needs, id, message, terms);
    if (call === undefined) return { ...first, report: { ...first.report, verdict: unsureOf(verdict) } };
    if (call.instructions === 0) return first;
    const { report, unknown } = await attempt({ timerNs, instructions: call.instructions });
    return { report: { ...report, earlier: call.messages }, unknown };
  }

  /** Returns the code before the message, and that behind it; of a first installation, the new code twice. */
  async #modulesOf({ before, after }: PastMessage): Promise<{ readonly from: ModuleInfo; readonly to: ModuleInfo }> {
    const { execution } = this.#needs;
    const from = before.wasm && (await execution.prepare(before.wasm));
    const to = after.wasm && (await execution.prepare(after.wasm));
    const [first, second] = [from ?? to, to ?? from];
    if (first === undefined || second === undefined) throw new Error('a message was executed without code');
    return { from: first, to: second };
  }
}

/** Reason why a difference of a callback says nothing: it may ask how many instructions its call has taken. */
export const CALL_UNTOLD =
  'the call that it works for began too long ago to be executed again, so nobody knows how many instructions it had taken';

function unsureOf(verdict: ReplayVerdict): ReplayVerdict {
  if (verdict.kind !== 'different') return verdict;
  return {
    ...verdict,
    kind: 'unsure',
    why: CALL_UNTOLD,
  };
}

interface Attempt {
  readonly report: ReplayReport;
  readonly unknown: Unknown;
}

/** Plays the message on a copy, which ends with it. */
async function played(
  copy: ActorCopy,
  id: Uint8Array,
  message: PastMessage,
  note: Note,
  to: ModuleInfo,
  { instructions }: Unknown,
): Promise<ReplayReport> {
  try {
    copy.stand(note.instantMs);
    const { end, told } = await playNoted(copy, id, note, to, instructions);
    const { changedBytes, verdict } = await compareMessage(message, { end, told, state: await copy.capture() });
    const { calls, timerNs } = told.step;
    const lines = told.lines.map(({ text }) => text);
    return {
      entry: { ...message.entry, note },
      end,
      calls,
      timerNs,
      changedBytes,
      lines,
      verdict,
      earlier: 0,
      profile: undefined,
    };
  } finally {
    copy.end();
  }
}

function lost(why: string): ServerError {
  return new ServerError('unavailable', 'replay-ended', `the replay was ended: ${why}`);
}

function late(what: string): ServerError {
  const text = `${what} took longer than ${REPLAY_MS_MAX / 1000} s on a copy`;
  return new ServerError('unavailable', 'replay-late', text);
}

function counter(name: ShownNumber['name'], help: string, read: () => number): ShownNumber {
  return { name, type: 'counter', help, read };
}
