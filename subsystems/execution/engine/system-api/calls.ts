/** Executor thread, within a message: outgoing calls. Touches the draft and the count of open calls. */
import { CLEANUP } from '../../../ic/index.ts';
import { HostTrap } from '../fault.ts';
import { contractViolation, type CurrentExecution } from './current-execution.ts';
import { amount128 } from './cycles.ts';
import { PRINCIPAL_BYTES_MAX } from './identity.ts';
import { CALL_BYTES_MAX, type OutgoingDraft } from './outgoing-draft.ts';

/** Longest method name a call may be made to. */
const METHOD_NAME_BYTES_MAX = 20_000;
/** Longest time a caller waits with a bounded wait; longer times are cut to this. */
const CALL_TIMEOUT_SECONDS_MAX = 300;

/** The only result with which `call_perform` refuses; its number is that of SYS_TRANSIENT. */
const NOT_QUEUED = 2;

/** Imports for calls to other canisters. Calls are collected, and sent when the execution returns. */
export function callImports(execution: CurrentExecution) {
  const construction = (name: string): OutgoingDraft => {
    if (!execution.draft.isOpen) throw contractViolation(`ic0.${name}: no call is under construction`);
    return execution.draft;
  };
  const addCycles = (name: string, amount: bigint): void => {
    const draft = construction(name);
    const available = execution.spendableCycles;
    if (amount > available)
      throw new HostTrap(`ic0.${name}: ${amount} cycles are more than the ${available} that can be put on a call`);
    draft.cycles += amount;
    execution.cyclesGained -= amount;
  };
  return {
    call_new: (
      calleeSource: number,
      calleeSize: number,
      nameSource: number,
      nameSize: number,
      replyFun: number,
      replyEnv: number | bigint,
      rejectFun: number,
      rejectEnv: number | bigint,
    ) => {
      execution.discardDraft();
      const callee = execution.copyIn('call_new', calleeSource, calleeSize, PRINCIPAL_BYTES_MAX);
      if (nameSize > METHOD_NAME_BYTES_MAX)
        throw new HostTrap(
          `ic0.call_new: Size of method_name ${nameSize} exceeds the allowed limit of ${METHOD_NAME_BYTES_MAX}.`,
        );
      const name = execution.textIn('call_new', nameSource, nameSize, METHOD_NAME_BYTES_MAX);
      execution.draft.open(callee, name, nameSize, replyFun, replyEnv, rejectFun, rejectEnv);
    },
    call_on_cleanup: (fun: number, env: number | bigint) => {
      const { callbacks } = construction('call_on_cleanup');
      if (callbacks.hasCleanup)
        throw contractViolation('ic0.call_on_cleanup: the call under construction has a cleanup already');
      callbacks.set(CLEANUP, fun, env);
    },
    call_data_append: (source: number, size: number) => {
      const draft = construction('call_data_append');
      if (draft.size + size > CALL_BYTES_MAX)
        throw new HostTrap(
          `ic0.call_data_append: ${draft.size + size} bytes of method name and payload are more than the ${CALL_BYTES_MAX} allowed`,
        );
      const memory = execution.memory;
      const heap = memory.heap();
      execution.checkHeapRange('call_data_append', heap, source, size);
      memory.charge(size);
      execution.callGrows(size);
      draft.append(heap, source, size);
    },
    call_with_best_effort_response: (timeoutSeconds: number) => {
      const draft = construction('call_with_best_effort_response');
      if (draft.timeoutSeconds !== undefined)
        throw contractViolation(
          'ic0.call_with_best_effort_response: the call under construction has a timeout already',
        );
      draft.timeoutSeconds = Math.min(timeoutSeconds >>> 0, CALL_TIMEOUT_SECONDS_MAX);
    },
    call_perform: (): number => {
      construction('call_perform');
      return execution.performDraft() ? 0 : NOT_QUEUED;
    },
    call_cycles_add128: (high: bigint, low: bigint) => addCycles('call_cycles_add128', amount128(high, low)),
    call_cycles_add: (amount: bigint) => addCycles('call_cycles_add', BigInt.asUintN(64, amount)),
  };
}
