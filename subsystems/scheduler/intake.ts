/**
 * Messages of clients come in, and their answers go out: a message with a key by way of the keys, all of them into a
 * call context of the canister that they are for, or refused at once.
 *
 * Main thread. Makes contexts, and tells clients and the listener.
 */
import { type NotedMessage, type Outcome, REJECT_CODE } from '../ic/index.ts';
import type { CallJournal } from './call-journal.ts';
import { standingRefusal } from './calls.ts';
import type { CanisterPort } from './canister-port.ts';
import type { CanisterTable } from './canister-table.ts';
import type { Eviction } from './eviction.ts';
import { INSPECT } from './executions.ts';
import { digestOf } from './idempotency/argument-digest.ts';
import type { Asked, UnderWay } from './idempotency/canister-keys.ts';
import type { Idempotency, KeyedCalls } from './idempotency/idempotency.ts';
import type { DeliveredMessage } from './index.ts';
import { QUERY_CALLS_MAX, QueryEvaluation } from './query-evaluation.ts';
import { CallContext, type IngressOrigin, type ScheduledCanister } from './scheduled-canister.ts';
import { SERVER_STOPPING } from './task-flow.ts';
import type { Tasks } from './tasks.ts';

/** Messages waiting for one canister; then `unavailable` (docs/execution-rules.md, "Order and queues"). */
export const QUEUE_MESSAGES_MAX = 10_000;

/** Parts of the scheduler that a client's message meets. The keys know the intake: read when a message comes. */
interface IntakeNeeds {
  readonly canisters: Pick<CanisterTable, 'ifAny'>;
  readonly port: CanisterPort;
  readonly journal: Pick<CallJournal, 'tell'>;
  readonly tasks: Pick<Tasks, 'enqueue' | 'isDraining'>;
  readonly idempotency: Pick<Idempotency, 'ask' | 'answered'>;
  readonly eviction: Pick<Eviction, 'tickets'>;
}

export class Intake implements KeyedCalls {
  readonly #needs: IntakeNeeds;
  readonly #queryInstructionsMax: number;

  constructor(needs: IntakeNeeds, queryInstructionsMax: number) {
    this.#needs = needs;
    this.#queryInstructionsMax = queryInstructionsMax;
  }

  deliver(handle: number, message: DeliveredMessage): Promise<Outcome> {
    const { idempotencyKey } = message;
    if (idempotencyKey !== undefined) return this.#deliverOnce(handle, message, idempotencyKey);
    return new Promise((resolve) => this.#accept(handle, message, resolve, undefined));
  }

  #deliverOnce(handle: number, message: DeliveredMessage, key: string): Promise<Outcome> {
    return new Promise((answer, refuse) => {
      const digest = digestOf(message.argument);
      if (typeof digest === 'string') this.#ask({ handle, message, key, digest, answer, refuse });
      else digest.then((known) => this.#ask({ handle, message, key, digest: known, answer, refuse })).catch(refuse);
    });
  }

  #ask(asked: Asked): void {
    const { handle, message } = asked;
    const { tasks, canisters, idempotency } = this.#needs;
    const canister = tasks.isDraining ? undefined : canisters.ifAny(handle);
    if (canister === undefined) this.#accept(handle, message, asked.answer, undefined);
    else idempotency.ask(canister, asked);
  }

  letIn({ handle, message }: Asked, underWay: UnderWay): void {
    this.#accept(handle, message, underWay.tell, underWay);
  }

  #accept(
    handle: number,
    message: DeliveredMessage,
    done: (outcome: Outcome) => void,
    underWay: UnderWay | undefined,
  ): void {
    const { noted } = message;
    if (this.#needs.tasks.isDraining) {
      this.#tell(handle, noted, done, STOPPING_OUTCOME);
      return;
    }
    const canister = this.#needs.canisters.ifAny(handle);
    if (canister === undefined) {
      const outcome = refusedOutcome('reject', REJECT_CODE.DESTINATION_INVALID, 'the canister was deleted');
      this.#tell(handle, noted, done, outcome);
      return;
    }
    const standing = standingRefusal(canister, message.kind === 'transform');
    if (standing !== undefined) {
      const kind = canister.state.kind === 'lost' ? 'unavailable' : 'reject';
      const outcome = refusedOutcome(kind, standing.code, standing.message);
      this.#noteAnswer(handle, noted, outcome);
      this.#needs.journal.tell(canister.lastUnit, done, outcome);
      return;
    }
    const { work } = canister;
    if (work.input.length + work.queries.length >= QUEUE_MESSAGES_MAX) {
      const reason = `the actor's queue holds ${QUEUE_MESSAGES_MAX} of ${QUEUE_MESSAGES_MAX} messages: try again later`;
      this.#tell(handle, noted, done, refusedOutcome('unavailable', REJECT_CODE.SYS_TRANSIENT, reason));
      return;
    }
    this.#begin(canister, message, done, underWay);
  }

  #begin(
    canister: ScheduledCanister,
    { kind, method, caller, argument, noted }: DeliveredMessage,
    done: (outcome: Outcome) => void,
    underWay: UnderWay | undefined,
  ): void {
    const { tasks } = this.#needs;
    const isComposite = kind === 'query' && canister.module?.methods.get(method) === 'composite_query';
    const evaluation = isComposite ? this.#newEvaluation() : undefined;
    const context = new CallContext(canister, { kind: 'ingress', done, noted }, { caller, evaluation });
    context.underWay = underWay;
    if (kind === 'update') {
      canister.work.contexts.add(context);
      if (canister.entry(INSPECT) !== undefined) {
        tasks.enqueue(canister, { kind: 'inspect', context, method, argument });
        return;
      }
    }
    tasks.enqueue(canister, { kind: 'start', context, call: kind, method, argument, order: 0 });
  }

  #newEvaluation(): QueryEvaluation {
    const budget = { instructionsLeft: this.#queryInstructionsMax, callsLeft: QUERY_CALLS_MAX, lastUnit: 0 };
    return new QueryEvaluation(0, budget, ++this.#needs.eviction.tickets);
  }

  /** Tells of a message that nothing is executed for, and whose answer waits for nothing. */
  #tell(handle: number, noted: NotedMessage | undefined, done: (outcome: Outcome) => void, outcome: Outcome): void {
    this.#noteAnswer(handle, noted, outcome);
    done(outcome);
  }

  #noteAnswer(handle: number, noted: NotedMessage | undefined, outcome: Outcome): void {
    if (noted !== undefined) this.#needs.port.listener.answered(handle, noted, outcome);
  }

  /** A client gets its answer, when all that the answer depends on is durable. */
  answer(context: CallContext, { done, noted }: IngressOrigin, outcome: Outcome): void {
    const { canister, evaluation, underWay } = context;
    this.#noteAnswer(canister.handle, noted, outcome);
    if (underWay !== undefined) {
      context.underWay = undefined;
      this.#needs.idempotency.answered(underWay, outcome);
    }
    evaluation?.saw(canister);
    const unit = evaluation === undefined ? canister.lastUnit : evaluation.budget.lastUnit;
    this.#needs.journal.tell(unit, done, outcome);
  }
}

function refusedOutcome(kind: 'unavailable' | 'reject', code: 2 | 3 | 5 | 1 | 4 | 6, message: string): Outcome {
  return { kind, code, message, instructions: 0, charge: 0 };
}

export const STOPPING_OUTCOME = refusedOutcome('unavailable', REJECT_CODE.SYS_TRANSIENT, SERVER_STOPPING.message);
