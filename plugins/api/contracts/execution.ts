/**
 * `svc/contracts/execution`: what whoever runs canisters has to pass. What instructions cost, how long a message may be and
 * how memory is shared are the implementation's own; here is what the scheduler and the management canister rely on.
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
 * `make` is called for each test. It may give the same one again and again, but where `isOwn` is true: that test leaves one behind
 * that takes nothing any more.
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
