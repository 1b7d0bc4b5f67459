/**
 * The agent interface: an envelope comes in, is read and proven, and is answered with what the host certifies.
 *
 *     body ─► CBOR, fields ─► expiry ─► sender ─► effective id ─► target ─► answer, certificate or signature
 *
 * A call is named by its request id, which takes the place of an `Idempotency-Key`: a call that comes again is answered
 * and not executed again, also after a crash (ADR 38, ADR 110). Main thread, but for signatures.
 */
import { type Clock, ServerError } from '../../kernel/index.ts';
import type { Canister, Canisters } from '../canisters/index.ts';
import { type Outcome, parsePrincipal, principalToText, sameBytes, shownCaller } from '../ic/index.ts';
import { openKey, requestKey } from '../scheduler/index.ts';
import { callerOf } from './anonymous-senders.ts';
import { certificateAlone, certifiedReply, factsOfRequest, queryAnswer, refusedCall } from './answers.ts';
import { CanisterSignatures } from './canister-signatures.ts';
import { type Certifier, type CertifierNeeds, startCertifier } from './certifier.ts';
import {
  bad,
  type CallEnvelope,
  checkExpiry,
  type Envelope,
  readEnvelope,
  type ReadStateEnvelope,
} from './envelope.ts';
import type { AgentAnswer, AgentCreators, AgentRequest, AgentRoute } from './index.ts';
import { type Asked, ManagementCalls, type ManagementCallsNeeds, type Result } from './management-calls.ts';
import { noSuchCanister, refusalOf, type Rejection, rejectionOf, resultOf, standingRefusal } from './rejections.ts';
import { Senders } from './senders.ts';
import { canisterFacts, labelOf, rangeFacts, readPaths, subnetFacts } from './state-facts.ts';
import { CborWriter, type Fact } from '../certification/index.ts';
import { NO_BYTES } from '../bytes/index.ts';

const API_VERSION = '0.18.0';
const NANOSECONDS_PER_MS = 1_000_000n;
const INSPECT = 'canister_inspect_message';
/** Milliseconds for which a certificate of everybody's is given again. */
const SUBNET_MS = 30_000;
const TIME_MS = 1000;

/** Types of the envelopes that routes take. */
const TYPES = {
  call: 'call',
  query: 'query',
  read_state: 'read_state',
  subnet_call: 'call',
  subnet_query: 'query',
  subnet_read_state: 'read_state',
} as const satisfies Record<AgentRoute, Envelope['type']>;

export interface AgentInterfaceNeeds extends CertifierNeeds {
  readonly management: ManagementCallsNeeds['management'];
  readonly facade: ManagementCallsNeeds['facade'];
  readonly storage: CertifierNeeds['storage'] & ManagementCallsNeeds['storage'];
  readonly canisters: Pick<Canisters, 'resolveIfAny' | 'call' | 'knownCall' | 'isAnswerKept' | 'newTrace'>;
  readonly clock: Clock;
}

export interface AgentInterfaceOptions {
  /** True if no token is asked for. */
  readonly isOpen: boolean;
  readonly creators: AgentCreators;
  /** Milliseconds that a synchronous call waits for its answer. */
  readonly waitMs: number;
  readonly version: string;
  /** DER of the Internet Computer's root key, if canisters there may sign for senders. */
  readonly icRootKey: Uint8Array | undefined;
}

interface KeptCertificate {
  readonly until: number;
  readonly certificate: Promise<Uint8Array>;
}

type Called = AgentAnswer['called'];

export class AgentInterface {
  readonly #needs: AgentInterfaceNeeds;
  readonly #options: AgentInterfaceOptions;
  readonly #senders: Senders;
  readonly #certifier: Certifier;
  readonly #management: ManagementCalls;
  readonly #kept = new Map<string, KeptCertificate>();

  private constructor(needs: AgentInterfaceNeeds, options: AgentInterfaceOptions, certifier: Certifier) {
    this.#needs = needs;
    this.#options = options;
    this.#certifier = certifier;
    const { identity, verifier } = certifier;
    const roots = { own: identity.rootKey, ic: options.icRootKey };
    this.#senders = new Senders(needs.clock, new CanisterSignatures(roots, verifier));
    this.#management = new ManagementCalls(needs, options.creators);
  }

  /** Resolves when the host's keys are there. */
  static async start(needs: AgentInterfaceNeeds, options: AgentInterfaceOptions): Promise<AgentInterface> {
    return new AgentInterface(needs, options, await startCertifier(needs));
  }

  async close(): Promise<void> {
    const { signer, verifier } = this.#certifier;
    await Promise.all([signer.close(), verifier.close()]);
  }

  get rootKey(): Uint8Array {
    return this.#certifier.identity.rootKey;
  }

  /** Resolves with a certificate that a canister has this data. */
  certifyData(id: Uint8Array, data: Uint8Array): Promise<Uint8Array> {
    const path = ['canister', id, 'certified_data'].map(labelOf);
    return this.#certify([{ path, value: data }], [path]);
  }

  status(): Uint8Array {
    const out = new CborWriter().selfDescribed().map(4).text('root_key').bytes(this.rootKey);
    out.text('impl_version').text(`svc ${this.#options.version}`);
    return out.text('replica_health_status').text('healthy').text('ic_api_version').text(API_VERSION).done();
  }

  async answer(request: AgentRequest): Promise<AgentAnswer> {
    const { route, version, id, body } = request;
    const effectiveId = parsePrincipal(id);
    if (effectiveId === undefined) throw bad('the path', `has no principal, but ${JSON.stringify(id.slice(0, 80))}`);
    const envelope = await readEnvelope(body, TYPES[route]);
    this.#checkExpiry(envelope);
    const target = envelope.type === 'read_state' ? effectiveId : envelope.canisterId;
    await this.#senders.check(envelope, target);
    const isOnSubnet = route !== TYPES[route];
    const { subnetId } = this.#certifier.identity;
    if (isOnSubnet) this.#expectSubnet(effectiveId);
    if (envelope.type === 'read_state') return this.#readState(envelope, effectiveId, isOnSubnet);
    if (envelope.canisterId.length === 0) return this.#manage(envelope, request, { effectiveId, isOnSubnet, subnetId });
    if (!sameBytes(envelope.canisterId, effectiveId)) {
      const text = `names ${principalToText(effectiveId)}, but the request is for ${principalToText(envelope.canisterId)}`;
      throw bad('the path', text);
    }
    if (this.#needs.facade.serves(effectiveId))
      return this.#manage(envelope, request, { effectiveId, isOnSubnet, subnetId });
    return envelope.type === 'call' ? this.#call(envelope, version) : this.#query(envelope);
  }

  #expectSubnet(id: Uint8Array): void {
    const { subnetId } = this.#certifier.identity;
    if (sameBytes(id, subnetId)) return;
    throw bad('the path', `names no subnet of this host: the one is ${principalToText(subnetId)}`);
  }

  #checkExpiry({ type, sender, expiry }: Envelope): void {
    const isAnonymous = sender.length === 1;
    if (isAnonymous && type !== 'call') return;
    checkExpiry(expiry, this.#needs.clock.nowMs());
  }

  /** Returns the canister with that id; a rejection if there is none. */
  #canisterOf(id: Uint8Array): Canister | Rejection {
    try {
      // Nobody's name is a hex id that begins with a digit, and one of letters alone is looked at twice.
      const canister = this.#needs.canisters.resolveIfAny(Buffer.from(id).toString('hex'));
      if (canister !== undefined && sameBytes(canister.id, id)) return canister;
    } catch (error) {
      if (!(error instanceof ServerError)) throw error;
      return { ...noSuchCanister(principalToText(id)), message: error.message };
    }
    return noSuchCanister(principalToText(id));
  }

  // ---- calls

  async #call(envelope: CallEnvelope, version: number): Promise<AgentAnswer> {
    const canister = this.#canisterOf(envelope.canisterId);
    if ('errorCode' in canister) return refused(canister, version, undefined);
    const { method, sender, argument, requestId } = envelope;
    const called = calledOf(canister, method);
    const key = this.#keyOf(requestId);
    const standing = standingRefusal(canister, 'call', method, sender);
    // One that was executed by code that is another now is answered all the same.
    if (standing !== undefined && !this.#needs.canisters.isAnswerKept(canister, key))
      return refused(standing, version, called);
    const calling =
      standing === undefined
        ? this.#needs.canisters.call(canister, {
            kind: 'update',
            method,
            caller: callerOf(sender, this.#options.creators),
            argument,
            addressedBy: 'id',
            idempotencyKey: key,
            trace: this.#needs.canisters.newTrace(),
          })
        : this.#keptOutcome(canister, key);
    // One that comes when nobody waits any more.
    calling.catch(() => undefined);
    const isInspected = canister.module?.entries.has(INSPECT) === true;
    const outcome = await this.#within(calling, version === 2 && !isInspected ? 0 : this.#options.waitMs);
    if (outcome === undefined) return accepted(called);
    if (outcome.kind !== 'reply' && !this.#needs.canisters.isAnswerKept(canister, key))
      return refused(refusalOf(outcome, canister), version, called);
    if (version === 2) return accepted(called);
    return this.#certifiedAnswer(requestId, resultOf(outcome), called);
  }

  async #certifiedAnswer(requestId: Uint8Array, result: Result, called: Called): Promise<AgentAnswer> {
    const certificate = await this.#certify(factsOfRequest(requestId, result), [requestPath(requestId)]);
    return { status: 200, body: certifiedReply(certificate), called, failure: failureOf(result) };
  }

  async #keptOutcome(canister: Canister, key: string): Promise<Outcome> {
    const known = await this.#needs.canisters.knownCall(canister, key);
    if (known?.outcome !== undefined) return known.outcome;
    throw new ServerError('unavailable', 'agent-answer-gone', 'the answer of this call has just been forgotten');
  }

  /** Resolves with the outcome if it comes in time; with 0, if nothing has to be executed for it. */
  async #within<T>(calling: Promise<T>, ms: number): Promise<T | undefined> {
    const late = Promise.withResolvers<undefined>();
    if (ms > 0) {
      using _timer = this.#needs.clock.after(ms, () => late.resolve(undefined));
      return await Promise.race([calling, late.promise]);
    }
    setImmediate(() => late.resolve(undefined));
    return await Promise.race([calling, late.promise]);
  }

  #keyOf(requestId: Uint8Array): string {
    const key = requestKey(requestId);
    return this.#options.isOpen ? openKey(key) : key;
  }

  // ---- the management canister

  async #manage(
    envelope: CallEnvelope,
    { version, changing, isTrusted }: AgentRequest,
    place: Pick<Asked, 'effectiveId' | 'isOnSubnet' | 'subnetId'>,
  ): Promise<AgentAnswer> {
    const asked = { ...place, changing, isTrusted };
    if (envelope.type === 'query')
      return this.#queried(envelope, await this.#management.query(envelope, asked), undefined);
    const call = await this.#management.call(envelope, asked);
    if ('errorCode' in call) return refused(call, version, undefined);
    if (version === 2) return accepted(undefined);
    const result = await this.#within(call.result, this.#options.waitMs);
    return result === undefined ? accepted(undefined) : this.#certifiedAnswer(envelope.requestId, result, undefined);
  }

  // ---- queries

  async #query(envelope: CallEnvelope): Promise<AgentAnswer> {
    const canister = this.#canisterOf(envelope.canisterId);
    if ('errorCode' in canister) return this.#queried(envelope, canister, undefined);
    const { method, sender, argument } = envelope;
    const called = calledOf(canister, method);
    const standing = standingRefusal(canister, 'query', method, sender);
    if (standing !== undefined) return this.#queried(envelope, standing, called);
    const outcome = await this.#needs.canisters.call(canister, {
      kind: 'query',
      method,
      caller: callerOf(sender, this.#options.creators),
      argument,
      addressedBy: 'id',
      trace: this.#needs.canisters.newTrace(),
    });
    if (outcome.kind === 'reply') return this.#queried(envelope, outcome.data, called);
    const isStopped = canister.status !== 'running';
    return this.#queried(envelope, isStopped ? refusalOf(outcome, canister) : rejectionOf(outcome), called);
  }

  async #queried({ requestId }: CallEnvelope, result: Uint8Array | Rejection, called: Called): Promise<AgentAnswer> {
    const { queries, identity } = this.#certifier;
    const body = await queryAnswer(result, {
      requestId,
      timestamp: BigInt(Math.floor(this.#needs.clock.nowMs())) * NANOSECONDS_PER_MS,
      nodeId: identity.nodeId,
      sign: (hash) => queries.sign(hash),
    });
    return { status: 200, body, called, failure: failureOf(result) };
  }

  // ---- state

  async #readState(
    { paths, sender }: ReadStateEnvelope,
    effectiveId: Uint8Array,
    isOnSubnet: boolean,
  ): Promise<AgentAnswer> {
    const { identity } = this.#certifier;
    const canisterId = isOnSubnet ? undefined : effectiveId;
    const asked = readPaths(paths, canisterId);
    const name = onlyLabelOf(paths);
    if (name === 'subnet') return answered(await this.#shared(name, SUBNET_MS, subnetFacts(identity), paths));
    if (name === 'time') return answered(await this.#shared(name, TIME_MS, [], paths));
    const facts: Fact[] = [];
    if (asked.asksSubnet) facts.push(...subnetFacts(identity));
    if (asked.asksRanges) facts.push(...rangeFacts(identity));
    const managed = asked.requestId === undefined ? undefined : await this.#management.known(asked.requestId);
    if (managed !== undefined && asked.requestId !== undefined) {
      const isTheirs = sameBytes(managed.sender, sender) && sameBytes(managed.effectiveId, effectiveId);
      if (!isTheirs) throw foreignRequest();
      facts.push(...factsOfRequest(asked.requestId, managed.result ?? 'processing'));
    }
    const canister = canisterId === undefined ? undefined : this.#canisterOf(canisterId);
    if (canister !== undefined && !('errorCode' in canister)) {
      if (asked.asksCanister) facts.push(...canisterFacts(canister, asked, sender, this.#options.isOpen));
      if (asked.requestId !== undefined && managed === undefined)
        facts.push(...(await this.#requestFacts(canister, asked.requestId, sender)));
    }
    return answered(await this.#certify(facts, paths));
  }

  async #requestFacts(canister: Canister, requestId: Uint8Array, sender: Uint8Array): Promise<readonly Fact[]> {
    const known = await this.#needs.canisters.knownCall(canister, this.#keyOf(requestId));
    if (known === undefined) return [];
    if (!sameBytes(shownCaller(known.caller), sender)) throw foreignRequest();
    const { outcome, hasRun } = known;
    const unanswered = hasRun ? 'processing' : 'received';
    return factsOfRequest(requestId, outcome === undefined ? unanswered : resultOf(outcome));
  }

  /** Resolves with a certificate that everybody may have, and that is given to all for a while. */
  #shared(name: string, ms: number, facts: readonly Fact[], paths: ReadStateEnvelope['paths']): Promise<Uint8Array> {
    const now = this.#needs.clock.nowMs();
    const kept = this.#kept.get(name);
    if (kept !== undefined && now < kept.until && now >= kept.until - ms) return kept.certificate;
    const certificate = this.#certify(facts, paths);
    this.#kept.set(name, { until: now + ms, certificate });
    certificate.catch(() => this.#kept.delete(name));
    return certificate;
  }

  #certify(facts: readonly Fact[], paths: ReadStateEnvelope['paths']): Promise<Uint8Array> {
    return this.#certifier.rounds.certify(facts, paths);
  }
}

function foreignRequest(): ServerError {
  return new ServerError('forbidden', 'agent-forbidden', 'the status of a request is for its sender');
}

function failureOf(result: Result): string | undefined {
  return result instanceof Uint8Array ? undefined : result.message;
}

function requestPath(requestId: Uint8Array): readonly Uint8Array[] {
  return [Buffer.from('request_status'), requestId];
}

/** Returns the label of the only path, if that has one label. */
function onlyLabelOf(paths: ReadStateEnvelope['paths']): string | undefined {
  const [path] = paths;
  const [label] = path ?? [];
  return paths.length === 1 && path?.length === 1 && label !== undefined
    ? Buffer.from(label).toString('latin1')
    : undefined;
}

function calledOf({ idHex, name }: Canister, method: string): Called {
  return { idHex, name, method };
}

function accepted(called: Called): AgentAnswer {
  return { status: 202, body: NO_BYTES, called, failure: undefined };
}

function answered(certificate: Uint8Array): AgentAnswer {
  return { status: 200, body: certificateAlone(certificate), called: undefined, failure: undefined };
}

function refused(rejection: Rejection, version: number, called: Called): AgentAnswer {
  return { status: 200, body: refusedCall(rejection, version), called, failure: rejection.message };
}
