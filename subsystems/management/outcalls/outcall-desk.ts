/**
 * `http_request`: from a canister's request to the answer it gets.
 *
 *     check ─► durable ─► turn ─► Outcalls.send ─► limits ─► transform (a query of the caller) ─► reply
 *               └────────────── deadline ───────────────┘
 *
 * - **Nothing leaves before the call is durable.** Execution runs ahead of the disk; a request that had left and was forgotten
 *   in a crash could not be taken back. After a crash the call is still open, and the scheduler rejects it (code 2): what the
 *   other server did is not known then, and that is what the reject says.
 * - The deadline counts from the call, the wait for a turn included, and not what the transform takes: it has its instruction
 *   limit. Whoever implements Outcalls is not waited for beyond it.
 * - It costs no cycles (`ic0.cost_http_request` says 0): what is attached comes back.
 * - When the server stops, what is under way gets a moment to end; the rest is rejected (code 2).
 */
import { type Clock, type Logger, messageOf, ServerError } from '../../../kernel/index.ts';
import type { Codec, MethodInterface } from '../../codec/index.ts';
import type { Outcome } from '../../ic/index.ts';
import { abortReason, OUTCALL_FAILURES, type Outcalls, type OutcallResponse } from '../../outcalls/index.ts';
import type { HostedCanister, ManagementBackend } from '../backend.ts';
import type { HttpRequestJson, HttpResponseJson } from '../candid-types.ts';
import { hexOf, toBlob } from '../candid-values.ts';
import { CandidReply } from '../candid-reply.ts';
import type { RecordStore } from '../records/record-store.ts';
import { Refusal, REFUSE } from '../refusal.ts';
import {
  bytesOfHeaders,
  type CheckedOutcall,
  checkedOutcall,
  type CheckedTransform,
  headersProblem,
} from './http-request.ts';
import { TRANSFORM_DID } from './transform-did.ts';
import { OUTCALL_BOUNDS, type OutcallBounds, OutcallTurns } from './outcall-turns.ts';
import { type OutcallEnd, type OutcallFigures, OutcallTally } from './outcall-tally.ts';

/** What is under way when the server stops may take so long to end. An operator who waits for a restart waits no longer. */
const DRAIN_MS = 3_000;
const PLAIN = { lossless: false };
const NO_BYTES = new Uint8Array(0);

export interface OutcallDeskNeeds {
  readonly outcalls: Outcalls;
  readonly host: Pick<ManagementBackend, 'find' | 'transform' | 'outcallEnded'>;
  readonly codec: Codec;
  readonly clock: Clock;
  readonly log: Logger;
  readonly storage: Pick<RecordStore, 'isKept' | 'settled'>;
}

export interface OutcallDeskOptions {
  readonly timeoutMs: number;
  readonly bounds?: OutcallBounds | undefined;
}

export class OutcallDesk {
  readonly #with: OutcallDeskNeeds;
  readonly #timeoutMs: number;
  readonly #turns: OutcallTurns;
  readonly #tally = new OutcallTally();
  readonly #underWay = new Set<AbortController>();
  #transformTypes: MethodInterface | undefined;
  #isStopping = false;
  #drained: (() => void) | undefined;

  constructor(needs: OutcallDeskNeeds, { timeoutMs, bounds = OUTCALL_BOUNDS }: OutcallDeskOptions) {
    this.#with = needs;
    this.#timeoutMs = timeoutMs;
    this.#turns = new OutcallTurns(bounds);
  }

  get figures(): OutcallFigures {
    return this.#tally.figures(this.#turns);
  }

  /** The answer of the call. Throws a Refusal: the call is rejected with it. */
  async request(argument: HttpRequestJson, sender: Uint8Array): Promise<HttpResponseJson | CandidReply> {
    const { clock, host } = this.#with;
    const outcall = checkedOutcall(argument, sender);
    const canister = host.find(sender);
    if (canister === undefined) throw REFUSE.wrongState('the canister that called is gone');
    expectTransform(canister, outcall.transform);
    const startedMs = clock.nowMs();
    const ended = (end: OutcallEnd, outcome: Outcome, status = 0): void => {
      const endedMs = clock.nowMs();
      this.#tally.ended(end, endedMs - startedMs);
      const { method, url } = outcall.request;
      host.outcallEnded(canister, { method, url, status, startedMs, endedMs }, outcome);
    };
    let status = 0;
    try {
      const response = await this.#send(outcall);
      status = response.status;
      const { transform } = outcall;
      const json = jsonOf(response);
      if (transform === undefined) {
        ended('answered', { kind: 'reply', data: NO_BYTES, instructions: 0, charge: 0 }, status);
        return json;
      }
      const data = await this.#transformed(canister, transform, json, outcall.request.responseBytesMax);
      ended('answered', { kind: 'reply', data: NO_BYTES, instructions: 0, charge: 0 }, status);
      return new CandidReply(data);
    } catch (error) {
      const { end, refusal } = this.#refusal(error);
      const { code, message } = refusal;
      ended(end, { kind: 'reject', code, message, instructions: 0, charge: 0 }, status);
      throw refusal;
    }
  }

  /** Takes no more; resolves when nothing is under way, soon. */
  async drain(): Promise<void> {
    this.#isStopping = true;
    if (this.#underWay.size === 0) return;
    const drained = new Promise<void>((resolve) => {
      this.#drained = resolve;
    });
    using _late = this.#with.clock.after(DRAIN_MS, () => {
      for (const controller of this.#underWay) controller.abort(stopping());
    });
    await drained;
  }

  async #send(outcall: CheckedOutcall): Promise<OutcallResponse> {
    if (this.#isStopping) throw stopping();
    const controller = new AbortController();
    const { signal } = controller;
    const seconds = this.#timeoutMs / 1000;
    const timer = this.#with.clock.after(this.#timeoutMs, () =>
      controller.abort(OUTCALL_FAILURES['outcall-timeout'](`no complete response came within ${seconds} s`)),
    );
    this.#underWay.add(controller);
    const aborted = new Promise<never>((_, reject) => {
      signal.addEventListener('abort', () => reject(abortReason(signal)));
    });
    try {
      return await Promise.race([aborted, this.#exchange(outcall, signal)]);
    } finally {
      timer[Symbol.dispose]();
      this.#underWay.delete(controller);
      if (this.#underWay.size === 0) this.#drained?.();
    }
  }

  async #exchange({ request, host, bytes }: CheckedOutcall, signal: AbortSignal): Promise<OutcallResponse> {
    const { storage, outcalls } = this.#with;
    if (storage.isKept) await storage.settled();
    signal.throwIfAborted();
    const turn = { canister: hexOf(request.sender), host, bytes };
    const entered = this.#turns.enter(turn, signal);
    if (typeof entered === 'string') throw OUTCALL_FAILURES['outcalls-busy'](`${entered}: try again later`);
    if (entered !== undefined) await entered;
    try {
      this.#tally.requestBytes += bytes;
      const sent = outcalls.send(request, { signal });
      // One that does not heed the signal keeps no place.
      const given = new Promise<never>((_, reject) => {
        signal.addEventListener('abort', () => reject(abortReason(signal)));
      });
      const response = await Promise.race([given, sent]);
      this.#tally.responseBytes += this.#expectWithinLimits(response, request.responseBytesMax);
      return response;
    } finally {
      this.#turns.leave(turn);
    }
  }

  /** How large it is, as it is counted. */
  #expectWithinLimits({ status, headers, body }: OutcallResponse, bytesMax: number): number {
    if (!Number.isInteger(status) || status < 200 || status > 999)
      throw OUTCALL_FAILURES['outcall-failed'](`the response has the status ${status}`);
    const problem = headersProblem(headers);
    if (problem !== undefined) throw OUTCALL_FAILURES['outcall-too-large'](`the response breaks a limit: ${problem}`);
    const bytes = bytesOfHeaders(headers) + body.length;
    if (bytes > bytesMax)
      throw OUTCALL_FAILURES['outcall-too-large'](
        `the response has ${bytes} bytes of headers and body, and max_response_bytes is ${bytesMax}`,
      );
    return bytes;
  }

  /** What the canister's own query makes of the response: a Candid message. */
  async #transformed(
    canister: HostedCanister,
    { method, context }: CheckedTransform,
    response: HttpResponseJson,
    bytesMax: number,
  ): Promise<Uint8Array> {
    const { codec, host } = this.#with;
    this.#transformTypes ??= codec.parseInterface(TRANSFORM_DID).methods.get('transform');
    const types = this.#transformTypes;
    if (types === undefined) throw new Error('the interface of transforms has no method');
    const json = JSON.stringify([{ response, context }]);
    const argument = await types.args.encodeAnySize(Buffer.from(json), PLAIN);
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
        `what the transform ${shown} answered has ${data.length} bytes, and max_response_bytes is ${bytesMax}`,
      );
    try {
      await types.results.decodeAnySize(data, PLAIN);
    } catch (error) {
      throw new TransformFailure(
        5,
        `what the transform ${shown} answered is no http_request_result: ${messageOf(error)}`,
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
    this.#with.log.error(`the outcalls plugin failed: ${messageOf(error)}`, error);
    return { end: 'failed', refusal: REFUSE.outcall(1, 'internal error of the outcalls plugin') };
  }
}

/** Its words go to the caller. */
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

function jsonOf({ status, headers, body }: OutcallResponse): HttpResponseJson {
  return { status, headers, body: toBlob(body) };
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
