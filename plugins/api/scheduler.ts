/**
 * `svc/plugin/scheduler`: types and words for a scheduler from outside, whose capability is `Scheduler` of
 * `svc/plugin`. The object that such a plugin makes has the methods of `Scheduler` and of `SchedulerSetup`.
 *
 *     clients ─► Scheduler ─task─► Execution (executors' threads)
 *                    ▲ │   ◄─step─
 *                    │ └─► Listener, Loader (the actors' part), SystemCanister (aaaaa-aa)
 *     calls between actors, callbacks, timers, locks: all of it is the scheduler's
 */
export {
  type AdmitOptions,
  type AsScheduled,
  type ChangedCode,
  type DeliveredMessage,
  type IdempotencyFigures,
  type Listener,
  type LiveFigures,
  type Loader,
  NOTED_ARGUMENT_BYTES_MAX,
  notSupported,
  type ScheduledExecution,
  type SchedulerSupports,
  type StepCount,
  type SystemCall,
  type SystemCanister,
} from '../../subsystems/scheduler/index.ts';
export { erasePayload, isPayloadKey, rowsOfPayload } from '../../subsystems/storage/index.ts';
export type { CodeChange, ExecutionListener, ModuleInfo, Recall } from '../../subsystems/execution/index.ts';
export {
  type Callbacks,
  type CanisterStatus,
  type ContextView,
  type EndedStep,
  FULL_LIMIT,
  idFromText,
  idToText,
  type MessageTrace,
  type NotedMessage,
  NOTHING_RAN,
  type OpenCallsEntry,
  type Outcome,
  outcomeKindOf,
  type OutgoingCall,
  principalToText,
  REJECT_CODE,
  type RejectCode,
  type Response,
  slotOf,
  type Step,
  type StoredAs,
  TAKEN_BACK,
  type Task,
  THREAD_STOPPED_TEXT,
} from '../../subsystems/ic/index.ts';
