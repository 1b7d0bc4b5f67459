/**
 * Enters what becomes of canisters where it belongs: numbers of steps, counts and histories of messages, changes that
 * are to be stored. The scheduler tells of all that (`Listener`); nobody else does.
 *
 * Main thread. A message of a client is counted in the turn in which its answer is known, and is in the history when
 * that is durable; a call of a canister is in the history at once. What is told of a canister that is gone is dropped.
 */
import type { Clock } from '../../kernel/index.ts';
import type { MessageTrace, NotedMessage, Outcome, ToldStep } from '../ic/index.ts';
import type { EndedOutcall } from '../management/index.ts';
import type { Listener, StepCount } from '../scheduler/index.ts';
import type { CanisterDirectory } from './canister-directory.ts';
import type { CanisterRecord } from './canister-record.ts';
import type { CanisterStore } from './canister-store.ts';
import type { MessageHistories } from './message-histories.ts';
import type { MessageTraces } from './message-traces.ts';
import { outcallText } from './outcall-text.ts';

interface AccountingNeeds {
  readonly directory: Pick<CanisterDirectory, 'ifAny'>;
  readonly store: Pick<CanisterStore, 'append' | 'numbersChanged'>;
  readonly histories: MessageHistories;
  readonly traces: MessageTraces;
  readonly clock: Pick<Clock, 'nowMs'>;
}

export class Accounting implements Listener {
  readonly #needs: AccountingNeeds;

  constructor(needs: AccountingNeeds) {
    this.#needs = needs;
  }

  #recordOf(handle: number): CanisterRecord | undefined {
    return this.#needs.directory.ifAny(handle);
  }

  stepEnded(handle: number, step: ToldStep, count: StepCount, message: number): void {
    this.#recordOf(handle)?.steps.stepEnded(step, count, message);
  }

  answered(handle: number, noted: NotedMessage, outcome: Outcome): void {
    const record = this.#recordOf(handle);
    if (record === undefined || outcome.kind === 'unavailable') return;
    if (noted.kind === 'call') this.#remember(record, noted, outcome);
    else if (noted.kind === 'transform')
      record.steps.executed(1, outcome.kind === 'trap' || outcome.kind === 'limit' ? 1 : 0);
    else record.steps.count(outcome, noted);
  }

  /** A client's message has its answer, and all that the answer depends on is durable. */
  told(record: CanisterRecord, noted: NotedMessage, outcome: Outcome): void {
    if (outcome.isRepeat !== true && !record.isRemoved) this.#remember(record, noted, outcome);
  }

  #remember({ handle }: CanisterRecord, noted: NotedMessage, outcome: Outcome): void {
    const { histories, clock, traces } = this.#needs;
    if (!histories.isOn || noted.kind === 'transform') return;
    const { kind, trace = traces.next() } = noted;
    histories.add(handle, { ...noted, kind, trace }, outcome, clock.nowMs());
  }

  outcallEnded(record: CanisterRecord, outcall: EndedOutcall, outcome: Outcome): void {
    const { histories, traces } = this.#needs;
    if (!histories.isOn) return;
    const argument = outcallText(outcall);
    const { startedMs, endedMs, cause } = outcall;
    const trace = traces.next(cause);
    const ended = { kind: 'outcall', method: 'http_request', caller: record.id, startedMs, trace } as const;
    histories.add(record.handle, { ...ended, argument, argumentBytes: argument.length }, outcome, endedMs);
  }

  get remembersCalls(): boolean {
    return this.#needs.histories.isOn;
  }

  traceOf(cause: MessageTrace | undefined): MessageTrace {
    return this.#needs.traces.next(cause);
  }

  changed(handle: number, changes: readonly Uint8Array[]): void {
    if (this.#recordOf(handle) === undefined) return;
    for (const piece of changes) this.#needs.store.append(piece);
  }

  credited(handle: number, balance: bigint): void {
    this.#recordOf(handle)?.steps.credited(balance);
  }

  lost(handle: number): void {
    this.#recordOf(handle)?.steps.lost();
  }

  recordChanged(handle: number): void {
    const record = this.#recordOf(handle);
    if (record !== undefined) this.#needs.store.numbersChanged(record);
  }

  lowMemoryRan(handle: number): void {
    this.#recordOf(handle)?.steps.lowMemoryRan();
  }

  nameOf(handle: number): string {
    // Copies of states (state-copies.ts) are in no directory.
    return this.#needs.directory.ifAny(handle)?.name ?? 'a copy of an actor';
  }
}
