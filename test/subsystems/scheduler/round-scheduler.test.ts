import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { CanisterMessage, Execution, Outcome } from '../../../subsystems/execution/index.ts';
import { RoundScheduler } from '../../../subsystems/scheduler/round-scheduler.ts';

const REPLY: Outcome = { kind: 'reply', data: new Uint8Array(0), instructions: 1, charge: 1 };

/** An execution whose messages end when the test says so. */
class HeldExecution implements Pick<Execution, 'lanes' | 'laneOf' | 'execute' | 'refuseNew'> {
  readonly lanes: number;
  readonly started: CanisterMessage[] = [];
  readonly #running: ((outcome: Outcome) => void)[] = [];
  refused = false;

  constructor(lanes = 1) {
    this.lanes = lanes;
  }

  laneOf(handle: number): number {
    return handle % this.lanes;
  }

  execute(started: CanisterMessage, done: (outcome: Outcome) => void): void {
    this.started.push(started);
    this.#running.push(done);
  }

  refuseNew(): void {
    this.refused = true;
  }

  get running(): number {
    return this.#running.length;
  }

  endOne(): void {
    this.#running.shift()?.(REPLY);
  }

  endAll(): void {
    while (this.#running.length > 0) this.endOne();
  }
}

function scheduler(execution: HeldExecution): RoundScheduler {
  return new RoundScheduler(execution as unknown as Execution);
}

let sequence = 0;
function message(handle: number): CanisterMessage {
  const argument = Buffer.from(String(sequence++));
  return { handle, kind: 'update', method: 'm', caller: Uint8Array.of(4), argument };
}

const numberOf = (sent: CanisterMessage): number => Number(Buffer.from(sent.argument).toString());

test('messages of one canister start in the order they came, also past the window', async () => {
  const execution = new HeldExecution();
  const { deliver } = bound(scheduler(execution));
  const sent = Array.from({ length: 1000 }, () => message(0));
  const outcomes = sent.map((each) => deliver(each));
  execution.endAll();
  for (const outcome of await Promise.all(outcomes)) assert.equal(outcome.kind, 'reply');
  assert.deepEqual(execution.started.map(numberOf), sent.map(numberOf));
});

test('a canister that floods its lane does not starve the others: each gets its turn', () => {
  const execution = new HeldExecution();
  const { deliver } = bound(scheduler(execution));
  for (let i = 0; i < 5000; i++) void deliver(message(0));
  const window = execution.started.length;
  for (let handle = 1; handle <= 10; handle++) void deliver(message(handle));
  for (let i = 0; i < 40; i++) execution.endOne();
  const next = execution.started.slice(window);
  for (let handle = 1; handle <= 10; handle++) {
    const position = next.findIndex((each) => each.handle === handle);
    assert.ok(position >= 0 && position <= 2 * handle, `canister ${handle} started at place ${position}`);
  }
});

test('lanes do not wait for each other', () => {
  const execution = new HeldExecution(2);
  const { deliver } = bound(scheduler(execution));
  for (let i = 0; i < 5000; i++) void deliver(message(0));
  void deliver(message(1));
  assert.ok(execution.started.some((each) => each.handle === 1));
});

test('the 10,001st waiting message of a canister is refused with the numbers, and others still get in', async () => {
  const execution = new HeldExecution();
  const { deliver } = bound(scheduler(execution));
  void deliver(message(0));
  const window = (): number => execution.running;
  let before = -1;
  while (before !== window()) {
    before = window();
    void deliver(message(0));
  }
  for (let i = 0; i < 9_999; i++) void deliver(message(0));
  const refused = await deliver(message(0));
  assert.equal(refused.kind, 'unavailable');
  assert.match(refused.kind === 'unavailable' ? refused.message : '', /10000 of 10000/);
  execution.endOne();
  const last = deliver(message(0));
  while (execution.running > 0) execution.endOne();
  assert.equal((await last).kind, 'reply');
});

test('drain answers what waits, lets what executes end, and resolves only then', async () => {
  const execution = new HeldExecution();
  const rounds = scheduler(execution);
  const outcomes = Array.from({ length: 500 }, () => rounds.deliver(message(0)));
  const executing = execution.running;
  let isDrained = false;
  const drained = rounds.drain().then(() => {
    isDrained = true;
  });
  assert.ok(execution.refused);
  assert.equal((await rounds.deliver(message(0))).kind, 'unavailable');
  const waiting = await Promise.all(outcomes.slice(executing));
  assert.ok(waiting.every((outcome) => outcome.kind === 'unavailable'));
  assert.equal(isDrained, false);
  execution.endAll();
  await drained;
  const ended = await Promise.all(outcomes.slice(0, executing));
  assert.ok(ended.every((outcome) => outcome.kind === 'reply'));
  assert.equal(execution.started.length, executing, 'nothing started after drain');
});

function bound(rounds: RoundScheduler): { readonly deliver: RoundScheduler['deliver'] } {
  return { deliver: (each) => rounds.deliver(each) };
}
