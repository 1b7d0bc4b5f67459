import { ServerError } from '../../kernel/index.ts';
import { type Canister, type Canisters, methodMissing, refuseInternal } from '../canisters/index.ts';
import type { CandidInterface, Codec, EncodingOptions, AnySizeTuple } from '../codec/index.ts';

const PLAIN = { lossless: false };
const LOSSLESS = { lossless: true };

/** Codecs that turn the arguments and results of one method into JSON; undefined for raw Candid. */
export interface JsonForm {
  readonly args: AnySizeTuple;
  readonly results: AnySizeTuple;
  readonly encoding: EncodingOptions;
  /** The interface that the canister had when the form was made. */
  readonly candid: CandidInterface | undefined;
}

/**
 * Returns true if the module may name its interface when it is asked (`interfaceOf`), and a client that wants plain
 * JSON has to wait for that.
 */
export function mustAsk({ candid }: Canister, isLossless: boolean): boolean {
  return candid === undefined && !isLossless;
}

/** Returns the form by the method's types; the lossless form describes itself and so works without types. */
export function jsonFormOf(
  codec: Pick<Codec, 'untyped'>,
  canister: Pick<Canister, 'id' | 'controllers' | 'name' | 'module' | 'candid' | 'candidProblem'>,
  method: string,
  isLossless: boolean,
  caller: Uint8Array,
): JsonForm {
  const encoding = isLossless ? LOSSLESS : PLAIN;
  const { candid } = canister;
  const described = candid?.methods.get(method);
  if (described !== undefined) return { args: described.args, results: described.results, encoding, candid };
  if (!canister.module?.methods.has(method)) throw methodMissing(canister, method);
  if (isLossless) return { args: codec.untyped, results: codec.untyped, encoding, candid };
  refuseInternal(canister, method, caller);
  const reason = `${whyUndescribed(canister, method)}: use ?lossless=1, or /call and /query with Candid bytes, or give it an interface with PUT /candid/${canister.name}`;
  throw new ServerError('invalid', 'no-interface', reason);
}

function whyUndescribed(
  { name, candid, candidProblem }: Pick<Canister, 'name' | 'candid' | 'candidProblem'>,
  method: string,
): string {
  if (candid !== undefined) return `the Candid interface of ${name} does not describe method ${JSON.stringify(method)}`;
  if (candidProblem === undefined) return `actor ${name} has no Candid interface`;
  return `the Candid interface of ${name} was not understood (${candidProblem})`;
}

/**
 * The results of a reply. A reply is as hostile as a request: if it is not what the interface promises, the canister
 * is at fault, as if it had trapped. Throws, or rejects with, ServerError `trapped`.
 */
export function replyAsJson(
  { results, encoding }: JsonForm,
  canister: Canister,
  method: string,
  reply: Uint8Array,
): Uint8Array | Promise<Uint8Array> {
  const refused = (error: unknown): never => {
    if (!(error instanceof ServerError) || error.kind !== 'invalid') throw error;
    const message = `the reply of ${canister.name}.${method} does not fit its interface: ${error.message}`;
    throw new ServerError('trapped', 'bad-reply', message, { cause: error });
  };
  try {
    const json = results.decodeAnySize(reply, encoding);
    return json instanceof Uint8Array ? json : json.catch(refused);
  } catch (error) {
    return refused(error);
  }
}

/**
 * Returns the results of a reply to a call that waited while its canister was given another code or interface. The
 * present interface reads the reply, because as a rule the code that ran has it; where it does not fit, `form`, which
 * was made when the call came, reads the reply. Rejects with the ServerError `trapped` of the present interface where
 * neither fits.
 */
export async function changedReplyAsJson(
  { codec, canisters }: { readonly codec: Pick<Codec, 'untyped'>; readonly canisters: Pick<Canisters, 'interfaceOf'> },
  form: JsonForm,
  canister: Canister,
  method: string,
  caller: Uint8Array,
  reply: Uint8Array,
): Promise<Uint8Array> {
  const { lossless } = form.encoding;
  let present: JsonForm;
  try {
    if (mustAsk(canister, lossless)) await canisters.interfaceOf(canister);
    present = jsonFormOf(codec, canister, method, lossless, caller);
  } catch {
    // The present code does not have the method, or no interface: it did not run the call.
    return await replyAsJson(form, canister, method, reply);
  }
  try {
    return await replyAsJson(present, canister, method, reply);
  } catch (error) {
    try {
      return await replyAsJson(form, canister, method, reply);
    } catch {
      throw error;
    }
  }
}
