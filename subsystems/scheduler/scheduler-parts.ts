/**
 * Builds the parts of a scheduler, in an order in which each part finds the parts that it uses. The way of messages,
 * which goes through all of them, is one interface: the scheduler itself has it.
 *
 * Main thread; once.
 */
import type { Clock, Logger } from '../../kernel/index.ts';
import { CallJournal, type KeptUnits } from './call-journal.ts';
import { Calls, type CallsHost } from './calls.ts';
import type { CanisterPort } from './canister-port.ts';
import { CodeChangeLock } from './code-change-lock.ts';
import { DrainReport, type DrainReportNeeds } from './drain-report.ts';
import { Eviction, type EvictionEvents, type EvictionOptions } from './eviction.ts';
import { Executions, type ExecutionsEvents } from './executions.ts';
import { ExecutorQueue } from './executor-queue.ts';
import { Idempotency, type IdempotencyNeeds, type IdempotencyOptions } from './idempotency/idempotency.ts';
import { NotBegun, type NotBegunNeeds } from './not-begun.ts';
import type { ScheduledCanister } from './scheduled-canister.ts';
import type { ScheduledExecution } from './scheduled-execution.ts';
import { Stopping } from './stopping.ts';
import { Ticking, type TickingHost, type TickingOptions } from './ticking.ts';

/** Seconds for which keys of calls are known, if nothing else is said: a day. */
const IDEMPOTENCY_SECS = 86_400;

export interface SchedulerGrants {
  readonly execution: ScheduledExecution;
  readonly clock: Clock;
  readonly storage: KeptUnits;
  /** Told whom a drain waits for, and of too many heartbeats and timers. */
  readonly log?: Pick<Logger, 'info' | 'warn'>;
}

export interface RoundSchedulerOptions extends TickingOptions, EvictionOptions, Partial<IdempotencyOptions> {
  /** Instructions that a composite query may use over all its executions. */
  readonly queryInstructionsMax: number;
}

/** The way of messages and canisters through the scheduler, as its parts use it. */
interface SchedulerFlow
  extends
    Pick<CallsHost, 'find' | 'enqueue' | 'credit' | 'answer'>,
    Pick<TickingHost, 'due' | 'timerChanged'>,
    Pick<EvictionEvents, 'awake' | 'failed'>,
    ExecutionsEvents,
    Pick<NotBegunNeeds, 'mayWait'>,
    Pick<DrainReportNeeds, 'moduleOf'> {
  /** A call with a key is let in. */
  readonly accept: IdempotencyNeeds['begin'];
  readonly statusChanged: (canister: ScheduledCanister) => void;
}

export class SchedulerParts {
  readonly journal: CallJournal;
  readonly idempotency: Idempotency;
  readonly stopping: Stopping;
  readonly calls: Calls;
  readonly ticking: Ticking;
  readonly eviction: Eviction;
  readonly executions: Executions;
  readonly queues: readonly ExecutorQueue[];
  readonly notBegun: NotBegun;
  readonly codeChangeLock: CodeChangeLock;
  readonly report: DrainReport;

  constructor(granted: SchedulerGrants, options: RoundSchedulerOptions, port: CanisterPort, flow: SchedulerFlow) {
    const { execution, clock, storage, log } = granted;
    const aheadOf = ({ handle }: ScheduledCanister): number => execution.aheadOf(handle);
    const journal = new CallJournal(storage);
    this.idempotency = new Idempotency(
      { storage, journal, clock, begin: flow.accept },
      { idempotencySecs: IDEMPOTENCY_SECS, ...options },
    );
    const stopping = new Stopping(clock, flow.statusChanged);
    const stopIfDone = (canister: ScheduledCanister): void => stopping.stopIfDone(canister);
    const calls = new Calls({ ...flow, nowMs: () => clock.nowMs(), aheadOf, contextEnded: stopIfDone, port }, journal);
    const ticking = new Ticking(options, { ...flow, clock, aheadOf, expire: (nowMs) => calls.expire(nowMs) });
    const eviction = new Eviction(
      options,
      clock,
      { ...flow, warn: (text) => log?.warn(text) },
      port,
      journal.isDurable ? execution : undefined,
    );
    const shared = { execution, journal, calls, ticking, eviction, port };
    const executions = new Executions(shared, flow);
    const queues = Array.from(
      { length: execution.executorCount },
      () => new ExecutorQueue((canister, queue, waiting) => executions.start(canister, queue, waiting)),
    );
    this.notBegun = new NotBegun({ ...flow, executions, calls, journal, ticking, stopIfDone });
    this.codeChangeLock = new CodeChangeLock({ ...shared, executions, queues, stopping });
    this.report = new DrainReport({
      ...flow,
      clock,
      executing: () => execution.executing(),
      nameOf: (handle) => port.listener.nameOf(handle),
      say: (line) => log?.info(line),
    });
    this.journal = journal;
    this.stopping = stopping;
    this.calls = calls;
    this.ticking = ticking;
    this.eviction = eviction;
    this.executions = executions;
    this.queues = queues;
  }
}
