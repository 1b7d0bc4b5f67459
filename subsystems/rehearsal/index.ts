/**
 * The face of rehearsals: an upgrade is tried on copies of the actor, and answers the actor's last messages beside the
 * old code, before it is done (docs/time-travel.md, "Rehearsal"). Types and tokens alone.
 */
import { defineCapability, type ServerError } from '../../kernel/index.ts';
import type { CandidInterface } from '../codec/index.ts';
import type { PlayedEnd } from '../copies/index.ts';
import type { CanisterSpec, CodeChange, ModuleInfo } from '../execution/index.ts';
import type { MessageKind, Place } from '../timeline/index.ts';

/** Code of a rehearsal; the interface is undefined where the module tells none. */
export interface RehearsedCode {
  readonly module: ModuleInfo;
  readonly candid: CandidInterface | undefined;
}

/** An upgrade that is to be rehearsed. */
export interface RehearsedUpgrade {
  readonly id: Uint8Array;
  readonly name: string;
  /** Undefined: the actor is empty. */
  readonly from: RehearsedCode | undefined;
  readonly to: RehearsedCode;
  readonly change: Extract<CodeChange, { readonly mode: 'upgrade' }>;
  /** Returns what a copy of the actor is made with; nobody stores it. */
  readonly specOfCopy: () => CanisterSpec;
  /** Resolves with the handle of a copy that has the actor's present state. */
  readonly copyOfNow: () => Promise<number>;
}

/** End of the hooks on a copy. */
export interface RehearsedHooks extends Pick<PlayedEnd, 'outcome' | 'message' | 'instructions'> {
  /** Lines that the hooks printed. */
  readonly logs: readonly string[];
}

/** A message that the new code ended in another way than the old one. */
export interface Difference {
  readonly seq: number;
  readonly kind: MessageKind;
  readonly method: string;
  readonly caller: Uint8Array;
  readonly argument: Uint8Array;
  readonly was: PlayedEnd;
  readonly is: PlayedEnd;
  /** Calls of the old code that the new one did not make, and the other way round: `method of principal`. */
  readonly calls: { readonly notMade: readonly string[]; readonly added: readonly string[] };
  /** True if the new code had made other calls by then, in this message or in one before. */
  readonly isBehindDivergence: boolean;
}

/** Answers of a query method, asked of both copies at the end. */
export interface Probe {
  readonly method: string;
  readonly isSame: boolean;
  readonly was: PlayedEnd;
  readonly is: PlayedEnd;
}

/** Instructions of the compared messages. */
export interface InstructionFigures {
  readonly p50: number;
  readonly most: number;
}

/** Messages that were answered again. */
export interface ReplayedMessages {
  /** The place behind which the messages begin, and the newest of them; undefined: there were none. */
  readonly span: { readonly from: Place; readonly to: Place } | undefined;
  /** The hooks on the state of then; undefined: there were no messages to try. */
  readonly hooks: RehearsedHooks | undefined;
  /** Messages that both codes were given. */
  readonly count: number;
  readonly same: number;
  /** Ended in another way, with the same calls. */
  readonly different: number;
  /** Made other calls: messages behind them may differ for that reason alone. */
  readonly diverged: number;
  /** Callbacks of calls that the new code did not make, and messages of which too little is noted. */
  readonly leftOut: number;
  /** Messages that ended with a reply or without fault, and with a fault in the new code, before it diverged. */
  readonly broken: number;
  /** Messages that the old code did not end as the timeline says: 0, unless settings or cycles are others now. */
  readonly inexact: number;
  /** The first ones. */
  readonly differences: readonly Difference[];
  readonly instructions: { readonly was: InstructionFigures; readonly is: InstructionFigures };
  readonly probes: readonly Probe[];
  /** Reason why there are fewer messages than were asked for; undefined: there are as many. */
  readonly why: string | undefined;
}

export interface RehearsalReport {
  /** The hooks on the present state. */
  readonly hooks: RehearsedHooks;
  /** Undefined: no messages were asked for. */
  readonly replayed: ReplayedMessages | undefined;
  readonly ms: number;
}

/** The decision of the policy (`--upgrade-policy`). */
export interface RehearsalVerdict {
  /** ServerError `upgrade-breaks-messages` if the upgrade must not be done. */
  readonly refusal: ServerError | undefined;
  /** Lines for the operator, once the upgrade is done. */
  readonly warnings: readonly string[];
}

/** Rehearses upgrades: nothing of that stays, and no message of the actor waits for it. */
export interface Rehearsal {
  /**
   * Tries an upgrade on a copy of now, and on a copy of the moment before the last `messages`, which it then answers
   * beside the old code. 0: the hooks alone, which needs no timeline. Takes a minute at most.
   *
   * Rejects with ServerError `rehearsal-busy`, `rehearsal-off`, `rehearsal-late`, `rehearsal-ended`, `actor-empty`,
   * `memory-full`, what the timeline rejects with, and the reason of `signal`.
   */
  rehearse(upgrade: RehearsedUpgrade, messages: number, signal: AbortSignal): Promise<RehearsalReport>;
  judge(name: string, report: RehearsalReport, isForced: boolean): RehearsalVerdict;
}
export const Rehearsal = defineCapability<Rehearsal>('rehearsal');
