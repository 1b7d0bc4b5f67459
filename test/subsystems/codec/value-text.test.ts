import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { codec, codecOf, codecOfTuple, fromCandid, hex, refuses, toCandid } from './support.ts';
import { startCpuTimer } from '../../support/cpu-timer.ts';

function untyped(text: string): string {
  return Buffer.from(codec.untyped.decode(codec.encodeText(text), { lossless: true })).toString();
}

describe('value text without types', () => {
  const rows: readonly (readonly [string, string])[] = [
    ['()', '[]'],
    ['(42)', '[{"$svc":"int","value":"42"}]'],
    ['(-1_000, +5, 0xff)', '[{"$svc":"int","value":"-1000"},{"$svc":"int","value":"5"},{"$svc":"int","value":"255"}]'],
    ['(42 : nat8)', '[{"$svc":"nat8","value":"42"}]'],
    ['((42 : nat))', '[{"$svc":"nat","value":"42"}]'],
    [
      '(1.5, 1e3, -inf : float64, nan : float32)',
      '[{"$svc":"float64","value":"1.5"},{"$svc":"float64","value":"1000"},{"$svc":"float64","value":"-Infinity"},{"$svc":"float32","value":"NaN"}]',
    ],
    ['("x\\n\\u{e9}", true, false, null,)', '["x\\né",true,false,null]'],
    ['(blob "\\00\\ff", "\\c3\\a9")', '[{"$svc":"blob","value":"AP8="},"é"]'],
    [
      '(opt 1, opt opt null)',
      '[{"$svc":"some","value":{"$svc":"int","value":"1"}},{"$svc":"some","value":{"$svc":"some","value":null}}]',
    ],
    ['(vec {}, vec { 1; 2; })', '[[],[{"$svc":"int","value":"1"},{"$svc":"int","value":"2"}]]'],
    ['(record { 1 = true; 5 = "x"; "y" })', '[{"_1_":true,"_5_":"x","_6_":"y"}]'],
    ['(record { "x"; true })', '[{"_0_":"x","_1_":true}]'],
    ['(record { inf : float64; nan = true })', '[{"_0_":{"$svc":"float64","value":"Infinity"},"_5491931_":true}]'],
    [
      '(variant { 3 }, variant { 4 = "x" })',
      '[{"$svc":"variant","tag":"_3_","value":null},{"$svc":"variant","tag":"_4_","value":"x"}]',
    ],
    [
      '(principal "aaaaa-aa", service "2vxsx-fae", func "aaaaa-aa".raw_rand, func "aaaaa-aa"."two words")',
      '[{"$svc":"principal","value":"aaaaa-aa"},{"$svc":"service","value":"2vxsx-fae"},{"$svc":"func","principal":"aaaaa-aa","method":"raw_rand"},{"$svc":"func","principal":"aaaaa-aa","method":"two words"}]',
    ],
    ['(null : opt nat, 5 : reserved) // done', '[{"$svc":"none"},{"$svc":"reserved"}]'],
    [
      '(record { a = 1 : nat8 } : record { a : nat8; b : opt text })',
      '[{"_97_":{"$svc":"nat8","value":"1"},"_98_":{"$svc":"none"}}]',
    ],
  ];
  for (const [text, json] of rows) test(text, () => assert.equal(untyped(text), json));
});

test('value text by the types of an interface', () => {
  const tuple = codecOfTuple(
    '(record { symbol : text; fee : opt nat; kind : variant { a; b : int }; raw : blob }, vec nat8, float64, opt opt bool)',
  );
  const message = tuple.encodeText(
    '(record { kind = variant { b = -5 }; raw = "\\00\\ff"; symbol = "T" }, vec { 1; 2 }, 3, opt null)',
  );
  assert.equal(fromCandid(tuple, message), '[{"fee":null,"raw":"AP8=","kind":{"b":-5},"symbol":"T"},"AQI=",3,[null]]');
  assert.equal(hex(codecOf('opt nat').encodeText('(5)')), hex(toCandid(codecOf('opt nat'), '[5]')));
});

test('integers are as short as they can be, whatever their size and sign', () => {
  const tuple = codecOf('int');
  for (const bits of [0n, 6n, 7n, 31n, 47n, 48n, 49n, 50n, 52n, 53n, 63n, 100n, 200n]) {
    for (const number of [2n ** bits, 2n ** bits - 1n, -(2n ** bits), -(2n ** bits) - 1n]) {
      const written = tuple.encodeText(`(${number})`);
      const digits = Array.from(written.subarray(7), (byte) => byte & 127);
      const [top = 0, below] = digits.toReversed();
      assert.equal(fromCandid(tuple, written, true), `[{"$svc":"int","value":"${number}"}]`);
      const repeatsSign = below !== undefined && top === (below < 64 ? 0 : 127);
      assert.ok(!repeatsSign, `${number} is ${hex(written)}`);
    }
  }
});

test('fields that the type does not have are left out, as Candid does with bytes', () => {
  // Lines 78, 233 and 234 of construct.test.did in Candid's own suite.
  const rows: readonly (readonly [string, string, string])[] = [
    ['(record { whatever = 0 })', 'record {}', '[{}]'],
    [
      '(record { foo = 42; bar = true; bat = variant { nil }; baz = record { foo = 10; bar = false } })',
      'record { foo : int32; bar : bool }',
      '[{"bar":true,"foo":42}]',
    ],
    [
      '(record { bar = true; baz = record { foo = 10; bar = false }; bbb = opt record { head = 20; tail = null } })',
      'record { bar : bool; baz : record { bar : bool }; bbb : opt record { head : int } }',
      '[{"bar":true,"baz":{"bar":false},"bbb":{"head":20}}]',
    ],
    ['(vec { record { 1; "x"; true }; record { 2; 3 } })', 'vec record { nat }', '[[[1],[2]]]'],
    ['(variant { a = record { x = 1; y = 2 } })', 'variant { a : record { y : nat } }', '[{"a":{"y":2}}]'],
  ];
  for (const [text, type, json] of rows) {
    const tuple = codecOf(type);
    assert.equal(fromCandid(tuple, tuple.encodeText(text)), json);
  }
});

describe('bad value text is refused with line and column', () => {
  const rows: readonly (readonly [string, string | undefined, string | RegExp])[] = [
    ['42', undefined, 'line 1, column 1: expected "(", found "42"'],
    ['(1, \n x)', undefined, 'line 2, column 2: expected a value, found "x"'],
    ['(1', undefined, 'line 1, column 3: expected "," or ")", found the end of the text'],
    ['() 1', undefined, /expected the end of the text/],
    [
      '(vec { 1; "x" })',
      undefined,
      'line 1, column 11: a vec has elements of one type; this one does not fit those before it',
    ],
    ['(record { a = 1; a = 2 })', undefined, 'line 1, column 18: the field "a" stands there twice'],
    ['(principal "x")', undefined, 'line 1, column 12: "x" is not a principal'],
    ['(300 : nat8)', undefined, /out of range: nat8 goes from 0 to 255/],
    ['(1 : T)', undefined, 'line 1, column 6: the type "T" is not defined'],
    ['("x" : nat)', undefined, 'line 1, column 2: expected nat, found text'],
    ['(1, 2)', 'nat', 'line 1, column 5: expected 1 values, found 2'],
    ['(-1)', 'nat', 'line 1, column 2: expected nat, found a negative number'],
    ['(record { (5) = 1 })', undefined, 'line 1, column 15: expected ";" or "}", found "="'],
    [
      '(record { principal = 1 })',
      undefined,
      'line 1, column 11: "principal" begins a value: the name of a field stands in quotes then',
    ],
    ['(1.5)', 'nat', 'line 1, column 2: expected nat, found the number 1.5'],
    ['(1 : int)', 'nat', 'line 1, column 2: expected nat, found a value of type int'],
    ['(record { a = 1; c = })', 'record { a : nat }', 'line 1, column 22: expected a value, found "}"'],
    ['(record { a = 1; a = 2 })', 'record {}', 'line 1, column 18: the field "a" stands there twice'],
    ['(record {})', 'record { a : nat }', 'line 1, column 2: the field "a" is missing'],
    ['(variant { x })', 'variant { a }', 'line 1, column 12: unknown tag "x"'],
    [`(${'opt '.repeat(1_000)} 1)`, undefined, /nested deeper than 256/],
    [`(${'9'.repeat(20_000)})`, undefined, /more than 17000 digits/],
  ];
  for (const [text, type, message] of rows) {
    test(text.slice(0, 60), () =>
      refuses(() => (type === undefined ? codec : codecOf(type)).encodeText(text), message, 'bad-candid-text'),
    );
  }
});

describe('previews', () => {
  test('show values as text', () => {
    const message = codec.encodeText(
      '(42 : nat8, "a\\"\\\\\\n", record { 5 = 1; 7 = true }, record { 1; 2 }, variant { 3 }, vec { 1 }, blob "\\00a", null, 1.5)',
    );
    assert.equal(
      codec.previewText(message, 500),
      '(42 : nat8, "a\\"\\\\\\n", record { 5 = 1; 7 = true }, record { 1; 2 }, variant { 3 }, vec { 1 }, blob "\\00\\61", null, 1.5 : float64)',
    );
  });
  test('are read again as the same message', () => {
    for (const text of [
      '(opt (5 : nat8), opt opt (5 : nat), opt (null : reserved), opt (inf : float64), opt 5, opt null)',
      '(vec { opt (1.5 : float32) }, record { 97 = opt (1 : int16) }, variant { 98 = opt (1 : nat64) })',
      '(opt record { 1 : nat8; opt (2 : nat8) }, opt variant { 5 }, opt vec { 1 : nat16 }, opt blob "\\01")',
      '(func "aaaaa-aa"."a b", opt service "aaaaa-aa", opt principal "2vxsx-fae", opt "x", opt true)',
    ]) {
      const message = codec.encodeText(text);
      const shown = codec.previewText(message, 1000) ?? '';
      assert.equal(hex(codec.encodeText(shown)), hex(message), shown);
    }
  });
  test('are cut where they get too long', () => {
    const message = codec.encodeText(`("${'x'.repeat(1_000)}")`);
    assert.equal(codec.previewText(message, 10), `("${'x'.repeat(7)}…`);
    assert.equal(codec.previewText(codec.encodeText('(1)'), 3), '(1)');
    assert.equal(codec.previewText(codec.encodeText('(1)'), 2), '(…');
    assert.equal(codec.previewText(codec.encodeText('(1)'), 0), '');
  });
  test('are undefined for what is not Candid', () => {
    assert.equal(codec.previewText(Buffer.from('hello'), 100), undefined);
    assert.equal(codec.previewText(Buffer.from('4449444c000000', 'hex'), 100), undefined);
  });
  test('of the beginning of a message show what there is of it', () => {
    const shown = (text: string, bytes: number): string | undefined =>
      codec.previewText(codec.encodeText(text).subarray(0, bytes), 500, true);
    assert.equal(shown(`("${'x'.repeat(300)}", 1)`, 20), `("${'x'.repeat(10)}…`);
    assert.equal(shown(`(vec { "${'ö'.repeat(300)}" })`, 20), `(vec { "${'ö'.repeat(4)}…`);
    assert.equal(shown(`(blob "${'x'.repeat(300)}")`, 14), '(blob "\\78\\78\\78…');
    assert.equal(shown('(vec { 1; 2; 3; 4; 5 : int })', 13), '(vec { 1; 2; 3; …');
    assert.equal(shown('(1, 2, 3)', 11), '(1, 2, …');
    assert.equal(shown('(1, 2, 3)', 5), undefined, 'its types are not all there');
    assert.equal(codec.previewText(Buffer.from('hello'), 100, true), undefined);
    // The text is not cut, but broken.
    assert.equal(codec.previewText(codec.encodeText('("abc")').subarray(0, 8), 100), undefined);
  });
  test('drive no terminal', () => {
    assert.equal(
      codec.previewText(codec.encodeText('("\\u{1b}[2J\\u{9b}1m\\u{2028}")'), 100),
      '("\\u{1b}[2J\\u{9b}1m\\u{2028}")',
    );
  });
  test('of a large blob look only at its beginning', () => {
    const message = toCandid(codecOf('blob'), `["${Buffer.alloc(30_000_000).toString('base64')}"]`);
    const cpuMs = startCpuTimer();
    assert.equal(codec.previewText(message, 20), '(blob "\\00\\00\\00\\00…');
    assert.ok(cpuMs() < 500);
  });
});
