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
import type { Response } from '../ic/index.ts';
import type { MethodName } from './candid-types.ts';
import { refuseManyValues } from './argument-values.ts';
import { CandidReply } from './candid-reply.ts';
import { CanisterRecords } from './canister-records.ts';
import type { Change } from './change.ts';
import type { ManagementBackend, HostedCanister } from './backend.ts';
import type { Outcalls } from '../outcalls/index.ts';
import type {
  Management,
  ManagementAnswer,
  ManagementRequest,
  OutcallFigures,
  UserCall,
  UserRequest,
} from './index.ts';
import { MANAGEMENT_DID } from './interface-did.ts';
import { SigningKeys } from './keys/signing-keys.ts';
import { expectAccess, expectMethod } from './method-access.ts';
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
import { keptSeed, SEED_BYTES, type SeedService } from './records/kept-seed.ts';
import type { RecordStore } from './records/record-store.ts';
import { Refusal, refusalOf } from './refusal.ts';
import { expectUser, READS, subjectOf, UNREADABLE } from './user-calls.ts';

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
  readonly service: SeedService;
  readonly outcalls: Outcalls;
}

export class ManagementCanister implements Management {
  readonly #codec: Codec;
  readonly #log: Logger;
  readonly #storage: RecordStore;
  readonly #service: SeedService;
  readonly #seed: Uint8Array | undefined;
  readonly #context: MethodContext;
  readonly #methods: Methods;
  readonly #outcalls: OutcallService;
  /** Parsed at the first call: many servers never get one. */
  #interface: CandidInterface | undefined;

  constructor(dependencies: ManagementDependencies, options: ManagementOptions = {}) {
    const { host, codec, clock, random, log, storage, service } = dependencies;
    this.#codec = codec;
    this.#log = log;
    this.#storage = storage;
    this.#service = service;
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

  async readUserCall(request: UserRequest): Promise<UserCall> {
    const { method } = request;
    try {
      const { call, argument } = await this.#read({ ...request, senderIsCanister: false, cycles: 0n });
      return {
        subject: subjectOf(call.method, argument),
        isChange: !READS.has(call.method),
        refusal: this.#refusalOfUser(call, argument),
        run: () => this.#respond(method, () => this.#run(call, argument)),
      };
    } catch (error) {
      const response: Response = { kind: 'reject', ...this.#refusal(request, error) };
      const isUnreadable = error instanceof Refusal && UNREADABLE.test(error.message);
      const refusal = isUnreadable ? undefined : response;
      return { subject: undefined, isChange: false, refusal, run: () => Promise.resolve(response) };
    }
  }

  /** Returns the reject of a call that the user may not make; undefined: it is accepted. */
  #refusalOfUser(call: Call, argument: unknown): UserCall['refusal'] {
    try {
      expectUser(this.#context, call, argument);
      return undefined;
    } catch (error) {
      return { kind: 'reject', ...this.#refusal(call, error) };
    }
  }

  async #respond(method: string, run: () => Promise<Uint8Array>): Promise<Response> {
    try {
      return { kind: 'reply', data: await run() };
    } catch (error) {
      return { kind: 'reject', ...this.#refusal({ method }, error) };
    }
  }

  async restore(): Promise<ReadonlyMap<HostedCanister, ServerError>> {
    if (!this.#storage.isKept) return new Map();
    const { keys, host, records } = this.#context;
    if (this.#seed === undefined) keys.reseed(await keptSeed(this.#storage, keys.seed, this.#service));
    return await records.restore((id) => host.find(id));
  }

  async arrived(canister: HostedCanister): Promise<ServerError | undefined> {
    return this.#storage.isKept ? await this.#context.records.restoreOne(canister) : undefined;
  }

  left(canister: HostedCanister): void {
    this.#context.records.left(canister);
  }

  record(canister: HostedCanister, change: Change): void {
    this.#context.record(canister, change);
  }

  inherit(canister: HostedCanister, parent: HostedCanister): void {
    const { records } = this.#context;
    records.of(canister).changeSettings(records.of(parent).settings);
  }

  forget(canister: HostedCanister): void {
    this.#context.records.forget(canister);
  }

  async #answer(request: ManagementRequest): Promise<{ readonly data: Uint8Array; readonly cyclesTaken: bigint }> {
    const { call, argument } = await this.#read(request);
    const data = await this.#run(call, argument);
    return { data, cyclesTaken: call.cyclesTaken };
  }

  /** Checks the method and who calls it, and decodes the argument. */
  async #read(request: ManagementRequest): Promise<{ readonly call: Call; readonly argument: unknown }> {
    const method = expectMethod(request.method);
    const { sender, senderIsCanister, isAdmin = false, isTrusted = false, mayCreate, cycles, isQuery } = request;
    // Left to `expectUser`: users that may create canisters are not those of a method.
    expectAccess(method, { senderIsCanister, isAdmin: isAdmin || mayCreate !== undefined, isQuery });
    const argument = await decode(this.#typesOf(method).args, request.argument);
    const { certifiesCreated = false, cause, isAwaited = always } = request;
    const rights = { isAdmin, isTrusted, mayCreate: mayCreate === true, certifiesCreated };
    const call = { sender, senderIsCanister, ...rights, method, cycles, cause, isAwaited, cyclesTaken: 0n };
    return { call, argument };
  }

  async #run(call: Call, argument: unknown): Promise<Uint8Array> {
    // The codec has checked that the argument has the method's types.
    const run = this.#methods[call.method] as (argument: unknown, call: Call) => unknown;
    const result = await run(argument, call);
    if (result instanceof CandidReply) return result.data;
    const json = JSON.stringify(result === undefined ? [] : [result]);
    return await this.#typesOf(call.method).results.encodeAnySize(Buffer.from(json), PLAIN);
  }

  #typesOf(method: MethodName) {
    this.#interface ??= this.#codec.parseInterface(MANAGEMENT_DID);
    const types = this.#interface.methods.get(method);
    if (types === undefined) throw new Error(`the management interface lacks ${method}`);
    return types;
  }

  #refusal(request: Pick<ManagementRequest, 'method'>, error: unknown): Pick<Refusal, 'code' | 'message'> {
    if (error instanceof Refusal || error instanceof ServerError) {
      const { code, message } = refusalOf(error, 5, 'IC0504');
      return { code, message };
    }
    this.#log.error(`the management canister failed at ${request.method}: ${messageOf(error)}`, error);
    return { code: 1, message: `IC0521: internal error of the management canister` };
  }
}

function always(): boolean {
  return true;
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
