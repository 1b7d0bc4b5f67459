import {
  type AddressedBy,
  type CanisterStatus,
  type CallKind,
  ERROR_KIND_OF_OUTCOME,
  type GivenFacts,
  type MessageTrace,
  type Outcome,
  type RejectCode,
  sameBytes,
} from '../ic/index.ts';
import { defineCapability, ServerError, suggestionFor } from '../../kernel/index.ts';
import type { CandidInterface } from '../codec/index.ts';
import type { CandidFindings, StableFindings } from '../compatibility/index.ts';
import type { CanisterImage, ModuleInfo } from '../execution/index.ts';
import type { HistogramFigures } from '../figures/index.ts';
import type { RehearsalReport } from '../rehearsal/index.ts';
import type { IngressMessage, KnownCall } from '../scheduler/index.ts';

export type { AddressedBy } from '../ic/index.ts';
import type { DebugLine, OutputFollowing, OutputReader } from './output-types.ts';

export type { DebugLine, OutputFollowing, OutputReader } from './output-types.ts';

/** A hosted canister, as the rest of the host sees it. Live: the fields follow its last ended message. */
export interface Canister {
  readonly name: string;
  /** 10 bytes, their hex form, and the textual principal. */
  readonly id: Uint8Array;
  readonly idHex: string;
  readonly principal: string;
  /** Principals. */
  readonly controllers: readonly Uint8Array[];
  readonly status: CanisterStatus;
  /** True if an executor has the canister. Without a state directory all canisters are live. */
  readonly isLive: boolean;
  /** Undefined: the canister is empty (made by another and not installed yet, or uninstalled). */
  readonly module: ModuleInfo | undefined;
  /** Counts the times that code was put in place in this process: another number is another instance. */
  readonly codeChanges: number;
  /**
   * The interface that the module carries; where that is missing or was not understood, the one that was given; else
   * the one that the module has told when it was asked (`interfaceOf`). Undefined: raw calls and the lossless encoding
   * still work.
   */
  readonly candid: CandidInterface | undefined;
  /** Why the interface that the module carries was not understood, with line and column. */
  readonly candidProblem: string | undefined;
  /** The methods that answer requests without the token. */
  readonly openMethods: OpenMethods;
  /** Cycles; 0 when metering is off. */
  readonly balance: bigint;
  readonly heapBytes: number;
  readonly stableBytes: number;
  /** Messages executed (queries included), and how many of them trapped. */
  readonly messages: number;
  readonly traps: number;
  /** Messages, responses, heartbeats and timers that wait for it. */
  readonly queued: number;
  /**
   * When a client last had an answer of it, ms since 1970; calls of other canisters, heartbeats and timers do not
   * count.
   */
  readonly lastMessageMs: number;
  /**
   * The same of this process alone, by how the canister was addressed, and with what no client sent (calls of other
   * canisters, heartbeats, timers): that counts as addressed by name.
   */
  readonly messagesByName: number;
  readonly trapsByName: number;
  readonly messagesById: number;
  readonly trapsById: number;
}

/** Methods of an actor that answer requests without the token. */
export interface OpenMethods {
  readonly names: ReadonlySet<string>;
  /** True if the manifest has named them last, and not the operator. */
  readonly isOfManifest: boolean;
}

/** A client's call of a method. */
export interface ClientMessage extends IngressMessage {
  readonly addressedBy: AddressedBy;
  /** When the client's request came, ms since 1970, for the history. Undefined: now. */
  readonly startedMs?: number | undefined;
  /** As `newTrace` returned it; undefined: the message gets one when it comes. */
  readonly trace?: MessageTrace | undefined;
}

/**
 * `call`: from another canister, or from itself. `outcall`: to the outside; the method is `http_request`, the argument
 * method and URL, and the status of the response.
 */
export type HistoryKind = CallKind | 'install' | 'upgrade' | 'call' | 'outcall';
/** Outcomes that histories have: a message that nobody executed is in none. */
export type HistoryOutcome = Exclude<Outcome['kind'], 'unavailable'>;

/** A message that has ended. Heartbeats, timers and callbacks are no messages of their own here. */
export interface HistoryEntry {
  readonly seq: number;
  /** When the message had ended, ms since 1970. */
  readonly timeMs: number;
  readonly kind: HistoryKind;
  /** Empty for changes of code. */
  readonly method: string;
  readonly caller: Uint8Array;
  /** The first bytes of the argument, and how many it had. */
  readonly argument: Uint8Array;
  readonly argumentBytes: number;
  readonly outcome: HistoryOutcome;
  /** Undefined for a reply; the stack is as `StepFault` has it. */
  readonly code: RejectCode | undefined;
  readonly message: string | undefined;
  readonly stack: string | undefined;
  readonly instructions: number;
  readonly cycles: number;
  /** From its coming to its end. */
  readonly ms: number;
  readonly trace: MessageTrace;
  /** The first bytes of the reply; none where there is no reply. */
  readonly reply: Uint8Array;
  readonly isReplyCut: boolean;
}

/** Messages of one tree that are told at most. */
export const CAUSED_MESSAGES_MAX = 1_000;

/** A message among those that one message caused. */
export interface CausedMessage {
  readonly canister: Canister;
  readonly entry: HistoryEntry;
}

/** A message of a history that did not end with a reply. */
export interface CanisterFailure {
  readonly canister: Canister;
  readonly entry: HistoryEntry;
}

/**
 * Init arguments as people write them; encoded by the types of the interface. Text may be UTF-8 that nobody has
 * checked.
 */
export type InitArgument =
  | { readonly kind: 'json'; readonly text: string | Uint8Array }
  | { readonly kind: 'candid'; readonly text: string | Uint8Array }
  | { readonly kind: 'bytes'; readonly bytes: Uint8Array };

/** The facts that are named become the canister's; a reinstallation leaves others as they are. */
export interface InstallOptions extends Partial<GivenFacts> {
  /** For `canister_init`: Candid bytes, or text to encode; undefined: the empty argument list. */
  readonly argument: Uint8Array | InitArgument | undefined;
  /** Becomes a controller. */
  readonly caller: Uint8Array;
  /** Controllers of a new actor beside the caller. */
  readonly controllers?: readonly Uint8Array[] | undefined;
  /** Starting balance, when it is not the host's default. */
  readonly cycles?: bigint | undefined;
  /** .did text, for a module that carries no interface. */
  readonly candidText?: string | undefined;
  readonly env?: ReadonlyMap<string, string>;
  /** One that has been given out for it; undefined: the next free one. */
  readonly id?: Uint8Array | undefined;
  /**
   * Reads the files of the canister with this name again, for an upgrade without a body; undefined: nothing is
   * recorded.
   */
  readonly readFiles?: ((name: string) => Promise<ActorFiles>) | undefined;
}

/** Contents of the manifest's files for one of its actors. */
export interface ActorFiles {
  readonly module: Uint8Array;
  /** Undefined: the manifest names no `.did` file. */
  readonly candidText: string | undefined;
  /** To be called when the canister has them: what it serves from a folder follows. */
  readonly taken?: (() => Promise<void>) | undefined;
}

/** The facts that are named become the canister's once it is upgraded; others stay as they are. */
export interface UpgradeOptions extends Partial<GivenFacts> {
  /** For `canister_post_upgrade`; as in `InstallOptions`. */
  readonly argument: Uint8Array | InitArgument | undefined;
  readonly caller: Uint8Array;
  /** .did text in place of the one that was given before, for a module that carries no interface. */
  readonly candidText?: string | undefined;
  /**
   * Neither stable variables nor the interface are checked beforehand; what the module itself refuses stays refused.
   */
  readonly isForced?: boolean;
  /** The fate of the heap. Undefined: kept if both modules are made for that, replaced if the old one is not. */
  readonly persistence?: 'keep' | 'replace' | undefined;
  /** The upgrade is only tried, on copies of the actor. */
  readonly isDry?: boolean;
  /** Aborted when nobody wants to know any more how one that is only tried ends. */
  readonly isUnwanted?: AbortSignal;
  /** Messages that the new code answers on a copy before (`Rehearsal`). Undefined: what the manifest asks for. */
  readonly rehearse?: number | undefined;
}

/** Result of an upgrade, or of one that was only tried. */
export interface UpgradeReport {
  readonly isUpgraded: boolean;
  /** Hashes, hex; undefined: the actor was empty. */
  readonly module: { readonly from: string | undefined; readonly to: string };
  readonly stable: StableFindings;
  readonly candid: CandidFindings;
  /** The fate of the heap. */
  readonly persistence: 'keep' | 'replace';
  /** Instructions of the hooks; 0: none ran. */
  readonly instructions: number;
  /** Undefined: nothing was rehearsed. */
  readonly rehearsal?: RehearsalReport | undefined;
}

/** The upgrade was refused, or failed, after the modules were compared: nothing was changed. */
export class UpgradeError extends ServerError {
  readonly report: UpgradeReport;

  constructor({ kind, code, message }: ServerError, report: UpgradeReport) {
    super(kind, code, message);
    this.report = report;
  }
}

export interface RemoveOptions {
  /**
   * Also one that runs, or does not stop, after the message that is executing: whoever waits for one of its calls is
   * rejected with code 4 and gets what it had not accepted of their cycles. Answers to its own calls are dropped,
   * cycles with them.
   */
  readonly endsCalls?: boolean;
}

/**
 * A hook of a change of code failed: nothing was changed. `logs` is what the canister printed before; an upgrade has a
 * report.
 */
export class InstallError extends ServerError {
  readonly outcome: FailedOutcome;
  readonly logs: readonly string[];
  readonly report: UpgradeReport | undefined;

  constructor(outcome: FailedOutcome, logs: readonly string[], report?: UpgradeReport) {
    super(ERROR_KIND_OF_OUTCOME[outcome.kind], 'install-failed', outcome.message);
    this.outcome = outcome;
    this.logs = logs;
    this.report = report;
  }
}
type FailedOutcome = Exclude<Outcome, { readonly kind: 'reply' }>;

/**
 * Is told when a canister changes: in the turn of the change, before anybody is answered. Must be quick and not throw.
 */
export interface CanisterWatcher {
  /**
   * A message has been executed and kept, or the status or the balance is another: queries may answer something else.
   */
  changed(): void;
  codeChanged(): void;
  /** Called when other methods are open than before. */
  openMethodsChanged?(): void;
  /** Called when the canister is deleted. */
  removed(): void;
}

/**
 * Methods that are an actor's own and the operator's business (Motoko compiles several into every actor): no part of
 * its interface.
 */
export function isInternalMethod(method: string): boolean {
  return method.startsWith('__motoko') || method.startsWith('@') || method.includes(' ');
}

/**
 * Refuses internal methods, which are hidden from everybody but controllers. Throws ServerError `caller-is-self` or
 * `method-missing`.
 */
export function refuseInternal(
  canister: Pick<Canister, 'id' | 'controllers' | 'name' | 'module'>,
  method: string,
  caller: Uint8Array,
): void {
  if (!isInternalMethod(method)) return;
  if (sameBytes(caller, canister.id)) {
    throw new ServerError(
      'invalid',
      'caller-is-self',
      `no client may call ${method} in the name of the actor itself: name another caller with x-caller`,
    );
  }
  if (canister.controllers.some((controller) => sameBytes(controller, caller))) return;
  throw methodMissing(canister, method);
}

/** Names from outside, shortened: they may be long or strange. */
export function quotedName(text: string): string {
  return JSON.stringify(
    text.length > SHOWN_NAME_CHARACTERS_MAX ? `${text.slice(0, SHOWN_NAME_CHARACTERS_MAX)}…` : text,
  );
}
const SHOWN_NAME_CHARACTERS_MAX = 80;

/** Returns the error for a method that is not there; it names the method that was probably meant. */
export function methodMissing({ name, module }: Pick<Canister, 'name' | 'module'>, method: string): ServerError {
  const what =
    module === undefined
      ? 'is empty: no code is installed'
      : `has no method ${quotedName(method)}${suggestionFor(method, publicMethods(module))}`;
  return new ServerError('missing', 'method-missing', `actor ${name} ${what}`);
}

function* publicMethods({ methods }: ModuleInfo): Iterable<string> {
  for (const method of methods.keys()) if (!isInternalMethod(method)) yield method;
}

/** The canisters this host has. */
/** A snapshot of an actor: its code and all of its state. */
export interface SnapshotInfo {
  /** Hex. */
  readonly id: string;
  /** When it was taken, ms since 1970. */
  readonly takenMs: number;
  readonly bytes: number;
}

/**
 * Requests of the operator about any canister, such as a controller makes them by calls of `aaaaa-aa`. Each resolves
 * when its change is durable, and rejects with ServerError: `management-refused` with the reason,
 * `management-unavailable`, `snapshot-missing`.
 */
export interface OperatorRequests {
  /** Resolves with the settings as JSON of the management canister's `definite_canister_settings`. */
  settingsOf(canister: Canister): Promise<unknown>;
  /**
   * Changes the settings that `settings` names, JSON text of one value of type `canister_settings`; resolves with all
   * of them. Text of another type is refused with the place.
   */
  changeSettings(canister: Canister, settings: string): Promise<unknown>;
  snapshotsOf(canister: Canister): Promise<readonly SnapshotInfo[]>;
  /** Takes a snapshot; `replaced` is the id of one that it takes the place of. */
  takeSnapshot(canister: Canister, replaced?: string): Promise<SnapshotInfo>;
  /**
   * Replaces code and state by those of the snapshot. An actor with open calls is paused until they have ended
   * (`stop-failed` after five minutes).
   */
  loadSnapshot(canister: Canister, id: string): Promise<void>;
  deleteSnapshot(canister: Canister, id: string): Promise<void>;
}

/**
 * A copy of an actor's state as its upgrade hook leaves it; `heap` is empty if an upgrade does not keep the heap. The
 * buffers are the copy's own.
 */
export type StateCopy = CanisterImage & { readonly module: ModuleInfo };

export interface Canisters {
  readonly operator: OperatorRequests;
  /** True if any canister has open methods. */
  readonly haveOpenMethods: boolean;
  /** Seconds that wakes took, from when there was a place for the canister to when its executor had it. */
  readonly wakeSeconds: HistogramFigures;
  /** About how long a start would take to run all logs again if the process were killed now. */
  readonly replaySeconds: number;
  /**
   * Returns a canister by name, hex id or textual principal (a name wins). Throws ServerError `missing` if there is no
   * such actor, or a rejected one, then with the reason.
   */
  resolve(reference: string): Canister;
  /**
   * The same for whom names of other canisters are nothing: undefined if there is none, without looking for what was
   * meant. Throws for a rejected one.
   */
  resolveIfAny(reference: string): Canister | undefined;
  /**
   * Returns the reference of the canister that a label of a host name means, in small letters: its name, if no other
   * canister has that name in other letters, or its principal. Undefined: no canister's.
   */
  referenceOfHost(label: string): string | undefined;
  /** In order of their ids. */
  list(): readonly Canister[];
  /**
   * Resolves with the canister's interface. A module that has none, and was given none, is asked for it: once, for at
   * most two seconds. Never rejects.
   */
  interfaceOf(canister: Canister): Promise<CandidInterface | undefined>;
  /**
   * Gives .did text to a canister whose module carries no interface that is understood; it is kept with the canister.
   * Throws ServerError `invalid`: the text does not parse, names methods that the module does not have, or is not
   * needed.
   */
  giveInterface(canister: Canister, did: string): Promise<void>;
  /**
   * Opens these methods to requests without the token, and closes all others. Resolves when that is durable. Rejects
   * with ServerError `bad-public` if one of them cannot be open: the interface lacks it, or it is internal.
   */
  setOpenMethods(canister: Canister, names: readonly string[]): Promise<void>;
  /**
   * Calls a method. Throws ServerError `missing` (no such method) or `invalid` (update method called as a query); a
   * guest's fault is in the outcome. With a key (updates only), as `Scheduler.deliver` says.
   */
  call(canister: Canister, message: ClientMessage): Promise<Outcome>;
  /** Resolves with what is known of the call with a request id (`requestKey`); as `Scheduler.knownCall`. */
  knownCall(canister: Canister, key: string): Promise<KnownCall | undefined>;
  /** Returns true if the answer of the call with that request id is kept; as `Scheduler.isAnswerKept`. */
  isAnswerKept(canister: Canister, key: string): boolean;
  /**
   * Executes a query that no client has asked for now: it counts as a message, but is in no history. Throws as `call`
   * does.
   */
  ask(canister: Canister, method: string, caller: Uint8Array, argument: Uint8Array): Promise<Outcome>;
  /**
   * Copies the actor's state and runs `canister_pre_upgrade` on the copy, for at most a second. The actor, which may
   * sleep, is only read: its own messages wait while a large state is copied, others take turns with that. Rejects with
   * ServerError: `variables-none` (no code), `variables-hook-failed`, `variables-replay`, `memory-full`.
   */
  copyState(canister: Canister): Promise<StateCopy>;
  /**
   * Creates a canister from a module (raw or gzip). Throws ServerError: the name is taken or bad, the module is
   * refused, or its init failed (`InstallError`).
   */
  install(name: string, moduleBytes: Uint8Array, options: InstallOptions): Promise<Canister>;
  /**
   * Replaces the code and keeps the state, atomically, between two messages. An actor with open calls is paused until
   * they have ended (`stop-failed` after five minutes). Without bytes the manifest's file is read again. Throws
   * ServerError: the module is refused, no wasm is recorded, it would lose state or break callers (`UpgradeError`), or
   * a hook failed (`InstallError`).
   */
  upgrade(canister: Canister, moduleBytes: Uint8Array | undefined, options: UpgradeOptions): Promise<UpgradeReport>;
  /** Replaces the code and starts with fresh state. Throws as `install` does. */
  reinstall(canister: Canister, moduleBytes: Uint8Array, options: InstallOptions): Promise<void>;
  /**
   * Resolves when no call is open any more. Rejects with ServerError `unavailable` if that takes longer than five
   * minutes.
   */
  stop(canister: Canister): Promise<void>;
  start(canister: Canister): Promise<void>;
  /**
   * Deletes a stopped actor with all its state. Throws ServerError `invalid` while it is not stopped, unless its calls
   * are to be ended.
   */
  remove(canister: Canister, options?: RemoveOptions): Promise<void>;
  /** Adds cycles; the new balance. Throws ServerError `invalid` when metering is off. */
  addCycles(canister: Canister, amount: bigint): Promise<bigint>;
  /**
   * Returns the canister's newest messages, oldest first: those behind the entry with the number `after`, or all.
   * Entries that go while somebody reads are left out.
   */
  historyOf(canister: Canister, after?: number): Iterable<HistoryEntry>;
  /** Returns the place of a message that a client is about to send; undefined: histories are off. */
  newTrace(): MessageTrace | undefined;
  /** Returns the message's id for clients, which no message of another process has. */
  messageIdOf(number: number): string;
  /**
   * Resolves with the ended messages of the tree that a message belongs to, in order of their numbers: at most the
   * first CAUSED_MESSAGES_MAX that histories still have. Undefined: no history has that message.
   */
  messagesAround(id: string): Promise<readonly CausedMessage[] | undefined>;
  /** Yields the latest messages of all canisters that did not end with a reply, newest first: 50 at most. */
  latestFailures(): Iterable<CanisterFailure>;
  /** Takes the debug output since the last read: reading clears it. */
  takeLogs(canister: Canister): readonly DebugLine[];
  /**
   * Tells the watcher of every change, until what is returned is disposed of. A canister that sleeps goes on sleeping.
   */
  watch(canister: Canister, watcher: CanisterWatcher): Disposable;
  /**
   * Gives the debug output to a reader, as it is printed, beginning with what nobody has read. Followers and `takeLogs`
   * share it: a line goes to one of them. `lastSeq`: the line that the reader saw last on a connection that broke; it
   * gets again what was written to that after it. Keeps no canister awake.
   */
  followOutput(canister: Canister, reader: OutputReader, lastSeq?: number): OutputFollowing;
  /**
   * Returns the debug output that is kept behind the line with the number `after` (0: all of it), also what somebody
   * has taken. Takes nothing.
   */
  outputOf(canister: Canister, after: number): Iterable<DebugLine>;
  /** Gives a reader the same, and then each line as it is printed. Takes nothing, and keeps no canister awake. */
  readOutput(canister: Canister, reader: OutputReader, after: number): OutputFollowing;
}
export const Canisters = defineCapability<Canisters>('canisters');

/** The manifest's actors as their files are. */
export interface ManifestActors {
  names(): readonly string[];
  /**
   * Files whose change may change an actor, missing ones too: absolute paths. One with a slash at its end is a folder:
   * whatever changes in it counts.
   */
  filesOf(name: string): Promise<readonly string[]>;
  /**
   * Takes up an actor's files as they are now: upgrades it if it has another module or interface, and installs it where
   * the start could not; one that was deleted stays so. Rejects with ServerError: files that cannot be read or do not
   * compile, and all that an upgrade is refused for.
   */
  reload(name: string): Promise<'same' | 'reloaded' | 'installed'>;
}
export const ManifestActors = defineCapability<ManifestActors>('manifest-actors');
