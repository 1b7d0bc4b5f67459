import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type DescribedType, describeInterface, resolveNamed } from '../../../subsystems/codec/description/index.ts';

function methodOf(did: string, name = 'm') {
  const found = describeInterface(did).methods.find((method) => method.name === name);
  assert.ok(found !== undefined, name);
  return found;
}

function firstParameter(did: string): DescribedType {
  const [parameter] = methodOf(did).parameters;
  assert.ok(parameter !== undefined);
  return parameter.type;
}

describe('comments of a .did', () => {
  test('belong to the service, definition, field, tag or method that they stand above', () => {
    const described = describeInterface(`// A licence.

/// What people
///   owe.
type Debt = record {
  // Who owes.
  debtor : text;
  /* How
   * much. */
  amount : nat;
  plain : nat };
/** Ways to pay. */
type Way = variant { /// in coins
  coins; // not about notes
  notes };
//! Of debts.
service debts : {
  /// Pays.
  pay : (Debt, Way) -> ();
  other : () -> (); // not about last

  last : () -> ();
}`);
    assert.equal(described.doc, 'Of debts.');
    const docs = Object.fromEntries(described.methods.map(({ name, doc }) => [name, doc]));
    assert.deepEqual(docs, { pay: 'Pays.', other: undefined, last: undefined });
    const [debt, way] = described.methods[0]?.parameters.map(({ type }) => type) ?? [];
    assert.ok(debt?.kind === 'named' && way?.kind === 'named');
    assert.equal(debt.doc, 'What people\n  owe.');
    assert.equal(way.doc, 'Ways to pay.');
    const [record, variant] = [resolveNamed(debt), resolveNamed(way)];
    assert.ok(record.kind === 'record' && variant.kind === 'variant');
    const fields = Object.fromEntries(record.fields.map(({ label, doc }) => [label, doc]));
    assert.deepEqual(fields, { debtor: 'Who owes.', amount: 'How\nmuch.', plain: undefined });
    // The comment behind the brace belongs to the line on which it stands.
    assert.deepEqual(Object.fromEntries(variant.fields.map(({ label, doc }) => [label, doc])), {
      coins: undefined,
      notes: undefined,
    });
  });

  test('an empty line ends what belongs to the next thing', () => {
    assert.equal(methodOf('service : {\n// far\n\n// near\n// too\nm : () -> () }').doc, 'near\ntoo');
    assert.equal(methodOf('service : {\n// far\n\nm : () -> () }').doc, undefined);
    assert.equal(methodOf('service : { /* same line */ m : () -> () }').doc, 'same line');
  });

  test('are cut where they are very long, without splitting a character', () => {
    const doc = methodOf(`service : {\n// ${'😀'.repeat(9000)}\nm : () -> () }`).doc ?? '';
    assert.ok(doc.length > 7990 && doc.length <= 8001, String(doc.length));
    assert.ok(doc.isWellFormed());
  });

  test('tell types apart that are equal otherwise', () => {
    const { methods } = describeInterface(`
      type A = record {
        // of A
        x : nat };
      type B = record {
        // of B
        x : nat };
      service : { m : (A, B, record { x : nat }) -> () }`);
    const docs = methods[0]?.parameters.map(({ type }) => {
      const record = resolveNamed(type);
      return record.kind === 'record' ? record.fields[0]?.doc : 'no record';
    });
    assert.deepEqual(docs, ['of A', 'of B', undefined]);
  });

  test('hundreds of thousands of them cost no more than reading them', () => {
    assert.equal(methodOf(`service : {${'\n//'.repeat(340_000)}\nm : () -> () }`).doc, undefined);
    assert.equal(methodOf(`service : {${'\n/**/'.repeat(200_000)}\nm : () -> () }`).doc, undefined);
  });
});

describe('what people read of types', () => {
  test('parameters and results have their names, also where only those differ', () => {
    const { methods } = describeInterface(
      'service : { a : (from : text, nat) -> (count : nat); b : (to : text, nat) -> (nat); c : ("odd name" : text, nat) -> (nat) }',
    );
    const names = methods.map(({ parameters, results }) => [...parameters, ...results].map(({ name }) => name));
    assert.deepEqual(names, [
      ['from', undefined, 'count'],
      ['to', undefined, undefined],
      ['odd name', undefined, undefined],
    ]);
  });

  test('a definition that is another name refers to the other definition', () => {
    const type = firstParameter('type A = B; type B = C; type C = record { a : A }; service : { m : (A) -> () }');
    assert.ok(type.kind === 'named' && type.definition.kind === 'named');
    assert.deepEqual([type.name, type.definition.name], ['A', 'B']);
    const resolved = resolveNamed(type);
    assert.ok(resolved.kind === 'record');
    assert.equal(resolved.fields[0]?.type, type, 'a type that contains itself is one object');
  });

  test('bytes are a blob by any name, ids 0, 1, 2 … a tuple', () => {
    assert.equal(firstParameter('type Byte = nat8; service : { m : (vec Byte) -> () }').kind, 'blob');
    assert.equal(firstParameter('service : { m : (blob) -> () }').kind, 'blob');
    const isTuple = (did: string): boolean => {
      const type = firstParameter(`service : { m : (${did}) -> () }`);
      return type.kind === 'record' && type.isTuple;
    };
    assert.deepEqual(
      ['record {nat; text}', 'record {1 : nat; 0 : text}', 'record {}', 'record {1 : nat}'].map(isTuple),
      [true, true, false, false],
    );
  });

  test('a chain of ten thousand definitions is followed without recursion', () => {
    const chain = Array.from({ length: 9999 }, (_, at) => `type T${at} = T${at + 1};`).join('\n');
    const type = firstParameter(`${chain} type T9999 = record { end : nat }; service : { m : (T0) -> () }`);
    assert.equal(resolveNamed(type).kind, 'record');
  });

  test('methods of a service that is a named type keep their comments and kinds', () => {
    const { methods } = describeInterface(
      'type S = service {\n// first\na : () -> () query;\nb : F };\ntype F = func (x : nat) -> () oneway; service : S',
    );
    assert.deepEqual(
      methods.map(({ name, kind, doc }) => [name, kind, doc]),
      [
        ['a', 'query', 'first'],
        ['b', 'oneway', undefined],
      ],
    );
    assert.equal(methods[1]?.parameters[0]?.name, 'x');
  });
});
