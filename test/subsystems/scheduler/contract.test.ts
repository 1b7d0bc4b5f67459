/** The shipped scheduler passes `svc/contracts/scheduler`, and the suite finds schedulers with one mistake each. */
import assert from 'node:assert/strict';
import { resolve } from 'node:path';
import { test } from 'node:test';
import { around } from '../../../plugins/api/plugin.ts';
import {
  describeScheduler,
  type MadeScheduler,
  type MakeScheduler,
  type SchedulerParts,
} from '../../../plugins/api/contracts/scheduler.ts';
import { importFrom } from '../../../plugins/loader/own-modules.ts';
import type { EndedStep, Task } from '../../../subsystems/ic/index.ts';
import { RoundScheduler } from '../../../subsystems/scheduler/round-scheduler.ts';
import { failuresOf } from '../../support/failing-suite.ts';

function roundScheduler({ execution, clock, storage, log, ...options }: SchedulerParts): MadeScheduler {
  const scheduler = new RoundScheduler(
    { execution, clock, storage, log },
    { ...options, liveBytes: 0, queryInstructionsMax: 1_000_000 },
  );
  return { scheduler, begin: () => scheduler.beginTicking(), drain: () => scheduler.drain() };
}

describeScheduler('RoundScheduler', (_t, parts) => roundScheduler(parts));

// ---- mistakes

type Whole = MadeScheduler['scheduler'];

/** Returns the shipped scheduler with other members in place of some. */
const but =
  (changed: (own: Whole) => Partial<Whole>): MakeScheduler =>
  (_t, parts) => {
    const made = roundScheduler(parts);
    return { ...made, scheduler: around<Whole>(made.scheduler, changed(made.scheduler)) };
  };

/** Returns the shipped scheduler over other parts. */
const over =
  (changed: (parts: SchedulerParts) => Partial<SchedulerParts>): MakeScheduler =>
  (_t, parts) =>
    roundScheduler({ ...parts, ...changed(parts) });

type Execution = SchedulerParts['execution'];

const overExecution = (changed: (own: Execution) => Partial<Execution>): MakeScheduler =>
  over(({ execution }) => ({ execution: around<Execution>(execution, changed(execution)) }));

/** Returns the shipped scheduler whose executor is given other tasks. */
const givenTasks = (changed: (task: Task) => Task): MakeScheduler =>
  overExecution((own) => ({ run: (handle, task, ended) => own.run(handle, changed(task), ended) }));

/** Returns the shipped scheduler that is told of other steps. */
const toldSteps = (changed: (ended: EndedStep) => EndedStep): MakeScheduler =>
  overExecution((own) => ({ run: (handle, task, ended) => own.run(handle, task, (told) => ended(changed(told))) }));

interface FirstCome extends Whole {
  begin(): void;
  drain(): Promise<void>;
}
type FirstComeClass = new (parts: SchedulerParts, config: object) => FirstCome;

const outcome = await importFrom(resolve(import.meta.dirname, '../../../config/examples/schedulers'), './first-come.js')
  .outcome;
assert.ok('exports' in outcome, 'it cannot be loaded');
const { FirstCome } = outcome.exports as { readonly FirstCome: FirstComeClass };

/** Returns the scheduler of docs/plugins.md with members of its own. */
const firstComeBut =
  (members: object): MakeScheduler =>
  (_t, { heartbeatMs, timerMs, ...parts }) => {
    const config = { 'heartbeat-ms': heartbeatMs, 'timer-ms': timerMs };
    const scheduler = Object.assign(new FirstCome({ heartbeatMs, timerMs, ...parts }, config), members);
    return { scheduler, begin: () => scheduler.begin(), drain: () => scheduler.drain() };
  };

const nothing = (): void => undefined;

/** Schedulers with one mistake each, and the first test that finds it. */
const MISTAKES: Readonly<Record<string, readonly [make: MakeScheduler, found: string]>> = {
  'the newest message first': [
    firstComeBut({ choose: (queue: readonly unknown[]) => queue.length - 1 }),
    'updates of a canister start in the order in which they came',
  ],
  'messages are not told as they came': [
    but((own) => ({ deliver: (handle, message) => own.deliver(handle, { ...message, noted: undefined }) })),
    'a client gets what the step says, and it is told as it came, once',
  ],
  'each step is told twice': [
    but((own) => ({
      attachCanisters: (loader, listener) =>
        own.attachCanisters(loader, {
          ...listener,
          stepEnded: (...step) => {
            listener.stepEnded(...step);
            listener.stepEnded(...step);
          },
        }),
    })),
    'a client gets what the step says, and it is told as it came, once',
  ],
  'a queue that is longer than it says': [
    but(() => ({ queuedMax: 50 })),
    'the queue is as long as it says, and then refuses with code 2',
  ],
  'a drain that does not wait': [
    (_t, parts) => {
      const made = roundScheduler(parts);
      return {
        ...made,
        drain: async () => {
          void made.drain();
        },
      };
    },
    'at the end what waits is answered, what executes ends first, and nothing starts any more',
  ],
  'refunds that are lost': [
    givenTasks((task) => (task.kind === 'callback' ? { ...task, refunded: 0n } : task)),
    'a call reaches its method with caller, argument and cycles, and its response the callback',
  ],
  'a second answer': [
    givenTasks((task) => ('context' in task ? { ...task, context: { ...task.context, canAnswer: true } } : task)),
    'executions of one context follow each other, and each knows what the one before it did',
  ],
  'cycles that are accepted twice': [
    toldSteps((ended) =>
      ended.isReturned ? ended : { ...ended, step: { ...ended.step, cyclesAccepted: ended.step.cyclesAccepted / 2n } },
    ),
    'a call reaches its method with caller, argument and cycles, and its response the callback',
  ],
  'a callback that runs twice': [
    overExecution((own) => ({
      run: (handle, task, ended) => {
        own.run(handle, task, ended);
        if (task.kind === 'callback') own.run(handle, task, nothing);
      },
    })),
    'a call reaches its method with caller, argument and cycles, and its response the callback',
  ],
  'calls that wait for ever': [
    toldSteps((ended) => {
      if (ended.isReturned) return ended;
      const calls = ended.step.calls.map((call) => ({ ...call, timeoutSeconds: undefined }));
      return { ...ended, step: { ...ended.step, calls } };
    }),
    'a best-effort call ends at its deadline with code 6, and a later answer goes nowhere',
  ],
  'no management canister': [
    but(() => ({ attach: nothing })),
    'calls to the management canister go to it, and its responses come back',
  ],
  'cycles that nobody has to attach': [
    but(() => ({ setMinimumCycles: nothing })),
    'a call that reaches no method is rejected, and refunds all',
  ],
  'a status that executors do not know': [
    overExecution(() => ({ configure: nothing })),
    'a canister without open calls stops at once, takes nothing, and starts again',
  ],
  'a stop that waits for nothing': [
    but((own) => ({
      stop: async (handle) => {
        own.stop(handle).catch(nothing);
      },
    })),
    'a stop waits for open calls, whose callbacks run; what has not begun is refused',
  ],
  'a pause that is a stop': [
    but((own) => ({ pause: (handle) => own.stop(handle) })),
    'a pause keeps clients waiting, is stored as running, and ends with resume',
  ],
  'a pause that does not end': [
    but(() => ({ resume: nothing })),
    'a pause keeps clients waiting, is stored as running, and ends with resume',
  ],
  'a canister that stays': [
    but(() => ({ withdraw: nothing })),
    'who is withdrawn is not there: for clients, for canisters, and for its id',
  ],
  'a deletion that lets messages go on': [
    but(() => ({ beginDeletion: () => nothing })),
    'a deletion with open calls undoes the executing message, ends the calls, and owes nobody anything',
  ],
  'a deletion that ends no calls': [
    but(() => ({ endCalls: () => Promise.resolve() })),
    'a deletion with open calls undoes the executing message, ends the calls, and owes nobody anything',
  ],
  'an executor whose death nobody hears of': [
    overExecution((own) => ({ attend: (listener) => own.attend({ ...listener, lost: nothing }) })),
    'a canister that is stored nowhere is lost with its executor: 2 for all who wait, and for all who come',
  ],
  'lines of hooks that are lost': [
    but((own) => ({ change: async (...given) => ({ ...(await own.change(...given)), lines: [] }) })),
    'a change comes after what executes and before what has not begun, which meets the new code',
  ],
  'a reinstallation that ends no calls': [
    but((own) => ({
      change: (handle, module, change) =>
        own.change(handle, module, change.mode === 'upgrade' ? change : { ...change, endsCalls: false }),
    })),
    'callbacks of a reinstallation by a canister find the new code; one that ends calls leaves none',
  ],
  'work that does not come back from the executor': [
    overExecution(() => ({ recall: nothing })),
    'a stop waits for open calls, whose callbacks run; what has not begun is refused',
  ],
  'a lock that locks nothing': [
    but(() => ({ lock: () => nothing })),
    'nothing of a locked canister starts until every lock is gone',
  ],
  'a lock where calls are open': [
    but((own) => ({ lockBetweenMessages: async (handle) => own.lock(handle) })),
    'a lock between messages waits for the one that executes, and is refused where calls are open',
  ],
  'code that is not known after a snapshot': [
    but(() => ({ restored: nothing })),
    'code and timer of a restored state are known from then on',
  ],
  'time that stands still': [
    over(({ clock }) => ({ clock: { ...around(clock, {}), every: () => ({ [Symbol.dispose]: nothing }) } })),
    'a best-effort call ends at its deadline with code 6, and a later answer goes nowhere',
  ],
  'a timer in the time of the clock': [
    overExecution(() => ({ aheadOf: () => 0 })),
    'a timer is due in its canister’s own time',
  ],
  'a low-memory hook that never runs': [
    but(() => ({ lowMemory: nothing })),
    'the low-memory hook runs once for however many of its warnings, and not when memory is back',
  ],
  'abilities that are not claimed, and not refused': [
    but(() => ({
      supports: { durability: false, eviction: false, idempotencyKeys: false, compositeQueries: false },
    })),
    'composite queries call queries and go on where they waited, or are refused with code 1',
  ],
  'keys that nobody looks at': [
    but((own) => ({ deliver: (handle, message) => own.deliver(handle, { ...message, idempotencyKey: undefined }) })),
    'an update with a key executes once and is answered as often as it comes, or is refused',
  ],
  'durability that is only claimed': [
    firstComeBut({
      supports: { durability: true, eviction: false, idempotencyKeys: false, compositeQueries: false },
    }),
    'a client is told of a change when it is durable, and a query of what it has seen',
  ],
  'answers before they are durable': [
    over(({ storage }) => ({ storage: around(storage, { whenDurable: (_unit, told) => told() }) })),
    'a client is told of a change when it is durable, and a query of what it has seen',
  ],
  'what waited is forgotten': [
    but(() => ({ restore: nothing })),
    'a key is answered from a callback, a trap is an answer, and keys outlive the process',
  ],
  'answers under keys are forgotten': [
    but(() => ({ restoreAnswers: () => Promise.resolve() })),
    'a key is answered from a callback, a trap is an answer, and keys outlive the process',
  ],
  'evictions that nobody counts': [
    but(() => ({ live: { liveCount: 1, evictions: 0, wakeUps: 0 } })),
    'everybody is answered in turn where one may be live, and the numbers say so',
  ],
};

for (const [mistake, [make, found]] of Object.entries(MISTAKES))
  test(`${mistake}: '${found}' finds it`, async () => {
    const [first] = await failuresOf((runner) => describeScheduler('', make, { ...runner, testMs: 20_000 }), {
      first: true,
    });
    assert.equal(first, found);
  });
