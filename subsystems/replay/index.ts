/**
 * The face of replays: one recorded message is executed again on a copy of its actor, and compared with what the
 * timeline says of it (docs/time-travel.md, "Replay"). Types and tokens alone.
 */
import { defineCapability } from '../../kernel/index.ts';
import type { PlayedEnd } from '../copies/index.ts';
import type { OutgoingCall } from '../ic/index.ts';
import type { ShownNumber } from '../metrics/index.ts';
import type { Place, TimelineEntry } from '../timeline/index.ts';

/** Changes of a message before it is executed again. */
export interface WhatIf {
  /** An argument in UTF-8: a JSON array, or Candid value text; undefined: the recorded one. */
  readonly args: { readonly form: 'json' | 'candid'; readonly bytes: Uint8Array } | undefined;
  /** Undefined: the recorded one. */
  readonly caller: Uint8Array | undefined;
}

/** A message that is to be executed again. */
export interface ReplayAsked {
  readonly id: Uint8Array;
  /** Name of the actor, for errors. */
  readonly name: string;
  readonly seq: number;
  /** Undefined: as it was, and compared with what was recorded. */
  readonly whatIf: WhatIf | undefined;
  /** True: the functions in which its instructions were executed are wanted. */
  readonly isProfiled: boolean;
}

/** The functions that were open during a part of a message. */
export interface ProfileSample {
  /** Instructions that it stands for. */
  readonly instructions: number;
  /** Names, outermost first; `…` stands for those of a stack that was too deep. */
  readonly stack: readonly string[];
}

export interface MessageProfile {
  /** Instructions of the message, and of all samples together. */
  readonly instructions: number;
  /** In the order of execution. */
  readonly samples: readonly ProfileSample[];
}

/** The first thing that came out otherwise than it was recorded. */
export interface ReplayDifference {
  readonly what: string;
  readonly was: string | number | null;
  readonly is: string | number | null;
}

/** Result of the comparison with what was recorded. `unsure`: it cannot be told what a difference comes from. */
export type ReplayVerdict =
  | { readonly kind: 'exact' }
  | { readonly kind: 'different'; readonly difference: ReplayDifference }
  | { readonly kind: 'unsure'; readonly difference: ReplayDifference; readonly why: string };

export interface ReplayReport {
  /** The message with the argument and the caller that it was given. */
  readonly entry: TimelineEntry;
  readonly end: PlayedEnd;
  /** Calls that the message made; none was sent. */
  readonly calls: readonly OutgoingCall[];
  /** The timer that it set (ns since 1970, 0: off); undefined: it set none. */
  readonly timerNs: bigint | undefined;
  /** Bytes of both memories that are others than before. */
  readonly changedBytes: number;
  /** Lines that it printed. */
  readonly lines: readonly string[];
  /** Messages before it that were played as well, for what is not recorded of a callback's call. */
  readonly earlier: number;
  /** Undefined: none was wanted. */
  readonly profile: MessageProfile | undefined;
  /** Undefined: the message was changed, so there is nothing to compare with. */
  readonly verdict: ReplayVerdict | undefined;
}

/** Messages that a profile has at most. */
export const SPAN_MESSAGES_MAX = 1_000;

/** Messages of an actor whose instructions are wanted by functions: its newest ones, or those of the next seconds. */
export interface SpanAsked {
  readonly id: Uint8Array;
  readonly span: { readonly messages: number } | { readonly seconds: number };
}

export interface SpanProfile {
  readonly from: Place;
  readonly to: Place;
  /** Updates and callbacks. */
  readonly messages: number;
  /** Messages that have no profile, or whose state is not kept. */
  readonly leftOut: number;
  /** Stacks begin with the method, or the kind of message. */
  readonly profile: MessageProfile;
}

/** Messages of a capsule at most. */
export const CAPSULE_MESSAGES_MAX = 100;

/** Messages that are to be taken along: so many from one on. */
export interface CapsuleAsked {
  readonly id: Uint8Array;
  /** Name of the actor, for whoever has the capsule. */
  readonly name: string;
  readonly seq: number;
  readonly count: number;
}

/** Executes recorded messages again: nothing of that stays, and no message of the actor waits for it. */
export interface Replay {
  /**
   * Takes a minute at most. Rejects with ServerError `replay-busy`, `replay-off`, `replay-late`, `replay-ended`,
   * `replay-none` for a message that cannot be executed again or has no profile, `memory-full`, what an argument is
   * refused with, what the timeline rejects with, and the reason of `signal`.
   */
  replay(asked: ReplayAsked, signal: AbortSignal): Promise<ReplayReport>;
  /** Resolves with the profile of several messages; of the next seconds, when these are over. Rejects as `replay`. */
  profile(asked: SpanAsked, signal: AbortSignal): Promise<SpanProfile>;
  /**
   * Yields the bytes of a capsule: messages with all that a replay of them needs, for another machine. One is made at a
   * time. Before its first bytes, rejects with ServerError `capsule-busy`, `capsule-large`, `replay-off`,
   * `replay-none`, and what the timeline rejects with; behind them also with `capsule-late` and the reason of `signal`.
   */
  capsule(asked: CapsuleAsked, signal: AbortSignal): AsyncGenerator<Uint8Array>;
  /** Numbers for operators. */
  readonly numbers: readonly ShownNumber[];
}
export const Replay = defineCapability<Replay>('replay');
