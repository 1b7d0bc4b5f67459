import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseAddressRanges } from '../../config/address-ranges.ts';

test('addresses and ranges of both kinds', () => {
  assert.deepEqual(parseAddressRanges('127.0.0.1, 10.0.0.0/8,::1,2001:db8::/32,0.0.0.0/0,::/0'), [
    { address: '127.0.0.1', prefix: 32 },
    { address: '10.0.0.0', prefix: 8 },
    { address: '::1', prefix: 128 },
    { address: '2001:db8::', prefix: 32 },
    { address: '0.0.0.0', prefix: 0 },
    { address: '::', prefix: 0 },
  ]);
  assert.deepEqual(parseAddressRanges('64:ff9b::10.0.0.0/104'), [{ address: '64:ff9b::10.0.0.0', prefix: 104 }]);
  assert.deepEqual(parseAddressRanges('1:2:3:4:5:6:7:8'), [{ address: '1:2:3:4:5:6:7:8', prefix: 128 }]);
});

test('what is wrong is named, with the fix', () => {
  const wrong: readonly (readonly [text: string, reason: RegExp])[] = [
    ['', /an entry is empty: give addresses/],
    ['127.0.0.1,', /an entry is empty/],
    ['proxy.example', /'proxy.example' is not an IP address or range: give addresses/],
    ['10.0.0', /is not an IP address/],
    ['10.0.0.256', /is not an IP address/],
    ['fe80::1%eth0', /is not an IP address/],
    ['127.0.0.1:80', /is not an IP address/],
    ['10.0.0.0/', /no usable prefix: give a number of bits from 0 to 32/],
    ['10.0.0.0/33', /from 0 to 32/],
    ['10.0.0.0/-1', /from 0 to 32/],
    ['::/129', /from 0 to 128/],
    ['10.0.0.0/255.0.0.0', /from 0 to 32/],
    ['10.0.0.1/8', /names an address and a range: write 10.0.0.1 for that one alone/],
    ['2001:db8::1/32', /clear the bits behind the first 32/],
    ['64:ff9b::10.0.0.1/104', /clear the bits behind the first 104/],
    ['x'.repeat(500), /^'x{80}' is not/],
  ];
  for (const [text, reason] of wrong)
    assert.throws(() => parseAddressRanges(text), { name: 'FlagProblem', message: reason });
});
