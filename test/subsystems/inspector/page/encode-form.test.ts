import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc, { cases } from '../../../support/properties.ts';
import { createCodec } from '../../../../subsystems/codec/codec.ts';
import type { DidType } from '../../../../subsystems/inspector/page/candid/did-types.ts';
import { base64Of, encodeForm, type Problems } from '../../../../subsystems/inspector/page/candid/encode-form.ts';
import { emptyValue, emptyValues, type FormValue } from '../../../../subsystems/inspector/page/candid/form-value.ts';
import { structureOf } from '../../../../subsystems/inspector/page/candid/structure.ts';
import { filled, typeTexts } from './filled-forms.ts';
import { readDid } from './read-did.ts';

function typeOf(text: string, definitions = ''): DidType {
  const type = readDid(`${definitions} service : { f : (${text}) -> () }`).methods[0]?.parameters[0]?.type;
  assert.ok(type !== undefined);
  return type;
}

function json(type: string, value: FormValue, isLossless = false): string {
  const problems: Problems = new Map();
  const encoded = encodeForm([{ type: typeOf(type), value }], isLossless, problems);
  assert.deepEqual([...problems.values()], []);
  return encoded.slice(1, -1);
}

function problem(type: string, value: FormValue): string | undefined {
  const problems: Problems = new Map();
  encodeForm([{ type: typeOf(type), value }], false, problems);
  return problems.get(value);
}

const text = (written: string): FormValue => ({ kind: 'text', text: written });

suite('form values as JSON', () => {
  test('integers keep every digit, beyond 15 of them as text', () => {
    assert.equal(json('nat', text(' 1_000 ')), '1000');
    assert.equal(json('nat', text('0007')), '7');
    assert.equal(json('int', text('-0')), '0');
    assert.equal(json('int', text('-12')), '-12');
    assert.equal(json('nat', text('12345678901234567890')), '"12345678901234567890"');
    assert.equal(json('nat64', text('5'), true), '{"$svc": "nat64", "value": "5"}');
  });

  test('what cannot be written is said at its place, before anything is sent', () => {
    assert.equal(problem('nat', text('')), 'type a nat');
    assert.equal(problem('int8', text('x')), 'expected an int8: digits only');
    assert.equal(problem('nat', text('-1')), 'expected a nat: digits only');
    assert.equal(problem('float64', text('1,5')), 'expected a number, NaN or Infinity');
    assert.equal(problem('float64', text('1e999')), 'too large for a float64');
    assert.equal(problem('principal', text('')), 'type a principal');
    assert.equal(problem('blob', { kind: 'blob', encoding: 'hex', text: 'abc' }), 'this is not hex');
    assert.equal(problem('blob', { kind: 'blob', encoding: 'base64', text: '=' }), 'this is not base64');
    assert.equal(problem('variant { a }', emptyValue(typeOf('variant { a }'))), 'choose one');
    assert.equal(problem('empty', { kind: 'nothing' }), 'no value of this type exists');
  });

  test('a part that is wanted but has no value is not left out', () => {
    const none = /write the arguments as JSON/;
    assert.match(problem('opt nat', { kind: 'opt', isSome: true, value: undefined }) ?? '', none);
    assert.match(problem('variant { a }', { kind: 'variant', tag: 0, values: new Map() }) ?? '', none);
    const blob: FormValue = { kind: 'blob', encoding: 'text', text: '', problem: 'too large' };
    assert.equal(problem('blob', blob), 'too large');
  });

  test('floats take what people write', () => {
    assert.equal(json('float64', text('nan')), '"NaN"');
    assert.equal(json('float64', text('-inf'), true), '{"$svc": "float64", "value": "-Infinity"}');
    assert.equal(json('float64', text('-0'), true), '{"$svc": "float64", "value": "-0"}');
    assert.equal(json('float64', text('.5')), '0.5');
    assert.equal(json('float64', text('1_000.5e2')), '100050');
    // As many digits as are typed: a float32 is rounded once, by the server.
    assert.equal(json('float32', text('1.00000005960464477539062500000001')), '1.00000005960464477539062500000001');
    assert.equal(
      json('float32', text('-.00000000000000001E-5'), true),
      '{"$svc": "float32", "value": "-0.00000000000000001E-5"}',
    );
    assert.equal(json('float32', text('+0_01234567890123456.')), '1234567890123456');
    assert.equal(
      json('float32', text('340282356779733661637539395458142568447.9')),
      '340282356779733661637539395458142568447.9',
    );
    assert.equal(problem('float32', text('3.40282356779734e38')), 'too large for a float32');
    for (const word of ['constructor', '__proto__', 'toString'])
      assert.equal(problem('float64', text(word)), 'expected a number, NaN or Infinity');
  });

  test('blobs are text, hex or base64', () => {
    assert.equal(base64Of('text', 'é'), 'w6k=');
    assert.equal(base64Of('hex', '0x00 ff'), 'AP8=');
    assert.equal(base64Of('base64', 'AP8'), 'AP8=');
    assert.equal(base64Of('base64', '_-8='), '/+8=');
    assert.equal(base64Of('hex', 'zz'), undefined);
  });

  test('texts stay what they are; what is invisible in them is escaped', () => {
    assert.equal(json('text', text('  a"b\n')), String.raw`"  a\"b\n"`);
    assert.equal(json('text', text('\u202e\u0085\u034f\u3164')), String.raw`"\u202e\u0085\u034f\u3164"`);
  });

  test('a form without an end, or of exponential size, is refused', () => {
    assert.throws(() => emptyValue(typeOf('A', 'type A = record { A; nat };')), /more than 2000 fields/);
    const doubling = Array.from(
      { length: 40 },
      (_item, index) => `type T${index} = record { T${index + 1}; T${index + 1} };`,
    );
    assert.throws(() => emptyValue(typeOf('T0', `${doubling.join(' ')} type T40 = nat;`)), /more than 2000 fields/);
    const wide = `type R = record { ${Array.from({ length: 900 }, (_field, index) => `f${index} : nat`).join('; ')} };`;
    const many = readDid(`${wide} service : { f : (R, R, R) -> () }`).methods[0]?.parameters ?? [];
    const types = many.map(({ type }) => type);
    assert.equal(emptyValues(types.slice(0, 2)).length, 2);
    assert.throws(() => emptyValues(types), /more than 2000 fields/);
    const tags = `type V = variant { ${Array.from({ length: 500 }, (_tag, index) => `t${index}`).join('; ')} };`;
    assert.ok(emptyValue(typeOf('record { V; V; V }', tags)));
    assert.throws(() => emptyValue(typeOf('record { V; V; V; V }', tags)), /more than 2000 fields/);
    assert.deepEqual(emptyValue(typeOf('L', 'type L = opt record { nat; L };')), {
      kind: 'opt',
      isSome: false,
      value: undefined,
    });
  });
});

test('whatever a form holds, both encodings of it are the same Candid message to the server', () => {
  const codec = createCodec();
  fc.assert(
    fc.property(fc.array(typeTexts, { maxLength: 3 }), fc.gen(), (types, random) => {
      const did = `service : { f : (${types.join(', ')}) -> () }`;
      const args = codec.parseInterface(did).methods.get('f')?.args;
      const method = readDid(did).methods[0];
      assert.ok(args !== undefined && method !== undefined);
      const values = method.parameters.map(({ type }) => ({ type, value: filled(type, random) }));
      const problems: Problems = new Map();
      const plain = args.encode(Buffer.from(encodeForm(values, false, problems)), { lossless: false });
      const lossless = args.encode(Buffer.from(encodeForm(values, true, problems)), { lossless: true });
      assert.deepEqual([...problems.values()], []);
      assert.deepEqual(plain, lossless);
    }),
    { numRuns: cases(500) },
  );
});

suite('what a half-filled form depends on', () => {
  const structure = (type: string, definitions = ''): string => structureOf([typeOf(type, definitions)]);

  test('is the structure of its types: names of definitions do not matter, fields and their order do', () => {
    assert.equal(structure('T', 'type T = record { a : nat };'), structure('U', 'type U = record { a : nat };'));
    for (const other of ['record { b : nat }', 'record { a : int }', 'record { a : opt nat }', 'variant { a : nat }'])
      assert.notEqual(structure('T', `type T = ${other};`), structure('T', 'type T = record { a : nat };'), other);
    assert.notEqual(structure('record { a : nat; b : nat }'), structure('record { b : nat; a : nat }'));
    assert.notEqual(structure('record { "a nat;0 b" : nat }'), structure('record { a : nat; b : nat }'));
  });

  test('has an end for recursive types, and takes any number of definitions', () => {
    assert.equal(
      structure('L', 'type L = opt record { nat; M }; type M = vec L;'),
      structure('A', 'type B = vec A; type A = opt record { nat; B };'),
    );
    const chain = Array.from({ length: 9_000 }, (_item, index) => `type T${index} = opt T${index + 1};`).join(' ');
    assert.ok(structure('T0', `${chain} type T9000 = nat;`).endsWith('nat'));
  });
});
