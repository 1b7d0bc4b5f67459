import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { codec, codecOf, codecOfTuple, fromCandid, hex, refuses, roundTrip, toCandid } from './support.ts';

/** A type, a value in the default encoding as it comes out, and the same value in the lossless one. */
const ROWS: readonly (readonly [type: string, defaultJson: string, losslessJson: string])[] = [
  ['nat', '0', '{"$svc":"nat","value":"0"}'],
  ['nat', '9007199254740991', '{"$svc":"nat","value":"9007199254740991"}'],
  ['nat', '"9007199254740992"', '{"$svc":"nat","value":"9007199254740992"}'],
  ['nat', `"${10n ** 60n}"`, `{"$svc":"nat","value":"${10n ** 60n}"}`],
  ['int', '-1', '{"$svc":"int","value":"-1"}'],
  ['int', '-9007199254740991', '{"$svc":"int","value":"-9007199254740991"}'],
  ['int', '"-9007199254740992"', '{"$svc":"int","value":"-9007199254740992"}'],
  ['int', `"${-(10n ** 60n)}"`, `{"$svc":"int","value":"${-(10n ** 60n)}"}`],
  ['nat64', '5', '{"$svc":"nat64","value":"5"}'],
  ['nat64', '"18446744073709551615"', '{"$svc":"nat64","value":"18446744073709551615"}'],
  ['int64', '"-9223372036854775808"', '{"$svc":"int64","value":"-9223372036854775808"}'],
  ['nat8', '255', '{"$svc":"nat8","value":"255"}'],
  ['nat16', '65535', '{"$svc":"nat16","value":"65535"}'],
  ['nat32', '4294967295', '{"$svc":"nat32","value":"4294967295"}'],
  ['int8', '-128', '{"$svc":"int8","value":"-128"}'],
  ['int16', '-32768', '{"$svc":"int16","value":"-32768"}'],
  ['int32', '-2147483648', '{"$svc":"int32","value":"-2147483648"}'],
  ['float64', '1.5', '{"$svc":"float64","value":"1.5"}'],
  ['float64', '5e-324', '{"$svc":"float64","value":"5e-324"}'],
  ['float64', '"NaN"', '{"$svc":"float64","value":"NaN"}'],
  ['float64', '"Infinity"', '{"$svc":"float64","value":"Infinity"}'],
  ['float64', '"-Infinity"', '{"$svc":"float64","value":"-Infinity"}'],
  ['float64', '-0', '{"$svc":"float64","value":"-0"}'],
  ['float32', '0.1', '{"$svc":"float32","value":"0.1"}'],
  ['float32', '3.4028235e+38', '{"$svc":"float32","value":"3.4028235e+38"}'],
  ['float32', '1e-45', '{"$svc":"float32","value":"1e-45"}'],
  ['float32', '"-Infinity"', '{"$svc":"float32","value":"-Infinity"}'],
  ['text', '"a\\"\\\\\\n\\u0001é😀"', '"a\\"\\\\\\n\\u0001é😀"'],
  ['bool', 'true', 'true'],
  ['bool', 'false', 'false'],
  ['null', 'null', 'null'],
  ['blob', '"AP8="', '{"$svc":"blob","value":"AP8="}'],
  ['vec nat8', '""', '{"$svc":"blob","value":""}'],
  ['opt nat', 'null', '{"$svc":"none"}'],
  ['opt nat', '5', '{"$svc":"some","value":{"$svc":"nat","value":"5"}}'],
  ['opt opt nat', '[]', '{"$svc":"none"}'],
  ['opt opt nat', '[null]', '{"$svc":"some","value":{"$svc":"none"}}'],
  ['opt opt nat', '[5]', '{"$svc":"some","value":{"$svc":"some","value":{"$svc":"nat","value":"5"}}}'],
  ['opt null', '[null]', '{"$svc":"some","value":null}'],
  ['opt null', '[]', '{"$svc":"none"}'],
  ['opt reserved', '[null]', '{"$svc":"some","value":{"$svc":"reserved"}}'],
  ['opt variant { a }', '{"a":null}', '{"$svc":"some","value":{"$svc":"variant","tag":"a","value":null}}'],
  ['vec text', '["a","b"]', '["a","b"]'],
  ['vec null', '[null,null]', '[null,null]'],
  ['vec empty', '[]', '[]'],
  ['record {}', '{}', '{}'],
  ['record { a : text; 7 : text }', '{"_7_":"x","a":"y"}', '{"_7_":"x","a":"y"}'],
  ['record { text; bool }', '["x",true]', '{"_0_":"x","_1_":true}'],
  [
    'record { "two words" : null; "q\\"b\\\\" : null }',
    '{"q\\"b\\\\":null,"two words":null}',
    '{"q\\"b\\\\":null,"two words":null}',
  ],
  ['record { "$svc" : text }', '{"$svc":"x"}', '{"$svc":"record","value":{"$svc":"x"}}'],
  ['record { "__proto__" : text }', '{"__proto__":"x"}', '{"__proto__":"x"}'],
  ['variant { ok : text; err }', '{"ok":"x"}', '{"$svc":"variant","tag":"ok","value":"x"}'],
  ['variant { ok : text; err }', '{"err":null}', '{"$svc":"variant","tag":"err","value":null}'],
  ['variant { 5 : text }', '{"_5_":"x"}', '{"$svc":"variant","tag":"_5_","value":"x"}'],
  ['principal', '"aaaaa-aa"', '{"$svc":"principal","value":"aaaaa-aa"}'],
  ['principal', '"em77e-bvlzu-aq"', '{"$svc":"principal","value":"em77e-bvlzu-aq"}'],
  ['service {}', '"2vxsx-fae"', '{"$svc":"service","value":"2vxsx-fae"}'],
  [
    'func () -> ()',
    '{"principal":"aaaaa-aa","method":"raw_rand"}',
    '{"$svc":"func","principal":"aaaaa-aa","method":"raw_rand"}',
  ],
  ['reserved', 'null', '{"$svc":"reserved"}'],
];

describe('every row of the table, both encodings, both directions', () => {
  for (const [type, defaultJson, losslessJson] of ROWS) {
    test(`${type}: ${defaultJson} and ${losslessJson}`, () => {
      const tuple = codecOf(type);
      assert.equal(roundTrip(tuple, defaultJson), defaultJson);
      assert.equal(roundTrip(tuple, losslessJson, true), losslessJson);
      // Both are the same message, so neither direction can be wrong by itself.
      assert.equal(hex(toCandid(tuple, `[${defaultJson}]`)), hex(toCandid(tuple, `[${losslessJson}]`, true)));
      // The lossless text means the same without the interface.
      const untyped = codec.untyped.encode(Buffer.from(`[${losslessJson}]`), { lossless: true });
      assert.equal(fromCandid(tuple, untyped, true), `[${losslessJson}]`);
    });
  }
});

/** Other accepted inputs, with their meanings. */
const ALSO_ACCEPTED: readonly (readonly [type: string, input: string, meaning: string])[] = [
  ['nat', '"5"', '5'],
  ['nat', '12345678901234567890', '"12345678901234567890"'],
  ['int', '-0', '0'],
  ['int', '"-5"', '-5'],
  ['nat8', '"255"', '255'],
  ['int32', '"-7"', '-7'],
  ['float64', '1', '1'],
  ['float64', '1E2', '100'],
  ['float32', '16777217', '16777216'],
  ['blob', '[0,255,"7"]', '"AP8H"'],
  ['blob', '[]', '""'],
  ['blob', '"\\/\\/8="', '"//8="'],
  ['record { a : opt nat; b : nat }', '{"b":1}', '{"a":null,"b":1}'],
  ['record { a : opt opt nat; b : null; c : reserved }', '{}', '{"a":[],"b":null,"c":null}'],
  ['record { b : nat; a : nat }', ' { "b" : 1 ,\n"a":2 } ', '{"a":2,"b":1}'],
  ['record { a : nat; käse : nat }', '{"k\\u00e4se":1,"\\u0061":2}', '{"a":2,"käse":1}'],
  ['variant { ok; err }', '"ok"', '{"ok":null}'],
  ['variant { r : reserved }', '{"r":[1,{"x":null}]}', '{"r":null}'],
  ['reserved', '{"any":["thing",1.5e9]}', 'null'],
  ['func () -> ()', '{"method":"m","principal":"aaaaa-aa"}', '{"principal":"aaaaa-aa","method":"m"}'],
  ['principal', '"EM77E-BVLZU-AQ"', '"em77e-bvlzu-aq"'],
  ['text', '"\\ud83d\\ude00\\u00e9\\b\\f\\n\\r\\t\\/"', '"😀é\\b\\f\\n\\r\\t/"'],
];

describe('also accepted in the default encoding', () => {
  for (const [type, input, meaning] of ALSO_ACCEPTED) {
    test(`${type}: ${JSON.stringify(input)} means ${meaning}`, () => {
      const quoted = type.replace('käse', '"käse"');
      assert.equal(roundTrip(codecOf(quoted), input), meaning);
    });
  }
});

test('lossless members may come in any order, and an opt field may be missing', () => {
  const tuple = codecOf('record { a : nat; v : variant { x : text; y }; o : opt nat }');
  const message = toCandid(
    tuple,
    '[{"v":{"value":"t","tag":"x","$svc":"variant"},"a":{"value":"5","$svc":"nat"},"o":{"value":{"$svc":"nat","value":"6"},"$svc":"some"}}]',
    true,
  );
  assert.equal(fromCandid(tuple, message), '[{"a":5,"o":6,"v":{"x":"t"}}]');
  assert.equal(
    fromCandid(tuple, toCandid(tuple, '[{"a":{"$svc":"nat","value":"5"},"v":{"$svc":"variant","tag":"y"}}]', true)),
    '[{"a":5,"o":null,"v":{"y":null}}]',
  );
});

test('recursive types work in both encodings', () => {
  const tuple = codecOf('List', 'type List = opt record { head : nat; tail : List };');
  assert.equal(
    roundTrip(tuple, '{"head":1,"tail":{"head":2,"tail":null}}'),
    '{"head":1,"tail":{"head":2,"tail":null}}',
  );
  const nested = codecOf('T', 'type T = opt T;');
  assert.equal(roundTrip(nested, '[[[]]]'), '[[[]]]');
});

test('no arguments are an empty array and six bytes', () => {
  const tuple = codecOfTuple('()');
  assert.equal(hex(toCandid(tuple, ' [ ] ')), '4449444c0000');
  assert.equal(fromCandid(tuple, toCandid(tuple, '[]')), '[]');
});

test('a counter answers [1]', () => {
  assert.equal(fromCandid(codecOf('nat'), Buffer.from('4449444c00017d01', 'hex')), '[1]');
});

test('records of many fields keep each value at its field, whatever the order', () => {
  const count = 100;
  const names = Array.from({ length: count }, (_, index) => `field_${index}`);
  const tuple = codecOf(`record { ${names.map((name) => `${name} : nat`).join('; ')} }`);
  const shuffled = names
    .map((name, index) => [name, index] as const)
    .toSorted((left, right) => left[0].localeCompare(right[0]) * (left[1] % 2 === 0 ? 1 : -1));
  const json = JSON.parse(roundTrip(tuple, JSON.stringify(Object.fromEntries(shuffled)))) as Record<string, number>;
  for (const [name, index] of shuffled) assert.equal(json[name], index);
});

test('lossless input is only lossless: plain numbers are refused with what to write', () => {
  refuses(
    () => toCandid(codecOf('nat64'), '[5]', true),
    'args[0]: expected {"$svc":"nat64","value":…}, found the number 5',
  );
  refuses(
    () => toCandid(codecOf('opt text'), '["x"]', true),
    'args[0]: expected {"$svc":"none"} or {"$svc":"some","value":…}, found a string',
  );
});
