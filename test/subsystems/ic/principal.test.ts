import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Principal } from '@dfinity/principal';
import fc from '../../support/properties.ts';
import { principalFromText, principalToText } from '../../../subsystems/ic/index.ts';
import { bytes, hex, refuses } from '../codec/support.ts';

test('well-known principals', () => {
  for (const [text, content] of [
    ['aaaaa-aa', ''],
    ['2vxsx-fae', '04'],
    ['em77e-bvlzu-aq', 'abcd01'],
    ['bkyz2-fmaaa-aaaaa-qaaaq-cai', '80000000001000010101'],
  ] as const) {
    assert.equal(principalToText(bytes(content)), text);
    assert.equal(hex(principalFromText(text)), content);
    assert.equal(hex(principalFromText(text.toUpperCase())), content);
  }
});

test('texts agree with the reference library', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 29 }), (content) => {
      const text = principalToText(content);
      assert.equal(text, Principal.fromUint8Array(content).toText());
      assert.deepEqual(principalFromText(text), content);
    }),
  );
});

test('anything but the one text of a principal is refused', () => {
  for (const text of [
    '',
    'a',
    'aaaaa',
    'aaaaaaa',
    'aaaaa-ab',
    'aaaa-aaa',
    '-aaaaa-aa',
    'aaaaa-aa-',
    'aaaaa--aa',
    'em77e-bvlzu-ar',
    'em77e-bvlzu-a1',
    'ém77e-bvlzu-aq',
    'x'.repeat(64),
    ' aaaaa-aa',
  ]) {
    refuses(() => principalFromText(text), /is not a principal/, 'bad-principal');
  }
});
