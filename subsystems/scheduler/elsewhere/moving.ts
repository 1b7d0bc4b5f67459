/**
 * Canisters that go to another shard, and that come from one, as the scheduler sees them (ADR 130). One goes at rest:
 * locked, with no call of its own open and nothing of it begun, so that all it leaves are calls of canisters here that
 * wait for it. These wait for its stand-in then, and are sent.
 *
 * Main thread. Touches the canister, its stand-in, and what waits for either.
 */
import type { CallJournal } from '../call-journal.ts';
import { DELETED } from '../canister-state.ts';
import type { CanisterTable } from '../canister-table.ts';
import type { CodeChangeLock } from '../code-change-lock.ts';
import type { Eviction } from '../eviction.ts';
import type { Idempotency } from '../idempotency/idempotency.ts';
import type { ActorMoves, Departure } from '../index.ts';
import type { CallContext, QueuedCall, QueuedTask, ScheduledCanister } from '../scheduled-canister.ts';
import type { Stopping } from '../stopping.ts';
import type { Ticking } from '../ticking.ts';
import type { Elsewhere } from './elsewhere.ts';

interface MovingNeeds {
  readonly canisters: CanisterTable;
  readonly codeChangeLock: Pick<CodeChangeLock, 'lock'>;
  readonly elsewhere: Elsewhere;
  readonly eviction: Pick<Eviction, 'sleepNow' | 'wantsStill' | 'forget'>;
  readonly idempotency: Pick<Idempotency, 'forget' | 'restoreOne'>;
  readonly journal: Pick<CallJournal, 'isDurable'>;
  readonly stopping: Pick<Stopping, 'refuse'>;
  readonly ticking: Pick<Ticking, 'forget'>;
}

export class Moving implements ActorMoves {
  readonly #needs: MovingNeeds;

  constructor(needs: MovingNeeds) {
    this.#needs = needs;
  }

  hold(id: Uint8Array): () => void {
    return this.#needs.elsewhere.close(id);
  }

  mayRest(handle: number): boolean {
    const canister = this.#needs.canisters.get(handle);
    return (canister.workIfAny?.openCalls.size ?? 0) === 0 && !this.#needs.elsewhere.hasTaken(canister.id);
  }

  async depart(handle: number): Promise<Departure | undefined> {
    const { canisters, codeChangeLock, elsewhere } = this.#needs;
    const canister = canisters.get(handle);
    const { work } = canister;
    const unlock = codeChangeLock.lock(canister);
    if (work.executing > 0) await new Promise<void>((resolve) => work.restWaiters.push(resolve));
    if (isAtRest(canister) && !elsewhere.hasTaken(canister.id)) return this.#departure(canister, unlock);
    unlock();
    return undefined;
  }

  #departure(canister: ScheduledCanister, unlock: () => void): Departure {
    const { eviction } = this.#needs;
    canister.work.isLeaving = true;
    return {
      sleep: () => eviction.sleepNow(canister),
      stay: () => {
        canister.work.isLeaving = false;
        unlock();
        const work = canister.workIfAny;
        if (canister.state.kind === 'evicted' && work !== undefined && work.waiting + work.wakeWaiters.length > 0)
          eviction.wantsStill(canister);
      },
      leave: (shard, version) => this.#left(canister, shard, version),
    };
  }

  #left(canister: ScheduledCanister, shard: number, version: number): void {
    const { canisters, elsewhere, eviction, idempotency, stopping, ticking } = this.#needs;
    // All other contexts are those of hooks, which are due again where the canister is.
    const calls = canister.work.input.takeAll().filter(isCall);
    ticking.forget(canister);
    canisters.leave(canister);
    canister.enter(DELETED);
    idempotency.forget(canister);
    eviction.forget(canister);
    stopping.refuse(canister);
    elsewhere.left(canister.id, shard, version);
    for (const waiting of calls) elsewhere.handOn(canister.id, waiting);
  }

  owesNothing(id: Uint8Array): boolean {
    return !this.#needs.elsewhere.hasCallsOf(id);
  }

  async arriving(handle: number): Promise<void> {
    await this.#needs.idempotency.restoreOne(this.#needs.canisters.get(handle));
  }

  arrived(handle: number, version: number): void {
    this.#needs.elsewhere.arrived(this.#needs.canisters.get(handle).id, version);
  }
}

/** Returns true if nothing of a locked canister has begun, and only hooks and calls of canisters here wait for it. */
function isAtRest({ state, status, work }: ScheduledCanister): boolean {
  if ((state.kind !== 'live' && state.kind !== 'evicted') || status === 'stopping') return false;
  const isBusy =
    work.executing + work.pins + work.deletions + work.frames + work.openCalls.size > 0 || work.changes !== 1;
  if (isBusy || work.recall !== 'nothing' || work.interrupted.length + work.takenBack.length > 0) return false;
  if (work.held.length + work.queries.length > 0 || work.input.some((waiting) => !isCall(waiting))) return false;
  for (const context of work.contexts) if (!isUnbegun(context)) return false;
  return true;
}

function isUnbegun({ origin, openCalls, isDeleted, isExecuting, pending }: CallContext): boolean {
  if (openCalls > 0 || isDeleted || isExecuting) return false;
  if (origin.kind === 'system') return true;
  return origin.kind === 'canister' && pending !== undefined && origin.call.context.canister.state.kind !== 'elsewhere';
}

/** A call of a canister. */
function isCall(waiting: QueuedTask): waiting is QueuedCall {
  return waiting.kind === 'start' && waiting.context.origin.kind === 'canister';
}
