/**
 * Calls to canisters of other shards and from them. To the rest of the scheduler the other canister is a stand-in in a
 * state of its own: a call to it has an open call and a context like each call, and the journal stores both. Only what
 * comes to wait for the stand-in goes another way: it is sent to the other server when its unit is durable.
 *
 *     caller here     open call ──► context of the stand-in, until the other server has accepted the call
 *     callee here     open call of the stand-in ──► context of the callee; its response, until the other server has it
 *
 * So a crash on either side leaves what is needed to go on: the sender repeats what was not accepted, the callee knows
 * what it has accepted, and repeats responses until the sender has them. exchange.ts has the messages.
 *
 * Main thread. Touches stand-ins with their contexts and calls.
 */
import { type Clock, ServerError } from '../../../kernel/index.ts';
import { NO_BYTES } from '../../bytes/index.ts';
import { idToText, type OutgoingCall, principalToText, REJECT_CODE, type Response, sameBytes } from '../../ic/index.ts';
import type { CallJournal } from '../call-journal.ts';
import {
  CallContext,
  OpenCall,
  type QueuedCall,
  type QueuedTask,
  type ScheduledCanister,
} from '../scheduled-canister.ts';
import type { Tasks } from '../tasks.ts';
import { Early } from './early.ts';
import type { CallExchange, CallName, CallPlaces, Conversation, LinkMessage, WayNumber } from './exchange.ts';
import { Outbox } from './outbox.ts';
import { type ShardOfService, Stubs } from './stubs.ts';
import { Talk } from './talk.ts';

/** Calls and their responses among the canisters here. */
interface CallsHere {
  /** A call of another server's canister has come. */
  deliver(call: OpenCall, outgoing: OutgoingCall): void;
  /** A call has its response, with the cycles that come back. */
  respond(call: OpenCall, response: Response, refunded: bigint): void;
}

interface ElsewhereNeeds {
  readonly clock: Pick<Clock, 'nowMs'>;
  readonly journal: CallJournal;
  readonly calls: CallsHere;
  readonly tasks: Pick<Tasks, 'enqueue'>;
}

/** Another shard: what it has to get. */
interface OtherShard {
  /** Calls of canisters here that it has not accepted. */
  readonly calls: Outbox<CallContext>;
  /** Calls of its canisters that are answered. */
  readonly answers: Outbox<OpenCall>;
  callsTalk: Talk | undefined;
  answersTalk: Talk | undefined;
  newest: WayNumber | undefined;
}

export class Elsewhere implements CallExchange {
  isOpen = false;
  readonly stubs: Stubs;
  readonly #needs: ElsewhereNeeds;
  readonly #service: ShardOfService | undefined;
  readonly #shards = new Map<number, OtherShard>();
  /** Calls of canisters here whose response has not come. */
  readonly #open = new Map<string, OpenCall>();
  /** Calls of other shards' canisters, until their servers have the responses. */
  readonly #taken = new Map<string, OpenCall>();
  /** Calls of other shards' canisters that cannot be taken yet. */
  readonly #early = new Early((shard, message, talk) => this.#tookCall(shard, message, talk));

  constructor(needs: ElsewhereNeeds, service: ShardOfService | undefined) {
    this.#needs = needs;
    this.#service = service;
    this.stubs = new Stubs(service);
    service?.moved?.attend((id) => {
      this.#reroute(id);
      this.#early.again(id);
    });
  }

  // ---- from the other parts of the scheduler

  /** Makes a call of a canister here to a stand-in. */
  call(call: OpenCall, { method, payload, storedAs, cycles }: OutgoingCall, stub: ScheduledCanister): void {
    const { calls, tasks } = this.#needs;
    if (call.context.evaluation !== undefined) {
      const message = `Canister ${principalToText(stub.id)} is in another shard: a composite query cannot call it`;
      calls.respond(call, { kind: 'reject', code: REJECT_CODE.DESTINATION_INVALID, message }, cycles);
      this.stubs.dropIfDone(stub);
      return;
    }
    this.#name(call);
    const context = new CallContext(stub, { kind: 'canister', call }, { caller: call.context.canister.id, cycles });
    context.storedAs = storedAs;
    stub.work.contexts.add(context);
    tasks.enqueue(stub, { kind: 'start', context, call: 'update', method, argument: payload, order: 0 });
  }

  #name(call: OpenCall): void {
    const { journal } = this.#needs;
    journal.number(call);
    call.madeAs ??= { node: this.#service?.node ?? '', number: call.number };
    journal.callChanged(call);
  }

  /** Something has come to wait for a stand-in. */
  sendWaiting(stub: ScheduledCanister): void {
    const { input } = stub.work;
    for (let waiting = input.shift(); waiting !== undefined; waiting = input.shift()) this.#send(stub, waiting);
  }

  #send(stub: ScheduledCanister, waiting: QueuedTask): void {
    if (waiting.kind === 'start') {
      const { context } = waiting;
      const call = callOf(context);
      // The caller was deleted before this process began.
      if (call === undefined || (call.madeAs === undefined && call.isEnded)) {
        this.#handedOver(context);
        return;
      }
      // The call waited here for a canister that another process has let go.
      if (call.madeAs === undefined) this.#name(call);
      const key = keyOf(call);
      this.#open.set(key, call);
      this.#needs.journal.whenDurable(() => {
        // The canister may have come here meanwhile.
        if (!stub.work.contexts.has(context)) return;
        const other = this.#shardOf(stub);
        other.calls.add(key, context);
        if (call.isAnswered) this.expired(call);
        else other.callsTalk?.wake();
      });
    } else if (waiting.kind === 'response') {
      const { call } = waiting;
      const key = keyOf(call);
      this.#taken.set(key, call);
      this.#needs.journal.whenDurable(() => {
        const other = this.#shardOf(stub);
        other.answers.add(key, call);
        other.answersTalk?.wake();
      });
    }
  }

  /** Takes over a call that had no response yet when another process left it. */
  resume(call: OpenCall): void {
    const isOwn = call.context.canister.state.kind !== 'elsewhere';
    // The callee has come here since the call got its name.
    if (isOwn && this.stubs.shardOf(call.callee) === undefined) return;
    (isOwn ? this.#open : this.#taken).set(keyOf(call), call);
  }

  /** All that another process has left is here. */
  begin(): void {
    for (const stub of this.stubs) {
      this.sendWaiting(stub);
      this.stubs.dropIfDone(stub);
    }
    this.isOpen = true;
  }

  /** Nobody waits for a call any more: it is not sent, if it has not been. */
  expired(call: OpenCall): void {
    const shard = this.stubs.shardOf(call.callee);
    const key = keyOf(call);
    const context = shard === undefined ? undefined : this.#shards.get(shard)?.calls.take(key);
    if (context === undefined) return;
    this.#open.delete(key);
    this.#handedOver(context);
  }

  // ---- canisters that move

  /** Takes no call to that canister until what is returned is called: calls that come wait. */
  close(id: Uint8Array): () => void {
    return this.#early.close(id);
  }

  /** Returns true if calls of other shards' canisters to that one are here, or their answers. */
  hasTaken(id: Uint8Array): boolean {
    for (const { callee } of this.#taken.values()) if (sameBytes(callee, id)) return true;
    return false;
  }

  /** Returns true if calls of that canister of another shard are here, or their answers. */
  hasCallsOf(id: Uint8Array): boolean {
    for (const { origin } of this.stubs.ifAny(id)?.work.contexts ?? []) if (origin.kind === 'system') return true;
    return false;
  }

  /** A canister of this server is in another shard from now on. */
  left(id: Uint8Array, shard: number, version: number): void {
    this.#service?.moved?.moved({ id, shard, version });
  }

  /** Sends a call on that has waited for a canister which is in another shard now. */
  handOn(id: Uint8Array, { context, method, argument }: QueuedCall): void {
    const call = callOf(context);
    const stub = this.stubs.of(id);
    if (call === undefined || stub === undefined) return;
    this.#replaced(context, { method, argument }, (outgoing) => this.call(call, outgoing, stub));
  }

  /** A canister of another shard is here from now on: what waits for its stand-in comes to it, in order. */
  arrived(id: Uint8Array, version: number): void {
    const stub = this.stubs.ifAny(id);
    this.#service?.moved?.moved({ id, shard: this.#service.shard, version });
    for (const context of stub?.work.contexts ?? []) {
      const call = callOf(context);
      const { pending } = context;
      if (call === undefined || pending === undefined) continue;
      this.#open.delete(keyOf(call));
      if (call.isAnswered) this.#handedOver(context);
      else this.#replaced(context, pending, (outgoing) => this.#needs.calls.deliver(call, outgoing));
    }
    if (stub !== undefined) this.stubs.dropIfDone(stub);
  }

  /** Has another context take the place of one that has not begun, in the same unit. */
  #replaced(
    context: CallContext,
    { method, argument: payload }: Pick<QueuedCall, 'method' | 'argument'>,
    replace: (outgoing: OutgoingCall) => void,
  ): void {
    const { storedAs, canister, cyclesAvailable: cycles } = context;
    context.storedAs = undefined;
    const rest = { timeoutSeconds: undefined, callbacks: NO_BYTES };
    replace({ callee: canister.id, method, payload, storedAs, cycles, ...rest });
    this.#handedOver(context);
  }

  /** Calls that wait for a canister which is in another shard than was known are sent there, in their order. */
  #reroute(id: Uint8Array): void {
    const shard = this.stubs.shardOf(id);
    const known = [...this.#shards.values()];
    for (const { calls } of known) {
      const its = [...calls].filter(({ item }) => sameBytes(item.canister.id, id));
      for (const { key, item } of its) {
        calls.take(key);
        if (shard !== undefined) this.#shard(shard).calls.add(key, item);
      }
    }
    if (shard !== undefined) this.#shard(shard).callsTalk?.wake();
  }

  // ---- from the ways

  callTo(shard: number, wake: () => void): Conversation {
    const other = this.#shard(shard);
    if (other.callsTalk !== undefined) other.callsTalk.isOver = true;
    other.calls.repeat();
    const owed = (): LinkMessage | undefined => this.#nextCall(other);
    const take = (message: LinkMessage, talk: Talk): void => this.#tookAnswer(other, message, talk);
    other.callsTalk = new Talk({ journal: this.#needs.journal, owed, take, wake });
    return other.callsTalk;
  }

  callsFrom(shard: number, way: WayNumber, wake: () => void): Conversation | undefined {
    const other = this.#shard(shard);
    if (other.newest !== undefined && !isLater(way, other.newest)) return undefined;
    other.newest = way;
    if (other.answersTalk !== undefined) other.answersTalk.isOver = true;
    other.answers.repeat();
    const owed = (): LinkMessage | undefined => {
      const call = other.answers.next();
      return call && responseOf(call);
    };
    const take = (message: LinkMessage, talk: Talk): void => this.#tookCall(shard, message, talk);
    other.answersTalk = new Talk({ journal: this.#needs.journal, owed, take, wake });
    return other.answersTalk;
  }

  #nextCall(other: OtherShard): LinkMessage | undefined {
    for (let context = other.calls.next(); context !== undefined; context = other.calls.next()) {
      const call = callOf(context);
      const { pending } = context;
      if (call === undefined || pending === undefined) continue;
      if (call.isAnswered) {
        this.expired(call);
        continue;
      }
      const { callee, deadlineMs } = call;
      const leftMs = Number.isFinite(deadlineMs) ? Math.max(0, deadlineMs - this.#needs.clock.nowMs()) : undefined;
      const { method, argument } = pending;
      const name = nameOf(call);
      const said = { kind: 'call', name, callee, method, argument, cycles: context.cyclesAvailable, leftMs } as const;
      const places = this.#placesOf(name.sender, callee);
      return places === undefined ? said : { ...said, places };
    }
    return undefined;
  }

  #placesOf(sender: Uint8Array, callee: Uint8Array): CallPlaces | undefined {
    const moved = this.#service?.moved;
    const places = { sender: moved?.versionOf(sender) ?? 0, callee: moved?.versionOf(callee) ?? 0 };
    return places.sender + places.callee === 0 ? undefined : places;
  }

  #tookAnswer(other: OtherShard, message: LinkMessage, talk: Talk): void {
    if (message.kind === 'moved') {
      const callee = other.calls.find(keyOfName(message.name))?.canister.id;
      if (callee !== undefined) this.#heard({ ...message, id: callee });
      return;
    }
    if (message.kind !== 'accepted' && message.kind !== 'response') throw unexpected(message);
    const { name } = message;
    const key = keyOfName(name);
    const context = other.calls.take(key);
    if (context !== undefined) this.#handedOver(context);
    if (message.kind === 'accepted') return;
    const { response, refunded } = message;
    const call = this.#open.get(key);
    this.#open.delete(key);
    if (call !== undefined) this.#needs.calls.respond(call, response, refunded);
    talk.sayWhenDurable({ kind: 'done', name }, response.kind === 'reply' ? response.data : undefined);
  }

  #tookCall(shard: number, message: LinkMessage, talk: Talk): void {
    const { name } = message;
    if (message.kind === 'done') {
      this.#done(shard, keyOfName(name));
      return;
    }
    if (message.kind !== 'call') throw unexpected(message);
    // A repeat may come when its sender has moved on: what confirms it is behind it.
    if (!this.#taken.has(keyOfName(name)) && !this.#mayAccept(shard, message, talk)) return;
    talk.sayWhenDurable({ kind: 'accepted', name }, message.argument);
  }

  /** Accepts a call that was not here before, unless its callee is about to move, or has moved. */
  #mayAccept(shard: number, message: LinkMessage & { readonly kind: 'call' }, talk: Talk): boolean {
    const { name, callee, places = NEVER_MOVED } = message;
    this.#heard({ id: name.sender, shard, version: places.sender });
    const { moved } = this.#service ?? {};
    const version = moved?.versionOf(callee) ?? 0;
    // A sender that is about to come may have left calls on the way.
    if (this.#early.isClosed(callee) || this.#early.isClosed(name.sender) || places.callee > version) {
      this.#early.add(shard, message, talk);
      return false;
    }
    // Nobody waits for it: a canister leaves when none of its calls is open, and this one was given up.
    if (places.sender < (moved?.versionOf(name.sender) ?? 0)) return false;
    if (this.stubs.shardOf(name.sender) !== shard) throw unexpected(message);
    const elsewhere = this.stubs.shardOf(callee);
    if (places.callee < version) {
      talk.say({ kind: 'moved', name, shard: elsewhere ?? this.#service?.shard ?? 0, version });
      return false;
    }
    if (elsewhere !== undefined) throw unexpected(message);
    this.#accept(message);
    return true;
  }

  /** Another server says where a canister is: not here, that this server knows by itself. */
  #heard(moved: { readonly id: Uint8Array; readonly shard: number; readonly version: number }): void {
    if (moved.shard !== this.#service?.shard) this.#service?.moved?.moved(moved);
  }

  /** A call has come that was not here before. */
  #accept({ name, callee, method, argument, cycles, leftMs }: LinkMessage & { readonly kind: 'call' }): void {
    const { journal, calls, clock } = this.#needs;
    const stub = this.stubs.of(name.sender);
    if (stub === undefined) return;
    const caller = callerOf(stub);
    const deadlineMs = leftMs === undefined ? Number.POSITIVE_INFINITY : clock.nowMs() + leftMs;
    const call = new OpenCall(caller, callee, { callbacks: NO_BYTES, deadlineMs, cycles: 0n });
    call.madeAs = { node: name.node, number: name.number };
    this.#taken.set(keyOf(call), call);
    caller.openCalls++;
    stub.work.openCalls.add(call);
    journal.callChanged(call);
    journal.contextChanged(caller);
    calls.deliver(call, { callee, method, payload: argument, cycles, timeoutSeconds: undefined, callbacks: NO_BYTES });
  }

  /** The sender has the response. */
  #done(shard: number, key: string): void {
    const call = this.#shard(shard).answers.take(key);
    if (call === undefined) return;
    this.#taken.delete(key);
    const { context } = call;
    const { canister } = context;
    context.openCalls--;
    call.pending = undefined;
    call.isEnded = true;
    canister.work.openCalls.delete(call);
    this.#needs.journal.callEnded(call);
    if (context.openCalls > 0) return;
    canister.work.contexts.delete(context);
    this.#needs.journal.contextEnded(context);
    this.stubs.dropIfDone(canister);
  }

  /** The other server has the call, or nobody wants it sent: nothing of it is kept but that it is open. */
  #handedOver(context: CallContext): void {
    const { canister } = context;
    context.pending = undefined;
    canister.work.contexts.delete(context);
    this.#needs.journal.contextEnded(context);
    this.stubs.dropIfDone(canister);
  }

  #shardOf(stub: ScheduledCanister): OtherShard {
    return this.#shard(this.stubs.shardOf(stub.id) ?? -1);
  }

  #shard(shard: number): OtherShard {
    let other = this.#shards.get(shard);
    if (other === undefined) {
      const ways = { callsTalk: undefined, answersTalk: undefined, newest: undefined };
      other = { calls: new Outbox(), answers: new Outbox(), ...ways };
      this.#shards.set(shard, other);
    }
    return other;
  }
}

const NEVER_MOVED: CallPlaces = { sender: 0, callee: 0 };

/** The context in which all calls of a stand-in are made: there while one of them is open. */
function callerOf(stub: ScheduledCanister): CallContext {
  for (const context of stub.work.contexts) if (context.origin.kind === 'system') return context;
  // No tick has brought it about: somebody waits for what it has called.
  const caller = Object.assign(new CallContext(stub, { kind: 'system' }, { caller: NO_BYTES }), { isOfTick: false });
  stub.work.contexts.add(caller);
  return caller;
}

function callOf({ origin }: CallContext): OpenCall | undefined {
  return origin.kind === 'canister' ? origin.call : undefined;
}

function nameOf({ context, madeAs }: OpenCall): CallName {
  return { sender: context.canister.id, node: madeAs?.node ?? '', number: madeAs?.number ?? 0 };
}

function responseOf(call: OpenCall): LinkMessage | undefined {
  const { pending } = call;
  return pending && { kind: 'response', name: nameOf(call), response: pending.response, refunded: pending.refunded };
}

function keyOf({ context, madeAs }: OpenCall): string {
  return `${context.canister.idText}/${madeAs?.node}/${madeAs?.number}`;
}

function keyOfName({ sender, node, number }: CallName): string {
  return `${idToText(sender)}/${node}/${number}`;
}

function isLater(way: WayNumber, than: WayNumber): boolean {
  return way.epoch > than.epoch || (way.epoch === than.epoch && way.number > than.number);
}

function unexpected({ kind }: LinkMessage): ServerError {
  return new ServerError('unavailable', 'link-refused', `the other server cannot have sent this message: ${kind}`);
}
