/** Methods that the page offers to open, and the change of a choice. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import {
  changeOf,
  changeTells,
  type OpenableMethod,
  openableMethods,
} from '../../../../subsystems/inspector/page/open-methods.ts';

const update = (name: string): OpenableMethod => ({ name, kind: 'update' });
const query = (name: string): OpenableMethod => ({ name, kind: 'query' });
const list = (names: readonly string[]): string => names.join(', ');

suite('methods that can be open', () => {
  const methods = [
    query('get'),
    update('__motoko_gc'),
    update('@sync'),
    update('canister_x'),
    update('a b'),
    update('put'),
  ];

  test('are those of the code and of the interface; internal ones are not offered', () => {
    assert.deepEqual(openableMethods({ methods }, undefined), [query('get'), update('put')]);
    assert.deepEqual(openableMethods({ methods }, [query('get'), query('other')]), [query('get')]);
    assert.deepEqual(openableMethods({ methods: [], isPartial: true }, [query('get'), query('@x')]), [query('get')]);
    assert.deepEqual(openableMethods({ methods: [], isPartial: true }, undefined), []);
  });

  test('a change names what it opens and closes, and what is gone', () => {
    const offered = [query('a'), update('b'), query('c')];
    assert.deepEqual(changeOf({ told: ['a', 'c'], changed: new Set(['a', 'b', 'gone']) }, offered), {
      open: ['b', 'c'],
      opens: [update('b')],
      closes: ['a'],
      gone: ['gone'],
    });
    const none = changeOf({ told: ['a'], changed: new Set() }, offered);
    assert.deepEqual([none.open, none.opens, none.closes, none.gone], [['a'], [], [], []]);
  });

  test('a change is told in plain words: who may call, and what can change the state', () => {
    const tells = (changed: readonly string[]): string =>
      changeTells(changeOf({ told: ['c'], changed: new Set(changed) }, [query('a'), update('b'), query('c')]), list);
    assert.match(
      tells(['a', 'b']),
      /may call a, b without a token, as the anonymous caller.* b can change the state\./,
    );
    assert.doesNotMatch(tells(['a']), /can change|needs a token/);
    assert.match(tells(['c']), /^c needs a token again: other calls get 401/);
    assert.match(tells(['c']), /manifest, if it has one, is set again at each start\.$/);
  });
});
