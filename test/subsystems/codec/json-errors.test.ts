import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { codec, codecOf, codecOfTuple, refuses, toCandid } from './support.ts';

/** Types of the arguments, the text, and the message about its mistake. */
const REFUSED: readonly (readonly [types: string, json: string, message: string | RegExp])[] = [
  ['(nat)', '', 'args: expected an array of 1 argument, found the end of the text'],
  ['(nat)', '5', 'args: expected an array of 1 argument, found the number 5'],
  ['(nat)', '[]', 'args: expected an array of 1 argument, found 0'],
  ['(nat)', '[1,2]', 'args: expected an array of 1 argument, found more'],
  ['(nat, opt nat)', '[]', 'args: expected an array of 1 or 2 arguments, found 0'],
  ['(nat, opt nat, null)', '[]', 'args: expected an array of 1 to 3 arguments, found 0'],
  ['(opt nat, reserved)', '[1,2,3]', 'args: expected an array of 0 to 2 arguments, found more'],
  ['(opt nat, nat)', '[1]', 'args: expected an array of 2 arguments, found 1'],
  ['(opt nat, nat, opt nat)', '[1]', 'args: expected an array of 2 or 3 arguments, found 1'],
  ['(nat, opt nat)', '[1,]', 'args[1]: expected nat as an integer or a decimal string, found "]"'],
  ['(record { nat; opt nat })', '[[1]]', 'args[0]: expected an array of 2 elements, found 1'],
  ['()', '[1]', 'args: expected an array of 0 arguments, found more'],
  ['()', '[', 'args: expected an array of 0 arguments, found the end of the text'],
  ['(nat)', '[1, ', 'args: expected an array of 1 argument, found the end of the text'],
  ['(nat)', '[1', 'args[0]: expected "," or "]", found the end of the text'],
  ['(nat)', '[1]x', 'args: expected the end of the text, found "x"'],
  ['(nat)', '[1,]', 'args: expected an array of 1 argument, found more'],
  ['(vec nat)', '[[1,]]', 'args[0][1]: expected nat as an integer or a decimal string, found "]"'],
  ['(nat)', '[-1]', 'args[0]: expected nat, found the negative number -1'],
  ['(nat)', '[1.0]', 'args[0]: expected nat as an integer without fraction or exponent, found the number 1.0'],
  ['(nat)', '[1e3]', 'args[0]: expected nat as an integer without fraction or exponent, found the number 1e3'],
  ['(nat)', '[01]', 'args[0]: the number is malformed'],
  ['(nat)', '[-]', 'args[0]: the number is malformed'],
  ['(nat)', '[+1]', 'args[0]: expected nat as an integer or a decimal string, found "+"'],
  ['(nat)', '["01"]', /decimal string without leading zeros$/],
  ['(nat)', '["1.0"]', /decimal string without leading zeros$/],
  ['(int)', '["-0"]', /decimal string without leading zeros$/],
  ['(nat)', '[""]', /decimal string without leading zeros$/],
  ['(nat)', '[" 1"]', /decimal string without leading zeros$/],
  ['(nat)', '["0x10"]', /decimal string without leading zeros$/],
  ['(nat8)', '[256]', 'args[0]: 256 is out of range: nat8 goes from 0 to 255'],
  ['(int8)', '[-129]', 'args[0]: -129 is out of range: int8 goes from -128 to 127'],
  [
    '(nat64)',
    '[18446744073709551616]',
    'args[0]: 18446744073709551616 is out of range: nat64 goes from 0 to 18446744073709551615',
  ],
  ['(int64)', '["9223372036854775808"]', /out of range: int64/],
  [
    '(float64)',
    '[1e999]',
    'args[0]: the number is out of range for float64, which goes to 1.7976931348623157e+308; infinity is written "Infinity"',
  ],
  ['(float64)', '[-1e400]', /^args\[0\]: the number is out of range for float64/],
  [
    '(float32)',
    '[1e39]',
    'args[0]: the number is out of range for float32, which goes to 3.4028235e+38; infinity is written "Infinity"',
  ],
  ['(float32)', '[-1e400]', /^args\[0\]: the number is out of range for float32/],
  ['(float64)', '["inf"]', /^args\[0\]: expected float64 as a number/],
  ['(float64)', '[1.]', 'args[0]: the number is malformed'],
  ['(bool)', '[1]', 'args[0]: expected bool, found the number 1'],
  ['(bool)', '[tru]', 'args[0]: expected bool, found "t"'],
  ['(null)', '[0]', 'args[0]: expected null, found the number 0'],
  ['(text)', '[null]', 'args[0]: expected text, found null'],
  ['(text)', '["\\ud800"]', 'args[0]: a lone surrogate is not text'],
  ['(text)', '["\\ud800\\u0041"]', 'args[0]: a lone surrogate is not text'],
  ['(text)', '["\\udc00"]', 'args[0]: a lone surrogate is not text'],
  ['(text)', '["\\x"]', 'args[0]: the string has an unknown escape'],
  ['(text)', '["\\u12g4"]', 'args[0]: an escape \\u needs four hexadecimal digits'],
  ['(text)', '["\n"]', 'args[0]: a control character in a string must be written \\u000a'],
  ['(text)', '["abc', 'args[0]: the string lacks its closing quote'],
  ['(blob)', '["AP8"]', 'args[0]: expected base64 with the standard letters and padding'],
  ['(blob)', '["AP9="]', 'args[0]: expected base64 with the standard letters and padding'],
  ['(blob)', '["_-8="]', 'args[0]: expected base64 with the standard letters and padding'],
  ['(blob)', '["===="]', 'args[0]: expected base64 with the standard letters and padding'],
  ['(blob)', '[[1,256]]', 'args[0][1]: 256 is out of range: nat8 goes from 0 to 255'],
  ['(blob)', '[5]', 'args[0]: expected a blob as a base64 string or an array of bytes, found the number 5'],
  [
    '(record { owner : principal })',
    '[{"owner":5}]',
    'args[0].owner: expected a principal as text, found the number 5',
  ],
  ['(record { owner : principal })', '[{"owner":"aaaaa-ab"}]', 'args[0].owner: expected a principal, found "aaaaa-ab"'],
  ['(record { a : nat })', '[{"a":1,"a":2}]', 'args[0].a: duplicate key'],
  ['(record { a : nat })', '[{"\\u0061":1,"a":2}]', 'args[0].a: duplicate key'],
  ['(record { a : nat; b : nat })', '[{"a":1,"c":2}]', 'args[0]: unknown field "c"; the fields are a, b'],
  ['(record { a : nat })', '[{"__proto__":1}]', 'args[0]: unknown field "__proto__"; the fields are a'],
  ['(record { a : nat; b : nat })', '[{"a":1}]', 'args[0]: missing field "b"'],
  ['(record { a : nat })', '[{}]', 'args[0]: missing field "a"'],
  ['(record { a : nat })', '[[1]]', 'args[0]: expected an object, found an array'],
  ['(record { "a\\"b" : nat })', '[{"a"b":1}]', /^args\[0\]: unknown field "a"/],
  ['(record { "two words" : nat })', '[{"two words":"x"}]', /^args\[0\]\["two words"\]: /],
  ['(record { nat; nat })', '[[1]]', 'args[0]: expected an array of 2 elements, found 1'],
  ['(record { nat; nat })', '[[1,2,3]]', 'args[0]: expected an array of 2 elements, found more'],
  ['(variant { ok; err : text })', '["no"]', 'args[0]: unknown tag "no"; the tags are ok, err'],
  ['(variant { ok; err : text })', '["err"]', 'args[0]: the tag "err" needs a value: {"tag": value}'],
  [
    '(variant { ok; err : text })',
    '[{"ok":null,"err":"x"}]',
    'args[0]: expected a variant with one tag, found more keys',
  ],
  ['(variant { ok; err : text })', '[{"err":5}]', 'args[0].err: expected text, found the number 5'],
  ['(variant { ok; err : text })', '[{}]', /^args\[0\]: expected a variant with one tag/],
  ['(variant {})', '["x"]', 'args[0]: unknown tag "x"; the tags are none'],
  ['(opt opt nat)', '[5]', /^args\[0\]: expected \[\] or \[value\]/],
  ['(opt opt nat)', '[[1,2]]', /more than one value$/],
  ['(empty)', '[null]', 'args[0]: no value has the type empty'],
  ['(func () -> ())', '[{"principal":"aaaaa-aa"}]', /found fewer keys$/],
  ['(func () -> ())', '[{"principal":"aaaaa-aa","method":"m","x":1}]', /found another or repeated key "x"$/],
  ['(reserved)', '[{"a" 1}]', 'args[0]: expected ":", found the number 1'],
  ['(reserved)', '[nul]', 'args[0]: expected a JSON value, found "n"'],
  ['(vec record { a : vec nat })', '[[{"a":[1]},{"a":[1,2,"x"]}]]', /^args\[0\]\[1\]\.a\[2\]: /],
];

describe('bad JSON is refused with its place', () => {
  for (const [types, json, message] of REFUSED) {
    test(`${types} ${json}`, () => {
      refuses(() => toCandid(codecOfTuple(types), json), message, 'bad-json');
    });
  }
});

test('text that is not UTF-8 is refused', () => {
  const latin = Buffer.from('["\xff"]', 'latin1');
  refuses(() => codecOf('text').encode(latin, { lossless: false }), 'args: the text is not UTF-8');
});

test('an error leaves the codec usable', () => {
  const tuple = codecOf('record { a : nat; b : vec nat }');
  for (let round = 0; round < 3; round++) {
    refuses(() => toCandid(tuple, '[{"b":[1,2,{}]}]'), /^args\[0\]\.b\[2\]: /);
    assert.ok(toCandid(tuple, '[{"b":[1,2],"a":1}]').length > 0);
  }
});

describe('bad lossless JSON is refused with its place', () => {
  const rows: readonly (readonly [string, string, string | RegExp])[] = [
    ['(nat8)', '[{"$svc":"nat16","value":"5"}]', /expected "nat8", found "nat16"$/],
    ['(nat8)', '[{"$svc":"nat8","value":5}]', /expected nat8 as a decimal string, found the number 5$/],
    ['(nat8)', '[{"$svc":"nat8"}]', /found fewer keys$/],
    ['(nat8)', '[{"value":"5"}]', /found fewer keys$/],
    ['(nat8)', '[{"$svc":"nat8","value":"5","value":"6"}]', /found more keys$/],
    ['(float64)', '[{"$svc":"float64","value":"0x1"}]', /expected float64 as a decimal string/],
    ['(opt nat)', '[{"$svc":"some"}]', /found other keys$/],
    ['(opt nat)', '[{"$svc":"none","value":{"$svc":"nat","value":"5"}}]', /found other keys$/],
    ['(variant { a : nat })', '[{"$svc":"variant","tag":"a"}]', /the tag "a" needs a value$/],
    [
      '(variant { a : nat })',
      '[{"$svc":"variant","tag":"a","value":{"$svc":"nat","value":"-1"}}]',
      /^args\[0\]\.a: expected nat/,
    ],
    [
      '(record { "$svc" : nat })',
      '[{"$svc":{"$svc":"nat","value":"5"}}]',
      /^args\[0\]\.\$svc: expected "record", found an object$/,
    ],
  ];
  for (const [types, json, message] of rows) {
    test(`${types} ${json}`, () => refuses(() => toCandid(codecOfTuple(types), json, true), message, 'bad-json'));
  }
});

describe('without an interface', () => {
  const rows: readonly (readonly [string, string | RegExp])[] = [
    ['[5]', /^args\[0\]: a plain number has no Candid type here/],
    ['[[true,"x"]]', 'args[0][1]: a vec has elements of one type; this text does not fit the bool before it'],
    ['[[{"a":true},{"b":true}]]', /^args\[0\]\[1\]: a vec has elements of one type/],
    ['[{"$svc":"nat128","value":"5"}]', /^args\[0\]: unknown kind "nat128"/],
    ['[{"a":1,"a":1}]', /^args\[0\]\.a: /],
    ['[{"$svc":"some"}]', 'args[0]: "some" needs a value'],
    ['[{"$svc":"nat","value":"x"}]', /^args\[0\]: expected nat/],
    ['[{"$svc":"nat","value":"5","more":true}]', /found more keys$/],
    ['[{"_5_":true,"_5_":true}]', 'args[0]._5_: duplicate key'],
    ['[{"$svc":"record","value":{"a":true}}]', /only for records with a field called \$svc$/],
    ['{}', /^args: expected an array of arguments/],
  ];
  for (const [json, message] of rows) {
    test(json, () => refuses(() => codec.untyped.encode(Buffer.from(json), { lossless: true }), message, 'bad-json'));
  }

  test('what is known of the elements of a vec grows with each of them', () => {
    const json =
      '[[{"$svc":"none"},{"$svc":"some","value":[]},{"$svc":"some","value":[true]}],[{"$svc":"variant","tag":"a","value":null},{"$svc":"variant","tag":"b","value":"x"}]]';
    const typed = codecOfTuple('(vec opt vec bool, vec variant { a; b : text })');
    const message = codec.untyped.encode(Buffer.from(json), { lossless: true });
    assert.equal(
      Buffer.from(typed.decode(message, { lossless: false })).toString(),
      '[[null,[],[true]],[{"a":null},{"b":"x"}]]',
    );
  });

  test('a record with a field called $svc is told apart wherever its marker stands', () => {
    const value = '{"$svc":"deep","value":{"$svc":"nat","value":"5"}}';
    for (const json of [`[{"$svc":"record","value":${value}}]`, `[{"value":${value},"$svc":"record"}]`]) {
      const typed = codecOf('record { "$svc" : text; value : nat }');
      const message = codec.untyped.encode(Buffer.from(json), { lossless: true });
      assert.equal(Buffer.from(typed.decode(message, { lossless: false })).toString(), '[{"$svc":"deep","value":5}]');
    }
  });
});
