/**
 * Calls of the management canister that the facade makes for users: canisters are created, and get cycles. Small
 * messages are converted at once, so that the answer is kept in the turn of the event loop in which the change was made
 * (ADR 110).
 */
import type { AnySizeTuple, Codec } from '../codec/index.ts';
import type { Response } from '../ic/index.ts';
import { type Management, MANAGEMENT_DID, type UserCall } from '../management/index.ts';
import type { FacadeRequest } from './index.ts';
import type { Prepared } from './served-canister.ts';

const PLAIN = { lossless: false };

type Method = 'provisional_create_canister_with_cycles' | 'provisional_top_up_canister';
type Types = { readonly args: AnySizeTuple; readonly results: AnySizeTuple };

export class ManagedForUsers {
  readonly #management: Pick<Management, 'readUserCall'>;
  readonly #codec: Pick<Codec, 'parseInterface'>;
  #methods: ReadonlyMap<string, Types> | undefined;

  constructor(management: Pick<Management, 'readUserCall'>, codec: Pick<Codec, 'parseInterface'>) {
    this.#management = management;
    this.#codec = codec;
  }

  /**
   * Prepares the creation of a canister with that many cycles and those settings, JSON of `canister_settings` or null.
   * `told` makes the facade's result of the new canister's principal, `failed` that of a reject's text.
   */
  async create(
    user: FacadeRequest,
    { cycles, settings }: { readonly cycles: string; readonly settings: unknown },
    told: (canisterId: string) => unknown,
    failed: (reason: string) => unknown,
  ): Promise<Prepared> {
    const argument = { amount: cycles, settings, specified_id: null, sender_canister_version: null };
    const call = await this.#read(user, 'provisional_create_canister_with_cycles', argument);
    return this.#prepared(
      call,
      async (data) => {
        const { canister_id: id } = (await this.#resultOf('provisional_create_canister_with_cycles', data)) as {
          readonly canister_id: string;
        };
        return told(id);
      },
      failed,
    );
  }

  /** Prepares a gift of cycles to a canister. */
  async topUp(
    user: FacadeRequest,
    { canisterId, cycles }: { readonly canisterId: string; readonly cycles: string },
    told: () => unknown,
    failed: (reason: string) => unknown,
  ): Promise<Prepared> {
    const argument = { canister_id: canisterId, amount: cycles };
    const call = await this.#read(user, 'provisional_top_up_canister', argument);
    return this.#prepared(call, told, failed);
  }

  #prepared(call: UserCall, told: (data: Uint8Array) => unknown, failed: (reason: string) => unknown): Prepared {
    const outcomeOf = async (response: Response): Promise<unknown> =>
      response.kind === 'reply' ? await told(response.data) : failed(response.message);
    const { isChange, refusal } = call;
    return { isChange, refusal, run: async () => await outcomeOf(await call.run()) };
  }

  async #read(user: FacadeRequest, method: Method, argument: unknown): Promise<UserCall> {
    const { sender, isTrusted, mayCreate, certifiesCreated = false } = user;
    const json = Buffer.from(JSON.stringify([argument]));
    const bytes = await this.#typesOf(method).args.encodeAnySize(json, PLAIN);
    const rights = { sender, isTrusted, mayCreate, certifiesCreated };
    return await this.#management.readUserCall({ ...rights, method, argument: bytes, isQuery: false });
  }

  async #resultOf(method: Method, data: Uint8Array): Promise<unknown> {
    const json = await this.#typesOf(method).results.decodeAnySize(data, PLAIN);
    return (JSON.parse(Buffer.from(json).toString('utf8')) as readonly unknown[])[0];
  }

  #typesOf(method: Method): Types {
    this.#methods ??= this.#codec.parseInterface(MANAGEMENT_DID).methods;
    const types = this.#methods.get(method);
    if (types === undefined) throw new Error(`the management interface lacks ${method}`);
    return types;
  }
}
