/**
 * A former bug, planted from outside: loaded by `--import` into a server and its threads, it lets large work into a
 * canister whose message is suspended.
 */
import { isMainThread } from 'node:worker_threads';
import { CanisterGate } from '../../../subsystems/execution/thread/canister-gate.ts';
import { INLINE_BYTES_MAX } from '../../../subsystems/execution/wire/ring-bytes.ts';
import type { TaskRecord } from '../../../subsystems/execution/wire/task-record.ts';

function isLarge(work: unknown): boolean {
  const { task } = work as Partial<TaskRecord>;
  if (task === undefined) return false;
  if (task.kind === 'update' || task.kind === 'query' || task.kind === 'inspect')
    return task.argument.length > INLINE_BYTES_MAX;
  return task.kind === 'callback' && task.response.kind === 'reply' && task.response.data.length > INLINE_BYTES_MAX;
}

if (!isMainThread) {
  const gate = CanisterGate.prototype;
  const admits = Object.getOwnPropertyDescriptor(gate, 'admits')?.value as typeof gate.admits;
  gate.admits = function (this: CanisterGate<unknown>, handle: number, work: unknown): boolean {
    return isLarge(work) || admits.call(this, handle, work);
  };
}
