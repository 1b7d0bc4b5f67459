/**
 * Canisters change: another status, awake again, not to be woken, their executor dead, gone. Here is what follows from
 * that for whatever waits.
 *
 * Main thread. Touches the work of a canister, and tells its executor and the listener.
 */
import { REJECT_CODE } from '../ic/index.ts';
import type { CallJournal } from './call-journal.ts';
import { type Calls, notFound, type Refusal, THREAD_STOPPED } from './calls.ts';
import type { CanisterPort } from './canister-port.ts';
import { DELETED, LOST } from './canister-state.ts';
import type { CanisterTable } from './canister-table.ts';
import type { Eviction } from './eviction.ts';
import type { Idempotency } from './idempotency/idempotency.ts';
import { type NotBegun, takeAll } from './not-begun.ts';
import { queueOf, type ScheduledCanister } from './scheduled-canister.ts';
import type { ScheduledExecution } from './scheduled-execution.ts';
import type { Stopping } from './stopping.ts';
import type { TaskFlow } from './task-flow.ts';
import type { StateChanges } from './tasks.ts';
import type { Ticking } from './ticking.ts';

/** Parts of the scheduler that a change goes through. Some know the changes: they are read when one comes. */
interface CanisterChangesNeeds {
  readonly execution: Pick<ScheduledExecution, 'configure'>;
  readonly port: CanisterPort;
  readonly canisters: CanisterTable;
  readonly journal: CallJournal;
  readonly tasks: TaskFlow;
  readonly idempotency: Pick<Idempotency, 'forget'>;
  readonly stopping: Stopping;
  readonly calls: Calls;
  readonly ticking: Pick<Ticking, 'forget'>;
  readonly eviction: Eviction;
  readonly notBegun: NotBegun;
}

export class CanisterChanges implements StateChanges {
  readonly #needs: CanisterChangesNeeds;

  constructor(needs: CanisterChangesNeeds) {
    this.#needs = needs;
  }

  statusChanged(canister: ScheduledCanister): void {
    const { handle, status, state } = canister;
    if (state.kind === 'live') this.#needs.execution.configure(handle, { status });
    else if (state.kind === 'loading') state.isStatusNew = true;
    this.recordChanged(canister);
    this.#needs.notBegun.sort(canister);
  }

  recordChanged(canister: ScheduledCanister): void {
    const { journal, port } = this.#needs;
    // The last of a canister's calls may end when it is long gone.
    if (!journal.isDurable || canister.state.kind === 'deleted') return;
    journal.changed(canister);
    port.listener.recordChanged(canister.handle);
  }

  awake(canister: ScheduledCanister, isStatusNew: boolean): void {
    canister.expect('go on', 'live');
    const { tasks, notBegun, execution } = this.#needs;
    const { work } = canister;
    if (work.interrupted.length > 0 && !tasks.isDraining) {
      // In the order they came, which is not the one in which they were given up.
      const again = work.interrupted.splice(0).sort((a, b) => a.order - b.order);
      work.input.putAhead(again);
      if (canister.status !== 'running') notBegun.sort(canister);
    }
    if (isStatusNew) execution.configure(canister.handle, { status: canister.status });
    for (const waiter of work.wakeWaiters.splice(0)) waiter(undefined);
    tasks.schedule(canister);
  }

  /**
   * Refuses calls of a canister that cannot be woken; responses wait for the next time. A canister that is kept out for
   * good keeps its stored messages, for a host that can load it.
   */
  wakeFailed(canister: ScheduledCanister, error: Error): void {
    canister.expect('wait for the next time', 'evicted', 'unloadable');
    const { journal, notBegun } = this.#needs;
    const { work } = canister;
    for (const waiter of work.wakeWaiters.splice(0)) waiter(error);
    const refusal: Refusal = { code: REJECT_CODE.SYS_TRANSIENT, message: error.message };
    const interrupted = work.interrupted.splice(0).sort((a, b) => a.order - b.order);
    for (const waiting of [...interrupted, ...takeAll(canister)]) {
      const isKept = journal.keeps(waiting);
      if (isKept && canister.state.kind === 'unloadable') continue;
      if (isKept && waiting.kind !== 'start') queueOf(work, waiting).push(waiting);
      else notBegun.refuse(waiting, refusal);
    }
  }

  /** The executor of a canister has died. */
  lost(handle: number): void {
    const canister = this.#needs.canisters.ifAny(handle);
    if (canister === undefined) return;
    if (this.#needs.journal.isDurable) this.#sleeps(canister);
    else this.#end(canister);
    this.#needs.port.listener.lost(handle);
  }

  /** Where state is kept the canister sleeps then; what executed is answered, or executed again. */
  #sleeps(canister: ScheduledCanister): void {
    const { tasks, eviction } = this.#needs;
    const { work } = canister;
    work.life = {};
    work.frames = 0;
    eviction.lost(canister);
    const isWanted = work.waiting > 0 || work.interrupted.length > 0;
    if (isWanted && !tasks.isDraining) eviction.wantsStill(canister);
  }

  #end(canister: ScheduledCanister): void {
    const { idempotency, ticking, tasks, calls, stopping } = this.#needs;
    canister.enter(LOST);
    idempotency.forget(canister);
    ticking.forget(canister);
    tasks.refuseWaiting(canister, THREAD_STOPPED);
    const { code, message } = THREAD_STOPPED;
    for (const context of canister.work.contexts) calls.delete(context, code, message, 'unavailable');
    stopping.stopIfDone(canister);
  }

  /** The canister is deleted: all that it has ends. */
  withdrawn(canister: ScheduledCanister): void {
    const { canisters, ticking, idempotency, journal, eviction, stopping, tasks, calls } = this.#needs;
    ticking.forget(canister);
    canisters.leave(canister);
    canister.enter(DELETED);
    idempotency.forget(canister);
    journal.changed(canister);
    eviction.forget(canister);
    // Their contexts end below: nobody gives these up afterwards.
    canister.work.interrupted.splice(0);
    stopping.refuse(canister);
    // Stopping does not wait for queries.
    tasks.refuseWaiting(canister, notFound(canister.id));
    // One that was kept out, or whose calls were ended, has more: calls whose answers nobody will get, which must not
    // stay stored, and calls that will never start.
    const { code, message } = notFound(canister.id);
    for (const call of canister.work.openCalls) calls.abandon(call);
    for (const context of canister.work.contexts) calls.delete(context, code, message);
  }
}
