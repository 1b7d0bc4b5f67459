/**
 * Management calls of users: requests with a verified sender to `aaaaa-aa`, or to another canister in host code. They
 * are read by the management canister,
 * which says whom it accepts; each is executed once, whatever its sender repeats.
 *
 *     request id known? ─► read, accepted? ─► effective id ─► told to the audit ─► executed ─► answer kept, durable
 */
import type { Clock } from '../../kernel/index.ts';
import { ANONYMOUS, hexOf, principalToText, REJECT_CODE, type Response, sameBytes } from '../ic/index.ts';
import type { IcFacade } from '../ic-facade/index.ts';
import type { Management, UserCall } from '../management/index.ts';
import { callerOf } from './anonymous-senders.ts';
import { bad, type CallEnvelope } from './envelope.ts';
import type { AgentCreators, AgentRequest } from './index.ts';
import { type AnswerStorage, ManagementAnswers } from './management-answers.ts';
import { managementRejection, type Rejection } from './rejections.ts';

export type Result = Uint8Array | Rejection;

const CREATIONS: ReadonlySet<string> = new Set(['create_canister', 'provisional_create_canister_with_cycles']);
const LIST = 'list_canisters';

export interface ManagementCallsNeeds {
  readonly management: Pick<Management, 'readUserCall'>;
  readonly facade: IcFacade;
  readonly storage: AnswerStorage;
  readonly clock: Clock;
}

/** A call that was accepted; its result is durable when it is known. */
export interface AcceptedCall {
  readonly result: Promise<Result>;
}

/** A request that is known. */
interface KnownRequest {
  readonly sender: Uint8Array;
  readonly effectiveId: Uint8Array;
  /** Undefined: it is being executed. */
  readonly result: Result | undefined;
}

interface RunningCall {
  readonly sender: Uint8Array;
  readonly effectiveId: Uint8Array;
  readonly accepting: Promise<AcceptedCall | Rejection>;
  isChange: boolean;
}

/** Where a request came to, what it may do, and who wants to know of changes. */
export interface Asked extends Pick<AgentRequest, 'changing' | 'isTrusted'> {
  /** The subnet that the host is. */
  readonly subnetId: Uint8Array;
  readonly effectiveId: Uint8Array;
  readonly isOnSubnet: boolean;
}

export class ManagementCalls {
  readonly #management: ManagementCallsNeeds['management'];
  readonly #facade: IcFacade;
  readonly #storage: AnswerStorage;
  readonly #creators: AgentCreators;
  readonly #answers: ManagementAnswers;
  /** Calls by request id in hex. */
  readonly #running = new Map<string, RunningCall>();

  constructor({ management, facade, storage, clock }: ManagementCallsNeeds, creators: AgentCreators) {
    this.#management = management;
    this.#facade = facade;
    this.#storage = storage;
    this.#creators = creators;
    this.#answers = new ManagementAnswers(storage, clock);
  }

  /** Resolves when the call is accepted, or known already; with a rejection if it is not accepted. */
  async call(envelope: CallEnvelope, asked: Asked): Promise<AcceptedCall | Rejection> {
    if (asked.isOnSubnet && !CREATIONS.has(envelope.method)) throw notOnSubnet([...CREATIONS]);
    await this.#answers.open();
    const id = hexOf(envelope.requestId);
    const known = this.#running.get(id) ?? this.#answers.find(id);
    if (known !== undefined && !sameBytes(known.effectiveId, asked.effectiveId))
      throw bad('the path', `names another id than this request had before: ${principalToText(known.effectiveId)}`);
    if (known !== undefined) return 'accepting' in known ? known.accepting : { result: this.#durable(known.result) };
    const accepting = this.#accept(id, envelope, asked);
    this.#running.set(id, { sender: envelope.sender, effectiveId: asked.effectiveId, accepting, isChange: false });
    const ended = (): void => void this.#running.delete(id);
    accepting.then((accepted) => {
      if ('errorCode' in accepted) ended();
      else accepted.result.then(ended, ended);
    }, ended);
    return accepting;
  }

  async query(envelope: CallEnvelope, asked: Asked): Promise<Result> {
    if (asked.isOnSubnet && envelope.method !== LIST) throw notOnSubnet([LIST]);
    const call = await this.#read(envelope, asked, true);
    expectSubject(call, asked.effectiveId);
    const refusal = this.#refusalOf(envelope, call);
    return refusal ?? resultOf(await call.run());
  }

  /** Resolves with what is known of a request; undefined: nothing. */
  async known(requestId: Uint8Array): Promise<KnownRequest | undefined> {
    await this.#answers.open();
    const id = hexOf(requestId);
    const running = this.#running.get(id);
    if (running === undefined) {
      const answer = this.#answers.find(id);
      if (answer !== undefined) await this.#storage.settled();
      return answer;
    }
    // A call that is not accepted is not known.
    const accepted = await running.accepting.catch(() => undefined);
    return accepted === undefined || 'errorCode' in accepted ? undefined : { ...running, result: undefined };
  }

  async #accept(id: string, envelope: CallEnvelope, asked: Asked): Promise<AcceptedCall | Rejection> {
    const { sender, method } = envelope;
    const call = await this.#read(envelope, asked, false);
    expectSubject(call, asked.effectiveId);
    const refusal = this.#refusalOf(envelope, call);
    if (refusal !== undefined) return refusal;
    if (call.isChange) {
      this.#answers.expectRoom(this.#countChanges() + 1);
      const actorHex = call.subject === undefined ? '' : hexOf(call.subject);
      const canister = principalToText(envelope.canisterId);
      asked.changing?.({ sender: principalToText(sender), canister, method, actorHex });
      const running = this.#running.get(id);
      if (running !== undefined) running.isChange = true;
    }
    const result = this.#run(id, envelope, asked.effectiveId, call);
    // One that comes when nobody waits any more.
    result.catch(() => undefined);
    return { result };
  }

  #countChanges(): number {
    let count = 0;
    for (const { isChange } of this.#running.values()) if (isChange) count++;
    return count;
  }

  async #run(id: string, { sender }: CallEnvelope, effectiveId: Uint8Array, call: UserCall): Promise<Result> {
    const result = resultOf(await call.run());
    // Nothing may be waited for before: the answer is in the unit of the change.
    if (!call.isChange) this.#answers.keepRead(id, sender, effectiveId, result);
    else this.#answers.keepChange(id, sender, effectiveId, result);
    return await this.#durable(result);
  }

  async #durable(result: Result): Promise<Result> {
    await this.#storage.settled();
    return result;
  }

  #read(envelope: CallEnvelope, { isTrusted, subnetId }: Asked, isQuery: boolean): Promise<UserCall> {
    const { sender, method, argument, canisterId } = envelope;
    const { areAnonymous, principals, certifies } = this.#creators;
    const isNamed = principals.some((each) => sameBytes(each, sender));
    const mayCreate = sameBytes(sender, ANONYMOUS) ? areAnonymous : isTrusted || isNamed;
    const caller = callerOf(sender, this.#creators);
    const rights = { isTrusted, mayCreate, certifiesCreated: certifies };
    const request = { sender: caller, ...rights, method, argument, isQuery };
    if (canisterId.length === 0) return this.#management.readUserCall(request);
    return this.#facade.readUserCall({ ...request, canisterId, subnetId });
  }

  #refusalOf({ sender, method }: CallEnvelope, { refusal }: UserCall): Rejection | undefined {
    const isOfNobody = CREATIONS.has(method) && sameBytes(sender, ANONYMOUS) && !this.#creators.areAnonymous;
    if (!isOfNobody) return refusal === undefined ? undefined : managementRejection(refusal);
    const message = `${method} is not for the anonymous principal, which controls nothing here: sign the call`;
    return { code: REJECT_CODE.CANISTER_ERROR, message, errorCode: 'IC0512' };
  }
}

/** Throws ServerError `agent-bad-request` if the call is about another canister than the path. */
function expectSubject({ subject }: UserCall, effectiveId: Uint8Array): void {
  if (subject === undefined || sameBytes(subject, effectiveId)) return;
  throw bad('the path', `names ${principalToText(effectiveId)}, but the call is about ${principalToText(subject)}`);
}

function resultOf(response: Response): Result {
  return response.kind === 'reply' ? response.data : managementRejection(response);
}

function notOnSubnet(methods: readonly string[]): Error {
  return bad('content.method_name', `cannot be asked of a subnet: ${methods.join(', ')} of aaaaa-aa can`);
}
