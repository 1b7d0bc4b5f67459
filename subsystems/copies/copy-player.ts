/**
 * Plays messages on a copy of an actor, and keeps account of the calls that it makes, which nobody sends. Calls of the
 * copy to itself can be played on it, too: what they mean is the code's own business.
 *
 * Main thread.
 */
import { NO_BYTES } from '../bytes/index.ts';
import {
  type ContextView,
  FULL_LIMIT,
  type OutgoingCall,
  principalToText,
  REJECT_CODE,
  type RejectCode,
  type Response,
  sameBytes,
  type StepFault,
  type Task,
  type ToldStep,
} from '../ic/index.ts';
import type { MessageKind, Note, NotedAnswer } from '../timeline/index.ts';
import type { ActorCopy } from './actor-copy.ts';
import { endOf, type PlayedEnd } from './played-end.ts';

/** A call that somebody made of the copy, or a system task: what callbacks need of it. */
interface Context {
  readonly method: string;
  readonly caller: Uint8Array;
  readonly deadlineNs: bigint;
  /** The copy's own call that this context answers. */
  readonly answers: WaitingCall | undefined;
  canAnswer: boolean;
  cyclesAvailable: bigint;
  instructions: number;
  /** Calls that wait for their answers. */
  open: number;
  /** The last fault: the answer of a context that gives none. */
  fault: StepFault | undefined;
}

/** A call that the copy has made, and that waits for its answer. */
export interface WaitingCall {
  readonly context: Context;
  readonly made: OutgoingCall;
  /** True for a call to itself that was played. */
  isPlayed: boolean;
  /** The copy's answer to a call to itself. */
  answer: { readonly response: Response; readonly refunded: bigint } | undefined;
}

/** Message on a copy that has ended. */
export interface Played {
  readonly end: PlayedEnd;
  /** Method whose call the message works for; empty for system tasks. */
  readonly method: string;
  readonly calls: readonly WaitingCall[];
  /** Undefined: the code has no such method. */
  readonly told: ToldStep | undefined;
}

const SYSTEM_EXPORTS = {
  timer: 'canister_global_timer',
  heartbeat: 'canister_heartbeat',
  'low-memory': 'canister_on_low_wasm_memory',
} as const;

/** True for kinds of messages that a copy can be given. */
export function isPlayable(kind: MessageKind): boolean {
  return kind === 'update' || kind === 'callback' || kind in SYSTEM_EXPORTS;
}

export class CopyPlayer {
  readonly copy: ActorCopy;
  readonly #id: Uint8Array;
  readonly #instructionsMax: number;
  readonly #waiting = new Set<WaitingCall>();

  /** `id`: principal of the actor. `instructionsMax`: limit of each update and callback. */
  constructor(copy: ActorCopy, id: Uint8Array, instructionsMax = FULL_LIMIT) {
    this.copy = copy;
    this.#id = id;
    this.#instructionsMax = instructionsMax;
  }

  /** Returns the waiting call that left these callbacks, the one that was made first; undefined: there is none. */
  callWith(callbacks: Uint8Array): WaitingCall | undefined {
    for (const call of this.#waiting) if (sameBytes(call.made.callbacks, callbacks)) return call;
    return undefined;
  }

  /** Returns the call to itself that this message is, the one that was made first; undefined: there is none. */
  ownCallOf({ caller, method, argument }: Note): WaitingCall | undefined {
    // Others may call the same method with the same argument meanwhile.
    if (!sameBytes(caller, this.#id)) return undefined;
    for (const call of this.#waiting) {
      const { made, isPlayed } = call;
      if (!isPlayed && this.isOwn(call) && made.method === method && sameBytes(made.payload, argument)) return call;
    }
    return undefined;
  }

  /** True for a call of the copy to itself. */
  isOwn({ made }: WaitingCall): boolean {
    return sameBytes(made.callee, this.#id);
  }

  /** Plays an update or a system task. */
  async play({ kind, method, caller, call, argument, instantMs }: Note): Promise<Played> {
    const context = {
      method,
      caller,
      deadlineNs: call?.deadlineNs ?? 0n,
      answers: undefined,
      canAnswer: call?.canAnswer ?? kind === 'update',
      cyclesAvailable: call?.cyclesAvailable ?? 0n,
      instructions: 0,
      open: 0,
      fault: undefined,
    };
    if (kind === 'update') return await this.#update(context, argument, instantMs);
    const exported = SYSTEM_EXPORTS[kind as keyof typeof SYSTEM_EXPORTS];
    const entry = this.copy.module.entries.get(exported);
    if (entry === undefined) return missing(context, `the code exports no ${exported}`);
    return await this.#run(context, { kind: 'system', entry }, instantMs);
  }

  /** Plays a call of the copy to itself; `deadlineNs` is that of the call which the message of then was. */
  async playOwn(call: WaitingCall, instantMs: number, deadlineNs = deadlineOf(call, instantMs)): Promise<Played> {
    const { method, cycles, payload } = call.made;
    call.isPlayed = true;
    const own = { method, caller: this.#id, deadlineNs, answers: call, cyclesAvailable: cycles };
    const begun = { canAnswer: true, instructions: 0, open: 0, fault: undefined };
    return await this.#update({ ...own, ...begun }, payload, instantMs);
  }

  async #update(context: Context, argument: Uint8Array, instantMs: number): Promise<Played> {
    const { method } = context;
    const { entries, methods } = this.copy.module;
    const entry = entries.get(`canister_${methods.get(method) ?? 'update'} ${method}`);
    if (entry === undefined || methods.get(method) === 'composite_query')
      return missing(context, `the code has no method ${method} for updates`);
    const bytes = new Uint8Array(argument);
    const view = viewOf(context);
    return await this.#run(
      context,
      // A large argument is handed over.
      { kind: 'update', entry, argument: bytes, context: view, instructionsMax: this.#instructionsMax },
      instantMs,
    );
  }

  /** Gives a waiting call its answer of then. */
  async answer(call: WaitingCall, { argument, instantMs }: Note, answered: NotedAnswer): Promise<Played> {
    const { rejectCode, refunded } = answered;
    const response: Response =
      rejectCode === 0
        ? { kind: 'reply', data: new Uint8Array(argument) }
        : { kind: 'reject', code: rejectCode as RejectCode, message: Buffer.from(argument).toString() };
    return await this.callBack(call, response, refunded, instantMs);
  }

  /** Rejects a call that the actor did not make then. */
  async reject(call: WaitingCall, instantMs: number): Promise<Played> {
    const response = { kind: 'reject', code: REJECT_CODE.SYS_TRANSIENT, message: 'sandbox' } as const;
    return await this.callBack(call, response, call.made.cycles, instantMs);
  }

  async callBack(call: WaitingCall, response: Response, refunded: bigint, instantMs: number): Promise<Played> {
    const { context, made } = call;
    this.#waiting.delete(call);
    context.open--;
    const view = viewOf(context);
    const rest = { context: view, frame: 0, instructionsMax: this.#instructionsMax } as const;
    return await this.#run(
      context,
      { kind: 'callback', callbacks: made.callbacks, response, refunded, ...rest },
      instantMs,
    );
  }

  /** Forgets a call: nobody answers it. */
  drop(call: WaitingCall): void {
    if (this.#waiting.delete(call)) call.context.open--;
  }

  async #run(context: Context, task: Task, instantMs: number): Promise<Played> {
    this.copy.stand(instantMs);
    const told = await this.copy.run(task);
    const { step } = told;
    const { fault, answer, cyclesAccepted, instructions } = step;
    context.instructions += instructions;
    if (fault === undefined) context.cyclesAvailable -= cyclesAccepted;
    const made = fault === undefined ? step.calls : [];
    const calls = made.map((each) => ({ context, made: each, isPlayed: false, answer: undefined }));
    for (const call of calls) this.#waiting.add(call);
    context.open += calls.length;
    context.fault = fault ?? context.fault;
    answerOwn(context, answer);
    return { end: endOf(step), method: context.method, calls, told };
  }
}

/** Notes the answer of a call to itself, when it is there or cannot come any more. */
function answerOwn(context: Context, answer: Response | undefined): void {
  if (!context.canAnswer) return;
  if (answer === undefined && context.open > 0) return;
  if (answer === undefined && context.answers === undefined) return;
  context.canAnswer = false;
  if (context.answers === undefined) return;
  const { code, message } = context.fault ?? didNotReply(context.answers.made.callee);
  const response = answer ?? ({ kind: 'reject', code, message } as const);
  context.answers.answer = { response, refunded: context.cyclesAvailable };
}

function didNotReply(callee: Uint8Array): Pick<StepFault, 'code' | 'message'> {
  const message = `Canister ${principalToText(callee)} did not reply to the call`;
  return { code: REJECT_CODE.CANISTER_ERROR, message };
}

function deadlineOf({ made: { timeoutSeconds } }: WaitingCall, instantMs: number): bigint {
  return timeoutSeconds === undefined ? 0n : BigInt(Math.round(instantMs + timeoutSeconds * 1_000)) * 1_000_000n;
}

/**
 * Returns a waiting call with the context that a note has of its callback, for a copy that has not made the call.
 * `instructions`: those of the context so far, which are not noted.
 */
export function notedCall({ caller, call }: Note, { callbacks }: NotedAnswer, instructions: number): WaitingCall {
  const { deadlineNs = 0n, canAnswer = false, cyclesAvailable = 0n } = call ?? {};
  const told = { method: '', caller, deadlineNs, canAnswer, cyclesAvailable };
  const context = { ...told, answers: undefined, instructions, open: 1, fault: undefined };
  const sent = { callee: NO_BYTES, method: '', payload: NO_BYTES, cycles: 0n, timeoutSeconds: undefined };
  return { context, made: { ...sent, callbacks }, isPlayed: true, answer: undefined };
}

function missing(context: Context, message: string): Played {
  context.fault = { kind: 'unavailable', code: REJECT_CODE.CANISTER_ERROR, message };
  answerOwn(context, undefined);
  return {
    end: { outcome: 'missing', reply: undefined, message, instructions: 0 },
    method: context.method,
    calls: [],
    told: undefined,
  };
}

function viewOf({ caller, deadlineNs, canAnswer, cyclesAvailable, instructions }: Context): ContextView {
  return { caller, deadlineNs, canAnswer, cyclesAvailable, instructions };
}
