import { HostTrap } from '../fault.ts';

/** Calls to other canisters. This host cannot make them: they trap by name, which the caller is told. */
export function callImports() {
  const refuse = (name: string): never => {
    throw new HostTrap(`ic0.${name}: calls between actors are not built yet`);
  };
  return {
    call_new: (
      _calleeSource: number,
      _calleeSize: number,
      _nameSource: number,
      _nameSize: number,
      _replyFunction: number,
      _replyEnv: number | bigint,
      _rejectFunction: number,
      _rejectEnv: number | bigint,
    ) => refuse('call_new'),
    call_on_cleanup: (_function: number, _env: number | bigint) => refuse('call_on_cleanup'),
    call_data_append: (_source: number, _size: number) => refuse('call_data_append'),
    call_with_best_effort_response: (_timeoutSeconds: number) => refuse('call_with_best_effort_response'),
    call_perform: (): number => refuse('call_perform'),
    call_cycles_add128: (_high: bigint, _low: bigint) => refuse('call_cycles_add128'),
    call_cycles_add: (_amount: bigint) => refuse('call_cycles_add'),
  };
}
