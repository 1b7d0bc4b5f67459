import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { ChangeTurns } from '../../../subsystems/canisters/change-turns.ts';

test('changes run in the order they came, and a canister is remembered only while it is being changed', async () => {
  const turns = new ChangeTurns();
  const [one, other] = [{}, {}];
  const steps: string[] = [];
  const change = (name: string, error?: Error) => async (): Promise<void> => {
    steps.push(name);
    await nextTurn();
    steps.push(`${name} has ended`);
    if (error !== undefined) throw error;
  };
  const failed = turns.take(one, change('a', new Error('it fails')));
  const told = [turns.take(one, change('b')), turns.take(other, change('c'))];
  await assert.rejects(failed, /it fails/);
  // One that comes while the last is under way waits for it.
  told.push(turns.take(one, change('d')));
  assert.equal(turns.size, 2);
  await Promise.all(told);
  assert.deepEqual(
    steps.filter((step) => !step.startsWith('c')),
    ['a', 'a has ended', 'b', 'b has ended', 'd', 'd has ended'],
  );
  assert.ok(steps.indexOf('c') < steps.indexOf('a has ended'), 'another canister does not wait');
  assert.equal(turns.size, 0);
});

test('a change that throws before it has begun ends its turn', async () => {
  const turns = new ChangeTurns();
  const canister = {};
  const mistaken = (): Promise<void> => {
    throw new Error('not now');
  };
  await assert.rejects(turns.take(canister, mistaken), /not now/);
  assert.equal(await turns.take(canister, async () => 1), 1);
  assert.equal(turns.size, 0);
});

test('a cut ends the change under way and those that wait, with its reason, and none that comes later', async () => {
  const turns = new ChangeTurns();
  const [one, other] = [{}, {}];
  const begun: string[] = [];
  const long =
    (name: string) =>
    async (deletion: AbortSignal): Promise<string> => {
      begun.push(name);
      for (let turn = 0; turn < 20; turn++) {
        await nextTurn();
        deletion.throwIfAborted();
      }
      return name;
    };
  const reason = new Error('it is being deleted');
  turns.cut(one, reason);
  const cut = [turns.take(one, long('a')), turns.take(one, long('b'))];
  const goesOn = turns.take(other, long('c'));
  await nextTurn();
  turns.cut(one, reason);
  const later = turns.take(one, long('d'));
  for (const change of cut) await assert.rejects(change, reason);
  assert.deepEqual([await goesOn, await later], ['c', 'd']);
  assert.deepEqual(begun.toSorted(), ['a', 'c', 'd'], 'a change that waits never begins');
  assert.equal(turns.size, 0);
});
