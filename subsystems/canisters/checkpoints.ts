/**
 * Checkpoints in the background: whose is next is decided by replay-budget.ts. The canister stays awake meanwhile, and
 * serves between the pieces.
 *
 * Main thread; asks scheduler and executors.
 */
import { type Clock, type Logger, messageOf, ServerError } from '../../kernel/index.ts';
import type { CanisterLifecycle, PieceWritten } from '../execution/index.ts';
import type { CodeLocks } from '../scheduler/index.ts';
import type { Storage } from '../storage/index.ts';
import { ReplayBudget } from './replay-budget.ts';
import type { LoggedCanister } from './step-accounting.ts';

interface CheckpointsNeeds {
  readonly execution: Pick<CanisterLifecycle, 'checkpoint'>;
  readonly scheduler: Pick<CodeLocks, 'pin'>;
  readonly storage: Pick<Storage, 'settled'>;
  readonly clock: Clock;
  readonly log: Pick<Logger, 'warn'>;
}

export interface CheckpointOptions {
  /** Bytes of heap up to which what a message changed is stored, above what it depended on. */
  readonly snapshotBelowBytes: number;
  /** Seconds that running all logs again may take. */
  readonly replayBudgetSecs: number;
}

export function newReplayBudget(
  needs: CheckpointsNeeds,
  { snapshotBelowBytes, replayBudgetSecs }: CheckpointOptions,
): ReplayBudget<LoggedCanister> {
  return new ReplayBudget({
    clock: needs.clock,
    // With 0 the operator wants nothing but the log.
    seconds: snapshotBelowBytes === 0 ? Number.POSITIVE_INFINITY : replayBudgetSecs,
    checkpoint: ({ handle }, pause) => checkpoint(needs, handle, pause),
    report: ({ name, isRemoved }, error) => {
      // An actor that is deleted, or is being deleted, has no log to shorten.
      const isGone = isRemoved || (error instanceof ServerError && error.kind === 'missing');
      if (!isGone) needs.log.warn(`${name} could not be checkpointed: ${messageOf(error)}`);
    },
  });
}

/** Resolves when the checkpoint is durable. */
async function checkpoint(
  { execution, scheduler, storage }: CheckpointsNeeds,
  handle: number,
  pause: PieceWritten,
): Promise<void> {
  const release = await scheduler.pin(handle);
  try {
    await execution.checkpoint(handle, pause);
    await storage.settled();
  } finally {
    release();
  }
}
