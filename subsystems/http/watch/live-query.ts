import { createHash } from 'node:crypto';
import { messageOf, ServerError } from '../../../kernel/index.ts';
import type { Canister } from '../../canisters/index.ts';
import type { Outcome } from '../../ic/index.ts';
import type { Access } from '../access.ts';
import { eventFrame } from '../event-streams.ts';
import { HTTP_STATUS, errorCodeOf } from '../http-status.ts';
import { type JsonForm, jsonFormOf, mustAsk, replyAsJson } from '../json-form.ts';
import type { RouteHost } from '../route.ts';
import { type Answer, type Scene, type Viewer, Viewers } from './viewers.ts';

/**
 * Milliseconds until an actor that could not answer now (its queue is full, its thread has stopped) is asked again;
 * doubled each time.
 */
const RETRY_MS = 100;
const RETRY_MAX_MS = 5000;
/** 64 bits of a SHA-256. */
const ID_CHARACTERS = 16;

/** A query that is watched. Everybody who watches the same query shares one execution. */
export interface WatchedQuery {
  readonly canister: Canister;
  readonly method: string;
  readonly caller: Uint8Array;
  readonly isLossless: boolean;
  /** The rights of those who watch. */
  readonly access: Pick<Access, 'key' | 'refusal'>;
  /** JSON array of arguments, as the client wrote it: other code may have other types for it. */
  readonly json: Uint8Array;
}

export interface PreparedCall {
  readonly form: JsonForm;
  /** Candid. */
  readonly argument: Uint8Array;
}

export type LiveQueryHost = Pick<RouteHost, 'canisters' | 'codec' | 'clock' | 'broadcast'> & {
  /** Counts what all answers hold together. Throws ServerError `unavailable` where that is too much. */
  hold(bytes: number): void;
};

/** One query that is asked again whenever its actor has changed, as long as anybody watches. */
export class LiveQuery {
  readonly #host: LiveQueryHost;
  readonly #query: WatchedQuery;
  /** Returns the number of changes of the actor since it has been watched. */
  readonly #changes: () => number;
  readonly #ended: () => void;
  readonly #viewers: Viewers;
  /** Clients that wait for the first answer. */
  #joining = 0;
  #answer: Answer | undefined;
  #codeChanges = 0;
  #codeFrame: Uint8Array = new Uint8Array();
  /** The query's arguments by the types of the present code; undefined while they are not known. */
  #call: PreparedCall | undefined;
  /** Changes of the actor that the answer knows of; none: there is no answer yet. */
  #seenChanges = -1;
  /** Clients that want an answer which knows of so many. */
  #waiting: { readonly wanted: number; readonly resolve: () => void; readonly reject: (error: unknown) => void }[] = [];
  #retryMs = RETRY_MS;
  #endFrame: Uint8Array | undefined = undefined;
  #isOver = false;

  /** `ended`: nobody watches any more, or it cannot be asked. Called once. */
  constructor(host: LiveQueryHost, query: WatchedQuery, call: PreparedCall, changes: () => number, ended: () => void) {
    this.#host = host;
    this.#query = query;
    this.#call = call;
    this.#changes = changes;
    this.#ended = ended;
    this.#viewers = new Viewers(() => this.#scene());
  }

  /**
   * Calls `join` when there is an answer that is not older than this call, so a client that knows of a change sees
   * it. Rejects with the ServerError that says why there is no answer.
   */
  async joining<T>(join: () => T): Promise<T> {
    this.#joining++;
    try {
      const wanted = this.#changes();
      if (this.#seenChanges < wanted) {
        await new Promise<void>((resolve, reject) => this.#waiting.push({ wanted, resolve, reject }));
      }
      return join();
    } finally {
      this.#joining--;
      this.#endIfAlone();
    }
  }

  add(viewer: Viewer): void {
    this.#viewers.add(viewer);
  }

  remove(viewer: Viewer): void {
    this.#viewers.remove(viewer);
    this.#endIfAlone();
  }

  drained(viewer: Viewer): void {
    viewer.isFull = false;
    this.#viewers.tell(viewer);
  }

  get codeChanges(): number {
    return this.#codeChanges;
  }

  /** Notes that the actor has other code: the query must be asked again, perhaps with other types. */
  codeChanged(): void {
    this.#call = undefined;
    this.#codeChanges++;
    const { module } = this.#query.canister;
    this.#codeFrame = eventFrame({ event: 'upgrade', data: JSON.stringify({ moduleHash: module?.hash ?? null }) });
    this.#changed();
  }

  /** Ends the query if those who watch it may not call its method any more. */
  openMethodsChanged(): void {
    const { canister, method, access } = this.#query;
    const refusal = access.refusal(canister, method);
    if (refusal !== undefined) this.end(refusal);
  }

  /**
   * Asks the actor once. Resolves when the query may be asked again; with a number if it should be, after so many
   * milliseconds. If the code changes meanwhile, the answer is dropped: types and answer may be of different code,
   * and the change has the query asked again anyway. Never rejects.
   */
  async ask(): Promise<number | undefined> {
    const changes = this.#changes();
    const codeChanges = this.#codeChanges;
    const isPast = (): boolean => this.#isOver || codeChanges !== this.#codeChanges;
    try {
      const call = this.#call ?? (await preparedCall(this.#host, this.#query));
      if (isPast()) return undefined;
      this.#call = call;
      const { form, argument } = call;
      const { canister, method, caller } = this.#query;
      // A copy: a large argument would be handed over.
      const outcome = await this.#host.canisters.ask(canister, method, caller, new Uint8Array(argument));
      if (isPast()) return undefined;
      if (outcome.kind === 'unavailable') {
        const retryMs = this.#retryMs;
        this.#retryMs = Math.min(retryMs * 2, RETRY_MAX_MS);
        this.#settle(new ServerError('unavailable', 'watch-unavailable', outcome.message));
        return retryMs;
      }
      this.#retryMs = RETRY_MS;
      const event = await this.#eventOf(form, outcome);
      if (isPast()) return undefined;
      this.#answered(event);
      this.#seenChanges = changes;
      this.#settle(undefined);
    } catch (error) {
      if (!isPast()) this.end(error);
    }
    return undefined;
  }

  /** An answer is the event without a name, so that a page needs no other listener. */
  async #eventOf(
    form: JsonForm,
    outcome: Exclude<Outcome, { kind: 'unavailable' }>,
  ): Promise<{ readonly event?: string; readonly data: string }> {
    if (outcome.kind !== 'reply') return faultEvent(outcome);
    const { canister, method } = this.#query;
    try {
      const json = await replyAsJson(form, canister, method, outcome.data);
      return { data: Buffer.from(json.buffer, json.byteOffset, json.byteLength).toString('utf8') };
    } catch (error) {
      if (!(error instanceof ServerError) || error.kind !== 'trapped') throw error;
      return faultEvent({ kind: 'trap', code: 5, message: error.message });
    }
  }

  #answered(event: { readonly event?: string; readonly data: string }): void {
    const hash = createHash('sha256')
      .update(`${event.event ?? ''}\0`)
      .update(event.data);
    const id = hash.digest('hex').slice(0, ID_CHARACTERS);
    if (id !== this.#answer?.id) {
      const frame = eventFrame({ ...event, id });
      this.#host.hold(frame.length - (this.#answer?.frame.length ?? 0));
      this.#answer = { id, frame };
      this.#changed();
    }
  }

  #changed(): void {
    this.#viewers.changed();
    this.#host.broadcast.tell(this.#viewers);
  }

  #scene(): Scene {
    return {
      codeChanges: this.#codeChanges,
      codeFrame: this.#codeFrame,
      answer: this.#answer,
      endFrame: this.#endFrame,
    };
  }

  #endIfAlone(): void {
    if (this.#viewers.size === 0 && this.#joining === 0) this.end(undefined);
  }

  /** Tells all why nothing more comes. */
  end(error: unknown): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#settle(error);
    this.#host.hold(-(this.#answer?.frame.length ?? 0));
    this.#ended();
    const code = error instanceof ServerError ? errorCodeOf(error.kind, 5) : 500;
    const data = JSON.stringify({ code, message: messageOf(error) });
    this.#endFrame = eventFrame({ event: 'end', data });
    if (this.#viewers.size > 0) this.#changed();
  }

  /** Lets those in who have waited for what the answer knows by now; with an error, nobody. */
  #settle(error: unknown): void {
    const waiting = this.#waiting;
    this.#waiting = waiting.filter(({ wanted }) => error === undefined && wanted > this.#seenChanges);
    for (const { wanted, resolve, reject } of waiting) {
      if (error !== undefined) reject(error);
      else if (wanted <= this.#seenChanges) resolve();
    }
  }
}

/**
 * Returns the arguments by the types of the present code, which is asked for them if necessary. Rejects with
 * ServerError `invalid` or `missing`.
 */
export async function preparedCall(
  { codec, canisters }: Pick<RouteHost, 'codec' | 'canisters'>,
  { canister, method, isLossless, caller, json }: WatchedQuery,
): Promise<PreparedCall> {
  if (mustAsk(canister, isLossless)) await canisters.interfaceOf(canister);
  const form = jsonFormOf(codec, canister, method, isLossless, caller);
  return { form, argument: await form.args.encodeAnySize(json, form.encoding) };
}

type Fault = Pick<Exclude<Outcome, { kind: 'reply' | 'unavailable' }>, 'kind' | 'code' | 'message'>;

/** Returns the event of a fault, with the fields of a call's error body. */
function faultEvent({ kind, code, message }: Fault): { readonly event: string; readonly data: string } {
  if (kind === 'outOfCycles')
    return { event: 'out_of_cycles', data: JSON.stringify({ code: HTTP_STATUS.outOfCycles, message }) };
  const event = kind === 'trap' || kind === 'limit' ? 'trap' : 'reject';
  return { event, data: JSON.stringify({ code, message }) };
}
