/**
 * The face of the timeline (`--timeline`): what each actor was at every message of the last hours. Types, tokens, the
 * point, which others read as well, and the facts of servers that it keeps.
 */
import { defineCapability } from '../../kernel/index.ts';
import type { CanisterImage, ModuleInfo } from '../execution/index.ts';
import type { Callbacks, CanisterStatus, GivenFacts } from '../ic/index.ts';
import type { ShownNumber } from '../metrics/index.ts';
import type { ScheduledExecution } from '../scheduler/index.ts';
import type { TimePoint } from './time-point.ts';

export { differences, factsOf, type ServerFacts } from './known-servers.ts';
export { parseTimePoint, type TimePoint } from './time-point.ts';

/** Kind of a message that changes an actor. */
export const MESSAGE_KINDS = [
  'update',
  'callback',
  'timer',
  'heartbeat',
  'low-memory',
  'install',
  'reinstall',
  'upgrade',
  'restore',
  'fork',
] as const;
export type MessageKind = (typeof MESSAGE_KINDS)[number];

/** End of a message: what it answered, or what ended it. */
export const MESSAGE_OUTCOMES = ['done', 'reply', 'reject', 'trap', 'limit', 'out_of_cycles'] as const;
export type MessageOutcome = (typeof MESSAGE_OUTCOMES)[number];

/** Place in an actor's timeline. */
export interface Place {
  /** Number of the actor's message, from 1 on; it only grows. */
  readonly seq: number;
  /** Number of the unit that made the message durable. */
  readonly unit: number;
  /** Time of that unit, ms since 1970. */
  readonly timeMs: number;
}

/** The call that a message works for, as far as the message depends on it. */
export interface NotedCall {
  /** True if somebody waited for an answer and none had been given. */
  readonly canAnswer: boolean;
  /** Cycles attached to the call and not accepted yet. */
  readonly cyclesAvailable: bigint;
  /** Time until which the caller waits, ns since 1970; 0: without limit. */
  readonly deadlineNs: bigint;
  /** Answer that a callback was given; undefined: the message is none. */
  readonly answered: NotedAnswer | undefined;
}

/** The answer to a call of the actor, and what that call had left for it. */
export interface NotedAnswer {
  readonly callbacks: Callbacks;
  /** 0: a reply, whose bytes are the note's argument. */
  readonly rejectCode: number;
  readonly refunded: bigint;
}

/** Ways of an upgrade. */
export interface NotedUpgrade {
  readonly keepsHeap: boolean;
  readonly skipsPreUpgrade: boolean;
}

/** A message as its executor told of it. */
export interface Note {
  readonly kind: MessageKind;
  readonly outcome: MessageOutcome;
  /** When it began, by the actor's own time, ms since 1970. */
  readonly instantMs: number;
  readonly instructions: number;
  /** Cycles that it cost. */
  readonly charge: number;
  readonly version: number;
  readonly heapBytes: number;
  readonly stableBytes: number;
  /** Calls of the actor that were open afterwards. */
  readonly openCalls: number;
  /** The balance afterwards, when something besides the charge changed it. */
  readonly balance: bigint | undefined;
  /** The timer that it set (ns since 1970, 0: off); undefined: it set none. */
  readonly timerNs: bigint | undefined;
  readonly caller: Uint8Array;
  readonly method: string;
  /** The argument; of a callback, the reply, or the text of the reject. */
  readonly argument: Uint8Array;
  /** Undefined: of a system task, a change of code, or in a note of an earlier version. */
  readonly call: NotedCall | undefined;
  /** Left out where the message is no upgrade, and in notes of earlier versions. */
  readonly upgrade?: NotedUpgrade;
}

/** A message of a timeline. */
export interface TimelineEntry extends Place {
  readonly note: Note;
  /** Bytes of what it changed. */
  readonly bytes: number;
  /** True if the note has the beginning of the argument alone, as it was asked for. */
  readonly isArgumentCut: boolean;
}

/** Part of a timeline, oldest first. It ends before its limit where arguments have many megabytes. */
export interface TimelinePage {
  readonly entries: readonly TimelineEntry[];
  /** Number of the entry that follows; undefined: there is none. */
  readonly next: number | undefined;
  /** The oldest and the newest place whose state is kept; undefined: there is none yet. */
  readonly reach: { readonly from: Place; readonly to: Place } | undefined;
}

export interface PageAsked {
  readonly from: TimePoint | undefined;
  readonly to: TimePoint | undefined;
  readonly limit: number;
  /** Bytes of an argument that are wanted at most; all by default. */
  readonly argumentBytesMax?: number;
}

/** Settings of an actor as they were. */
interface PastSettings {
  readonly controllers: readonly Uint8Array[];
  readonly environment: ReadonlyMap<string, string>;
  readonly facts: GivenFacts;
  /** Infinity: the module's own maximum. */
  readonly heapBytesMax: number;
  /** Interface text that was given for the module; undefined: none was. */
  readonly givenCandid: string | undefined;
}

/** An actor as it was. */
export interface PastState extends Place {
  /** The image without its module. Memories are shared between threads. */
  readonly image: Omit<CanisterImage, 'module'>;
  /** SHA-256 of the module, hex; undefined: the actor was empty. */
  readonly moduleHash: string | undefined;
  readonly wasm: Uint8Array | undefined;
  readonly balance: bigint;
  readonly version: number;
  readonly status: CanisterStatus;
  readonly settings: PastSettings;
  /** When the timer was due, ms since 1970; Infinity: off. */
  readonly timerMs: number;
  /**
   * The same in ns, 0: off, as the actor may know it. What its messages have made of it comes first: what is stored is
   * some hundred ns off, and may be a timer that was set while an earlier one was firing, which turns it off for the
   * actor. Since it has slept, the actor knows what is stored.
   */
  readonly timersNs: readonly bigint[];
  readonly openCalls: number;
  readonly heapBytes: number;
  readonly stableBytes: number;
  /** SHA-256 of the heap, and of the stable memory as one string of bytes, hex. */
  readonly sha256: { readonly heap: string; readonly stable: string };
}

/** Pages of a memory, of 4 KiB, in order, one behind the other in bytes that threads share. */
export interface PastPages {
  readonly numbers: Uint32Array;
  readonly bytes: Uint8Array;
}

/** An actor as a message left it: memories by what is not as it was before. */
export interface StateBehind extends Omit<PastState, 'image' | 'sha256'> {
  readonly image: Pick<CanisterImage, 'globals' | 'certifiedData'>;
  readonly changed: { readonly heap: PastPages; readonly stable: PastPages };
  /** True if the memories are new: pages that are not among the changed ones hold zeros. */
  readonly isNew: boolean;
}

/** An actor around one of its messages. */
export interface PastMessage {
  readonly entry: TimelineEntry;
  /** The state that the message found. */
  readonly before: Omit<PastState, 'sha256'>;
  /** The state that the message left. */
  readonly after: StateBehind;
  /** False if settings, or the whole state, were changed in the unit of the message as well: the states have that. */
  readonly isAlone: boolean;
  /** Facts of the server that were others when the message was executed; undefined: it was one like this. */
  readonly otherServer: string | undefined;
}

/** An actor, as the scheduler knows it. */
export interface NotedActor {
  readonly id: Uint8Array;
  readonly module: ModuleInfo | undefined;
  readonly openCalls: number;
}

/** Who notes messages for the timeline. */
interface MessageNotes {
  /**
   * Returns an execution whose messages and changes of code are noted, in the unit of the turn in which they end;
   * without a timeline, the same execution. `actorOf` is asked when a message begins, and when it has ended.
   */
  noting(execution: ScheduledExecution, actorOf: (handle: number) => NotedActor | undefined): ScheduledExecution;
}

/**
 * Timelines of actors. All methods reject with ServerError `timeline-off` without the flag, `timeline-damaged` for
 * files that cannot be read, and `point-missing` for a point whose state is not kept. What is durable when they are
 * called is in their answers.
 */
export interface Timeline extends MessageNotes {
  readonly isOn: boolean;
  entries(id: Uint8Array, asked: PageAsked): Promise<TimelinePage>;
  placeOf(id: Uint8Array, point: TimePoint): Promise<Place>;
  stateAt(id: Uint8Array, point: TimePoint): Promise<PastState>;
  /** Resolves with a message and the states around it. */
  messageAt(id: Uint8Array, seq: number): Promise<PastMessage>;
  /** Gives a point a name. Rejects with ServerError `label-exists`, `label-bad`, `labels-full`. */
  label(id: Uint8Array, label: string, point: TimePoint): Promise<Place>;
  /** Frees a name. Rejects with ServerError `label-missing`. */
  unlabel(id: Uint8Array, label: string): Promise<void>;
  /** Notes, in the unit of this turn, that an actor was restored to that place, or forked from there. */
  restored(
    kind: 'restore' | 'fork',
    id: Uint8Array,
    past: PastState,
    now: { readonly version: number; readonly balance: bigint },
  ): void;
  /** Numbers for operators. */
  readonly numbers: readonly ShownNumber[];
}
export const Timeline = defineCapability<Timeline>('timeline');
