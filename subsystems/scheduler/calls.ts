/**
 * Calls and their contexts: what a step means for whoever waits.
 *
 *     client ──► context ──step──► answer ──────────────────────────► client
 *                   │  └─ OutgoingCall ──► OpenCall ──► context of the callee ──► answer
 *                   ▲                                                              │
 *                   └──────────── callback task ◄──────── response + refund ◄──────┘
 *
 * Rules (docs/execution-rules.md has all of them):
 * - A context is finished when nothing of it executes and none of its calls is open. If it still owes an answer then,
 *   the caller gets the last fault, or "did not reply".
 * - Each call gets exactly one response, and with it what the callee did not accept of its cycles. A best-effort caller
 *   gets SYS_UNKNOWN when its time is over; what comes later is dropped, cycles with it.
 * - A context whose code was uninstalled answers with a reject, its callbacks never run, refunds are still credited.
 * - A composite query's calls are queries; when it has answered, what is still open is dropped.
 *
 * Main thread. Touches contexts and open calls; what canisters wait for it hands on.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Clock } from '../../kernel/index.ts';
import {
  REJECT_CODE,
  type CallKind,
  type NotedMessage,
  outcomeKindOf,
  type OutgoingCall,
  type Outcome,
  type RejectCode,
  type Response,
  type Step,
  type StepFault,
  principalToText,
  TurnOfCalls,
  THREAD_STOPPED_TEXT,
} from '../ic/index.ts';
import { type ScheduledCanister, type IngressOrigin, CallContext, NOBODY, OpenCall } from './scheduled-canister.ts';
import type { CallJournal } from './call-journal.ts';
import type { CanisterPort } from './canister-port.ts';
import type { CanisterTable } from './canister-table.ts';
import type { Elsewhere } from './elsewhere/elsewhere.ts';
import type { ScheduledExecution } from './scheduled-execution.ts';
import type { Stopping } from './stopping.ts';
import type { Tasks } from './tasks.ts';
import { NOTED_ARGUMENT_BYTES_MAX, type SystemCanister } from './index.ts';
import { QUERY_DEPTH_MAX, type QueryEvaluation } from './query-evaluation.ts';

/** `ic0.call_with_best_effort_response` caps at this. */
const BEST_EFFORT_SECONDS_MAX = 300;

/** Who tells clients. */
interface Answers {
  /** A client gets its answer. */
  answer(context: CallContext, origin: IngressOrigin, outcome: Outcome): void;
}

interface CallsNeeds {
  readonly clock: Pick<Clock, 'nowMs'>;
  readonly execution: Pick<ScheduledExecution, 'aheadOf'>;
  readonly journal: CallJournal;
  readonly canisters: Pick<CanisterTable, 'find'>;
  readonly tasks: Pick<Tasks, 'enqueue' | 'credit'>;
  readonly stopping: Pick<Stopping, 'stopIfDone'>;
  readonly port: CanisterPort;
  readonly elsewhere: Pick<Elsewhere, 'stubs' | 'call' | 'expired'>;
  readonly intake: Answers;
}

export class Calls {
  readonly #needs: CallsNeeds;
  readonly #journal: CallJournal;
  /** Open calls whose callers do not wait for ever. */
  readonly #limited = new Set<OpenCall>();
  systemCanister: SystemCanister | undefined;
  /** The answer to a client whose message goes on after the restart; undefined: not yet. */
  stoppingOutcome: Outcome | undefined;

  constructor(needs: CallsNeeds) {
    this.#needs = needs;
    this.#journal = needs.journal;
  }

  /**
   * A step of a context has ended: its effects, and what follows from them. Of a large one the calls are sent in
   * several turns, which are one unit all the same; resolves when all are sent.
   */
  ended(context: CallContext, step: Step): Promise<void> | undefined {
    context.instructions += step.instructions;
    context.charge += step.charge;
    context.pending = undefined;
    if (context.evaluation !== undefined) {
      context.evaluation.budget.instructionsLeft -= step.instructions;
      context.evaluation.saw(context.canister);
    }
    if (step.fault === undefined) {
      if (step.cyclesAccepted !== 0n) context.cyclesAvailable -= step.cyclesAccepted;
      context.frame = step.frame;
      if (step.answer !== undefined) this.#answer(context, step.answer, undefined);
      const release = step.isLarge === true ? this.#journal.hold(context) : undefined;
      if (release !== undefined) return this.#sendInPieces(context, step.calls, release);
      for (const call of step.calls) this.#send(context, call);
    } else {
      context.fault = step.fault;
      context.frame = 0;
    }
    this.#stepEnded(context);
    return undefined;
  }

  /**
   * Sends the calls of a large step in several turns. The execution ends when all calls are sent: nothing else of the
   * context starts meanwhile, and its canister does not rest.
   */
  async #sendInPieces(context: CallContext, calls: readonly OutgoingCall[], release: () => void): Promise<void> {
    const turn = new TurnOfCalls();
    for (const call of calls) {
      if (turn.isFull) {
        turn.begin();
        await nextTurn();
      }
      turn.add(call);
      this.#send(context, call);
    }
    this.#stepEnded(context);
    release();
  }

  #stepEnded(context: CallContext): void {
    this.#answerDeleted(context);
    // Not before: a call may be answered while the ones after it have not been sent.
    context.isExecuting = false;
    this.#finish(context);
  }

  /** The callback of a call has ended, with this step; as `ended`. */
  callbackEnded(call: OpenCall, step: Step): Promise<void> | undefined {
    this.callEnded(call);
    return this.ended(call.context, step);
  }

  /** A call is open no longer. */
  callEnded(call: OpenCall): void {
    const { context } = call;
    context.openCalls--;
    call.pending = undefined;
    call.isEnded = true;
    if (!this.#journal.isDurable) return;
    context.canister.work.openCalls.delete(call);
    this.#journal.callChanged(call);
  }

  /** Drops the answer of a call, when it comes, and the cycles that come back: the caller is gone. */
  abandon(call: OpenCall): void {
    call.context.canister.expect('leave its calls', 'deleted');
    call.isAnswered = true;
    this.#limited.delete(call);
    this.callEnded(call);
    this.#journal.contextChanged(call.context);
  }

  /** Answers a call that never started. */
  refuse(context: CallContext, code: RejectCode, message: string, kind: 'reject' | 'unavailable' = 'reject'): void {
    context.pending = undefined;
    // A deleted context may still have been waiting: its caller knows already.
    if (context.canAnswer) this.#answer(context, { kind: 'reject', code, message }, kind, undefined, true);
    this.#finish(context);
  }

  /**
   * Code is gone: whoever waits for a context of it is told, and nothing of it runs any more. An execution under way
   * came before that: what it accepts and answers holds.
   */
  delete(context: CallContext, code: RejectCode, message: string, kind: 'reject' | 'unavailable' = 'reject'): void {
    context.isDeleted = true;
    context.deletion = { code, message, kind };
    if (context.isExecuting) {
      this.#journal.contextChanged(context);
      return;
    }
    context.frame = 0;
    context.pending = undefined;
    this.#answerDeleted(context);
    this.#finish(context);
  }

  /**
   * Code is replaced by code that knows nothing of it, between two messages: whoever waits for a call that it has begun
   * is told, none of its callbacks runs, and nobody waits for those whom it called. What comes back from them is
   * credited.
   */
  endBegun({ work }: ScheduledCanister, message: string): void {
    for (const context of work.contexts) {
      if (context.openCalls === 0 && !context.comesBack) continue;
      this.delete(context, REJECT_CODE.CANISTER_REJECT, message);
      context.deletion = undefined;
      if (work.contexts.delete(context)) this.#needs.stopping.stopIfDone(context.canister);
    }
  }

  /** The server stops, and this goes on after the restart: a client that waits is told so. */
  answerStopping({ origin, canAnswer, underWay }: CallContext): void {
    if (this.stoppingOutcome === undefined || origin.kind !== 'ingress' || !canAnswer) return;
    // A code change that was begun may end it yet.
    if (underWay === undefined) origin.done(this.stoppingOutcome);
    else underWay.tellAhead(this.stoppingOutcome);
    origin.done = NOBODY;
    origin.noted = undefined;
  }

  /** A call as it was kept: its response is still to come. */
  resume(call: OpenCall): void {
    if (Number.isFinite(call.deadlineMs)) {
      // The clock may have been ahead when it was sent.
      call.deadlineMs = Math.min(call.deadlineMs, this.#needs.clock.nowMs() + BEST_EFFORT_SECONDS_MAX * 1000);
      this.#limited.add(call);
    }
    if (call.callee.length > 0) return;
    const message = 'the server was restarted while the call was under way';
    this.respond(call, { kind: 'reject', code: REJECT_CODE.SYS_TRANSIENT, message }, call.cycles);
  }

  #answerDeleted(context: CallContext): void {
    const { deletion } = context;
    if (deletion === undefined || !context.canAnswer) return;
    const { code, message, kind } = deletion;
    this.#answer(context, { kind: 'reject', code, message }, kind);
  }

  /** Answers best-effort calls whose time is over. */
  expire(nowMs: number): void {
    for (const call of this.#limited) {
      if (call.deadlineMs > nowMs) continue;
      this.respond(call, { kind: 'reject', code: REJECT_CODE.SYS_UNKNOWN, message: 'Call deadline has expired.' }, 0n);
      if (call.madeAs !== undefined) this.#needs.elsewhere.expired(call);
    }
  }

  #answer(
    context: CallContext,
    response: Response,
    kind: Outcome['kind'] | undefined,
    stack?: StepFault['stack'],
    isUnbegun = false,
  ): void {
    context.hasAnswered = true;
    const refunded = context.cyclesAvailable;
    context.cyclesAvailable = 0n;
    const { origin } = context;
    if (origin.kind === 'ingress') {
      const outcome = outcomeOf(context, response, kind, stack);
      this.#needs.intake.answer(context, origin, isUnbegun ? { ...outcome, isUnbegun } : outcome);
    }
    if (origin.kind === 'canister') {
      const { canister, note } = context;
      if (note !== undefined)
        this.#needs.port.listener.answered(canister.handle, note, outcomeOf(context, response, kind, stack));
      this.respond(origin.call, response, refunded);
    }
    // A query has no business left; what it still waits for is dropped.
    if (context.evaluation !== undefined) context.isDeleted = true;
  }

  #finish(context: CallContext): void {
    if (context.isExecuting) return;
    const { work } = context.canister;
    const { frame } = context;
    if (frame !== 0 && (context.isDeleted || context.openCalls === 0)) {
      context.frame = 0;
      this.#needs.tasks.enqueue(context.canister, { kind: 'dropFrame', frame, life: work.life });
    }
    if (context.openCalls > 0) this.answerStopping(context);
    else {
      if (context.canAnswer) this.#answerFor(context);
      if (work.contexts.delete(context)) this.#needs.stopping.stopIfDone(context.canister);
    }
    this.#journal.contextChanged(context);
  }

  /** The answer of a context that gave none. */
  #answerFor(context: CallContext): void {
    const { fault } = context;
    if (fault !== undefined) {
      const { code, message } = fault;
      this.#answer(context, { kind: 'reject', code, message }, outcomeKindOf(fault.kind), fault.stack);
      return;
    }
    const message = `Canister ${principalToText(context.canister.id)} did not reply to the call`;
    this.#answer(context, { kind: 'reject', code: REJECT_CODE.CANISTER_ERROR, message }, 'noReply');
  }

  #send(context: CallContext, outgoing: OutgoingCall): void {
    context.openCalls++;
    const { timeoutSeconds } = outgoing;
    const deadlineMs =
      timeoutSeconds === undefined
        ? Number.POSITIVE_INFINITY
        : this.#needs.clock.nowMs() + Math.min(timeoutSeconds, BEST_EFFORT_SECONDS_MAX) * 1000;
    const { callee, callbacks } = outgoing;
    const canister = callee.length === 0 ? undefined : this.#needs.canisters.find(callee);
    const stub = canister === undefined ? this.#needs.elsewhere.stubs.of(callee) : undefined;
    const isSystem = canister === undefined && stub === undefined && this.#isServed(callee);
    // After a crash, a call to host code is one that the management canister has not answered.
    const kept = isSystem ? SYSTEM : callee;
    const call = new OpenCall(context, kept, { callbacks, deadlineMs, cycles: isSystem ? outgoing.cycles : 0n });
    if (timeoutSeconds !== undefined) this.#limited.add(call);
    if (this.#journal.isDurable && context.evaluation === undefined) {
      context.canister.work.openCalls.add(call);
      this.#journal.callChanged(call);
    }
    if (isSystem) this.#callSystem(call, outgoing);
    else if (stub !== undefined) this.#needs.elsewhere.call(call, outgoing, stub);
    else this.#callCanister(call, outgoing, canister);
  }

  /** A call of another server's canister has come. */
  deliver(call: OpenCall, outgoing: OutgoingCall): void {
    this.#callCanister(call, outgoing, this.#needs.canisters.find(outgoing.callee));
  }

  #isServed(callee: Uint8Array): boolean {
    return callee.length === 0 || this.systemCanister?.serves?.(callee) === true;
  }

  #callCanister(call: OpenCall, outgoing: OutgoingCall, callee: ScheduledCanister | undefined): void {
    const { evaluation } = call.context;
    if (callee !== undefined) evaluation?.saw(callee);
    const refusal =
      callee === undefined
        ? notFound(outgoing.callee)
        : this.#refusal(callee, call.context.canister, outgoing, evaluation);
    if (callee === undefined || refusal !== undefined) {
      this.#journal.refused(outgoing.storedAs);
      this.respond(call, { kind: 'reject', ...(refusal ?? notFound(outgoing.callee)) }, outgoing.cycles);
      return;
    }
    const isBounded = Number.isFinite(call.deadlineMs) && evaluation === undefined;
    const context = new CallContext(
      callee,
      { kind: 'canister', call },
      {
        caller: call.context.canister.id,
        cycles: outgoing.cycles,
        deadlineNs: isBounded
          ? BigInt(Math.round(call.deadlineMs + this.#needs.execution.aheadOf(callee.handle))) * 1_000_000n
          : 0n,
        evaluation: evaluation?.called(),
      },
    );
    if (this.#needs.port.listener.remembersCalls) context.note = this.#noteOf(call, outgoing);
    if (evaluation === undefined) callee.work.contexts.add(context);
    context.storedAs = outgoing.storedAs;
    const kind: CallKind = evaluation === undefined ? 'update' : 'query';
    const { method, payload } = outgoing;
    this.#needs.tasks.enqueue(callee, { kind: 'start', context, call: kind, method, argument: payload, order: 0 });
  }

  #noteOf({ context }: OpenCall, { method, payload }: OutgoingCall): NotedMessage {
    // A copy: the payload is handed over.
    const argument = payload.slice(0, NOTED_ARGUMENT_BYTES_MAX);
    return {
      kind: 'call',
      method,
      caller: context.canister.id,
      argument,
      argumentBytes: payload.length,
      startedMs: this.#needs.clock.nowMs(),
      trace: this.#needs.port.listener.traceOf(context.trace),
    };
  }

  /** Why a call cannot reach its method now. */
  #refusal(
    callee: ScheduledCanister,
    sender: ScheduledCanister,
    { method, cycles }: OutgoingCall,
    evaluation: QueryEvaluation | undefined,
  ): Refusal | undefined {
    const standing = standingRefusal(callee);
    if (standing !== undefined) return standing;
    const name = principalToText(callee.id);
    if (cycles < callee.minimumCycles && callee !== sender && evaluation === undefined) {
      return refused(
        REJECT_CODE.CANISTER_ERROR,
        `Canister ${name} wants at least ${callee.minimumCycles} cycles with a call, and got ${cycles}`,
      );
    }
    const kind = callee.module?.methods.get(method);
    if (kind === undefined)
      return refused(
        REJECT_CODE.CANISTER_ERROR,
        `Canister ${name} has no ${evaluation === undefined ? 'update' : 'query'} method '${method}'`,
      );
    if (evaluation === undefined) {
      if (kind !== 'composite_query') return undefined;
      return refused(
        REJECT_CODE.CANISTER_ERROR,
        `Composite query '${method}' of canister ${name} cannot be called in replicated mode`,
      );
    }
    if (kind === 'update')
      return refused(
        REJECT_CODE.CANISTER_ERROR,
        `Canister ${name} has no query method '${method}': a query cannot call an update`,
      );
    if (evaluation.depth >= QUERY_DEPTH_MAX)
      return refused(REJECT_CODE.CANISTER_ERROR, `the composite query is more than ${QUERY_DEPTH_MAX} calls deep`);
    if (--evaluation.budget.callsLeft < 0)
      return refused(REJECT_CODE.CANISTER_ERROR, 'the composite query makes too many calls');
    return undefined;
  }

  #callSystem(call: OpenCall, outgoing: OutgoingCall): void {
    const { callee, method, payload, cycles } = outgoing;
    const isQuery = call.context.evaluation !== undefined;
    if (this.systemCanister === undefined) {
      this.respond(
        call,
        { kind: 'reject', code: REJECT_CODE.DESTINATION_INVALID, message: 'this host has no management canister' },
        cycles,
      );
      return;
    }
    const sender = call.context.canister.id;
    const cause = call.context.trace;
    const isAwaited = (): boolean => !call.isAnswered && !call.context.isDeleted;
    this.systemCanister.call({ callee, sender, method, argument: payload, cycles, isQuery, cause, isAwaited }).then(
      ({ response, refunded }) => this.respond(call, response, refunded),
      (error: unknown) => {
        const message = `the management canister failed: ${error instanceof Error ? error.message : String(error)}`;
        this.respond(call, { kind: 'reject', code: REJECT_CODE.SYS_TRANSIENT, message }, cycles);
      },
    );
  }

  /** A call has its response, with the cycles that come back. */
  respond(call: OpenCall, response: Response, refunded: bigint): void {
    const storedAs = response.kind === 'reply' ? response.storedAs : undefined;
    if (call.isAnswered) {
      this.#journal.refused(storedAs);
      return;
    }
    call.isAnswered = true;
    call.storedAs = storedAs;
    this.#limited.delete(call);
    const { context } = call;
    if (context.isDeleted) {
      if (refunded > 0n) this.#needs.tasks.credit(context.canister, refunded);
      this.callEnded(call);
      this.#finish(context);
      return;
    }
    this.#needs.tasks.enqueue(context.canister, { kind: 'response', call, response, refunded, order: 0 });
  }
}

/** Callee of calls to host code: the management canister's id. */
const SYSTEM = new Uint8Array(0);

export interface Refusal {
  readonly code: RejectCode;
  readonly message: string;
}

export const THREAD_STOPPED: Refusal = { code: REJECT_CODE.SYS_TRANSIENT, message: THREAD_STOPPED_TEXT };

const refused = (code: RejectCode, message: string): Refusal => ({ code, message });
/** Returns the answer to a call of a canister that is not there. */
export const notFound = (id: Uint8Array): Refusal =>
  refused(REJECT_CODE.DESTINATION_INVALID, `No route to canister ${principalToText(id)}`);

/** Why a canister takes no calls at all now; undefined: it does. */
export function standingRefusal(canister: ScheduledCanister, isTransform = false): Refusal | undefined {
  // An outcall's response is on its way to a canister that waits for it, and that may be stopping meanwhile.
  const isOpen = canister.status === 'running' || (isTransform && canister.status === 'stopping');
  // Nearly always: its name is not made for nothing.
  const { kind } = canister.state;
  if (isOpen && canister.module !== undefined && kind !== 'lost' && kind !== 'unloadable') return undefined;
  const name = principalToText(canister.id);
  if (kind === 'lost') return THREAD_STOPPED;
  if (kind === 'unloadable') return refused(REJECT_CODE.DESTINATION_INVALID, `Canister ${name} could not be loaded`);
  if (!isOpen) return refused(REJECT_CODE.CANISTER_ERROR, `Canister ${name} is ${canister.status}`);
  if (canister.module === undefined && !canister.isChanging)
    return refused(REJECT_CODE.CANISTER_ERROR, `Canister ${name} contains no Wasm module`);
  return undefined;
}

function outcomeOf(
  { instructions, charge }: CallContext,
  response: Response,
  kind: Outcome['kind'] | undefined,
  stack: StepFault['stack'],
): Outcome {
  if (response.kind === 'reply') return { kind: 'reply', data: response.data, instructions, charge };
  const { code, message } = response;
  return { kind: kind === undefined || kind === 'reply' ? 'reject' : kind, code, message, stack, instructions, charge };
}
