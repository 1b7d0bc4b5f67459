/** Arguments as Candid text, read back by the server's codec. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc, { cases } from '../../../support/properties.ts';
import { createCodec } from '../../../../subsystems/codec/codec.ts';
import { CallDraft } from '../../../../subsystems/inspector/page/call-drafts.ts';
import { candidText } from '../../../../subsystems/inspector/page/candid/candid-text.ts';
import { decodeForm } from '../../../../subsystems/inspector/page/candid/decode-form.ts';
import type { Parameter } from '../../../../subsystems/inspector/page/candid/did-types.ts';
import { encodeForm, type Problems } from '../../../../subsystems/inspector/page/candid/encode-form.ts';
import { filled, typeTexts } from './filled-forms.ts';
import { readDid } from './read-did.ts';

const codec = createCodec();

function parametersOf(types: string): readonly Parameter[] {
  return readDid(`service : { f : (${types}) -> () }`).methods[0]?.parameters ?? [];
}

/** Writes JSON arguments of these types as Candid text. */
function textOf(types: string, json: string): string {
  const parameters = parametersOf(types).map(({ type }) => type);
  const values = decodeForm(parameters, json, false);
  return candidText(parameters.map((type, index) => ({ type, value: values[index] ?? { kind: 'nothing' } })));
}

/** Reads text without an interface, and returns what it says in the lossless encoding. */
function untyped(text: string): unknown {
  return JSON.parse(Buffer.from(codec.untyped.decode(codec.encodeText(text), { lossless: true })).toString());
}

suite('arguments as Candid text', () => {
  const rows: readonly (readonly [types: string, json: string, text: string])[] = [
    ['', '[]', '()'],
    ['nat8, int, nat', '[7, -3, "12345678901234567890"]', '(7 : nat8, -3, 12345678901234567890 : nat)'],
    ['float64, float64, float32', '[1, 1e21, "-Infinity"]', '(1.0, 1e+21, -inf : float32)'],
    ['float64, float64', '["NaN", "-0"]', '(nan : float64, -0.0)'],
    ['bool, null, reserved', '[true, null, null]', '(true, null, null : reserved)'],
    ['text', String.raw`["a\"b\\\n\u202e\u0000é😀"]`, String.raw`("a\"b\\\n\u{202e}\u{0}é😀")`],
    ['blob', '["AGEiXP8="]', String.raw`(blob "\00a\22\5c\ff")`],
    ['opt nat, opt opt text', '[5, [null]]', '(opt (5 : nat), opt null)'],
    ['opt text, opt int', '["x : nat", null]', '(opt "x : nat", null)'],
    ['vec int, vec text', '[[1, 2], []]', '(vec { 1; 2 }, vec {})'],
    [
      'record { a : int; "b c" : text; 7 : bool }',
      '[{"a":1,"b c":"x","_7_":true}]',
      '(record { a = 1; "b c" = "x"; 7 = true })',
    ],
    ['record { int; text }, record {}', '[[1, "x"], {}]', '(record { 0 = 1; 1 = "x" }, record {})'],
    ['record { "record" : int; "true" : int }', '[{"record":1,"true":2}]', '(record { "record" = 1; "true" = 2 })'],
    ['variant { ok; err : text }', '[{"ok":null}]', '(variant { ok })'],
    ['variant { ok : opt int; err : text }', '[{"ok":null}]', '(variant { ok = null })'],
    ['principal, service {}', '["aaaaa-aa", "2vxsx-fae"]', '(principal "aaaaa-aa", service "2vxsx-fae")'],
    [
      'func () -> (), func () -> ()',
      '[{"principal":"aaaaa-aa","method":"raw_rand"},{"principal":"aaaaa-aa","method":"two words"}]',
      '(func "aaaaa-aa".raw_rand, func "aaaaa-aa"."two words")',
    ],
  ];
  for (const [types, json, text] of rows) test(text, () => assert.equal(textOf(types, json), text));

  test('numbers say their types, so that tools without the interface make the same message', () => {
    assert.deepEqual(untyped(textOf('nat8, opt nat, float32, int, float64', '[7, 5, 1.5, -3, 2]')), [
      { $svc: 'nat8', value: '7' },
      { $svc: 'some', value: { $svc: 'nat', value: '5' } },
      { $svc: 'float32', value: '1.5' },
      { $svc: 'int', value: '-3' },
      { $svc: 'float64', value: '2' },
    ]);
  });

  test('whatever a form holds, its Candid text is the same message as its JSON to the server', () => {
    fc.assert(
      fc.property(fc.array(typeTexts, { maxLength: 3 }), fc.gen(), (types, random) => {
        const did = `service : { f : (${types.join(', ')}) -> () }`;
        const args = codec.parseInterface(did).methods.get('f')?.args;
        assert.ok(args !== undefined);
        const values = parametersOf(types.join(', ')).map(({ type }) => ({ type, value: filled(type, random) }));
        const problems: Problems = new Map();
        const json = args.encode(Buffer.from(encodeForm(values, false, problems)), { lossless: false });
        assert.deepEqual([...problems.values()], []);
        assert.deepEqual(args.encodeText(candidText(values)), json);
      }),
      { numRuns: cases(500) },
    );
  });
});

suite('a draft as Candid text', () => {
  const parameters = parametersOf('nat, variant { a; b }');

  test('is that of its JSON, where that is shown', () => {
    const draft = new CallDraft(parameters);
    draft.isJson = true;
    draft.json = '[5, {"b": null}]';
    assert.equal(draft.writeCandid(parameters, false), '(5 : nat, variant { b })');
  });

  test('is not written while something is wrong, and says what', () => {
    const draft = new CallDraft(parameters);
    assert.equal(draft.writeCandid(parameters, false), undefined);
    assert.deepEqual([...draft.problems.values()], ['type a nat', 'choose one']);
    draft.isJson = true;
    for (const [json, problem] of [
      ['[5, null]', 'choose one'],
      ['[true, {"a": null}]', 'argument 1: expected a text or a number'],
      ['[-1, {"a": null}]', 'expected a nat: digits only'],
    ] as const) {
      draft.json = json;
      assert.equal(draft.writeCandid(parameters, false), undefined);
      assert.equal(draft.jsonProblem, problem);
    }
  });
});
