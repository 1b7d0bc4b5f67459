import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { ServerError } from '../../../kernel/index.ts';
import { createBearerAuth } from '../../../subsystems/auth/bearer-auth.ts';

suite('bearer auth', () => {
  test('without a token everybody is let in', () => {
    const auth = createBearerAuth({ token: undefined });
    assert.equal(auth.allows(undefined), true);
    assert.equal(auth.allows('Bearer whatever'), true);
  });

  test('the token is let in, whatever the case of the scheme', () => {
    const auth = createBearerAuth({ token: 'sEcret' });
    for (const header of ['Bearer sEcret', 'bearer sEcret', 'BEARER sEcret', 'Bearer   sEcret']) {
      assert.equal(auth.allows(header), true, header);
    }
  });

  test('anything but the exact token is refused', () => {
    const auth = createBearerAuth({ token: 'sEcret' });
    const wrong = [
      undefined,
      '',
      'Bearer',
      'Bearer ',
      'Bearer secret',
      'Bearer sEcre',
      'Bearer sEcrett',
      'Bearer sEcret ',
      'Basic sEcret',
      'sEcret',
      'BearersEcret',
      'Bearer\tsEcret',
      'Bearer sEcret, Bearer sEcret',
      `Bearer ${'x'.repeat(100_000)}`,
    ];
    for (const header of wrong) assert.equal(auth.allows(header), false, String(header).slice(0, 40));
  });

  test('a refused header does not linger: the next one is judged alone', () => {
    const auth = createBearerAuth({ token: 'abcd' });
    assert.equal(auth.allows('Bearer abcx'), false);
    assert.equal(auth.allows('Bearer abcd'), true);
    assert.equal(auth.allows('Bearer abc'), false);
    assert.equal(auth.allows('Bearer abcx'), false);
  });

  test('a token beyond ASCII is compared by its UTF-8 bytes', () => {
    const auth = createBearerAuth({ token: 'schlüssel' });
    assert.equal(auth.allows(`Bearer ${Buffer.from('schlüssel', 'utf8').toString('latin1')}`), true);
    assert.equal(auth.allows('Bearer schlüssel'), false);
  });

  test('a token that no header can carry is refused when it is configured', () => {
    const codeOf = (token: string): string => {
      try {
        createBearerAuth({ token });
      } catch (error) {
        assert.ok(error instanceof ServerError);
        return error.code;
      }
      return 'none';
    };
    assert.equal(codeOf(''), 'empty-token');
    for (const token of ['secret\n', ' secret', 'sec\u0000ret', 'a\r\nb'])
      assert.equal(codeOf(token), 'unusable-token');
  });
});
