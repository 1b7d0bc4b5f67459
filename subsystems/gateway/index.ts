import { defineCapability, type ServerError } from '../../kernel/index.ts';
import type { Canister } from '../canisters/index.ts';

/** An HTTP request for a website. Texts have one character for each byte (Latin-1), as in node:http. */
export interface SiteRequest {
  readonly method: string;
  /** Path and query as sent, without the part that names the actor. */
  readonly url: string;
  /** Alternating names and values, as sent. */
  readonly rawHeaders: readonly string[];
  readonly body: Uint8Array;
}

/**
 * An actor's response, fit for HTTP: its status is that of a final response, and its headers hold only allowed
 * characters.
 */
export interface SiteAnswer {
  readonly status: number;
  /** Alternating names and values, one character for each byte. */
  readonly headers: readonly string[];
  readonly body: Uint8Array;
  /**
   * The rest of a streamed body: each piece is requested from the actor when it is requested here, one at a time.
   * Rejects with ServerError `badWebsite`, `outOfCycles` or `unavailable`.
   */
  readonly rest: AsyncIterable<Uint8Array> | undefined;
}

/** Result of a request. */
export interface SiteOutcome {
  /** True if the request went on to `http_request_update`. */
  readonly isUpdate: boolean;
  /** The answer, or the reason why there is none: `badWebsite`, `outOfCycles`, `unavailable`, `invalid`. */
  readonly answer: SiteAnswer | ServerError;
}

/** Websites: passes HTTP requests to actors through their `http_request`. Knows nothing of sockets and targets. */
export interface Gateway {
  /**
   * Finds an actor by name, hex id or principal. Throws ServerError `missing` for an unknown or rejected actor, or if
   * websites are turned off.
   */
  find(reference: string): Canister;
  /** Returns the reference of the actor that a host name's label means (`Canisters.referenceOfHost`). */
  referenceOfHost(label: string): string | undefined;
  /**
   * Asks the actor, as the anonymous caller. `reference` is the text by which it was found, for the counters. Faults of
   * the actor are in the outcome; rejects only for bugs of the program.
   */
  respond(canister: Canister, reference: string, request: SiteRequest): Promise<SiteOutcome>;
}
export const Gateway = defineCapability<Gateway>('gateway');
