import type { ServerResponse } from 'node:http';
import { messageOf, ServerError } from '../../kernel/index.ts';
import type { Canister } from '../canisters/index.ts';
import type { EncodingOptions, TupleCodec } from '../codec/index.ts';
import type { CallKind, Outcome } from '../execution/index.ts';
import { BYTES, CANISTER_ERROR, JSON_TYPE } from './responder.ts';
import type { RouteHost } from './route.ts';

const EMPTY_ARRAY = Buffer.from('[]');

/** How the arguments and results of one method become JSON; undefined for raw Candid. */
export interface JsonForm {
  readonly args: TupleCodec;
  readonly results: TupleCodec;
  readonly encoding: EncodingOptions;
}

/** One call by a client, from the body to the answer. */
export class CanisterCall {
  readonly #host: RouteHost;
  readonly #response: ServerResponse;
  readonly #kind: CallKind;
  readonly #canister: Canister;
  readonly #method: string;
  readonly #caller: Uint8Array;
  readonly #json: JsonForm | undefined;
  readonly #startedMs: number;

  constructor(
    host: RouteHost,
    response: ServerResponse,
    kind: CallKind,
    canister: Canister,
    method: string,
    caller: Uint8Array,
    json: JsonForm | undefined,
    startedMs: number,
  ) {
    this.#host = host;
    this.#response = response;
    this.#kind = kind;
    this.#canister = canister;
    this.#method = method;
    this.#caller = caller;
    this.#json = json;
    this.#startedMs = startedMs;
  }

  /** Encodes the arguments, calls the method and answers. */
  start(body: Uint8Array): void {
    try {
      const argument =
        this.#json === undefined
          ? body
          : this.#json.args.encode(body.length === 0 ? EMPTY_ARRAY : body, this.#json.encoding);
      this.#host.canisters
        .call(this.#canister, this.#kind, this.#method, this.#caller, argument)
        .then(this.#settled)
        .catch(this.failed);
    } catch (error) {
      this.failed(error);
    }
  }

  /** Answers with an error; for the reader of the body too. */
  readonly failed = (error: unknown): void => {
    this.#host.responder.error(this.#response, error);
    this.#ended(false);
  };

  readonly #settled = (outcome: Outcome): void => {
    const { responder } = this.#host;
    if (outcome.kind !== 'reply') responder.fault(this.#response, outcome);
    else if (this.#json === undefined) responder.bytes(this.#response, 200, BYTES, outcome.data);
    else responder.bytes(this.#response, 200, JSON_TYPE, this.#decode(this.#json, outcome.data));
    this.#ended(outcome.kind === 'reply');
  };

  /** A reply is as hostile as a request. If it is not what the interface promises, the canister is at fault, as if it had trapped. */
  #decode(json: JsonForm, reply: Uint8Array): Uint8Array {
    try {
      return json.results.decode(reply, json.encoding);
    } catch (error) {
      if (!(error instanceof ServerError)) throw error;
      const message = `the reply of ${this.#canister.name}.${this.#method} does not fit its interface: ${messageOf(error)}`;
      throw new ServerError('trapped', 'bad-reply', message, { cause: error });
    }
  }

  #ended(isOk: boolean): void {
    this.#host.jobs.ended(
      this.#kind === 'update' ? 'call' : 'query',
      this.#canister.idHex,
      this.#method,
      isOk,
      this.#startedMs,
    );
  }
}
