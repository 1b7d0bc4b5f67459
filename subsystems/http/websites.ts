import type { IncomingMessage, ServerResponse } from 'node:http';
import { type Logger, ServerError } from '../../kernel/index.ts';
import type { Canister } from '../canisters/index.ts';
import type { Gateway, SiteOutcome } from '../gateway/index.ts';
import type { BodyBudget } from './body-budget.ts';
import type { JobLog } from './job-log.ts';
import { readBody } from './request-body.ts';
import { cutAnswer, type Responder } from './responder.ts';
import { GATEWAY_BYTES_MAX } from './route-table.ts';
import type { SiteTarget } from './targets.ts';

/** Methods of browsers that look: relative links of the answer need the slash. Others go to the actor as they are. */
const REDIRECTED: ReadonlySet<string> = new Set(['GET', 'HEAD']);

interface WebsitesNeeds {
  readonly gateway: Gateway;
  readonly responder: Responder;
  readonly jobs: JobLog;
  readonly log: Logger;
  /** The room for the bodies in hand. */
  readonly bodies: BodyBudget;
}

/** Website routes, any method: the request goes to the actor, and its answer to the client. Errors are plain text. */
export class Websites {
  readonly #needs: WebsitesNeeds;

  constructor(needs: WebsitesNeeds) {
    this.#needs = needs;
  }

  serve(request: IncomingMessage, response: ServerResponse, target: SiteTarget): void {
    const { gateway, jobs, responder } = this.#needs;
    const startedMs = jobs.nowMs();
    let canister: Canister;
    try {
      canister = gateway.find(target.actor);
    } catch (error) {
      this.#failed(response, undefined, false, startedMs, error);
      return;
    }
    if (target.slashed !== undefined && REDIRECTED.has(request.method ?? '')) {
      responder.empty(response, 308, ['location', target.slashed, 'content-length', '0']);
      return;
    }
    const held = this.#needs.bodies.begin(request);
    readBody(
      request,
      GATEWAY_BYTES_MAX,
      (body) => {
        const { method = '', rawHeaders } = request;
        const responded = gateway.respond(canister, target.actor, { method, url: target.url, rawHeaders, body });
        responded
          .then((outcome) => this.#settled(response, canister, startedMs, outcome))
          .catch((error: unknown) => this.#failed(response, canister, false, startedMs, error));
        if (held === undefined) return;
        // Not when its client leaves: the message waits for the actor all the same.
        const free = (): void => held.free();
        responded.then(free, free);
      },
      (error) => {
        this.#needs.responder.refuseBody(response, error);
        this.#needs.jobs.failed(...this.#job(canister, false), startedMs, error);
      },
      held,
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
    const streamed = this.#needs.responder.site(response, answer);
    const ended = (): void => this.#needs.jobs.done(...this.#job(canister, isUpdate), startedMs);
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
    const { responder, log } = this.#needs;
    // Visitors leave when they please; that is not worth a line of the log.
    if (error instanceof ServerError && error.code === 'answer-cut') {
      log.debug(error.message);
      cutAnswer(response);
    } else responder.errorAsText(response, error);
    this.#needs.jobs.failed(...this.#job(canister, isUpdate), startedMs, error);
  }

  #job(canister: Canister | undefined, isUpdate: boolean): ['call' | 'query', Canister | undefined, string] {
    const method = canister === undefined ? '' : isUpdate ? 'http_request_update' : 'http_request';
    return [isUpdate ? 'call' : 'query', canister, method];
  }
}
