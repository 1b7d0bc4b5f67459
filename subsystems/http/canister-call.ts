import type { ServerResponse } from 'node:http';
import { ServerError } from '../../kernel/index.ts';
import type { AddressedBy, Canister } from '../canisters/index.ts';
import { type EncodingOptions, type TupleCodec } from '../codec/index.ts';
import type { CallKind, Outcome } from '../ic/index.ts';
import { BYTES, JSON_TYPE } from './responder.ts';
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
  readonly #addressedBy: AddressedBy;
  readonly #method: string;
  readonly #caller: Uint8Array;
  readonly #json: JsonForm | undefined;
  readonly #startedMs: number;

  constructor(
    host: RouteHost,
    response: ServerResponse,
    kind: CallKind,
    /** And the reference it was found by. */
    [canister, reference]: readonly [Canister, string],
    method: string,
    caller: Uint8Array,
    json: JsonForm | undefined,
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
    this.#ended(false);
  };

  readonly #deliver = (argument: Uint8Array): void => {
    this.#host.canisters
      .call(this.#canister, this.#kind, this.#method, this.#caller, argument, this.#addressedBy)
      .then(this.#settled)
      .catch(this.failed);
  };

  readonly #settled = (outcome: Outcome): void | Promise<void> => {
    const { responder } = this.#host;
    if (outcome.kind !== 'reply') {
      responder.fault(this.#response, outcome);
      this.#ended(false);
      return undefined;
    }
    if (this.#json !== undefined) return this.#answerAsJson(this.#json, outcome.data);
    responder.bytes(this.#response, 200, BYTES, outcome.data);
    this.#ended(true);
    return undefined;
  };

  /** A reply is as hostile as a request. If it is not what the interface promises, the canister is at fault, as if it had trapped. */
  #answerAsJson({ results, encoding }: JsonForm, reply: Uint8Array): void | Promise<void> {
    const answer = (json: Uint8Array): void => {
      this.#host.responder.bytes(this.#response, 200, JSON_TYPE, json);
      this.#ended(true);
    };
    const refused = (error: unknown): never => {
      if (!(error instanceof ServerError) || error.kind !== 'invalid') throw error;
      const message = `the reply of ${this.#canister.name}.${this.#method} does not fit its interface: ${error.message}`;
      throw new ServerError('trapped', 'bad-reply', message, { cause: error });
    };
    let json: Uint8Array | Promise<Uint8Array>;
    try {
      json = results.decodeAnySize(reply, encoding);
    } catch (error) {
      return refused(error);
    }
    return json instanceof Uint8Array ? answer(json) : json.then(answer, refused);
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
