/** Actors whose composite queries wait for others keep their places, and give way all the same when somebody waits. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DurableHost } from './durable-host.ts';
import { callOf, idOf, MODULE, STEP } from './held-execution.ts';

const COMPOSITE = {
  ...MODULE,
  methods: new Map([...MODULE.methods, ['c', 'composite_query' as const]]),
  entries: new Map([
    ...[...MODULE.entries].filter(([name]) => name !== 'canister_heartbeat'),
    ['canister_composite_query c', 4],
  ]),
};
const PATIENCE_MS = 100;

function hostOf(liveCap: number, handles: readonly number[]): DurableHost {
  return new DurableHost({ liveCap }).admit(handles, { isAsleep: true, module: COMPOSITE });
}

/** Delivers a composite query, whose first part then executes. */
async function begin(host: DurableHost, handle: number): Promise<void> {
  const message = { kind: 'query', method: 'c', caller: Uint8Array.of(4), argument: new Uint8Array(0) } as const;
  void host.scheduler.deliver(handle, message);
  await host.endTurn();
}

/** Ends the execution that began first: it waits for a query of another actor, `method`. */
async function waitFor(host: DurableHost, callee: number, method = 'q'): Promise<void> {
  host.execution.endOne({ ...STEP, calls: [callOf(idOf(callee), { method })], frame: 1 });
  await host.endTurn();
}

const startedOf = ({ execution }: DurableHost): string[] =>
  execution.started.map(({ handle, task }) => `${handle} ${task.kind}`);

test('an actor whose clients never cease to send composite queries gives way when those under way have ended', async () => {
  const host = hostOf(1, [0, 1, 2]);
  await begin(host, 0);
  await waitFor(host, 1);
  assert.deepEqual(host.woken, [0, 1], 'the call waits for no place');
  host.deliver(2);
  await begin(host, 0);
  // The second query waits for another one as well: there is always one that is suspended.
  host.execution.endLast({ ...STEP, calls: [callOf(idOf(1), { method: 'q' })], frame: 2 });
  await host.endTurn();
  host.clock.advance(PATIENCE_MS);
  await begin(host, 0);
  assert.deepEqual(startedOf(host), ['0 query', '1 query', '0 query', '1 query'], 'the third does not begin');
  host.execution.endOne();
  await host.endTurn();
  assert.equal(startedOf(host).at(-1), '0 callback', 'the first goes on');
  host.execution.endLast();
  host.execution.endOne();
  await host.endTurn();
  assert.equal(startedOf(host).at(-1), '0 callback', 'the second goes on');
  assert.ok(!host.slept.includes(0));
  host.execution.endOne();
  await host.endTurn();
  assert.ok(host.slept.includes(0));
  assert.equal(startedOf(host).at(-1), '2 update', 'the one that has waited has its turn');
  host.execution.endOne();
  await host.endTurn();
  assert.equal(startedOf(host).at(-1), '0 query', 'the third has its turn');
});

test('an actor that gives way takes part in composite queries that had begun, and in later ones when it has slept', async () => {
  const host = hostOf(2, [0, 1, 2]);
  const { execution } = host;
  const callOfZero = { ...STEP, calls: [callOf(idOf(0), { method: 'q' })], frame: 1 };
  await begin(host, 0);
  await waitFor(host, 0);
  await begin(host, 1);
  execution.endLast(callOfZero);
  await host.endTurn();
  host.clock.advance(PATIENCE_MS);
  host.deliver(2);
  await host.endTurn();
  host.clock.advance(PATIENCE_MS);
  execution.endLast();
  await host.endTurn();
  assert.equal(startedOf(host).at(-1), '1 callback');
  execution.endLast(callOfZero);
  await host.endTurn();
  assert.equal(startedOf(host).at(-1), '0 query', 'the query had begun');
  await begin(host, 1);
  const before = execution.started.length;
  execution.endLast({ ...callOfZero, frame: 2 });
  await host.endTurn();
  assert.deepEqual(startedOf(host).slice(before), [], 'a later one waits');
  while (execution.running > 0) {
    execution.endOne();
    await host.endTurn();
  }
  assert.ok(host.slept.includes(0));
  const after = startedOf(host).slice(before);
  assert.ok(after.includes('2 update') && after.indexOf('0 query') > after.indexOf('0 callback'), after.join(', '));
});
