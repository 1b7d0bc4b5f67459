/**
 * A canister that is a table of methods in host code: bytes come in, are read by its interface, and a method says what
 * a call would do before it is done.
 *
 *     method known? ─► allowed so? ─► Candid ─► JSON ─► method ─► accepted? ─► run ─► JSON ─► Candid
 */
import { messageOf, ServerError } from '../../kernel/index.ts';
import type { CandidInterface, Codec, MethodInterface } from '../codec/index.ts';
import { principalToText, REJECT_CODE, type Response } from '../ic/index.ts';
import { refuseManyValues, type ManagementAnswer, type ManagementRequest, type UserCall } from '../management/index.ts';
import type { FacadeRequest } from './index.ts';

const PLAIN = { lossless: false };

/** A call of a method. */
interface FacadeCall {
  /** The request of a user; undefined: an actor calls. */
  readonly user: FacadeRequest | undefined;
}

type Reject = Extract<Response, { readonly kind: 'reject' }>;

/** A call that has been read, and of which nothing has been done. */
export interface Prepared {
  readonly isChange: boolean;
  readonly refusal: Reject | undefined;
  /** Does it, and returns the result as JSON of its type; undefined: the method has none. */
  run(): unknown;
}

/** A method; the argument has been checked against the interface's types. */
export type FacadeMethod = (argument: never, call: FacadeCall) => Prepared | Promise<Prepared>;

/** Returns a call that changes nothing. */
export function answer(result: () => unknown): Prepared {
  return { isChange: false, refusal: undefined, run: result };
}

export interface ServedCanisterSpec {
  readonly id: Uint8Array;
  readonly did: string;
  readonly methods: Readonly<Record<string, FacadeMethod>>;
  /** Methods that actors may call as well. */
  readonly forActors: ReadonlySet<string>;
}

export class ServedCanister {
  readonly #spec: ServedCanisterSpec;
  readonly #interface: CandidInterface;

  constructor(spec: ServedCanisterSpec, codec: Pick<Codec, 'parseInterface'>) {
    this.#spec = spec;
    this.#interface = codec.parseInterface(spec.did);
  }

  async readUserCall(request: FacadeRequest): Promise<UserCall> {
    const types = this.#interface.methods.get(request.method);
    const isMissing = types === undefined || (request.isQuery && types.kind === 'update');
    if (isMissing) return refusedCall(this.#lacks(request.method, request.isQuery));
    const argument = await this.#read(types, request.argument);
    if ('kind' in argument) return { ...NOTHING, refusal: undefined, run: () => Promise.resolve(argument) };
    const prepared = await this.#prepare(types.name, argument.value, { user: request });
    const { isChange, refusal } = prepared;
    return { subject: undefined, isChange, refusal, run: () => this.#respond(types, prepared) };
  }

  /** Answers the call of an actor. */
  async call({ method, argument: candid, cycles, isQuery }: ManagementRequest): Promise<ManagementAnswer> {
    const types = this.#interface.methods.get(method);
    const refuse = (response: Response): ManagementAnswer => ({ response, refunded: cycles });
    if (types === undefined || (isQuery && types.kind === 'update')) return refuse(this.#lacks(method, isQuery));
    if (!this.#spec.forActors.has(method)) {
      const text = `${method} of ${this.#name} is for users at /api; actors call the management canister`;
      return refuse({ kind: 'reject', code: REJECT_CODE.CANISTER_REJECT, message: text });
    }
    const argument = await this.#read(types, candid);
    if ('kind' in argument) return refuse(argument);
    const prepared = await this.#prepare(method, argument.value, { user: undefined });
    const response = prepared.refusal ?? (await this.#respond(types, prepared));
    return { response, refunded: response.kind === 'reply' && types.kind === 'update' ? 0n : cycles };
  }

  get #name(): string {
    return principalToText(this.#spec.id);
  }

  #lacks(method: string, isQuery: boolean): Reject {
    const text = `Canister ${this.#name} has no ${isQuery ? 'query' : 'update'} method '${method.slice(0, 100)}'`;
    return { kind: 'reject', code: REJECT_CODE.CANISTER_ERROR, message: `IC0536: ${text}` };
  }

  async #read({ args, name }: MethodInterface, candid: Uint8Array): Promise<Reject | { readonly value: unknown }> {
    try {
      const json = await args.decodeAnySize(candid, PLAIN);
      refuseManyValues(json);
      const values = JSON.parse(Buffer.from(json).toString('utf8')) as readonly unknown[];
      return { value: values[0] };
    } catch (error) {
      const message = `IC0503: ${this.#name} cannot read the argument of ${name}: ${messageOf(error)}`;
      return { kind: 'reject', code: REJECT_CODE.CANISTER_ERROR, message };
    }
  }

  async #prepare(name: string, argument: unknown, call: FacadeCall): Promise<Prepared> {
    const method = this.#spec.methods[name];
    if (method === undefined) throw new Error(`the facade lacks ${name}, which its interface has`);
    return await method(argument as never, call);
  }

  async #respond({ results }: MethodInterface, prepared: Prepared): Promise<Response> {
    try {
      const json = JSON.stringify([await prepared.run()]);
      return { kind: 'reply', data: await results.encodeAnySize(Buffer.from(json), PLAIN) };
    } catch (error) {
      if (!(error instanceof ServerError)) throw error;
      return { kind: 'reject', code: REJECT_CODE.CANISTER_ERROR, message: `IC0503: ${error.message}` };
    }
  }
}

const NOTHING = { subject: undefined, isChange: false } as const;

function refusedCall(refusal: Reject): UserCall {
  return { ...NOTHING, refusal, run: () => Promise.resolve(refusal) };
}
