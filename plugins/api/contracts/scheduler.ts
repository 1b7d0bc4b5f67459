/**
 * `svc/contracts/scheduler`: the suite that every scheduler has to pass. The executions are held by the suite, which
 * says what each step did. What a scheduler says that it supports is tested, and the rest must be refused as
 * `SchedulerSupports` says. In which order canisters get their turns, and who sleeps, is up to the implementation.
 */
import { nodeRunner, suite, type SuiteRunner } from './runner.ts';
import type { MakeScheduler } from './scheduler/bench.ts';
import { describeCalls } from './scheduler/calls.ts';
import { describeCodeChanges } from './scheduler/code-changes.ts';
import { describeDurability } from './scheduler/durability.ts';
import { describeEviction } from './scheduler/eviction.ts';
import { describeKeys } from './scheduler/keys.ts';
import { describeMessages } from './scheduler/messages.ts';
import { describeQueries } from './scheduler/queries.ts';
import { describeStates } from './scheduler/states.ts';
import { describeTicks } from './scheduler/ticks.ts';

export type { MadeScheduler, MakeScheduler, SchedulerParts } from './scheduler/bench.ts';

/** Declares the suite. `make` is called for each process that a test is about, so more than once for a restart. */
export function describeScheduler(name: string, make: MakeScheduler, runner: SuiteRunner = nodeRunner): void {
  suite(runner, name, (test) => {
    describeMessages(test, make);
    describeCalls(test, make);
    describeStates(test, make);
    describeCodeChanges(test, make);
    describeTicks(test, make);
    describeQueries(test, make);
    describeKeys(test, make);
    describeDurability(test, make);
    describeEviction(test, make);
  });
}
