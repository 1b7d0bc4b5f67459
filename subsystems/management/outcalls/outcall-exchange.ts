/**
 * One running request: it waits until the call is durable and until it has its turn, is sent, and its response is
 * checked. It ends once: with a response, with an error, or abandoned (by the deadline or a stop). Then its place is
 * free, even if the sender ignores the signal.
 */
import { hexOf } from '../../ic/index.ts';
import { OUTCALL_FAILURES, type Outcalls, type OutcallResponse } from '../../outcalls/index.ts';
import type { RecordStore } from '../records/record-store.ts';
import { bytesOfHeaders, type CheckedOutcall, headersProblem } from './http-request.ts';
import type { OutcallTally } from './outcall-tally.ts';
import type { OutcallTurns, Turn } from './outcall-turns.ts';

export interface ExchangeNeeds {
  readonly outcalls: Outcalls;
  readonly storage: Pick<RecordStore, 'isKept' | 'settled'>;
  readonly turns: OutcallTurns;
  readonly tally: Pick<OutcallTally, 'requestBytes' | 'responseBytes'>;
}

export class OutcallExchange {
  readonly #outcall: CheckedOutcall;
  readonly #isAwaited: () => boolean;
  readonly #needs: ExchangeNeeds;
  readonly #controller = new AbortController();
  readonly #end = Promise.withResolvers<OutcallResponse>();
  /** Set while the request occupies a place. */
  #turn: Turn | undefined;

  constructor(outcall: CheckedOutcall, isAwaited: () => boolean, needs: ExchangeNeeds) {
    this.#outcall = outcall;
    this.#isAwaited = isAwaited;
    this.#needs = needs;
  }

  /** Runs the exchange; to be called once. Rejects with the error. */
  run(): Promise<OutcallResponse> {
    this.#exchange().then(this.#end.resolve, this.#end.reject);
    return this.#end.promise;
  }

  /** Ends the exchange with this error, unless it has ended. */
  giveUp(error: Error): void {
    this.#end.reject(error);
    this.#controller.abort(error);
    this.#leave();
  }

  async #exchange(): Promise<OutcallResponse> {
    const { storage, outcalls, turns, tally } = this.#needs;
    const { request, host, bytes } = this.#outcall;
    const { signal } = this.#controller;
    if (storage.isKept) await storage.settled();
    signal.throwIfAborted();
    const turn: Turn = { canister: hexOf(request.sender), host, bytes };
    const entered = turns.enter(turn, signal);
    if (typeof entered === 'string') throw OUTCALL_FAILURES['outcalls-busy'](`${entered}: try again later`);
    if (entered !== undefined) await entered;
    this.#turn = turn;
    try {
      // The exchange may have been abandoned since its turn.
      signal.throwIfAborted();
      if (!this.#isAwaited()) throw OUTCALL_FAILURES['outcall-failed']('nobody waits for it any more');
      tally.requestBytes += bytes;
      const response = await outcalls.send(request, { signal });
      // The exchange may have been abandoned; its response is not counted then.
      signal.throwIfAborted();
      tally.responseBytes += expectWithinLimits(response, request.responseBytesMax);
      return response;
    } finally {
      this.#leave();
    }
  }

  #leave(): void {
    const turn = this.#turn;
    if (turn === undefined) return;
    this.#turn = undefined;
    this.#needs.turns.leave(turn);
  }
}

/** Returns the counted bytes of the response. Throws if it breaks a limit. */
function expectWithinLimits({ status, headers, body }: OutcallResponse, bytesMax: number): number {
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
