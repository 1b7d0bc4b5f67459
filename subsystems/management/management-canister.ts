/**
 * The management canister: turns a call's bytes into its answer.
 *
 *     bytes ─► method known? ─► may be called this way? ─► Candid ─► JSON ─► method ─► JSON ─► Candid ─► bytes
 *
 * A method refuses by throwing a `Refusal`; it has changed nothing then, and the attached cycles are refunded. A
 * ServerError is an operation that the host could not perform, and also a reject. Any other error is a bug of ours: the
 * call is rejected with code 1, and the error is logged.
 */
import { type Clock, type Logger, messageOf, type Random, ServerError } from '../../kernel/index.ts';
import type { CandidInterface, Codec, AnySizeTuple } from '../codec/index.ts';
import type { MethodName } from './candid-types.ts';
import { refuseManyValues } from './argument-values.ts';
import { CandidReply } from './candid-reply.ts';
import { CanisterRecords } from './canister-records.ts';
import type { Change } from './change.ts';
import type { ManagementBackend, HostedCanister } from './backend.ts';
import type { Outcalls } from '../outcalls/index.ts';
import type { Management, ManagementAnswer, ManagementRequest, OutcallFigures } from './index.ts';
import { MANAGEMENT_DID } from './interface-did.ts';
import { SigningKeys } from './keys/signing-keys.ts';
import { type Call, MethodContext, type Methods } from './method-context.ts';
import { codeMethods } from './methods/code-methods.ts';
import { infoMethods } from './methods/info-methods.ts';
import { lifecycleMethods } from './methods/lifecycle-methods.ts';
import { settingsMethods } from './methods/settings-methods.ts';
import { signingMethods } from './methods/signing-methods.ts';
import { outcallMethods } from './methods/outcall-methods.ts';
import { snapshotMethods } from './methods/snapshot-methods.ts';
import { OutcallService } from './outcalls/outcall-service.ts';
import type { OutcallBounds } from './outcalls/outcall-turns.ts';
import { keptSeed, SEED_BYTES } from './records/kept-seed.ts';
import type { RecordStore } from './records/record-store.ts';
import { Refusal, REFUSE, refusalOf } from './refusal.ts';

/** The IC stops waiting for a canister to stop after five minutes. */
const STOP_TIMEOUT_MS = 300_000;
/** Bytes of the chunk stores and snapshots of all actors together. */
const STORED_BYTES_MAX = 4 * 2 ** 30;
/** The same time as on the IC's nodes. */
const OUTCALL_TIMEOUT_MS = 30_000;
const PLAIN = { lossless: false };

export interface ManagementOptions {
  /** Master secret of the signing keys; undefined: the kept one, or a fresh one. */
  readonly seed?: Uint8Array | undefined;
  /** The replica's version in `subnet_info`. */
  readonly hostVersion?: string | undefined;
  readonly stopTimeoutMs?: number | undefined;
  readonly storedBytesMax?: number | undefined;
  /** Milliseconds after which an outcall is abandoned. */
  readonly outcallTimeoutMs?: number | undefined;
  readonly outcallBounds?: OutcallBounds | undefined;
}

interface ManagementDependencies {
  readonly host: ManagementBackend;
  readonly codec: Codec;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Logger;
  readonly storage: RecordStore;
  readonly outcalls: Outcalls;
}

/** Callers that may use a method; by default updates of users and canisters. */
type Access =
  | 'update'
  /** Updates of canisters; with `canistersAndAdmin`, also of users with the operator's rights. */
  | 'canisters'
  | 'canistersAndAdmin'
  | 'updateAndQuery'
  | 'query';

const ACCESS: Readonly<Record<MethodName, Access>> = {
  create_canister: 'canistersAndAdmin',
  provisional_create_canister_with_cycles: 'update',
  update_settings: 'update',
  install_code: 'update',
  install_chunked_code: 'update',
  upload_chunk: 'update',
  clear_chunk_store: 'update',
  stored_chunks: 'update',
  uninstall_code: 'update',
  start_canister: 'update',
  stop_canister: 'update',
  delete_canister: 'update',
  canister_status: 'updateAndQuery',
  canister_metrics: 'updateAndQuery',
  canister_info: 'canisters',
  canister_metadata: 'canisters',
  deposit_cycles: 'canisters',
  provisional_top_up_canister: 'update',
  raw_rand: 'canisters',
  fetch_canister_logs: 'query',
  list_canisters: 'query',
  take_canister_snapshot: 'update',
  load_canister_snapshot: 'update',
  list_canister_snapshots: 'update',
  delete_canister_snapshot: 'update',
  read_canister_snapshot_metadata: 'update',
  read_canister_snapshot_data: 'update',
  upload_canister_snapshot_metadata: 'update',
  upload_canister_snapshot_data: 'update',
  ecdsa_public_key: 'canisters',
  sign_with_ecdsa: 'canisters',
  schnorr_public_key: 'canisters',
  http_request: 'canisters',
  sign_with_schnorr: 'canisters',
  node_metrics_history: 'canisters',
  subnet_info: 'canisters',
};

const NO_BITCOIN = 'this host is not connected to Bitcoin';
const NO_VETKEYS = 'encrypted keys (vetKD) are not available on this host';

/** Methods of the interface that are refused whatever their argument is. */
const NOT_OFFERED: ReadonlyMap<string, string> = new Map([
  ['flexible_http_request', 'flexible outcalls are not available on this host'],
  ['vetkd_public_key', NO_VETKEYS],
  ['vetkd_derive_key', NO_VETKEYS],
  ['bitcoin_get_balance', NO_BITCOIN],
  ['bitcoin_get_utxos', NO_BITCOIN],
  ['bitcoin_send_transaction', NO_BITCOIN],
  ['bitcoin_get_current_fee_percentiles', NO_BITCOIN],
  ['bitcoin_get_block_headers', NO_BITCOIN],
]);

export class ManagementCanister implements Management {
  readonly #codec: Codec;
  readonly #log: Logger;
  readonly #storage: RecordStore;
  readonly #seed: Uint8Array | undefined;
  readonly #context: MethodContext;
  readonly #methods: Methods;
  readonly #outcalls: OutcallService;
  /** Parsed at the first call: many servers never get one. */
  #interface: CandidInterface | undefined;

  constructor(dependencies: ManagementDependencies, options: ManagementOptions = {}) {
    const { host, codec, clock, random, log, storage } = dependencies;
    this.#codec = codec;
    this.#log = log;
    this.#storage = storage;
    this.#seed = options.seed;
    const context = new MethodContext({
      host,
      clock,
      random,
      records: new CanisterRecords(storage, options.storedBytesMax ?? STORED_BYTES_MAX),
      keys: new SigningKeys(options.seed ?? random.bytes(SEED_BYTES)),
      hostVersion: options.hostVersion ?? '',
      stopTimeoutMs: options.stopTimeoutMs ?? STOP_TIMEOUT_MS,
    });
    this.#context = context;
    this.#outcalls = new OutcallService(dependencies, {
      timeoutMs: options.outcallTimeoutMs ?? OUTCALL_TIMEOUT_MS,
      bounds: options.outcallBounds,
    });
    this.#methods = {
      ...settingsMethods(context),
      ...codeMethods(context),
      ...lifecycleMethods(context),
      ...infoMethods(context),
      ...snapshotMethods(context),
      ...signingMethods(context),
      ...outcallMethods(this.#outcalls),
    };
  }

  /** Attaches itself to the host; called once, before anything starts. */
  open(): void {
    this.#context.host.attach(this);
  }

  get outcalls(): OutcallFigures {
    return this.#outcalls.figures;
  }

  /** Gives running outcalls a moment to end. */
  drain(): Promise<void> {
    return this.#outcalls.drain();
  }

  async call(request: ManagementRequest): Promise<ManagementAnswer> {
    const { cycles } = request;
    try {
      const { data, cyclesTaken } = await this.#answer(request);
      return { response: { kind: 'reply', data }, refunded: cycles - cyclesTaken };
    } catch (error) {
      const { code, message } = this.#refusal(request, error);
      return { response: { kind: 'reject', code, message }, refunded: cycles };
    }
  }

  async restore(): Promise<ReadonlyMap<HostedCanister, ServerError>> {
    if (!this.#storage.isKept) return new Map();
    const { keys, host, records } = this.#context;
    if (this.#seed === undefined) keys.reseed(await keptSeed(this.#storage, keys.seed));
    return await records.restore((id) => host.find(id));
  }

  record(canister: HostedCanister, change: Change): void {
    this.#context.record(canister, change);
  }

  forget(canister: HostedCanister): void {
    this.#context.records.forget(canister);
  }

  async #answer(request: ManagementRequest): Promise<{ readonly data: Uint8Array; readonly cyclesTaken: bigint }> {
    const method = this.#expectMethod(request.method);
    const { sender, senderIsCanister, isAdmin = false, cycles, isQuery, cause } = request;
    expectAccess(method, { senderIsCanister, isAdmin, isQuery });
    const { args, results } = this.#typesOf(method);
    const argument = await decode(args, request.argument);
    const call: Call = { sender, senderIsCanister, isAdmin, method, cycles, cause, cyclesTaken: 0n };
    // The codec has checked that the argument has the method's types.
    const run = this.#methods[method] as (argument: unknown, call: Call) => unknown;
    const result = await run(argument, call);
    if (result instanceof CandidReply) return { data: result.data, cyclesTaken: call.cyclesTaken };
    const json = JSON.stringify(result === undefined ? [] : [result]);
    const data = await results.encodeAnySize(Buffer.from(json), PLAIN);
    return { data, cyclesTaken: call.cyclesTaken };
  }

  #expectMethod(name: string): MethodName {
    const reason = NOT_OFFERED.get(name);
    if (reason !== undefined) throw REFUSE.notOffered(reason);
    if (!Object.hasOwn(ACCESS, name)) throw REFUSE.unknownMethod(name);
    return name as MethodName;
  }

  #typesOf(method: MethodName) {
    this.#interface ??= this.#codec.parseInterface(MANAGEMENT_DID);
    const types = this.#interface.methods.get(method);
    if (types === undefined) throw new Error(`the management interface lacks ${method}`);
    return types;
  }

  #refusal(request: ManagementRequest, error: unknown): Pick<Refusal, 'code' | 'message'> {
    if (error instanceof Refusal || error instanceof ServerError) return refusalOf(error, 5, 'IC0504');
    this.#log.error(`the management canister failed at ${request.method}: ${messageOf(error)}`, error);
    return { code: 1, message: `IC0521: internal error of the management canister` };
  }
}

function expectAccess(
  method: MethodName,
  { senderIsCanister, isAdmin, isQuery }: { senderIsCanister: boolean; isAdmin: boolean; isQuery: boolean },
): void {
  const access = ACCESS[method];
  if (isQuery) {
    if (access === 'query' || access === 'updateAndQuery') return;
    throw new Refusal(5, 'IC0536', `${method} cannot be called as a query`);
  }
  if (access === 'query') throw REFUSE.notOffered(`${method} can only be called as a query`);
  if (access === 'update' || access === 'updateAndQuery' || senderIsCanister) return;
  if (access === 'canistersAndAdmin' && isAdmin) return;
  throw REFUSE.notOffered(`only canisters can call ${method}`);
}

/** Decodes a method's only argument into JSON values; undefined for methods without one. */
async function decode(args: AnySizeTuple, candid: Uint8Array): Promise<unknown> {
  let json: Uint8Array;
  try {
    json = await args.decodeAnySize(candid, PLAIN);
  } catch (error) {
    throw refusalOf(error, 4, 'IC0408');
  }
  refuseManyValues(json);
  const values = JSON.parse(Buffer.from(json.buffer, json.byteOffset, json.byteLength).toString('utf8')) as unknown[];
  return values[0];
}
