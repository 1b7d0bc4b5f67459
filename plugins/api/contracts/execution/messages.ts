/** Messages: what they keep, undo, answer and print, and in which order. */
import assert from 'node:assert/strict';
import { type EndedStep, TAKEN_BACK } from '../../../../subsystems/ic/index.ts';
import type { SuiteTest } from '../runner.ts';
import { type MakeExecution, Bench, CALLER, INSTALL, NONE, PAGE_BYTES, countOf, upgrade } from './bench.ts';

export function describeMessages(test: SuiteTest, make: MakeExecution): void {
  test('work that has not begun is taken back in order, or all of it is done, and the canister goes on', async (t) => {
    const bench = await Bench.over(await make(t, false));
    const { execution } = bench;
    const it = await bench.installed();
    const running = Array.from({ length: 20 }, () => bench.update(it, 'inc'));
    execution.recall(it.handle, 'unbegun');
    const steps = await Promise.all(running);
    execution.recall(it.handle, 'nothing');
    const done = steps.filter((step) => step !== TAKEN_BACK);
    assert.deepEqual(
      done.map(countOf),
      [...done.keys()].map((n) => n + 1),
    );
    assert.ok(
      steps.slice(0, done.length).every((step) => step !== TAKEN_BACK),
      'the first of them',
    );
    assert.equal(done.length < steps.length, execution.supports.recall);
    assert.deepEqual(await bench.counts(it, 'inc'), [done.length + 1]);
  });

  test('updates keep what they change, queries nothing, and each answers', async (t) => {
    const bench = await Bench.over(await make(t, false));
    const it = await bench.installed();
    assert.deepEqual(await bench.counts(it, 'inc', 'inc', 'get'), [1, 2, 2]);
    assert.equal(countOf(await bench.query(it, 'scribble')), 52, 'within the query it is there');
    assert.equal(countOf(await bench.query(it, 'get')), 2);
    assert.equal(countOf(await bench.update(it, 'get')), 2, 'a query method may be called as an update');
    const large = Buffer.alloc(50_000, 'argument ');
    // Arguments are handed over.
    const step = await bench.update(it, 'echo', new Uint8Array(large));
    assert.ok(step.answer?.kind === 'reply' && Buffer.compare(step.answer.data, large) === 0);
    assert.equal((await bench.update(it, 'silent')).answer, undefined, 'nobody has answered');
    assert.equal(countOf(await bench.query(it, 'get')), 3);
  });

  test('a message that traps leaves no trace but its charge, its instructions and what it printed', async (t) => {
    const bench = await Bench.over(await make(t, false));
    const it = await bench.installed();
    await bench.update(it, 'inc');
    const before = it.last();
    it.lines.length = 0;
    const step = await bench.update(it, 'fail');
    assert.deepEqual([step.fault?.kind, step.fault?.code, step.answer], ['calledTrap', 5, undefined]);
    assert.match(step.fault?.message ?? '', /said so/);
    assert.ok(step.instructions > 0 && step.charge > 0);
    assert.equal(it.lines[0], 'said');
    assert.equal(countOf(await bench.query(it, 'get')), 1);
    assert.deepEqual([it.last().version, it.last().heapBytes], [before.version, before.heapBytes]);
  });

  test('the end of a step is told once and later, with its lines and its numbers', async (t) => {
    const bench = await Bench.over(await make(t, false));
    const it = await bench.installed();
    const ends: EndedStep[] = [];
    let isLater = false;
    await bench.until(
      new Promise<void>((resolve) => {
        bench.execution.run(it.handle, bench.task('update', 'print'), (ended) => {
          assert.ok(isLater, 'not within run');
          ends.push(ended);
          resolve();
        });
        isLater = true;
      }),
    );
    await bench.query(it, 'get');
    const [ended, ...more] = ends;
    assert.ok(ended?.isReturned === false && ended.step.fault === undefined && more.length === 0);
    assert.deepEqual(
      ended.lines.map(({ text }) => text),
      ['said so'],
    );
    assert.ok(ended.heapBytes === PAGE_BYTES && ended.stableBytes === 0);
  });

  test('tasks of one canister run in the order given, changes of code and settings among them', async (t) => {
    const bench = await Bench.over(await make(t, false));
    const it = await bench.installed();
    const other = await bench.installed(Uint8Array.of(200));
    const { execution, module } = bench;
    const steps = [
      ...Array.from({ length: 30 }, () => bench.update(it, 'inc')),
      bench.change(it, module, { ...INSTALL, mode: 'reinstall', argument: Uint8Array.of(100) }),
      bench.update(it, 'inc'),
      bench.change(it, module, upgrade(true)),
      bench.update(it, 'inc'),
    ];
    const elsewhere = bench.update(other, 'inc');
    execution.configure(it.handle, { heapBytesMax: PAGE_BYTES });
    const grown = bench.update(it, 'grow');
    const done = await bench.until(Promise.all(steps));
    const answers = done.filter(({ answer }) => answer !== undefined);
    assert.deepEqual(answers.map(countOf), [...Array.from({ length: 30 }, (_, n) => n + 1), 101, 102]);
    assert.equal(countOf(await bench.until(elsewhere)), 201, 'canisters share nothing');
    const refused = await bench.until(grown);
    assert.ok(refused.fault !== undefined, 'more heap than it may have');
    execution.configure(it.handle, { heapBytesMax: Number.POSITIVE_INFINITY });
    assert.equal(countOf(await bench.update(it, 'grow')), 102);
    assert.equal(it.last().heapBytes, 16 * PAGE_BYTES);
  });

  test('timers are told, system tasks run, and a message is inspected without a change', async (t) => {
    const bench = await Bench.over(await make(t, false));
    const it = await bench.installed();
    assert.equal((await bench.update(it, 'timer')).timerNs, 1_700_000_000_000_000_000n);
    assert.equal((await bench.update(it, 'inc')).timerNs, undefined);
    const entry = bench.entry('canister_global_timer');
    assert.equal((await bench.run(it, { kind: 'system', entry })).fault, undefined);
    assert.deepEqual(await bench.counts(it, 'get'), [1001]);
    const inspected = async (argument: Uint8Array): Promise<boolean> => {
      const rest = { method: 'inc', argument, caller: CALLER };
      return (await bench.run(it, { kind: 'inspect', entry: bench.entry('canister_inspect_message'), ...rest }))
        .isAccepted;
    };
    assert.deepEqual([await inspected(Uint8Array.of(1)), await inspected(NONE)], [true, false]);
    assert.deepEqual(await bench.counts(it, 'get'), [1001]);
  });
}
