/** Calls of the management canister as the operator makes them: with JSON, and with the rights of every controller. */
import { ServerError } from '../../kernel/index.ts';
import type { AnySizeTuple, CandidInterface, Codec } from '../codec/index.ts';
import { ANONYMOUS, REJECT_CODE, type Response } from '../ic/index.ts';
import type { ManagementHooks } from './backend.ts';
import type { MethodName } from './candid-types.ts';
import { MANAGEMENT_DID } from './interface-did.ts';

const PLAIN = { lossless: false };
/** Histories show the operator's changes as they show those over HTTP: as an anonymous user's. */
const AS_OPERATOR = { sender: ANONYMOUS, senderIsCanister: false, isAdmin: true, cycles: 0n, isQuery: false } as const;

export class OperatorCalls {
  readonly #codec: Pick<Codec, 'parseInterface'>;
  readonly #management: () => Pick<ManagementHooks, 'call'>;
  /** Parsed at the first call: many servers never get one. */
  #interface: CandidInterface | undefined;

  /** `management` is asked for at each call: it is attached after this is made. */
  constructor(codec: Pick<Codec, 'parseInterface'>, management: () => Pick<ManagementHooks, 'call'>) {
    this.#codec = codec;
    this.#management = management;
  }

  /**
   * Calls a method with JSON text of its argument's type (candid-types.ts); resolves with its result. Rejects with
   * ServerError: kind `invalid` for text of another type (the message names the place, `args[0].settings…`), and
   * `management-refused`, `actor-missing` or `management-unavailable` for what a call is rejected with.
   */
  async call(method: MethodName, argument: string): Promise<unknown> {
    const { args, results } = this.#typesOf(method);
    const candid = await args.encodeAnySize(Buffer.from(`[${argument}]`), PLAIN);
    const { response } = await this.#management().call({ ...AS_OPERATOR, method, argument: candid });
    if (response.kind === 'reject') throw errorOf(response);
    const json = await results.decodeAnySize(response.data, PLAIN);
    const text = Buffer.from(json.buffer, json.byteOffset, json.byteLength).toString('utf8');
    return (JSON.parse(text) as readonly unknown[])[0];
  }

  #typesOf(method: MethodName): { readonly args: AnySizeTuple; readonly results: AnySizeTuple } {
    this.#interface ??= this.#codec.parseInterface(MANAGEMENT_DID);
    const types = this.#interface.methods.get(method);
    if (types === undefined) throw new Error(`the management interface lacks ${method}`);
    return types;
  }
}

/** Returns the reject of a call as an error of the kind that fits. */
function errorOf({ code, message }: Extract<Response, { readonly kind: 'reject' }>): ServerError {
  if (code === REJECT_CODE.DESTINATION_INVALID) return new ServerError('missing', 'actor-missing', message);
  const mayHelpLater = code === REJECT_CODE.SYS_FATAL || code === REJECT_CODE.SYS_TRANSIENT;
  if (mayHelpLater) return new ServerError('unavailable', 'management-unavailable', message);
  return new ServerError('invalid', 'management-refused', message);
}
