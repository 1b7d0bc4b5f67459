/**
 * Builds the parts of a scheduler. Each names the parts that it needs in an interface of its own, and finds them here.
 * Whatever a part reads while it is built has been built before it; the rest is read when something comes, because
 * tasks go through the parts in a circle.
 *
 * Main thread; once.
 */
import type { Clock, Logger } from '../../kernel/index.ts';
import { CallJournal, type KeptUnits } from './call-journal.ts';
import { Calls } from './calls.ts';
import { CanisterChanges } from './canister-changes.ts';
import { CanisterPort } from './canister-port.ts';
import { CanisterTable } from './canister-table.ts';
import { CodeChangeLock } from './code-change-lock.ts';
import { DrainReport } from './drain-report.ts';
import { Elsewhere } from './elsewhere/elsewhere.ts';
import { Moving } from './elsewhere/moving.ts';
import type { ShardOfService } from './elsewhere/stubs.ts';
import { Eviction, type EvictionOptions } from './eviction.ts';
import { Executions } from './executions.ts';
import { ExecutorQueues } from './executor-queue.ts';
import { Idempotency, type IdempotencyOptions } from './idempotency/idempotency.ts';
import { Intake } from './intake.ts';
import { NotBegun } from './not-begun.ts';
import type { ScheduledExecution } from './scheduled-execution.ts';
import { Stopping } from './stopping.ts';
import { TaskFlow } from './task-flow.ts';
import { Ticking, type TickingOptions } from './ticking.ts';

/** Seconds for which keys of calls are known, if nothing else is said: a day. */
const IDEMPOTENCY_SECS = 86_400;

export interface SchedulerGrants {
  readonly execution: ScheduledExecution;
  readonly clock: Clock;
  readonly storage: KeptUnits;
  /** Undefined: the server is a service by itself. */
  readonly service?: ShardOfService | undefined;
  /** Told whom a drain waits for, and of too many heartbeats and timers. */
  readonly log?: Pick<Logger, 'info' | 'warn'>;
}

export interface RoundSchedulerOptions extends TickingOptions, EvictionOptions, Partial<IdempotencyOptions> {
  /** Instructions that a composite query may use over all its executions. */
  readonly queryInstructionsMax: number;
}

export class SchedulerParts {
  readonly execution: ScheduledExecution;
  readonly clock: Clock;
  readonly storage: KeptUnits;
  readonly log: Pick<Logger, 'info' | 'warn'> | undefined;
  readonly port = new CanisterPort();
  readonly canisters = new CanisterTable();
  readonly journal: CallJournal;
  readonly tasks: TaskFlow;
  readonly changes: CanisterChanges;
  readonly intake: Intake;
  readonly idempotency: Idempotency;
  readonly stopping: Stopping;
  readonly calls: Calls;
  readonly elsewhere: Elsewhere;
  readonly ticking: Ticking;
  readonly eviction: Eviction;
  readonly executions: Executions;
  readonly queues: ExecutorQueues;
  readonly notBegun: NotBegun;
  readonly codeChangeLock: CodeChangeLock;
  readonly moving: Moving;
  readonly report: DrainReport;

  constructor({ execution, clock, storage, service, log }: SchedulerGrants, options: RoundSchedulerOptions) {
    this.execution = execution;
    this.clock = clock;
    this.storage = storage;
    this.log = log;
    this.journal = new CallJournal(storage);
    this.tasks = new TaskFlow(this);
    this.changes = new CanisterChanges(this);
    this.intake = new Intake(this, options.queryInstructionsMax);
    this.idempotency = new Idempotency(this, { idempotencySecs: IDEMPOTENCY_SECS, ...options });
    this.stopping = new Stopping(clock, this.changes);
    this.calls = new Calls(this);
    this.elsewhere = new Elsewhere(this, service);
    this.ticking = new Ticking(options, this);
    this.eviction = new Eviction(options, this, this.journal.isDurable ? execution : undefined);
    this.executions = new Executions(this);
    this.queues = new ExecutorQueues(execution, this.executions);
    this.notBegun = new NotBegun(this);
    this.codeChangeLock = new CodeChangeLock(this);
    this.moving = new Moving(this);
    this.report = new DrainReport(this);
  }
}
