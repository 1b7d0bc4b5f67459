/**
 * Messages of clients: refused where their methods cannot be called that way, handed to the scheduler, and noted for
 * counts and history.
 *
 * Main thread; once for every message.
 */
import { type Clock, ServerError } from '../../kernel/index.ts';
import { type CallKind, type NotedMessage, type Outcome, shownCaller } from '../ic/index.ts';
import { type Messages, NOTED_ARGUMENT_BYTES_MAX } from '../scheduler/index.ts';
import type { Accounting } from './accounting.ts';
import { rejected } from './canister-directory.ts';
import type { CanisterRecord } from './canister-record.ts';
import type { MessageTraces } from './message-traces.ts';
import { type ClientMessage, methodMissing, refuseInternal } from './index.ts';

interface ClientMessagesNeeds {
  readonly scheduler: Pick<Messages, 'deliver'>;
  readonly accounting: Accounting;
  readonly traces: MessageTraces;
  readonly clock: Pick<Clock, 'nowMs'>;
}

/** Each method does what the one of `Canisters` with the same name says. */
export class ClientMessages {
  readonly #needs: ClientMessagesNeeds;

  constructor(needs: ClientMessagesNeeds) {
    this.#needs = needs;
  }

  async call(record: CanisterRecord, message: ClientMessage): Promise<Outcome> {
    const { kind, method, caller, argument, addressedBy, idempotencyKey, startedMs } = message;
    const { trace = this.#needs.traces.next() } = message;
    refuseUnlessCallable(record, kind, method, caller);
    const argumentBytes = argument.length;
    const { accounting, clock } = this.#needs;
    const cameMs = startedMs ?? (accounting.remembersCalls ? clock.nowMs() : 0);
    // A large argument is handed over.
    const remembered =
      argumentBytes <= NOTED_ARGUMENT_BYTES_MAX
        ? argument
        : argument.slice(0, accounting.remembersCalls ? NOTED_ARGUMENT_BYTES_MAX : 0);
    const came = { argument: remembered, argumentBytes, startedMs: cameMs, addressedBy, trace };
    const coming = { kind, method, caller: shownCaller(caller), ...came };
    // Not awaited here: a repeat may wait for long, and this frame would keep its argument as long.
    const delivered = { kind, method, caller, argument, idempotencyKey, noted: coming };
    return this.#told(record, coming, this.#needs.scheduler.deliver(record.handle, delivered));
  }

  async #told(record: CanisterRecord, noted: NotedMessage, delivered: Promise<Outcome>): Promise<Outcome> {
    const outcome = await delivered;
    if (outcome.kind === 'unavailable') throwIfRejected(record);
    else this.#needs.accounting.told(record, noted, outcome);
    return outcome;
  }

  async ask(record: CanisterRecord, method: string, caller: Uint8Array, argument: Uint8Array): Promise<Outcome> {
    refuseUnlessCallable(record, 'query', method, caller);
    const message = { kind: 'query', method, caller, argument } as const;
    const noted = { ...message, argumentBytes: argument.length, startedMs: 0 };
    const outcome = await this.#needs.scheduler.deliver(record.handle, { ...message, noted });
    if (outcome.kind === 'unavailable') throwIfRejected(record);
    return outcome;
  }
}

function refuseUnlessCallable(record: CanisterRecord, kind: CallKind, method: string, caller: Uint8Array): void {
  const exported = record.module?.methods.get(method);
  if (exported === undefined) throw methodMissing(record, method);
  if (kind === 'query' && exported === 'update') {
    throw new ServerError(
      'invalid',
      'method-not-a-query',
      `${method} is an update method: use /call or /call-json instead`,
    );
  }
  if (kind === 'update' && exported === 'composite_query') {
    throw new ServerError(
      'invalid',
      'method-only-a-query',
      `${method} is a composite query: use /query or /query-json instead`,
    );
  }
  refuseInternal(record, method, caller);
}

/** Throws ServerError `actor-rejected` for a canister whose damage the first call of it has found. */
function throwIfRejected({ name, damage }: CanisterRecord): void {
  if (damage !== undefined) throw rejected(name, damage);
}
