/**
 * The lexical grammar of Candid's text (its specification, "Values"): each rule with texts that it accepts and rejects.
 */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { hexFloat } from '../../../subsystems/codec/hex-float.ts';
import { startCpuTimer } from '../../support/cpu-timer.ts';
import fc, { cases } from '../../support/properties.ts';
import { codec, codecOf, hex, refuses } from './support.ts';

const REFUSED = { code: 'bad-candid-text' };
const NAT = codecOf('nat');
const FLOAT64 = codecOf('float64');
const FLOAT32 = codecOf('float32');
const TEXT = codecOf('text');

const encoded = (type: { encodeText(text: string): Uint8Array }, text: string): string =>
  hex(type.encodeText(`(${text})`));
const valueOf = (text: string): number => new DataView(FLOAT64.encodeText(`(${text})`).buffer).getFloat64(7, true);

function refused(type: { encodeText(text: string): Uint8Array }, text: string): void {
  assert.throws(() => type.encodeText(`(${text})`), REFUSED, text);
}

suite('numbers', () => {
  test('whole ones, with single _ between digits', () => {
    const rows: readonly (readonly [string, string])[] = [
      ['0', '0'],
      ['007', '7'],
      ['1_000', '1000'],
      ['1_0_0', '100'],
      ['0xff', '255'],
      ['0xFf', '255'],
      ['0xf_F', '255'],
      ['0x0', '0'],
      ['0xe', '14'],
      ['+5', '5'],
    ];
    for (const [written, plain] of rows) assert.equal(encoded(NAT, written), encoded(NAT, plain), written);
    const wrong = [
      '1__0',
      '1_',
      '_1',
      '1___2',
      '1_000_',
      '0x',
      '0x_1',
      '0x1_',
      '0x1__2',
      '0_x1',
      '1a',
      '0xg',
      '0b1',
      '0o7',
    ];
    for (const written of [...wrong, '1.5', '1e3', '--1', '+-1', '0x-1', '1 2', '1_ 0', '١']) refused(NAT, written);
  });

  test('decimal floats', () => {
    const rows: readonly (readonly [string, number])[] = [
      ['1.5', 1.5],
      ['1.', 1],
      ['-1.', -1],
      ['1_0.2_5', 10.25],
      ['1e3', 1000],
      ['1.e3', 1000],
      ['1.5E+1_0', 15e9],
      ['+2.5e-1', 0.25],
      ['-0.0', -0],
      ['5', 5],
      ['1e999', Number.POSITIVE_INFINITY],
      ['-inf', Number.NEGATIVE_INFINITY],
      ['nan', Number.NaN],
    ];
    for (const [written, value] of rows) assert.deepEqual(valueOf(written), value, written);
    const wrong = [
      '.5',
      '.',
      '1._5',
      '1_.5',
      '1.5_',
      '1.5__5',
      '1e',
      '1e+',
      '1e_5',
      '1_e5',
      '1e5_',
      '1e5.5',
      '1.5.5',
      '1p3',
    ];
    for (const written of [...wrong, '1e5e5', '1.5f', '1.5p1', '-', 'e5', '+nan', 'infx', '-infx'])
      refused(FLOAT64, written);
  });

  test('hexadecimal floats', () => {
    const rows: readonly (readonly [string, number])[] = [
      ['0x1.8p3', 12],
      ['0x1.8', 1.5],
      ['0x1.', 1],
      ['0x1p3', 8],
      ['0x1P+3', 8],
      ['0x1.p-3', 0.125],
      ['-0xA.8p0', -10.5],
      ['+0xf_f.8_0p1_0', 255.5 * 1024],
      ['0x0p0', 0],
      ['-0x0.0p9', -0],
      ['0x10', 16],
      ['0x1e5', 0x1e5],
      ['0x1.fffffffffffffp1023', Number.MAX_VALUE],
      ['0x1p-1074', Number.MIN_VALUE],
      ['0x1p-1075', 0],
      ['0x1.8p-1075', Number.MIN_VALUE],
      ['0x1p1024', Number.POSITIVE_INFINITY],
      ['0x1p99999999999999999999', Number.POSITIVE_INFINITY],
      ['0x1p-99999999999999999999', 0],
      ['0x1.00000000000008p0', 1],
      ['0x1.00000000000018p0', 1 + 2 * Number.EPSILON],
      ['0x1.000000000000080000000001p0', 1 + Number.EPSILON],
    ];
    for (const [written, value] of rows) assert.deepEqual(valueOf(written), value, written);
    const wrong = [
      '0x.8p3',
      '0xp3',
      '0x1.8p',
      '0x1.8p+',
      '0x1.8p0x3',
      '0x1.8pf',
      '0x1._8',
      '0x1_.8',
      '0x1.8_p3',
      '0x1.8p_3',
    ];
    for (const written of [...wrong, '0x1.8p3_', '0x1.8p3.5', '0x1p3p3', '0x1.g', '0x1e+5']) refused(FLOAT64, written);
    for (const written of ['0x1.8p3', '0x1p3', '0x1.']) refused(NAT, written);
  });

  test('a hexadecimal float is rounded once, to the nearest float of its type', () => {
    // If it were rounded to a double first, the number would be a tie, and become 1.
    assert.equal(encoded(FLOAT32, '0x1.0000010000000001p0'), encoded(FLOAT32, '1.00000011920929'));
    assert.equal(encoded(FLOAT32, '0x1.000001p0'), encoded(FLOAT32, '1'));
    assert.equal(encoded(FLOAT32, '0x1p-150'), encoded(FLOAT32, '0'));
    assert.equal(encoded(FLOAT32, '0x1.8p-150'), encoded(FLOAT32, '0x1p-149'));
    assert.equal(encoded(FLOAT32, '0x1.ffffffp127'), encoded(FLOAT32, 'inf : float32'));
  });

  test('every float of either size has a hexadecimal form that is read as it', () => {
    fc.assert(
      fc.property(fc.double({ noNaN: true }), fc.float({ noNaN: true }), (double, float) => {
        for (const [bytes, number, fractionBits] of [
          [8, Math.abs(double), 52n],
          [4, Math.abs(float), 23n],
        ] as const) {
          if (number === Number.POSITIVE_INFINITY) continue;
          const view = new DataView(new ArrayBuffer(8));
          if (bytes === 8) view.setFloat64(0, number);
          else view.setFloat32(4, number);
          const bits = view.getBigUint64(0);
          const power = Number(bits >> fractionBits);
          const fraction = (bits & ((1n << fractionBits) - 1n)) << (bytes === 8 ? 0n : 1n);
          const bias = bytes === 8 ? 1023 : 127;
          const digits = fraction.toString(16).padStart(bytes === 8 ? 13 : 6, '0');
          const written = `0x${power === 0 ? 0 : 1}.${digits}p${Math.max(1, power) - bias}`;
          assert.equal(hexFloat(written, bytes), number, written);
        }
      }),
      { numRuns: cases(300) },
    );
  });

  test('a million digits, and a million letters that are none, are refused or read in linear time', () => {
    const digits = '1'.repeat(1_000_000);
    const readMs = (text: string): number => {
      const elapsedMs = startCpuTimer();
      try {
        codec.encodeText(`(${text})`);
      } catch (error) {
        assert.equal((error as { code?: string }).code, 'bad-candid-text');
      }
      return elapsedMs();
    };
    readMs(digits.slice(0, 1000));
    for (const text of [
      digits,
      `0x${digits}.`,
      `0x${digits}p1`,
      `0x1.${digits}`,
      `${digits}_`,
      `1.${digits}e`,
      '1_'.repeat(500_000),
    ])
      assert.ok(readMs(text) < 2000, text.slice(0, 10));
  });
});

suite('texts, names and comments', () => {
  test('escapes', () => {
    const rows: readonly (readonly [string, string])[] = [
      [String.raw`\n\r\t\\\"\'`, '\n\r\t\\"\''],
      [String.raw`\41\7e\c3\a9`, 'A~é'],
      [String.raw`\u{41}\u{e9}\u{1F600}\u{0}`, 'Aé😀\0'],
      [String.raw`\u{1_F6_00}\u{000000000000000000000041}\u{10ffff}\u{d7ff}`, '😀A\u{10ffff}\ud7ff'],
      ['é😀 / // /* */', 'é😀 / // /* */'],
      // The grammar does not allow these as characters of a text; the reference implementation accepts them, and so do
      // we.
      ['a\nb\tc', 'a\nb\tc'],
    ];
    for (const [written, text] of rows)
      assert.equal(encoded(TEXT, `"${written}"`), encoded(TEXT, asBytes(text)), written);
    const wrong = [
      '\\',
      '\\x',
      '\\4',
      '\\4g',
      '\\u',
      '\\u41',
      '\\u{}',
      '\\u{41',
      '\\u{_41}',
      '\\u{41_}',
      '\\u{4__1}',
      '\\u{g}',
    ];
    wrong.push('\\u{ 41}', '\\u{110000}', '\\u{d800}', '\\u{dfff}', '\\u{ffffffffffffffffffff}', '\\N', '\\0', '\\b');
    wrong.push('\\ff', '\\c3', '\\e0\\80\\80');
    for (const written of wrong) refused(TEXT, `"${written}"`);
    for (const written of ['"', '"a', 'a"', '"a""b"', "'a'"]) refused(TEXT, written);
    assert.equal(
      encoded(codecOf('blob'), String.raw`blob "\ff\00\u{e9}a"`),
      encoded(codecOf('blob'), String.raw`"\ff\00\c3\a9a"`),
    );
  });

  test('names', () => {
    const record = codecOf('record { _a1 : nat; "b c" : nat; "" : nat; "é" : nat; 7 : nat; 0x10 : nat; 1_000 : nat }');
    const fields = ['_a1 = 1', '"b c" = 2', '"" = 3', '"\\u{e9}" = 4', '0x7 = 5', '1_6 = 6', '0x3e8 = 7'];
    assert.ok(record.encodeText(`(record { ${fields.join('; ')} })`).length > 0);
    for (const name of ['a-b', '1a', 'é', '-1', '+1', '1.', '0x1p3', '4294967296', '1__0', 'a.b', '$a'])
      refused(codecOf('record {}'), `record { ${name} = 1 }`);
    for (const name of ['1__0', '1_', '0x1p3', '1.', '-1', '4294967296'])
      refuses(() => codec.parseInterface(`service : { f : (record { ${name} : nat }) -> () }`), /line 1, column/);
  });

  test('comments nest, and end', () => {
    const comments = [
      '/**/',
      '/* a */',
      '/* /* */ */',
      '/***/',
      '/* /*/ */ */',
      '// a\n',
      '//\n',
      '/* // */',
      '// /*\n',
      '/* " */',
    ];
    for (const comment of comments)
      assert.equal(encoded(NAT, `${comment}5${comment}`), encoded(NAT, '5'), JSON.stringify(comment));
    assert.equal(hex(NAT.encodeText('(5)// the end')), encoded(NAT, '5'));
    for (const comment of ['/*', '/* /* */', '/*/', '*/', '/', '/ *', '#']) refused(NAT, `5 ${comment}`);
  });
});

function asBytes(text: string): string {
  return `"${Buffer.from(text)
    .toString('hex')
    .replaceAll(/../g, String.raw`\$&`)}"`;
}
