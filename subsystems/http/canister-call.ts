import type { ServerResponse } from 'node:http';
import { ServedResponse } from './served-response.ts';
import type { AddressedBy, Canister } from '../canisters/index.ts';
import type { CallKind, MessageTrace, Outcome } from '../ic/index.ts';
import { changedReplyAsJson, type JsonForm, replyAsJson } from './json-form.ts';
import { BYTES, JSON_TYPE } from './responder.ts';
import type { RouteHost } from './route.ts';

const EMPTY_ARRAY = Buffer.from('[]');
const NO_HEADERS: readonly string[] = [];

/** One call by a client, from the body to the answer. */
export class CanisterCall {
  readonly #host: RouteHost;
  readonly #response: ServerResponse;
  readonly #kind: CallKind;
  readonly #canister: Canister;
  readonly #addressedBy: AddressedBy;
  readonly #method: string;
  readonly #caller: Uint8Array;
  readonly #json: JsonForm | undefined;
  readonly #idempotencyKey: string | undefined;
  readonly #startedMs: number;
  /** Set when the message is handed over; undefined before, and without histories. */
  #trace: MessageTrace | undefined;
  /** Headers of the answer that are this call's own, names and values by turns. */
  #headers = NO_HEADERS;
  /** False if the answer must not have the message's id, which counts the messages of all. */
  tellsMessage = true;
  /** Called when the call has ended and been answered, also if its client has left before. May be called twice. */
  ended: (() => void) | undefined = undefined;

  constructor(
    host: RouteHost,
    response: ServerResponse,
    kind: CallKind,
    /** And the reference it was found by. */
    [canister, reference]: readonly [Canister, string],
    method: string,
    caller: Uint8Array,
    json: JsonForm | undefined,
    idempotencyKey: string | undefined,
    startedMs: number,
  ) {
    this.#host = host;
    this.#response = response;
    this.#kind = kind;
    this.#canister = canister;
    this.#addressedBy = reference === canister.name ? 'name' : 'id';
    this.#method = method;
    this.#caller = caller;
    this.#json = json;
    this.#idempotencyKey = idempotencyKey;
    this.#startedMs = startedMs;
  }

  /** Encodes the arguments, calls the method and answers. Large bodies are converted in a thread of the codec's. */
  start(body: Uint8Array): void {
    try {
      if (this.#json === undefined) {
        this.#deliver(body);
        return;
      }
      const { args, encoding } = this.#json;
      const argument = args.encodeAnySize(body.length === 0 ? EMPTY_ARRAY : body, encoding);
      if (argument instanceof Uint8Array) this.#deliver(argument);
      else argument.then(this.#deliver).catch(this.failed);
    } catch (error) {
      this.failed(error);
    }
  }

  /** Answers with an error; for the reader of the body too. */
  readonly failed = (error: unknown): void => {
    this.#host.responder.error(this.#response, error);
    this.#failedJob(error);
  };

  readonly #deliver = (argument: Uint8Array): void => {
    const { canisters } = this.#host;
    this.#trace = canisters.newTrace();
    canisters
      .call(this.#canister, {
        kind: this.#kind,
        method: this.#method,
        caller: this.#caller,
        argument,
        addressedBy: this.#addressedBy,
        startedMs: this.#startedMs,
        idempotencyKey: this.#idempotencyKey,
        trace: this.#trace,
      })
      .then(this.#settled)
      .catch(this.failed);
  };

  readonly #settled = (outcome: Outcome): void | Promise<void> => {
    const { responder } = this.#host;
    this.#headers = this.#headersOf(outcome);
    if (outcome.kind !== 'reply') {
      if (outcome.isUnbegun === true && this.#response instanceof ServedResponse) this.#response.isUnbegun = true;
      const sent = responder.fault(this.#response, outcome, this.#headers);
      if (sent !== undefined) return sent.then(() => this.#failedJob(outcome));
      this.#failedJob(outcome);
      return undefined;
    }
    if (this.#json !== undefined) return this.#answerAsJson(this.#json, outcome.data);
    responder.bytes(this.#response, 200, BYTES, outcome.data, this.#headers);
    this.#done();
    return undefined;
  };

  /** Names the message, where this call has become one that a history has. */
  #headersOf({ kind, isRepeat }: Outcome): readonly string[] {
    if (!this.tellsMessage || this.#trace === undefined || kind === 'unavailable' || isRepeat === true)
      return NO_HEADERS;
    return ['svc-message', this.#host.canisters.messageIdOf(this.#trace.number)];
  }

  #answerAsJson(form: JsonForm, reply: Uint8Array): void | Promise<void> {
    const answer = (json: Uint8Array): void => {
      this.#host.responder.bytes(this.#response, 200, JSON_TYPE, json, this.#headers);
      this.#done();
    };
    const canister = this.#canister;
    const json =
      canister.candid === form.candid
        ? replyAsJson(form, canister, this.#method, reply)
        : changedReplyAsJson(this.#host, form, canister, this.#method, this.#caller, reply);
    return json instanceof Uint8Array ? answer(json) : json.then(answer);
  }

  get #job(): 'call' | 'query' {
    return this.#kind === 'update' ? 'call' : 'query';
  }

  #done(): void {
    this.ended?.();
    this.#host.jobs.done(this.#job, this.#canister, this.#method, this.#startedMs);
  }

  #failedJob(reason: unknown): void {
    this.ended?.();
    this.#host.jobs.failed(this.#job, this.#canister, this.#method, this.#startedMs, reason);
  }
}
