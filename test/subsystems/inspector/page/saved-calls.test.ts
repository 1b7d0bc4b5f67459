/** Calls that the browser keeps: what is read of them, and how many there may be. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { readCalls, type SavedCall, withCall, withoutCall } from '../../../../subsystems/inspector/page/saved-calls.ts';

const call = (name: string, actor = 'a', args = '[]'): SavedCall => ({ name, actor, method: 'm', shared: { args } });

suite('saved calls', () => {
  test('that are broken, or not from here, are left out; the others stay', () => {
    for (const text of ['', '{', 'null', '7', '{"0":1}', '"x"']) assert.deepEqual(readCalls(text), []);
    const good = call('one');
    const stored = [
      null,
      [],
      'x',
      { ...good, actor: ['x'] },
      { ...good, method: null },
      { name: 1, actor: 'a', method: 'm', shared: {} },
      { name: 'n', actor: 'a', method: 'm' },
      { name: '', actor: 'a', method: 'm', shared: {} },
      { ...good, evil: true, shared: { args: '[]', hex: 7, lossless: 'yes', caller: null, more: 1 } },
    ];
    assert.deepEqual(readCalls(JSON.stringify(stored)), [good]);
    const many = Array.from({ length: 1_000 }, (_item, index) => call(`c${index}`));
    assert.equal(readCalls(JSON.stringify(many)).length, 100);
  });

  test('have their order by name; one of the same actor and name is replaced', () => {
    const two = withCall(withCall([], call('b')), call('a'));
    assert.deepEqual(
      two.map(({ name }) => name),
      ['a', 'b'],
    );
    const three = withCall(two, call('b', 'other'));
    assert.equal(three.length, 3);
    const replaced = withCall(three, call('b', 'a', '[1]'));
    assert.deepEqual(
      replaced.map(({ name, actor, shared }) => [name, actor, shared.args]),
      [
        ['a', 'a', '[]'],
        ['b', 'other', '[]'],
        ['b', 'a', '[1]'],
      ],
    );
    assert.deepEqual(
      withoutCall(replaced, call('b')).map(({ actor }) => actor),
      ['a', 'other'],
    );
  });

  test('have bounds, which are told', () => {
    const full = Array.from({ length: 100 }, (_item, index) => call(`c${index}`));
    assert.throws(() => withCall(full, call('one more')), /100 calls are saved: delete one first/);
    assert.equal(withCall(full, call('c7', 'a', '[1]')).length, 100);
    assert.throws(() => withCall([], call('')), /type a name/);
    assert.throws(() => withCall([], call('x'.repeat(81))), /at most 80 characters/);
    assert.throws(() => withCall([], call('big', 'a', `["${'x'.repeat(20_000)}"]`)), /too long to be saved/);
  });
});
