/**
 * Choice of the actor for a checkpoint in the background, its moment, and the share of time that the actor's messages
 * get meanwhile.
 */
import { strict as assert } from 'node:assert';
import { test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { CanisterRecord } from '../../../subsystems/canisters/canister-record.ts';
import { ReplayBudget } from '../../../subsystems/canisters/replay-budget.ts';
import { FakeClock } from '../../support/fake-clock.ts';

/** Instructions that a budget of one second stands for. */
const PER_SECOND = 500_000_000;
const PIECE_MS = 8;

const [long, short] = ['long', 'short'].map((name) => ({ name }) as unknown as CanisterRecord) as [
  CanisterRecord,
  CanisterRecord,
];

test('the longest logs are checkpointed from half of the budget on, with pauses that end when it is used up', async () => {
  const checkpointed: CanisterRecord[] = [];
  const clock = new FakeClock();
  const pauses: number[] = [];
  /** Lets milliseconds pass, with all their effects, until `isSo`. */
  const until = async (isSo: () => boolean): Promise<void> => {
    for (let passedMs = 0; !isSo(); passedMs++) {
      assert.ok(passedMs < 1_000, 'it did not come about');
      await nextTurn();
      clock.advance(1);
    }
  };
  let resume = Promise.withResolvers<undefined>();
  const budget = new ReplayBudget<CanisterRecord>({
    clock,
    seconds: 10,
    async checkpoint(record, pause) {
      checkpointed.push(record);
      await resume.promise;
      const startedMs = clock.nowMs();
      await pause(PIECE_MS);
      pauses.push(clock.nowMs() - startedMs);
    },
    report: (_, error) => assert.fail(String(error)),
  });
  budget.logged(short, PER_SECOND);
  budget.logged(long, 4 * PER_SECOND);
  assert.deepEqual(checkpointed, []);
  assert.equal(budget.seconds, 5);

  budget.logged(short, 1.1 * PER_SECOND);
  assert.deepEqual(checkpointed, [long]);
  resume.resolve(undefined);
  await until(() => budget.seconds < 5);
  assert.equal(budget.seconds, 1.1);
  assert.ok((pauses[0] ?? 0) > 2 * PIECE_MS, `it left its messages only ${pauses[0]} ms`);

  // The logs have used up the budget before the first piece is written.
  resume = Promise.withResolvers();
  budget.logged(long, 5 * PER_SECOND);
  budget.logged(short, 6 * PER_SECOND);
  assert.deepEqual(checkpointed, [long, long]);
  resume.resolve(undefined);
  await until(() => checkpointed.length === 3);
  assert.equal(checkpointed[2], short);
  assert.ok((pauses[1] ?? Infinity) < PIECE_MS, `with no time left it waited ${pauses[1]} ms`);
  await until(() => budget.seconds === 0);
});
