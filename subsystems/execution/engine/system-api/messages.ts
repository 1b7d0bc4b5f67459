import { MODES } from './contexts.ts';
import { contractViolation, type CurrentExecution, NO_BYTES } from './current-execution.ts';

const WITH_DEADLINE = MODES.U.bit | MODES.Ry.bit | MODES.Rt.bit;

/** What the message is about: argument, caller, reject, deadline, and acceptance by inspect. */
export function messageImports(x: CurrentExecution) {
  return {
    msg_arg_data_size: () => x.argument.length,
    msg_arg_data_copy: (destination: number, offset: number, size: number) =>
      x.copyOut('msg_arg_data_copy', x.argument, destination, offset, size),
    msg_caller_size: () => x.context.caller.length,
    msg_caller_copy: (destination: number, offset: number, size: number) =>
      x.copyOut('msg_caller_copy', x.context.caller, destination, offset, size),

    // Only users who signed with a canister signature have these; callers here are claimed, not signed.
    msg_caller_info_data_size: () => 0,
    msg_caller_info_data_copy: (destination: number, offset: number, size: number) =>
      x.copyOut('msg_caller_info_data_copy', NO_BYTES, destination, offset, size),
    msg_caller_info_signer_size: () => 0,
    msg_caller_info_signer_copy: (destination: number, offset: number, size: number) =>
      x.copyOut('msg_caller_info_signer_copy', NO_BYTES, destination, offset, size),

    msg_reject_code: () => x.rejectCode,
    msg_reject_msg_size: () => rejectMessage(x, 'msg_reject_msg_size').length,
    msg_reject_msg_copy: (destination: number, offset: number, size: number) =>
      x.copyOut('msg_reject_msg_copy', rejectMessage(x, 'msg_reject_msg_copy'), destination, offset, size),
    // Only update methods and their callbacks have one, also where a query method is called by an update.
    msg_deadline: () => ((x.modeBit & WITH_DEADLINE) === 0 ? 0n : x.context.deadlineNs),

    msg_method_name_size: () => x.methodName.length,
    msg_method_name_copy: (destination: number, offset: number, size: number) =>
      x.copyOut('msg_method_name_copy', x.methodName, destination, offset, size),
    accept_message: () => {
      if (x.isAccepted) throw contractViolation('ic0.accept_message: the message is already accepted');
      x.isAccepted = true;
    },
  };
}

function rejectMessage(x: CurrentExecution, name: string): Uint8Array {
  if (x.rejectCode === 0) throw contractViolation(`ic0.${name}: the call was not rejected`);
  return x.rejectMessage;
}
