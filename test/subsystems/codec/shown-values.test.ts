/** Reads back what a history shows of messages: as the same text, and as the same value of their own types. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { IDL } from '@dfinity/candid';
import fc, { cases } from '../../support/properties.ts';
import { encodeValueText } from '../../../subsystems/codec/encode-value-text.ts';
import { CompiledTuple } from '../../../subsystems/codec/tuple-codec.ts';
import { graphOfTypes } from '../../../subsystems/codec/types.ts';
import { codec, hex } from './support.ts';
import { typedValues } from './typed-values.ts';

const LOSSLESS = { lossless: true };
const CHARACTERS_MAX = 1_000_000;

function jsonOf(tuple: { decode(candid: Uint8Array, options: { lossless: boolean }): Uint8Array }, candid: Uint8Array) {
  return Buffer.from(tuple.decode(candid, LOSSLESS)).toString();
}

/** Leaves out a tag's `null`, which may be no payload or that of an opt. */
function plain(shown: string): string {
  return shown.replaceAll(' = null }', ' }');
}

suite('what is shown of a message', () => {
  test('is read back, with and without its types', () => {
    fc.assert(
      fc.property(typedValues, ({ typeCase: { type }, value }) => {
        const graph = graphOfTypes([type]);
        const typed = new CompiledTuple(graph, 'args');
        const message = new Uint8Array(IDL.encode([type], [value]));
        const shown = codec.previewText(message, CHARACTERS_MAX) ?? '';
        assert.equal(jsonOf(typed, encodeValueText(shown, graph)), jsonOf(typed, message), shown);
        const inferred = codec.encodeText(shown);
        assert.equal(plain(codec.previewText(inferred, CHARACTERS_MAX) ?? ''), plain(shown));
        // Text without an interface has references without details, which are none of a type with some.
        if (!/func "|service "/.test(shown)) assert.equal(jsonOf(typed, inferred), jsonOf(typed, message), shown);
      }),
      { numRuns: cases(400) },
    );
  });
  for (const shown of [
    '(vec { opt 1; null })',
    '(vec { null; opt 1 })',
    '(vec { null; opt null; opt opt (5 : nat8) })',
    '(vec { record { null; 1 }; record { opt "a"; 2 } })',
    '(vec { variant { 5 = null }; variant { 5 = opt 1 }; variant { 7 } })',
    '(vec { vec {}; vec { null }; vec { opt true } })',
    '(vec { null; null })',
  ]) {
    test(shown, () => {
      const message = codec.encodeText(shown);
      assert.equal(codec.previewText(message, CHARACTERS_MAX), shown);
      assert.equal(hex(codec.encodeText(shown)), hex(message));
    });
  }
});
