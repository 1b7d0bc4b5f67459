/**
 * Which task runs next.
 *
 * A canister's messages start in the order they came; queries may overtake updates, heartbeats and timers come first.
 * Canisters of one queue (executor thread) take turns: when more is waiting than the queue's window holds, each gets
 * one task into the window before any gets its second, so a busy canister cannot starve the others. Executions of one
 * call context never run ahead of each other, because each must know what the one before it did.
 *
 * Where state is kept, execution runs ahead of the disk, but no client is told of anything before it is durable: each
 * canister knows the unit of its newest change, and answers wait for that.
 *
 * Main thread: everything that enters or leaves this folder comes through here. It never waits for the disk or for an
 * executor.
 */
import type { Outcome } from '../ic/index.ts';
import type { CodeChange, ModuleInfo } from '../execution/index.ts';
import type { Entry } from '../storage/index.ts';
import type { AsScheduled, Listener, Loader } from './canister-port.ts';
import type { CallExchange } from './elsewhere/exchange.ts';
import { EVICTED, LIVE, UNUSABLE } from './canister-state.ts';
import { LOW_MEMORY } from './executions.ts';
import type {
  ActorMoves,
  AdmitOptions,
  ChangedCode,
  IdempotencyFigures,
  KnownCall,
  DeliveredMessage,
  LiveFigures,
  Scheduler,
  SchedulerSetup,
  SystemCanister,
} from './index.ts';
import { QUEUE_MESSAGES_MAX, STOPPING_OUTCOME } from './intake.ts';
import { restoreCalls } from './restore-calls.ts';
import { queueOf, ScheduledCanister } from './scheduled-canister.ts';
import { type RoundSchedulerOptions, type SchedulerGrants, SchedulerParts } from './scheduler-parts.ts';
import { SERVER_STOPPING, systemContext } from './task-flow.ts';

export class RoundScheduler implements Scheduler, SchedulerSetup {
  readonly supports = { durability: true, eviction: true, idempotencyKeys: true, compositeQueries: true };
  readonly queuedMax = QUEUE_MESSAGES_MAX;
  readonly #parts: SchedulerParts;

  constructor(granted: SchedulerGrants, options: RoundSchedulerOptions) {
    this.#parts = new SchedulerParts(granted, options);
    const { port, changes } = this.#parts;
    granted.execution.attend({
      changed: (handle, pieces) => port.listener.changed(handle, pieces),
      settled: () => granted.storage.settled(),
      credited: (handle, balance) => port.listener.credited(handle, balance),
      lost: (handle) => changes.lost(handle),
    });
  }

  // ---- canisters come and go

  admit(handle: number, idText: string, options: AdmitOptions = {}): void {
    const { isAsleep = false, isUnloadable = false } = options;
    const { canisters, ticking, eviction } = this.#parts;
    const canister = new ScheduledCanister(handle, idText, isUnloadable ? UNUSABLE : isAsleep ? EVICTED : LIVE);
    canister.status = options.status ?? 'running';
    canister.module = options.module;
    canister.timerMs = options.timerMs;
    canisters.enter(canister);
    ticking.codeChanged(canister);
    if (!canister.isAsleep) eviction.admitted(canister);
  }

  attach(systemCanister: SystemCanister): void {
    this.#parts.calls.systemCanister = systemCanister;
  }

  attachCanisters(loader: Loader, listener: Listener): void {
    Object.assign(this.#parts.port, { loader, listener });
  }

  get exchange(): CallExchange {
    return this.#parts.elsewhere;
  }

  get moves(): ActorMoves {
    return this.#parts.moving;
  }

  /** Begins with heartbeats and timers. */
  beginTicking(): void {
    this.#parts.ticking.begin();
  }

  async restoreAnswers(): Promise<void> {
    await this.#parts.idempotency.restore((id) => this.#parts.canisters.find(id));
  }

  restore(entries: Iterable<Entry>): void {
    const { canisters, elsewhere } = this.#parts;
    const restored = restoreCalls(entries, (id) => canisters.find(id) ?? elsewhere.stubs.of(id));
    this.#parts.journal.resume(restored.number, restored.order);
    this.#parts.journal.eraseLeft(restored.left);
    for (const { context, record } of restored.keyed) {
      const { key, method, digest } = record;
      const call = { caller: context.caller, key, method, digest };
      context.underWay = this.#parts.idempotency.resume(context.canister, call);
      context.origin = { kind: 'ingress', done: context.underWay.tell, noted: undefined };
    }
    for (const waiting of restored.waiting) {
      const { canister } = waiting.kind === 'start' ? waiting.context : waiting.call.context;
      queueOf(canister.work, waiting).push(waiting);
    }
    // Only now: what is rejected comes after what waits already.
    for (const call of restored.open) {
      if (call.madeAs !== undefined) elsewhere.resume(call);
      if (call.context.canister.state.kind !== 'elsewhere') this.#parts.calls.resume(call);
    }
    for (const credit of restored.credits) this.#parts.executions.credit(credit);
    for (const canister of canisters) {
      if (canister.status !== 'running') this.#parts.notBegun.sort(canister);
      this.#parts.tasks.schedule(canister);
      this.#parts.stopping.stopIfDone(canister);
    }
    elsewhere.begin();
  }

  async change(handle: number, module: ModuleInfo, change: CodeChange): Promise<ChangedCode> {
    return await this.#parts.codeChangeLock.change(this.#parts.canisters.get(handle), module, change);
  }

  async uninstall(handle: number): Promise<void> {
    await this.#parts.codeChangeLock.uninstall(this.#parts.canisters.get(handle));
  }

  async endCalls(handle: number): Promise<void> {
    await this.#parts.codeChangeLock.endCalls(this.#parts.canisters.get(handle));
  }

  lock(handle: number): () => void {
    return this.#parts.codeChangeLock.lock(this.#parts.canisters.get(handle));
  }

  async lockBetweenMessages(handle: number, { pauses = false } = {}): Promise<(() => void) | undefined> {
    return await this.#parts.codeChangeLock.lockBetweenMessages(this.#parts.canisters.get(handle), pauses);
  }

  async pin(handle: number): Promise<() => void> {
    return await this.#parts.codeChangeLock.pin(this.#parts.canisters.get(handle));
  }

  handleOf(id: Uint8Array): number | undefined {
    return this.#parts.canisters.handleOf(id);
  }

  /** Returns what a note says of a canister besides its message; undefined where there is no such canister. */
  notedActor(
    handle: number,
  ): { readonly id: Uint8Array; readonly module: ModuleInfo | undefined; readonly openCalls: number } | undefined {
    const canister = this.#parts.canisters.ifAny(handle);
    return canister && { id: canister.id, module: canister.module, openCalls: canister.workIfAny?.openCalls.size ?? 0 };
  }

  stateOf(handle: number): AsScheduled {
    return this.#parts.canisters.get(handle);
  }

  get idempotency(): IdempotencyFigures {
    return this.#parts.idempotency.figures;
  }

  async knownCall(handle: number, key: string): Promise<KnownCall | undefined> {
    const canister = this.#parts.canisters.ifAny(handle);
    return canister === undefined ? undefined : await this.#parts.idempotency.known(canister, key);
  }

  isAnswerKept(handle: number, key: string): boolean {
    const canister = this.#parts.canisters.ifAny(handle);
    return canister !== undefined && this.#parts.idempotency.isKept(canister, key);
  }

  get live(): LiveFigures {
    const { liveCount, evictions, wakeUps } = this.#parts.eviction;
    return { liveCount, evictions, wakeUps };
  }

  restored(handle: number, module: ModuleInfo | undefined, timerMs?: number): void {
    const canister = this.#parts.canisters.get(handle);
    canister.module = module;
    this.#parts.journal.changed(canister);
    if (timerMs !== undefined) this.#parts.ticking.putTimer(canister, Number.isFinite(timerMs) ? timerMs : undefined);
    this.#parts.ticking.codeChanged(canister);
    this.#parts.changes.recordChanged(canister);
  }

  withdraw(handle: number): void {
    const { canisters, changes } = this.#parts;
    changes.withdrawn(canisters.get(handle));
  }

  setMinimumCycles(handle: number, cycles: bigint): void {
    this.#parts.canisters.get(handle).minimumCycles = cycles;
  }

  lowMemory(handle: number, isLow: boolean): void {
    const canister = this.#parts.canisters.get(handle);
    if (!isLow) {
      const work = canister.workIfAny;
      if (work !== undefined) work.lowMemory = undefined;
      return;
    }
    if (canister.status !== 'running' || canister.isChanging || canister.state.kind === 'unloadable') return;
    if (canister.entry(LOW_MEMORY) === undefined) {
      this.#parts.port.listener.lowMemoryRan(handle);
      return;
    }
    const { lowMemory } = canister.work;
    // The hook of the code before does not run any more.
    if (lowMemory !== undefined && !lowMemory.isDeleted) return;
    // Before it begins, which it may at once.
    canister.work.lowMemory = systemContext(canister);
    this.#parts.tasks.enqueueHook(canister, LOW_MEMORY, canister.work.lowMemory);
  }

  start(handle: number): void {
    const canister = this.#parts.canisters.get(handle);
    this.#parts.stopping.start(canister);
    this.#parts.ticking.codeChanged(canister);
  }

  stop(handle: number): Promise<void> {
    return this.#parts.stopping.stop(this.#parts.canisters.get(handle));
  }

  pause(handle: number): Promise<void> {
    return this.#parts.stopping.pause(this.#parts.canisters.get(handle));
  }

  resume(handle: number): void {
    const canister = this.#parts.canisters.get(handle);
    if (!canister.isPaused) return;
    this.start(handle);
  }

  beginDeletion(handle: number): () => void {
    const canister = this.#parts.canisters.get(handle);
    const endRefusal = this.#parts.stopping.refuse(canister);
    this.#parts.executions.recall(canister, 'everything');
    return () => {
      endRefusal();
      this.#parts.executions.deletionEnded(canister);
      if (canister.state.kind !== 'deleted') this.#parts.tasks.schedule(canister);
    };
  }

  deliver(handle: number, message: DeliveredMessage): Promise<Outcome> {
    return this.#parts.intake.deliver(handle, message);
  }

  // ---- the end

  /**
   * Takes no more messages, answers the queued ones `unavailable`, and resolves when the executing ones have ended,
   * however long they take, and all that is durable. Messages between canisters that are kept go on after the restart.
   */
  async drain(): Promise<void> {
    const { tasks, ticking, idempotency, execution, executions, journal, calls, stopping, report } = this.#parts;
    const { canisters, storage } = this.#parts;
    tasks.beginDraining();
    ticking.end();
    idempotency.end();
    execution.refuseNew();
    if (journal.isDurable) calls.stoppingOutcome = STOPPING_OUTCOME;
    for (const canister of canisters) tasks.refuseWaiting(canister, SERVER_STOPPING);
    // Calls that wait for other calls get no answer any more: their clients are told now.
    for (const canister of canisters) {
      for (const context of canister.workIfAny?.contexts ?? []) {
        if (context.isExecuting) continue;
        if (journal.isDurable) calls.answerStopping(context);
        else calls.delete(context, SERVER_STOPPING.code, SERVER_STOPPING.message, 'unavailable');
      }
    }
    stopping.end(canisters);
    report.begin();
    await executions.drained();
    report.end();
    await storage.settled();
  }
}
