/** Choice among messages, and their tree. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { ActorMessage } from '../../../../subsystems/inspector/page/api.ts';
import { callAgain } from '../../../../subsystems/inspector/page/call-again.ts';
import { ALL_MESSAGES, chosenOf, optionsOf, treeOf } from '../../../../subsystems/inspector/page/history-choice.ts';
import { readDid } from './read-did.ts';

function message(id: string, cause: string | null, more: Partial<ActorMessage> = {}): ActorMessage {
  const of = { actor: '80', name: 'a', seq: 1, time: '', kind: 'update', method: 'm', caller: '2vxsx-fae', args: '()' };
  return { ...of, outcome: 'reply', instructions: 1, cycles: 1, ms: 1, id, cause, ...more };
}

suite('a history', () => {
  const entries = [
    message('1', null),
    message('2', null, { method: '', kind: 'install', caller: 'aaaaa-aa' }),
    message('3', null, { outcome: 'trap' }),
  ];
  const idsOf = (choice: Partial<typeof ALL_MESSAGES>): readonly string[] =>
    chosenOf(entries, { ...ALL_MESSAGES, ...choice }).map(({ id }) => id);

  test('is chosen by method, outcome and caller, all together', () => {
    assert.deepEqual(idsOf({}), ['1', '2', '3']);
    assert.deepEqual(idsOf({ method: 'm' }), ['1', '3']);
    assert.deepEqual(idsOf({ method: '(install)' }), ['2']);
    assert.deepEqual(idsOf({ method: 'm', outcome: 'trap' }), ['3']);
    assert.deepEqual(idsOf({ caller: 'aaaaa-aa' }), ['2']);
    assert.deepEqual(idsOf({ caller: 'aaaaa-aa', outcome: 'trap' }), []);
  });

  test('offers each choice once, and the chosen one also when no message has it any more', () => {
    assert.deepEqual(optionsOf(entries, { ...ALL_MESSAGES, method: 'gone' }), {
      method: ['(install)', 'gone', 'm'],
      outcome: ['reply', 'trap'],
      caller: ['2vxsx-fae', 'aaaaa-aa'],
    });
  });

  test('has trees: each message behind its cause, and one without it at the top', () => {
    const shown = (messages: readonly ActorMessage[]): readonly string[] =>
      treeOf(messages).map(({ message: { id }, depth }) => `${id}@${depth}`);
    const tree = [message('1', null), message('2', '1'), message('3', '1'), message('4', '2'), message('9', 'lost')];
    assert.deepEqual(shown(tree), ['1@0', '2@1', '4@2', '3@1', '9@0']);
    assert.deepEqual(shown([message('1', '1')]), ['1@0']);
    const chain = Array.from({ length: 1_000 }, (_item, at) => message(String(at), at === 0 ? null : String(at - 1)));
    assert.equal(shown(chain).at(-1), '999@999');
  });

  test('runs calls again that it has whole, and says why not', () => {
    const types = readDid('service : { m : (nat, opt text) -> () }');
    const again = (more: Partial<ActorMessage>): unknown => callAgain(message('1', null, more), types);
    assert.deepEqual(again({ args: '(5 : nat, opt "x")' }), { args: '[5, "x"]', caller: undefined });
    const called = { args: '[5, null]', caller: 'aaaaa-aa' };
    assert.deepEqual(again({ args: '(5 : nat)', kind: 'call', caller: 'aaaaa-aa' }), called);
    assert.match(JSON.stringify(again({ args: '(5 : nat, opt "x…' })), /are cut/);
    assert.match(JSON.stringify(again({ method: 'other' })), /interface does not have its method/);
    assert.equal(again({ kind: 'install' }), undefined);
  });
});
