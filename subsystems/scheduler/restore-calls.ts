/**
 * Contexts, calls and queues as they were kept, put together again.
 *
 * Clients wait no more: their contexts go on with nobody to tell. Calls of the management canister that had no response
 * are answered with a reject: whether they were carried out is unknown. What belongs to a canister that is not there is
 * put together as well, around an canister that nobody finds: responses to it are kept, and nothing of it runs.
 *
 * Main thread, once, at the start: reads entries, and touches what it makes of them.
 */
import { assert, ServerError } from '../../kernel/index.ts';
import { contextNumberOf, type Entry } from '../storage/index.ts';
import {
  ScheduledCanister,
  type Credit,
  type QueuedResponse,
  type QueuedCall,
  CallContext,
  NOBODY,
  OpenCall,
} from './scheduled-canister.ts';
import { DELETED, UNUSABLE } from './canister-state.ts';
import { idToText, type Response } from '../ic/index.ts';
import { StoredPayloads } from './stored-payloads.ts';
import {
  type CallRecord,
  CONTEXT,
  CALL,
  type ContextRecord,
  type KeyedRecord,
  keyOf,
  readRecord,
} from './call-records.ts';

interface RestoredCalls {
  /** Waiting tasks, in the order in which they came to wait. */
  readonly waiting: readonly (QueuedCall | QueuedResponse)[];
  /** Calls without a response. */
  readonly open: readonly OpenCall[];
  readonly credits: readonly Credit[];
  /** Contexts that have their clients' keys. */
  readonly keyed: readonly { readonly context: CallContext; readonly record: KeyedRecord }[];
  /** Keys of rows that were stored ahead of messages that have not happened. */
  readonly left: readonly Uint8Array[];
  /** The largest numbers in use. */
  readonly number: number;
  readonly order: number;
}

/** Throws ServerError `state-corrupt`. */
export function restoreCalls(
  entries: Iterable<Entry>,
  find: (id: Uint8Array) => ScheduledCanister | undefined,
): RestoredCalls {
  const restoring = new Restoring(find);
  for (const entry of entries) restoring.read(entry);
  return restoring.link();
}

class Restoring {
  readonly #find: (id: Uint8Array) => ScheduledCanister | undefined;
  readonly #absent = new Map<string, ScheduledCanister>();
  readonly #contexts = new Map<number, { readonly record: ContextRecord; readonly context: CallContext }>();
  readonly #records: CallRecord[] = [];
  readonly #credits: Credit[] = [];
  readonly #payloads = new StoredPayloads();
  #number = 0;
  #order = 0;

  constructor(find: (id: Uint8Array) => ScheduledCanister | undefined) {
    this.#find = find;
  }

  read(entry: Entry): void {
    if (this.#payloads.takes(entry)) return;
    const { kind, record } = readRecord(entry);
    this.#number = Math.max(this.#number, record.number);
    if (kind === 'context') this.#contexts.set(record.number, { record, context: this.#contextOf(record) });
    else if (kind === 'call') this.#records.push(record);
    else {
      const { number, canister, amount } = record;
      const payee = this.#find(canister) ?? goneCanister(canister);
      this.#credits.push({ canister: payee, amount, number, isStored: true, isPaid: false });
    }
  }

  #contextOf(record: ContextRecord): CallContext {
    const { caller, deadlineNs, cyclesAvailable, hasAnswered, isDeleted, instructions, charge, fault } = record;
    const canister = this.#canisterOf(record.canister);
    const context = new CallContext(canister, { kind: 'system' }, { caller, deadlineNs, cycles: cyclesAvailable });
    const { number, deletion } = record;
    const known = { number, hasAnswered, isDeleted, instructions, charge, fault, deletion, isStored: true };
    Object.assign(context, { ...known, isOfTick: false });
    // One that was ended with its code holds up nobody.
    if (!isDeleted || deletion !== undefined) canister.work.contexts.add(context);
    return context;
  }

  link(): RestoredCalls {
    const calls = new Map<number, OpenCall>();
    const open: OpenCall[] = [];
    const waiting: (QueuedCall | QueuedResponse)[] = [];
    for (const record of this.#records) {
      const call = this.#callOf(record);
      calls.set(record.number, call);
      const { pending } = call;
      if (call.context.canister.state.kind === 'unloadable') this.#seen(pending);
      else if (pending === undefined) open.push(call);
      else waiting.push(this.#seen(pending));
    }
    for (const { record, context } of this.#contexts.values()) {
      this.#setOrigin(context, record.origin, calls);
      if (record.start !== undefined) {
        context.pending = { kind: 'start', context, call: 'update', ...this.#startOf(context, record) };
        this.#seen(context.pending);
        if (context.canister.state.kind !== 'unloadable') waiting.push(context.pending);
      } else if (context.openCalls === 0) {
        throw damaged(CONTEXT, record.number, 'nothing waits for it');
      }
    }
    waiting.sort((a, b) => a.order - b.order);
    const keyed = [...this.#contexts.values()].flatMap(({ context, record }) =>
      record.keyed === undefined ? [] : [{ context, record: record.keyed }],
    );
    const left = this.#payloads.left();
    return { waiting, open, keyed, credits: this.#credits, left, number: this.#number, order: this.#order };
  }

  #startOf(context: CallContext, { number, start }: ContextRecord): Pick<QueuedCall, 'order' | 'method' | 'argument'> {
    assert(start !== undefined, `context ${number} has begun`);
    const { storedAs, ...call } = start;
    if (storedAs === undefined) return call;
    context.storedAs = storedAs;
    const argument = this.#payloads.at(storedAs);
    if (argument === undefined) throw damaged(CONTEXT, number, 'the argument of its call is not there');
    return { ...call, argument };
  }

  #responseOf(call: OpenCall, number: number, response: Response): Response {
    if (response.kind === 'reject' || response.storedAs === undefined) return response;
    call.storedAs = response.storedAs;
    this.#number = Math.max(this.#number, contextNumberOf(response.storedAs));
    const data = this.#payloads.at(response.storedAs);
    if (data === undefined) throw damaged(CALL, number, 'its reply is not there');
    return { kind: 'reply', data };
  }

  #callOf(record: CallRecord): OpenCall {
    const context = this.#contexts.get(record.context)?.context;
    if (context === undefined) throw damaged(CALL, record.number, `its context ${record.context} is not there`);
    const { callee, callbacks, deadlineMs, cycles, madeAs, response } = record;
    const call = new OpenCall(context, callee, { callbacks, deadlineMs, cycles });
    call.madeAs = madeAs;
    call.number = record.number;
    call.isStored = true;
    context.openCalls++;
    context.canister.work.openCalls.add(call);
    if (response !== undefined) {
      call.isAnswered = true;
      const kept = this.#responseOf(call, record.number, response.response);
      call.pending = { kind: 'response', call, ...response, response: kept };
    }
    return call;
  }

  #setOrigin(context: CallContext, origin: ContextRecord['origin'], calls: ReadonlyMap<number, OpenCall>): void {
    if (origin === 'client') context.origin = { kind: 'ingress', done: NOBODY, noted: undefined };
    if (typeof origin !== 'number') return;
    this.#number = Math.max(this.#number, origin);
    context.origin = { kind: 'canister', call: calls.get(origin) ?? endedCall(context, origin) };
  }

  #seen<T extends { readonly order: number } | undefined>(pending: T): T {
    if (pending !== undefined) this.#order = Math.max(this.#order, pending.order);
    return pending;
  }

  #canisterOf(id: Uint8Array): ScheduledCanister {
    const found = this.#find(id);
    if (found !== undefined) return found;
    const name = Buffer.from(id).toString('hex');
    let canister = this.#absent.get(name);
    if (canister === undefined) {
      canister = new ScheduledCanister(-1, idToText(id), UNUSABLE);
      this.#absent.set(name, canister);
    }
    return canister;
  }
}

/** Returns a stand-in for a canister that was deleted while it was being paid; all else that it had went with it. */
function goneCanister(id: Uint8Array): ScheduledCanister {
  const canister = new ScheduledCanister(-1, idToText(id), UNUSABLE);
  canister.enter(DELETED);
  return canister;
}

/** A caller that did not wait until the end: its call is not kept any more. */
function endedCall(context: CallContext, number: number): OpenCall {
  const nothing = new Uint8Array(0);
  const options = { callbacks: nothing, deadlineMs: Number.POSITIVE_INFINITY, cycles: 0n };
  const call = new OpenCall(context, nothing, options);
  Object.assign(call, { number, isAnswered: true, isEnded: true });
  return call;
}

function damaged(letter: number, number: number, why: string): ServerError {
  const name = Buffer.from(keyOf(letter, number)).toString('hex');
  return new ServerError('unavailable', 'state-corrupt', `the entry queue ${name} is damaged: ${why}`);
}
