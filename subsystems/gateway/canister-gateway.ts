import { ServerError } from '../../kernel/index.ts';
import type { AddressedBy, Canister, Canisters } from '../canisters/index.ts';
import type { Codec, WebsiteResponse } from '../codec/index.ts';
import { ANONYMOUS, type CallKind, type Outcome } from '../ic/index.ts';
import type { Gateway, SiteAnswer, SiteOutcome, SiteRequest } from './index.ts';
import { headerProblem, statusProblem } from './response-checks.ts';
import { codeReplaced, noSuchSite, siteFault, siteMissing, siteRefusal } from './site-faults.ts';
import { streamedBody } from './streamed-body.ts';

const QUERY_METHOD = 'http_request';
const UPDATE_METHOD = 'http_request_update';
/** Length of `authorization`. */
const AUTHORIZATION_CHARACTERS = 13;

/** The part of Canisters that the gateway uses. */
export type WebsiteCanisters = Pick<Canisters, 'resolveIfAny' | 'referenceOfHost' | 'call'>;

interface CanisterGatewayNeeds {
  readonly canisters: WebsiteCanisters;
  readonly codec: Pick<Codec, 'websites'>;
  /** Clock for the time limit of streamed bodies. */
  readonly nowMs: () => number;
}

export class CanisterGateway implements Gateway {
  readonly #needs: CanisterGatewayNeeds;

  constructor(needs: CanisterGatewayNeeds) {
    this.#needs = needs;
  }

  find(reference: string): Canister {
    let found: Canister | undefined;
    try {
      found = this.#needs.canisters.resolveIfAny(reference);
    } catch (error) {
      throw siteMissing(reference, error);
    }
    if (found === undefined) throw noSuchSite(reference);
    return found;
  }

  referenceOfHost(label: string): string | undefined {
    return this.#needs.canisters.referenceOfHost(label);
  }

  async respond(canister: Canister, reference: string, request: SiteRequest): Promise<SiteOutcome> {
    const addressedBy = reference === canister.name ? 'name' : 'id';
    const asked = { ...request, headers: withoutAuthorization(request.rawHeaders) };
    const { websites } = this.#needs.codec;
    let isUpdate = false;
    try {
      let argument = websites.encodeRequest(asked, false);
      let { response, codeChanges } = await this.#askOneCode(canister, addressedBy, argument);
      if (response instanceof ServerError) return { isUpdate, answer: response };
      if (response.isUpgrade) {
        isUpdate = true;
        argument = websites.encodeRequest(asked, true);
        ({ codeChanges } = canister);
        response = await this.#ask(canister, 'update', addressedBy, argument);
        if (response instanceof ServerError) return { isUpdate, answer: response };
      }
      return { isUpdate, answer: this.#checked(canister, addressedBy, response, { isUpdate, codeChanges }) };
    } catch (error) {
      if (error instanceof ServerError) return { isUpdate, answer: error };
      throw error;
    }
  }

  /**
   * Asks again where nobody knows which code has answered, and that code would have to give the rest of the body, too:
   * the query has changed nothing.
   */
  async #askOneCode(
    canister: Canister,
    addressedBy: AddressedBy,
    argument: Uint8Array,
  ): Promise<{ readonly response: WebsiteResponse | ServerError; readonly codeChanges: number }> {
    for (;;) {
      const { codeChanges } = canister;
      const response = await this.#ask(canister, 'query', addressedBy, argument);
      const isWhole = response instanceof ServerError || response.isUpgrade || response.streaming === undefined;
      if (isWhole || canister.codeChanges === codeChanges) return { response, codeChanges };
    }
  }

  async #ask(
    canister: Canister,
    kind: CallKind,
    addressedBy: AddressedBy,
    argument: Uint8Array,
  ): Promise<WebsiteResponse | ServerError> {
    const method = kind === 'update' ? UPDATE_METHOD : QUERY_METHOD;
    const reply = await this.#call(canister, kind, method, addressedBy, argument);
    if (reply instanceof ServerError) return reply;
    try {
      return this.#needs.codec.websites.decodeResponse(reply);
    } catch (error) {
      return badReply(canister, method, error);
    }
  }

  /** Resolves with the reply, or with the error that a visitor is shown. */
  async #call(
    canister: Canister,
    kind: CallKind,
    method: string,
    addressedBy: AddressedBy,
    argument: Uint8Array,
  ): Promise<Uint8Array | ServerError> {
    let outcome: Outcome;
    try {
      // Visitors have no identity: their `x-caller` is a header like any other.
      outcome = await this.#needs.canisters.call(canister, { kind, method, caller: ANONYMOUS, argument, addressedBy });
    } catch (error) {
      return siteRefusal(canister.name, error);
    }
    return outcome.kind === 'reply' ? outcome.data : siteFault(`${canister.name}.${method}`, outcome);
  }

  #checked(
    canister: Canister,
    addressedBy: AddressedBy,
    { status, headers, body, streaming }: WebsiteResponse,
    { isUpdate, codeChanges }: { readonly isUpdate: boolean; readonly codeChanges: number },
  ): SiteAnswer | ServerError {
    const method = isUpdate ? UPDATE_METHOD : QUERY_METHOD;
    const problem = statusProblem(status) ?? headerProblem(headers);
    if (problem !== undefined) return badResponse(canister, method, problem);
    if (streaming === undefined) return { status, headers, body, rest: undefined };
    if (Buffer.compare(streaming.canister, canister.id) !== 0)
      return badResponse(canister, method, 'its streaming callback is a method of another actor');
    const rest = streamedBody(body.length, streaming, {
      ask: async (name, token) => {
        const reply = await this.#call(canister, 'query', name, addressedBy, token);
        // The token is the old code's, and so is what the client has.
        if (canister.codeChanges !== codeChanges) throw codeReplaced(canister.name);
        if (reply instanceof ServerError) throw reply;
        try {
          return this.#needs.codec.websites.decodeChunk(reply);
        } catch (error) {
          throw badReply(canister, name, error);
        }
      },
      nowMs: this.#needs.nowMs,
      refused: (reason) => badResponse(canister, streaming.method, reason),
    });
    return { status, headers, body, rest };
  }
}

function withoutAuthorization(headers: readonly string[]): readonly string[] {
  for (let at = 0; at < headers.length; at += 2) {
    if (isAuthorization(headers[at] ?? '')) {
      return headers.filter((_text, index) => !isAuthorization(headers[index - (index % 2)] ?? ''));
    }
  }
  return headers;
}

function isAuthorization(name: string): boolean {
  return name.length === AUTHORIZATION_CHARACTERS && name.toLowerCase() === 'authorization';
}

/**
 * Returns the error for a reply that is no website's response: the actor's fault. Other errors are ours, and thrown on.
 */
function badReply(canister: Canister, method: string, error: unknown): ServerError {
  if (!(error instanceof ServerError)) throw error;
  return badResponse(canister, method, error.message, error);
}

function badResponse({ name }: Canister, method: string, reason: string, cause?: unknown): ServerError {
  const message = `the reply of ${name}.${method} is not a valid HTTP response record: ${reason}`;
  return new ServerError('badWebsite', 'bad-website-response', message, { cause });
}
