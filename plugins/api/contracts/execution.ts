/**
 * `svc/contracts/execution`: the suite that every executor of canisters has to pass. The cost of instructions, the
 * length of messages and the sharing of memory are up to the implementation; the suite tests what the scheduler and the
 * management canister rely on.
 */
import { nodeRunner, suite, type SuiteRunner } from './runner.ts';
import type { MakeExecution } from './execution/bench.ts';
import { describeModules } from './execution/modules.ts';
import { describeMessages } from './execution/messages.ts';
import { describeCalls } from './execution/calls.ts';
import { describeCodeChanges } from './execution/code-changes.ts';
import { describeStates } from './execution/states.ts';
import { describeMemory } from './execution/memory.ts';

export type { MadeExecution } from './execution/bench.ts';

/**
 * Declares the suite. `make` is called for each test. It may return the same execution again and again, except if
 * `isOwn` is true: such a test leaves the execution unable to take any more work.
 */
export function describeExecution(name: string, make: MakeExecution, runner: SuiteRunner = nodeRunner): void {
  suite(runner, name, (test) => {
    describeModules(test, make);
    describeMessages(test, make);
    describeCalls(test, make);
    describeCodeChanges(test, make);
    describeStates(test, make);
    describeMemory(test, make);
  });
}
