/** Arguments of the history, which the server shows as Candid text, as the values of a form. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc, { cases } from '../../../support/properties.ts';
import { createCodec } from '../../../../subsystems/codec/codec.ts';
import { previewMessage } from '../../../../subsystems/codec/preview.ts';
import { encodeForm } from '../../../../subsystems/inspector/page/candid/encode-form.ts';
import { readCandid } from '../../../../subsystems/inspector/page/candid/read-text.ts';
import type { DidType } from '../../../../subsystems/inspector/page/candid/did-types.ts';
import { filled, typeTexts } from './filled-forms.ts';
import { readDid } from './read-did.ts';

const codec = createCodec();

function typesOf(types: string): readonly DidType[] {
  return (readDid(`service : { f : (${types}) -> () }`).methods[0]?.parameters ?? []).map(({ type }) => type);
}

/** Reads the text and writes it as JSON. */
function jsonOf(types: string, text: string): string {
  const parameters = typesOf(types);
  const values = readCandid(parameters, text);
  const args = parameters.flatMap((type, index) => {
    const value = values[index];
    return value === undefined ? [] : [{ type, value }];
  });
  return encodeForm(args, false, new Map());
}

suite('arguments of the history', () => {
  test('whatever a message holds, its text is read as the form that it came from', () => {
    fc.assert(
      fc.property(fc.array(typeTexts, { maxLength: 3 }), fc.gen(), (types, random) => {
        const did = `service : { f : (${types.join(', ')}) -> () }`;
        const args = codec.parseInterface(did).methods.get('f')?.args;
        assert.ok(args !== undefined);
        const values = typesOf(types.join(', ')).map((type) => ({ type, value: filled(type, random) }));
        const message = args.encode(Buffer.from(encodeForm(values, false, new Map())), { lossless: false });
        const shown = previewMessage(message, 100_000);
        const again = args.encode(Buffer.from(jsonOf(types.join(', '), shown)), { lossless: false });
        assert.deepEqual(again, message);
      }),
      { numRuns: cases(500) },
    );
  });

  test('what a message has beyond the types is skipped, and what may be missing is', () => {
    assert.equal(
      jsonOf('record { 1 : nat; b : opt text }', '(record { 1 = 5 : nat; 7 = vec { "}" } })'),
      '[{"_1_": 5, "b": null}]',
    );
    assert.equal(jsonOf('nat, opt nat', '(5 : nat)'), '[5, null]');
    assert.equal(jsonOf('text', String.raw`("a\n\"\u{1f600}\\")`), String.raw`["a\n\"😀\\"]`);
    assert.equal(jsonOf('nat', '(5 : nat, record { 1 = "," })'), '[5]');
  });

  test('what is cut, no text, or of other types is said', () => {
    for (const [types, text, message] of [
      ['text', '("abc…', /are cut/],
      ['nat', '4449444c', /do not fit/],
      ['nat', '(;)', /do not fit/],
      ['nat', '(%)', /not shown as Candid text/],
      ['nat', '("5")', /do not fit the method's types at "5"/],
      ['nat', '(5 : nat', /at their end/],
      ['record { 1 : nat }', '(record { 2 = 5 : nat })', /is missing/],
      ['variant { a }', '(variant { b })', /do not fit/],
      ['nat', '()', /is missing/],
    ] as const)
      assert.throws(() => jsonOf(types, text), message, text);
    assert.throws(() => jsonOf('opt null', `(${'('.repeat(500)}null`), /too deep/);
  });
});
