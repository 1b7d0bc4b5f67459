/**
 * `http_request`: turns a canister's request into its answer.
 *
 *     check ─► durable ─► turn ─► Outcalls.send ─► limits ─► transform (a query of the caller) ─► reply
 *               └────────────── deadline ───────────────┘
 *
 * - **Nothing is sent before the call is durable.** Execution runs ahead of the disk, and a request that was sent and
 *   then forgotten in a crash could not be taken back. After a crash the call is still open, and the scheduler rejects
 *   it (code 2): the reject says that the other server's part is unknown.
 * - The deadline counts from the call, including the wait for a turn, but without the transform, which has its
 *   instruction limit. The implementation of Outcalls is not waited for beyond the deadline.
 * - An outcall costs no cycles (`ic0.cost_http_request` says 0): attached cycles are refunded.
 * - A request that nobody waits for any more, because the code that called has ended, is not sent, and no transform is
 *   run for it: that would be one of other code.
 * - When the server stops, running outcalls get a moment to end; the rest are rejected (code 2).
 */
import { type Clock, type Logger, messageOf, ServerError } from '../../../kernel/index.ts';
import type { Codec, MethodInterface } from '../../codec/index.ts';
import type { MessageTrace, Outcome } from '../../ic/index.ts';
import { OUTCALL_FAILURES, type Outcalls, type OutcallResponse } from '../../outcalls/index.ts';
import type { HostedCanister, ManagementBackend } from '../backend.ts';
import type { HttpRequestJson } from '../candid-types.ts';
import { toBytes } from '../candid-values.ts';
import type { Call } from '../method-context.ts';
import { CandidReply } from '../candid-reply.ts';
import type { RecordStore } from '../records/record-store.ts';
import { Refusal, REFUSE } from '../refusal.ts';
import { type CheckedOutcall, checkedOutcall, type CheckedTransform } from './http-request.ts';
import { type ExchangeNeeds, OutcallExchange } from './outcall-exchange.ts';
import { candidOfResponse, candidOfTransformArgument } from './response-candid.ts';
import { TRANSFORM_DID } from './transform-did.ts';
import { OUTCALL_BOUNDS, type OutcallBounds, OutcallTurns } from './outcall-turns.ts';
import { type OutcallEnd, type OutcallFigures, OutcallTally } from './outcall-tally.ts';

/** Time for running outcalls to end when the server stops. An operator who waits for a restart waits no longer. */
const DRAIN_MS = 3_000;
const PLAIN = { lossless: false };
const ANSWERED: Outcome = { kind: 'reply', data: new Uint8Array(0), instructions: 0, charge: 0 };

/** A call of `http_request`. */
type OutcallCall = Pick<Call, 'sender' | 'cause' | 'isAwaited'>;

interface OutcallServiceNeeds {
  readonly outcalls: Outcalls;
  readonly host: Pick<ManagementBackend, 'find' | 'transform' | 'outcallEnded'>;
  readonly codec: Codec;
  readonly clock: Clock;
  readonly log: Logger;
  readonly storage: Pick<RecordStore, 'isKept' | 'settled'>;
}

interface OutcallServiceOptions {
  readonly timeoutMs: number;
  readonly bounds?: OutcallBounds | undefined;
}

export class OutcallService {
  readonly #needs: OutcallServiceNeeds;
  readonly #timeoutMs: number;
  readonly #turns: OutcallTurns;
  readonly #exchangeNeeds: ExchangeNeeds;
  readonly #tally = new OutcallTally();
  readonly #underWay = new Set<OutcallExchange>();
  #transformTypes: MethodInterface | undefined;
  #isStopping = false;
  #drained: (() => void) | undefined;

  constructor(needs: OutcallServiceNeeds, { timeoutMs, bounds = OUTCALL_BOUNDS }: OutcallServiceOptions) {
    this.#needs = needs;
    this.#timeoutMs = timeoutMs;
    this.#turns = new OutcallTurns(bounds);
    const { outcalls, storage } = needs;
    this.#exchangeNeeds = { outcalls, storage, turns: this.#turns, tally: this.#tally };
  }

  get figures(): OutcallFigures {
    return this.#tally.figures(this.#turns);
  }

  /**
   * Resolves with the answer of the call. Throws a Refusal, with which the call is rejected.
   */
  async request(argument: HttpRequestJson, { sender, cause, isAwaited }: OutcallCall): Promise<CandidReply> {
    const { clock, host } = this.#needs;
    const outcall = checkedOutcall(argument, sender);
    const canister = host.find(sender);
    if (canister === undefined) throw REFUSE.wrongState('the canister that called is gone');
    expectTransform(canister, outcall.transform);
    const startedMs = clock.nowMs();
    let status = 0;
    try {
      const response = await this.#send(outcall, isAwaited);
      status = response.status;
      const { transform } = outcall;
      if (transform !== undefined && !isAwaited()) throw REFUSE.wrongState('the code that called has ended');
      const data =
        transform === undefined
          ? candidOfResponse(response)
          : await this.#transformed(canister, transform, response, outcall.request.responseBytesMax);
      this.#ended(canister, outcall, { end: 'answered', status, startedMs, cause }, ANSWERED);
      return new CandidReply(data);
    } catch (error) {
      const { end, refusal } = this.#refusal(error);
      const { code, message } = refusal;
      const rejected = { kind: 'reject', code, message, instructions: 0, charge: 0 } as const;
      this.#ended(canister, outcall, { end, status, startedMs, cause }, rejected);
      throw refusal;
    }
  }

  /** Records the result. */
  #ended(canister: HostedCanister, { request }: CheckedOutcall, as: Ended, outcome: Outcome): void {
    const { clock, host } = this.#needs;
    const { end, status, startedMs, cause } = as;
    const endedMs = clock.nowMs();
    this.#tally.ended(end, endedMs - startedMs);
    const { method, url } = request;
    host.outcallEnded(canister, { method, url, status, startedMs, endedMs, cause }, outcome);
  }

  /** Takes no more outcalls; resolves soon, when none is under way. */
  async drain(): Promise<void> {
    this.#isStopping = true;
    if (this.#underWay.size === 0) return;
    const drained = new Promise<void>((resolve) => {
      this.#drained = resolve;
    });
    using _late = this.#needs.clock.after(DRAIN_MS, () => {
      for (const exchange of this.#underWay) exchange.giveUp(stopping());
    });
    await drained;
  }

  async #send(outcall: CheckedOutcall, isAwaited: () => boolean): Promise<OutcallResponse> {
    if (this.#isStopping) throw stopping();
    const exchange = new OutcallExchange(outcall, isAwaited, this.#exchangeNeeds);
    const seconds = this.#timeoutMs / 1000;
    using _deadline = this.#needs.clock.after(this.#timeoutMs, () =>
      exchange.giveUp(OUTCALL_FAILURES['outcall-timeout'](`no complete response came within ${seconds} s`)),
    );
    this.#underWay.add(exchange);
    try {
      return await exchange.run();
    } finally {
      this.#underWay.delete(exchange);
      if (this.#underWay.size === 0) this.#drained?.();
    }
  }

  /** Resolves with the response as the canister's own query transforms it: a Candid message. */
  async #transformed(
    canister: HostedCanister,
    { method, context }: CheckedTransform,
    response: OutcallResponse,
    bytesMax: number,
  ): Promise<Uint8Array> {
    const { codec, host } = this.#needs;
    this.#transformTypes ??= codec.parseInterface(TRANSFORM_DID).methods.get('transform');
    const types = this.#transformTypes;
    if (types === undefined) throw new Error('the interface of transforms has no method');
    const argument = candidOfTransformArgument({ response, context: toBytes(context) });
    if (host.find(canister.id) !== canister) throw REFUSE.wrongState('the canister that called is gone');
    const outcome = await host.transform(canister, method, argument);
    const shown = JSON.stringify(method);
    if (outcome.kind !== 'reply') {
      const code = outcome.kind === 'unavailable' || outcome.kind === 'outOfCycles' ? 2 : 5;
      throw new TransformFailure(code, `the transform ${shown} failed: ${outcome.message}`);
    }
    const { data } = outcome;
    if (data.length > bytesMax)
      throw new TransformFailure(
        1,
        `the response of the transform ${shown} has ${data.length} bytes, and max_response_bytes is ${bytesMax}`,
      );
    try {
      await types.results.decodeAnySize(data, PLAIN);
    } catch (error) {
      throw new TransformFailure(
        5,
        `the response of the transform ${shown} is not an http_request_result: ${messageOf(error)}`,
      );
    }
    return data;
  }

  #refusal(error: unknown): { readonly end: OutcallEnd; readonly refusal: Refusal } {
    if (error instanceof TransformFailure)
      return { end: 'transform', refusal: REFUSE.outcall(error.code, error.message) };
    if (error instanceof Refusal) return { end: 'transform', refusal: error };
    if (error instanceof ServerError)
      return { end: endOf(error), refusal: REFUSE.outcall(codeOf(error), error.message) };
    this.#needs.log.error(`the outcalls plugin failed: ${messageOf(error)}`, error);
    return { end: 'failed', refusal: REFUSE.outcall(1, 'internal error of the outcalls plugin') };
  }
}

interface Ended {
  readonly end: OutcallEnd;
  /** Status of the response; 0: none came. */
  readonly status: number;
  readonly startedMs: number;
  readonly cause: MessageTrace | undefined;
}

/** Error of a transform, whose message goes to the caller. */
class TransformFailure extends Error {
  override readonly name = 'TransformFailure';
  readonly code: 1 | 2 | 5;

  constructor(code: 1 | 2 | 5, message: string) {
    super(message);
    this.code = code;
  }
}

function expectTransform({ code }: HostedCanister, transform: CheckedTransform | undefined): void {
  if (transform === undefined || code?.module.methods.get(transform.method) === 'query') return;
  throw REFUSE.badArgument(
    `transform.function ${JSON.stringify(transform.method.slice(0, 100))} is no query method of the calling canister`,
  );
}

function codeOf({ kind }: ServerError): 1 | 2 | 4 {
  if (kind === 'unavailable') return 2;
  return kind === 'forbidden' ? 4 : 1;
}

function endOf({ code, kind }: ServerError): OutcallEnd {
  if (code === 'outcall-timeout') return 'timeout';
  if (code === 'outcalls-busy') return 'busy';
  if (kind === 'tooLarge') return 'too_large';
  return kind === 'forbidden' || kind === 'missing' ? 'refused' : 'failed';
}

function stopping(): ServerError {
  return OUTCALL_FAILURES['outcalls-stopping']('the server is stopping');
}
