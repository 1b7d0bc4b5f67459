import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { closestTo, suggestionFor } from '../../kernel/index.ts';

suite('did you mean', () => {
  test('a slip of a letter is recognised, and the closest one wins', () => {
    const methods = ['greet', 'great', 'get', 'set_greeting'];
    assert.equal(closestTo('gret', methods), 'greet');
    assert.equal(closestTo('greeet', methods), 'greet');
    assert.equal(closestTo('gat', methods), undefined, 'a third of so short a word is no letter');
    assert.equal(closestTo('set_greating', methods), 'set_greeting');
    assert.equal(closestTo('set_g', methods), 'set_greeting', 'the beginning of a name');
    assert.equal(closestTo('delete', methods), undefined);
    assert.equal(closestTo('', methods), undefined);
    assert.equal(closestTo('Get', methods), 'get', 'only the case');
    assert.equal(closestTo('gte', methods), 'get', 'neighbours that are swapped');
    assert.equal(closestTo('teg', methods), undefined);
    assert.equal(closestTo('gertet', [...methods, 'gretet']), 'gretet', 'closer than a letter that differs');
    assert.equal(closestTo('ab', ['ba']), undefined);
    assert.equal(suggestionFor('gret', methods), ': did you mean greet?');
    assert.equal(suggestionFor('delete', methods), '');
  });

  test('the work is bounded, whatever is compared with whatever', () => {
    let taken = 0;
    const candidates = function* (length: number): Iterable<string> {
      for (taken = 0; taken < 1_000_000; taken++) yield `${taken}`.padEnd(length, 'x');
    };
    assert.equal(closestTo('y'.repeat(16 * 1024), candidates(64)), undefined);
    assert.equal(taken, 0, 'nobody mistypes a name of 16 KiB');
    assert.equal(closestTo('y'.repeat(64), candidates(64)), undefined);
    assert.ok(taken < 1000, `${taken} candidates of the same length were compared`);
    assert.equal(closestTo('y'.repeat(64), candidates(1000)), undefined);
    assert.ok(taken < 100_000, `${taken} candidates of another length were looked at`);
  });
});
