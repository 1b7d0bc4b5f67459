/**
 * Rehearses upgrades on copies that nobody can address, in the executors of the other actors: a copy takes its turns as
 * they do. Main thread.
 */
import { type Clock, ServerError } from '../../kernel/index.ts';
import { ActorCopy, CopyPlayer, endOf, entriesFrom } from '../copies/index.ts';
import type { Execution } from '../execution/index.ts';
import type { PastState, Timeline } from '../timeline/index.ts';
import type {
  Probe,
  Rehearsal,
  RehearsalReport,
  RehearsalVerdict,
  RehearsedCode,
  RehearsedHooks,
  RehearsedUpgrade,
  ReplayedMessages,
} from './index.ts';
import { judgeRehearsal, type RehearsalPolicy } from './judge-rehearsal.ts';
import { spanOf } from './message-span.ts';
import { probe } from './probes.ts';
import { SideBySide } from './side-by-side.ts';

interface RehearsalNeeds {
  readonly execution: Execution;
  readonly timeline: Timeline;
  readonly clock: Clock;
}

export interface RehearsalOptions {
  readonly policy: RehearsalPolicy;
}

/** Rehearsals at once: each has up to two copies of an actor in memory. */
const REHEARSALS_MAX = 2;
const REHEARSAL_MS_MAX = 60_000;
const NOTHING = { p50: 0, most: 0 };
const LATE = Symbol('a rehearsal has taken too long');
const TOO_LONG = `the rehearsal took longer than ${REHEARSAL_MS_MAX / 1000} s`;
/** Codes of errors that say of which point the timeline has no state. */
const NO_STATES: ReadonlySet<unknown> = new Set(['timeline-logged', 'point-missing']);

export class UpgradeRehearsals implements Rehearsal {
  readonly #needs: RehearsalNeeds;
  readonly #options: RehearsalOptions;
  #underWay = 0;

  constructor(needs: RehearsalNeeds, options: RehearsalOptions) {
    this.#needs = needs;
    this.#options = options;
  }

  judge(name: string, report: RehearsalReport, isForced: boolean): RehearsalVerdict {
    return judgeRehearsal(name, report, isForced, this.#options.policy);
  }

  async rehearse(upgrade: RehearsedUpgrade, messages: number, signal: AbortSignal): Promise<RehearsalReport> {
    const { from } = upgrade;
    if (from === undefined)
      throw new ServerError('invalid', 'actor-empty', `${upgrade.name} is empty: there is nothing to rehearse with`);
    if (this.#underWay >= REHEARSALS_MAX)
      throw new ServerError('unavailable', 'rehearsal-busy', `${REHEARSALS_MAX} rehearsals are under way: try again`);
    this.#underWay++;
    try {
      return await this.#rehearse({ ...upgrade, from }, messages, signal);
    } finally {
      this.#underWay--;
    }
  }

  async #rehearse(
    upgrade: RehearsedUpgrade & { readonly from: RehearsedCode },
    messages: number,
    signal: AbortSignal,
  ): Promise<RehearsalReport> {
    const { clock, execution } = this.#needs;
    const startedMs = clock.nowMs();
    using _old = execution.keep(upgrade.from.module);
    using _new = execution.keep(upgrade.to.module);
    const limit = new AbortController();
    using _limit = clock.after(REHEARSAL_MS_MAX, () => limit.abort(LATE));
    const ended = AbortSignal.any([signal, limit.signal]);
    const hooks = await this.#hooksOfNow(upgrade, ended).catch((error: unknown) => {
      throw error === LATE ? late() : error;
    });
    const replayed =
      messages === 0
        ? undefined
        : await this.#replayed(upgrade, messages, ended).catch((error: unknown) => nothingReplayed(reasonIn(error)));
    return { hooks, replayed, ms: Math.round(clock.nowMs() - startedMs) };
  }

  async #hooksOfNow(
    { from, to, change, copyOfNow }: RehearsedUpgrade & { readonly from: RehearsedCode },
    signal: AbortSignal,
  ): Promise<RehearsedHooks> {
    const copy = new ActorCopy(this.#needs.execution, await copyOfNow(), from.module, { signal, lost });
    try {
      return hooksOf(await copy.change(to.module, { ...change, argument: new Uint8Array(change.argument) }));
    } finally {
      copy.end();
    }
  }

  async #replayed(
    upgrade: RehearsedUpgrade & { readonly from: RehearsedCode },
    messages: number,
    signal: AbortSignal,
  ): Promise<ReplayedMessages> {
    const { timeline } = this.#needs;
    const { id, from, to, change } = upgrade;
    const span = await spanOf(timeline, id, messages);
    if (typeof span === 'string') return nothingReplayed(span);
    const past = await timeline.stateAt(id, { kind: 'seq', seq: span.from });
    if (past.moduleHash !== from.module.hash)
      return nothingReplayed(`the actor had other code at seq:${span.from} than it has now`);
    const copies: ActorCopy[] = [];
    try {
      const old = await this.#copyOf(upgrade, past, signal, copies);
      const fresh = await this.#copyOf(upgrade, past, signal, copies);
      const hooks = hooksOf(await fresh.change(to.module, { ...change, argument: new Uint8Array(change.argument) }));
      const shown = { from: past, to: span.to };
      if (hooks.outcome !== 'done') return { ...nothingReplayed('the hooks failed on the state of then'), hooks };
      const compared = new SideBySide(new CopyPlayer(old, id), new CopyPlayer(fresh, id), from.candid);
      let probes: readonly Probe[] = [];
      let { why } = span;
      try {
        await this.#play(compared, id, span.from + 1, span.to.seq);
        probes = await probe(old, fresh, from.candid);
      } catch (error) {
        if (error !== LATE) throw error;
        why = TOO_LONG;
      }
      const { count, same, different, diverged, leftOut, broken, inexact, differences, instructions } = compared;
      const counts = { count, same, different, diverged, leftOut, broken, inexact };
      return { span: shown, hooks, ...counts, differences, instructions, probes, why };
    } finally {
      for (const copy of copies) copy.end();
    }
  }

  async #play(compared: SideBySide, id: Uint8Array, from: number, to: number): Promise<undefined> {
    for await (const entry of entriesFrom(this.#needs.timeline, id, from, to)) await compared.play(entry);
  }

  /** Makes a copy with a state of the past; it is added to `copies`. */
  async #copyOf(
    { from, specOfCopy }: RehearsedUpgrade & { readonly from: RehearsedCode },
    { image, balance, timeMs, version }: PastState,
    signal: AbortSignal,
    copies: ActorCopy[],
  ): Promise<ActorCopy> {
    const { execution } = this.#needs;
    const copy = await ActorCopy.withState(execution, { ...specOfCopy(), balance }, from.module, image, {
      signal,
      lost,
    });
    copies.push(copy);
    copy.stand(timeMs, { version });
    return copy;
  }
}

function hooksOf({ step, lines }: Awaited<ReturnType<ActorCopy['change']>>): RehearsedHooks {
  const { outcome, message, instructions } = endOf(step);
  return { outcome, message, instructions, logs: lines.map(({ text }) => text) };
}

function nothingReplayed(why: string): ReplayedMessages {
  const counts = { count: 0, same: 0, different: 0, diverged: 0, leftOut: 0, broken: 0, inexact: 0 };
  const instructions = { was: NOTHING, is: NOTHING };
  return { span: undefined, hooks: undefined, ...counts, differences: [], instructions, probes: [], why };
}

/** Returns the reason why nothing could be replayed. Throws an error that tells none. */
function reasonIn(error: unknown): string {
  if (error === LATE) return TOO_LONG;
  if (error instanceof ServerError && NO_STATES.has(error.code)) return error.message;
  throw error;
}

function lost(why: string): ServerError {
  return new ServerError('unavailable', 'rehearsal-ended', `the rehearsal was ended: ${why}`);
}

function late(): ServerError {
  const text = `the hooks took longer than ${REHEARSAL_MS_MAX / 1000} s on a copy`;
  return new ServerError('unavailable', 'rehearsal-late', text);
}
