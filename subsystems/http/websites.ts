import type { IncomingMessage, ServerResponse } from 'node:http';
import { type Logger, ServerError } from '../../kernel/index.ts';
import type { Canister } from '../canisters/index.ts';
import type { Gateway, SiteOutcome } from '../gateway/index.ts';
import type { JobLog } from './job-log.ts';
import { readBody } from './request-body.ts';
import { cutAnswer, type Responder } from './responder.ts';
import { GATEWAY_BYTES_MAX } from './route-table.ts';
import type { SiteTarget } from './targets.ts';

export interface WebsitesNeeds {
  readonly gateway: Gateway;
  readonly responder: Responder;
  readonly jobs: JobLog;
  readonly log: Logger;
}

/** Website routes, any method: the request goes to the actor, and its answer to the client. Errors are plain text. */
export class Websites {
  readonly #with: WebsitesNeeds;

  constructor(needs: WebsitesNeeds) {
    this.#with = needs;
  }

  serve(request: IncomingMessage, response: ServerResponse, target: SiteTarget): void {
    const { gateway, jobs } = this.#with;
    const startedMs = jobs.nowMs();
    let canister: Canister;
    try {
      canister = gateway.find(target.actor);
    } catch (error) {
      this.#failed(response, undefined, false, startedMs, error);
      return;
    }
    const failed = (error: unknown): void => this.#failed(response, canister, false, startedMs, error);
    readBody(
      request,
      GATEWAY_BYTES_MAX,
      (body) => {
        const { method = '', rawHeaders } = request;
        gateway
          .respond(canister, target.actor, { method, url: target.url, rawHeaders, body })
          .then((outcome) => this.#settled(response, canister, startedMs, outcome))
          .catch(failed);
      },
      failed,
    );
  }

  #settled(
    response: ServerResponse,
    canister: Canister,
    startedMs: number,
    { isUpdate, answer }: SiteOutcome,
  ): Promise<void> | void {
    if (answer instanceof ServerError) {
      this.#failed(response, canister, isUpdate, startedMs, answer);
      return undefined;
    }
    const streamed = this.#with.responder.site(response, answer);
    const ended = (): void => this.#ended(canister, isUpdate, true, startedMs);
    if (streamed === undefined) ended();
    else return streamed.then(ended, (error: unknown) => this.#failed(response, canister, isUpdate, startedMs, error));
    return undefined;
  }

  #failed(
    response: ServerResponse,
    canister: Canister | undefined,
    isUpdate: boolean,
    startedMs: number,
    error: unknown,
  ): void {
    const { responder, log } = this.#with;
    // Visitors leave when they please; that is not worth a line of the log.
    if (error instanceof ServerError && error.code === 'answer-cut') {
      log.debug(error.message);
      cutAnswer(response);
    } else responder.errorAsText(response, error);
    this.#ended(canister, isUpdate, false, startedMs);
  }

  #ended(canister: Canister | undefined, isUpdate: boolean, isOk: boolean, startedMs: number): void {
    const method = canister === undefined ? '' : isUpdate ? 'http_request_update' : 'http_request';
    this.#with.jobs.ended(isUpdate ? 'call' : 'query', canister?.idHex ?? '', method, isOk, startedMs);
  }
}
