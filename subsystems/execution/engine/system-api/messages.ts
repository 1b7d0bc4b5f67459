/** Executor thread, within a message: argument, caller, reject. Reads the task; writes to the heap alone. */
import { MODES } from './contexts.ts';
import { contractViolation, type CurrentExecution } from './current-execution.ts';
import { NO_BYTES } from '../../../bytes/index.ts';
import { shownCaller } from '../../../ic/index.ts';

const WITH_DEADLINE = MODES.U.bit | MODES.Ry.bit | MODES.Rt.bit;

/** Imports about the message itself: argument, caller, reject, deadline, and acceptance by inspect. */
export function messageImports(execution: CurrentExecution) {
  return {
    msg_arg_data_size: () => execution.argument.length,
    msg_arg_data_copy: (destination: number, offset: number, size: number) =>
      execution.copyArgument(destination, offset, size),
    msg_caller_size: () => shownCaller(execution.context.caller).length,
    msg_caller_copy: (destination: number, offset: number, size: number) =>
      execution.copyOut('msg_caller_copy', shownCaller(execution.context.caller), destination, offset, size),

    // Only users who signed with a canister signature have these; callers here are claimed, not signed.
    msg_caller_info_data_size: () => 0,
    msg_caller_info_data_copy: (destination: number, offset: number, size: number) =>
      execution.copyOut('msg_caller_info_data_copy', NO_BYTES, destination, offset, size),
    msg_caller_info_signer_size: () => 0,
    msg_caller_info_signer_copy: (destination: number, offset: number, size: number) =>
      execution.copyOut('msg_caller_info_signer_copy', NO_BYTES, destination, offset, size),

    msg_reject_code: () => execution.rejectCode,
    msg_reject_msg_size: () => rejectMessage(execution, 'msg_reject_msg_size').length,
    msg_reject_msg_copy: (destination: number, offset: number, size: number) =>
      execution.copyOut(
        'msg_reject_msg_copy',
        rejectMessage(execution, 'msg_reject_msg_copy'),
        destination,
        offset,
        size,
      ),
    // Only update methods and their callbacks have a deadline; a query method has none even if an update calls it.
    msg_deadline: () => ((execution.modeBit & WITH_DEADLINE) === 0 ? 0n : execution.context.deadlineNs),

    msg_method_name_size: () => execution.methodName.length,
    msg_method_name_copy: (destination: number, offset: number, size: number) =>
      execution.copyOut('msg_method_name_copy', execution.methodName, destination, offset, size),
    accept_message: () => {
      if (execution.isAccepted) throw contractViolation('ic0.accept_message: the message is already accepted');
      execution.isAccepted = true;
    },
  };
}

function rejectMessage(execution: CurrentExecution, name: string): Uint8Array {
  if (execution.rejectCode === 0) throw contractViolation(`ic0.${name}: the call was not rejected`);
  return execution.rejectMessage;
}
