/** The face of the scheduler, on the main thread: types, tokens, and an index that others use as well. */
import type {
  CallKind,
  CanisterStatus,
  MessageTrace,
  NotedMessage,
  Outcome,
  OutputLine,
  Response,
  RunKind,
  Step,
} from '../ic/index.ts';
import { defineCapability, ServerError } from '../../kernel/index.ts';
import type { CodeChange, ModuleInfo } from '../execution/index.ts';
import type { Entry } from '../storage/index.ts';
import type { AsScheduled, Listener, Loader } from './canister-port.ts';
import type { CallExchange } from './elsewhere/exchange.ts';

export type { AsScheduled, Listener, Loader, StepCount } from './canister-port.ts';
export type { CallExchange, CallName, CallPlaces, Conversation, LinkMessage, WayNumber } from './elsewhere/exchange.ts';
export type { ScheduledExecution } from './scheduled-execution.ts';
export { TextIndex } from './text-index.ts';

/** First character of keys whose clients have shown no token; no header can have it. */
const OPEN_KEY = '\u0001';

/** Returns a client's key as one of a client that has shown no token: another one than the same with the token. */
export function openKey(key: string): string {
  return OPEN_KEY + key;
}

/** First character of keys whose clients have a token with scopes; no header can have it. */
const SCOPED_KEY = '\u0003';

/** Returns a client's key as one of the holder of a token with scopes: nobody else gets its answers by the same key. */
export function scopedKey(holder: string, key: string): string {
  return `${SCOPED_KEY}${holder}${SCOPED_KEY}${key}`;
}

/** Returns true if the client of a key has shown no token. */
export function isOpenKey(key: string): boolean {
  return key.startsWith(OPEN_KEY);
}

/** First character of the keys that are ids of requests, which name their caller; no header can have it. */
const REQUEST_KEY = '\u0002';

/**
 * Returns the id of a request (32 bytes: a hash of all of it, its sender too) as the key of its call. Its answer is
 * known for REQUEST_SECONDS, whatever `--idempotency-secs` says.
 */
export function requestKey(id: Uint8Array): string {
  return REQUEST_KEY + Buffer.from(id.buffer, id.byteOffset, id.length).toString('latin1');
}

/** Returns true if a key is the id of a request: the same for every caller. */
export function isRequestKey(key: string): boolean {
  return key.startsWith(REQUEST_KEY) || key.startsWith(OPEN_KEY + REQUEST_KEY);
}

/** Seconds for which the answer of a call with a request id is known: longer than anybody may send it again. */
export const REQUEST_SECONDS = 400;

/** A call with a request id, as far as it is known. */
export interface KnownCall {
  readonly caller: Uint8Array;
  /** Undefined: it is under way. */
  readonly outcome: Outcome | undefined;
  /** True if something of it has been executed. */
  readonly hasRun: boolean;
}

/** A message from a client; or the transform of an outcall, which the host asks for on the canister's behalf. */
export interface DeliveredMessage {
  readonly kind: RunKind;
  readonly method: string;
  readonly caller: Uint8Array;
  readonly argument: Uint8Array;
  /**
   * The client's name for an update: a call with the same name is answered, not executed again. 1 to 255 visible ASCII
   * characters; made by `openKey` if the client has shown no token, by `scopedKey` if its token has scopes.
   */
  readonly idempotencyKey?: string | undefined;
  /**
   * The message as it came; undefined: nobody counts it. Told with its outcome (`Listener.answered`), but not for
   * repeats, nor for a client that is told ahead that the server stops.
   */
  readonly noted?: NotedMessage | undefined;
}

/** A message from a client. */
export interface IngressMessage extends DeliveredMessage {
  readonly kind: CallKind;
}

/** A canister's call to the management canister, or to another one in host code. */
export interface SystemCall {
  /** Principal bytes; none: the management canister. */
  readonly callee: Uint8Array;
  readonly sender: Uint8Array;
  readonly method: string;
  readonly argument: Uint8Array;
  readonly cycles: bigint;
  /** From a composite query. */
  readonly isQuery: boolean;
  /** Place of the message that makes the call; undefined: not known. */
  readonly cause?: MessageTrace | undefined;
  /** Returns false from when on nobody waits for the answer: the caller's code has ended, or the caller is gone. */
  readonly isAwaited?: () => boolean;
}

/** The management canister, as the scheduler reaches it. Never rejects for a mistake of the sender's. */
export interface SystemCanister {
  /** Returns true if calls to that id, which no canister has, are answered as well. Without it, none are. */
  serves?(id: Uint8Array): boolean;
  call(call: SystemCall): Promise<{ readonly response: Response; readonly refunded: bigint }>;
}

/** A canister that was there before. */
export interface AdmitOptions {
  readonly status?: CanisterStatus;
  /** When the global timer is due, ms since 1970; undefined: off. */
  readonly timerMs?: number | undefined;
  readonly module?: ModuleInfo | undefined;
  /** No executor has it: it is woken when something waits for it. */
  readonly isAsleep?: boolean;
  /** True if its stored state cannot be used: nothing of it runs, and all of it stays for a host that can use it. */
  readonly isUnloadable?: boolean;
}

/** Bytes of an argument that are remembered for histories. */
export const NOTED_ARGUMENT_BYTES_MAX = 256;

/** Numbers for operators. */
export interface LiveFigures {
  /** Canisters that executors have. */
  readonly liveCount: number;
  readonly evictions: number;
  readonly wakeUps: number;
}

/** Keys of clients' calls: numbers for operators. */
export interface IdempotencyFigures {
  /** Answered or under way. */
  readonly keys: number;
  /** Bytes of answers and of the records that hold them. */
  readonly bytes: number;
  /** Calls that were answered without being executed. */
  readonly repeats: number;
}

/** The end of a change of code. */
export interface ChangedCode {
  /** Without fault: the change is done. */
  readonly step: Step;
  /** Lines that the hooks printed. */
  readonly lines: readonly OutputLine[];
}

/**
 * Abilities that a scheduler may lack. An ability that is false is refused where it is asked for (`notSupported`), and
 * never left out in silence.
 */
export interface SchedulerSupports {
  /**
   * Queued messages, open calls and their order are stored, and canisters that sleep are woken. Without it the server
   * does not start with a state; `restore` refuses entries, and `admit` canisters that are asleep.
   */
  readonly durability: boolean;
  /** Idle canisters are put to sleep when too many are live, or memory is short. Without it nobody is put to sleep. */
  readonly eviction: boolean;
  /** Clients may name updates. Without it `deliver` rejects a message that has a key. */
  readonly idempotencyKeys: boolean;
  /** Without it a composite query is rejected with code 1. */
  readonly compositeQueries: boolean;
}

/** Returns the error for what a scheduler does not support. */
export function notSupported(ability: keyof SchedulerSupports): ServerError {
  return new ServerError(
    'invalid',
    'scheduler-unsupported',
    `this server's scheduler does not support ${TOLD[ability]}`,
  );
}

const TOLD: Readonly<Record<keyof SchedulerSupports, string>> = {
  durability: 'a state that is kept: start without --state, and without a storage that keeps one',
  eviction: 'putting actors to sleep',
  idempotencyKeys: 'idempotency keys: send the call without one',
  compositeQueries: 'composite queries',
};

/** Messages of clients come in; and the numbers that go with them. */
export interface Messages {
  /**
   * Queues a message for a canister; resolves with its outcome, never rejects for a guest's fault.
   * Outcome `unavailable` (code 2) when the canister's queue is full, its thread has died, or the server stops.
   * With a key it may reject with ServerError `idempotency-key-reused`, `idempotency-full`, or `state-corrupt`.
   */
  deliver(handle: number, message: DeliveredMessage): Promise<Outcome>;
  /**
   * Resolves with what is known of the call with a request id (`requestKey`); undefined: nothing. Rejects with
   * ServerError `state-corrupt`. A scheduler without this and `isAnswerKept` cannot serve agents.
   */
  knownCall?(handle: number, key: string): Promise<KnownCall | undefined>;
  /** Returns true if the answer of the call with that request id is kept: something of it has been executed. */
  isAnswerKept?(handle: number, key: string): boolean;
  readonly live: LiveFigures;
  /** With so many waiting, the next message of a client is answered `unavailable`. */
  readonly queuedMax: number;
  readonly idempotency: IdempotencyFigures;
}

/** Canisters come and go, and the facts of them that the scheduler has to know. */
export interface Admission {
  /** A canister that exists from now on, its id as `idToText` has it; without options it has no code. */
  admit(handle: number, idText: string, options?: AdmitOptions): void;
  /**
   * Forgets a canister that is stopped, or whose calls are ended: calls to it are answered that there is none, and
   * answers to it dropped.
   */
  withdraw(handle: number): void;
  /**
   * The canister is about to be deleted with its calls, until what is returned is called: whoever waits for it to stop,
   * or asks for that, is refused; nothing of it starts; and the message or the change of code that executes is undone
   * as if it had never begun.
   */
  beginDeletion(handle: number): () => void;
  /**
   * Tells of code that came with a restored state; the global timer stays as it is unless one is given (ms since 1970;
   * Infinity: off).
   */
  restored(handle: number, module: ModuleInfo | undefined, timerMs?: number): void;
  /** The canister with this id; undefined: there is none. */
  handleOf(id: Uint8Array): number | undefined;
  /** The canister as it is scheduled; stays true while there is such a canister. Throws where there is none. */
  stateOf(handle: number): AsScheduled;
  /** Calls of other canisters that attach less are rejected, and refunded. */
  setMinimumCycles(handle: number, cycles: bigint): void;
  /**
   * Little of the canister's heap is left, so its hook is due, once for however many of these; or no longer, and a hook
   * that waits does not run. The listener is told of one that has run. Not due while the canister does not run, or its
   * code is being changed, and forgotten when an executor dies or the server stops before the hook has begun: whoever
   * keeps in mind that it is due says so again.
   */
  lowMemory(handle: number, isLow: boolean): void;
}

/**
 * Changes of code, with the locks, pins, pauses and stops that they need. A canister that is locked starts nothing; one
 * that is pinned does not sleep.
 */
export interface CodeLocks {
  /** Changes a canister's code, after what is executing; what has not begun follows. */
  change(handle: number, module: ModuleInfo, change: CodeChange): Promise<ChangedCode>;
  /**
   * Drops the code and state of a canister that is pinned, after what is executing: its open calls are rejected (code
   * 4), their callbacks never run. Rejects with ServerError `unavailable` when its executor dies before that.
   */
  uninstall(handle: number): Promise<void>;
  /**
   * Ends every call that is open of a canister that is locked, after what is executing: whoever waits for it is
   * rejected (code 4), its callbacks never run. Code and state go with them, and it is to be withdrawn in the same
   * turn. Rejects with ServerError `unavailable` when its executor dies before that; nothing is ended then.
   */
  endCalls(handle: number): Promise<void>;
  /**
   * Nothing of the canister starts until what is returned is called: its code and state are about to be others. What
   * its executor has been given and has not begun comes back, and is first then.
   */
  lock(handle: number): () => void;
  /**
   * Locks the canister and resolves when nothing of it executes; what comes meanwhile waits. Undefined: it has called
   * others and waits for them, and goes on. Whoever changes its code then has to `pause` it; with `pauses` nothing of
   * it begins before that.
   */
  lockBetweenMessages(handle: number, options?: { readonly pauses?: boolean }): Promise<(() => void) | undefined>;
  /**
   * Wakes a canister, and keeps it awake until what this resolves with is called. For everything that is asked of its
   * executor directly. Rejects with the ServerError why it cannot be woken.
   */
  pin(handle: number): Promise<() => void>;
  start(handle: number): void;
  /**
   * Refuses what has not begun; resolves when no call of the canister is open any more. Rejects with ServerError
   * `stop-failed` after five minutes, or when it is started again or deleted.
   */
  stop(handle: number): Promise<void>;
  /**
   * Stops a canister that runs until `resume`, for a change of its code; it is stored as running, so a crash resumes
   * it. What clients have sent, and has not begun, waits for that; what canisters have sent is refused. Resolves when
   * no call of it is open any more, whoever has stopped it. Rejects as `stop` does; one that is not stopped after five
   * minutes goes on stopping and is not resumed.
   */
  pause(handle: number): Promise<void>;
  /** Starts a canister that was paused, unless it has been stopped by others, or started, meanwhile. */
  resume(handle: number): void;
}

/**
 * Decides which message runs next, and keeps everything that outlives an execution: queues, call contexts, callbacks,
 * timers, states. Canisters are named by their handles. Where a state directory is, all of that is kept there: clients
 * are answered when what they are told is durable, and after a restart everything goes on where it was.
 */
export interface Scheduler extends Messages, Admission, CodeLocks {
  readonly supports: SchedulerSupports;
}
export const Scheduler = defineCapability<Scheduler>('scheduler');

/** A canister that is locked and at rest, and about to go to another shard. */
export interface Departure {
  /** Puts it to sleep. Resolves when its executor has dropped it. */
  sleep(): Promise<void>;
  /** Lets it go on here: it stays. */
  stay(): void;
  /** Gives it up to that shard, which has it since that move: calls that waited for it here are sent there. */
  leave(shard: number, version: number): void;
}

/** Canisters that go to another shard, and come from one. */
export interface ActorMoves {
  /** Has calls of other shards to that canister wait until what is returned is called. */
  hold(id: Uint8Array): () => void;
  /** Returns true if no call of the canister is open, and none that another shard has made to it. */
  mayRest(handle: number): boolean;
  /** Locks the canister when nothing of it executes; undefined, and not locked: something of it has begun. */
  depart(handle: number): Promise<Departure | undefined>;
  /**
   * Returns true if nothing that is known here of calls of that canister, which is another shard's, could be taken for
   * its own.
   */
  owesNothing(id: Uint8Array): boolean;
  /** Takes over what is stored of a canister that was admitted, asleep. Rejects with ServerError `state-corrupt`. */
  arriving(handle: number): Promise<void>;
  /** Notes that it is here since that move: calls that waited to be sent to it come to it. */
  arrived(handle: number, version: number): void;
}

/** For whoever has the canisters: connects the scheduler with them, and hands over what another process has left. */
export interface SchedulerSetup {
  /** Once, before anything starts. */
  attachCanisters(loader: Loader, listener: Listener): void;
  /** Once, before anything starts. */
  attach(systemCanister: SystemCanister): void;
  /**
   * Takes over what is stored in the family 'queue'; once, before ticking begins, after all canisters have been
   * admitted. What belongs to a canister that has not been stays stored. Throws ServerError `state-corrupt`, which
   * names the key.
   */
  restore(entries: Iterable<Entry>): void;
  /**
   * Takes over the answers that are kept under clients' keys; before `restore`. Rejects with ServerError
   * `state-corrupt`.
   */
  restoreAnswers(): Promise<void>;
  /** Calls between shards; without it, canisters of other shards are not found. */
  readonly exchange?: CallExchange | undefined;
  /** Canisters that move between shards; without it, none do. */
  readonly moves?: ActorMoves | undefined;
}
export const SchedulerSetup = defineCapability<SchedulerSetup>('scheduler-setup');
