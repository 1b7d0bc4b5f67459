import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { describeInterface } from '../../../subsystems/codec/description/index.ts';
import { parseDid } from '../../../subsystems/codec/did-parser.ts';
import { signatureOf } from '../../../subsystems/openapi/signature.ts';

function signatureIn(type: string): string {
  const [method] = describeInterface(`type T = nat; service : { m : ${type} }`).methods;
  assert.ok(method !== undefined);
  const { parameters, results, kind } = method;
  return signatureOf({ parameters, results, annotation: kind === 'update' ? undefined : kind });
}

describe('a signature', () => {
  for (const written of [
    '(T, to : vec opt T) -> (variant { ok : nat; err : text }) query',
    '(record { nat; record { text; bool } }) -> ()',
    '(record { 7 : nat; a : nat }) -> (variant { 0 : nat; 1 : null })',
    '("query" : nat, "type" : text) -> (record { "func" : nat })',
    '("a b" : nat, "käse" : nat) -> (record { "\\"\\n\\u{1}" : nat; _9999999999_ : nat }) composite_query',
    '(func (record { nat }) -> () oneway) -> ()',
  ]) {
    test(`is .did: ${written}`, () => {
      const signature = signatureIn(written);
      assert.equal(signature, `func ${written}`);
      parseDid(`type T = nat; type F = ${signature}; service : { m : F }`);
    });
  }

  test('is cut between characters, not inside of one', () => {
    for (let plain = 270; plain < 300; plain++) {
      const signature = signatureIn(`("${'x'.repeat(plain)}${'🎲'.repeat(40)}" : nat) -> ()`);
      assert.ok(signature.isWellFormed(), `${plain} letters before`);
      assert.match(signature, /(x|🎲)…$/u);
      assert.ok(signature.length >= 300 && signature.length <= 301);
    }
  });
});
