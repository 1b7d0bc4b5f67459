import { defineCapability, type ServerError } from '../../kernel/index.ts';
import type { Canister } from '../canisters/index.ts';

/** An HTTP request for a website. Texts have one character a byte (Latin-1), as node:http gives them. */
export interface SiteRequest {
  readonly method: string;
  /** Path and query as they were sent, without what names the actor. */
  readonly url: string;
  /** Names and values by turns, as they were sent. */
  readonly rawHeaders: readonly string[];
  readonly body: Uint8Array;
}

/** What an actor answers, fit for HTTP: the status is one of a final answer, and headers hold what headers may. */
export interface SiteAnswer {
  readonly status: number;
  /** Names and values by turns, one character a byte. */
  readonly headers: readonly string[];
  readonly body: Uint8Array;
  /**
   * The rest of the body, where it is streamed: each piece is asked of the actor when it is asked for here, one at a time.
   * Rejects with ServerError `badWebsite`, `outOfCycles` or `unavailable`.
   */
  readonly rest: AsyncIterable<Uint8Array> | undefined;
}

/** What came of a request. */
export interface SiteOutcome {
  /** It went on to `http_request_update`. */
  readonly isUpdate: boolean;
  /** Or why there is none: `badWebsite`, `outOfCycles`, `unavailable`, `invalid`. */
  readonly answer: SiteAnswer | ServerError;
}

/** Websites: HTTP requests to actors, by their `http_request`. Knows nothing of sockets and targets. */
export interface Gateway {
  /** By name, hex id or principal. Throws ServerError `missing`: no such actor, or a rejected one; or websites are turned off. */
  find(reference: string): Canister;
  /** What to find the actor by that a host name's label means (`Canisters.referenceOfHost`). */
  referenceOfHost(label: string): string | undefined;
  /**
   * Asks the actor, as the anonymous caller. `reference`: what it was found by, for the counters. What the actor does
   * wrong is in the outcome; rejects with what is a fault of the program.
   */
  respond(canister: Canister, reference: string, request: SiteRequest): Promise<SiteOutcome>;
}
export const Gateway = defineCapability<Gateway>('gateway');
