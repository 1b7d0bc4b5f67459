import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { type DidType, resolve } from '../../../../subsystems/inspector/page/candid/did-types.ts';
import { typeText } from '../../../../subsystems/inspector/page/candid/type-text.ts';
import { parseDid as parseDidOfServer } from '../../../../subsystems/codec/did-parser.ts';
import { hashName } from '../../../../subsystems/codec/types.ts';
import { MANAGEMENT_DID } from '../../../../subsystems/management/interface-did.ts';
import { readDid } from './read-did.ts';

function only(did: string) {
  const [method] = readDid(did).methods;
  assert.ok(method !== undefined);
  return method;
}

suite('interfaces as forms need them', () => {
  test('methods keep their order, kinds, and the names of their parameters', () => {
    const { methods } = readDid(`
      service : {
        zebra : (amount : nat, "odd name" : text) -> (left : nat);
        ant : () -> () query;
        bee : () -> (nat) composite_query;
        "with space" : (blob) -> () oneway;
      }`);
    assert.deepEqual(
      methods.map(({ name, kind }) => [name, kind]),
      [
        ['zebra', 'update'],
        ['ant', 'query'],
        ['bee', 'composite_query'],
        ['with space', 'oneway'],
      ],
    );
    assert.deepEqual(
      methods[0]?.parameters.map(({ name }) => name),
      ['amount', 'odd name'],
    );
  });

  test('fields keep the order in which they are written, and get their ids', () => {
    const { parameters } = only(
      'service : { f : (record { zebra : nat; ant : text; 7 : bool; nat8; "" : null }) -> () }',
    );
    const type = resolve(parameters[0]?.type ?? { kind: 'null' });
    assert.ok(type.kind === 'record');
    assert.deepEqual(
      type.fields.map(({ id, label }) => [id, label]),
      [
        [hashName('zebra'), 'zebra'],
        [hashName('ant'), 'ant'],
        [7, '_7_'],
        [8, '_8_'],
        [0, ''],
      ],
    );
  });

  test('the comment right above a method is its description; others are not', () => {
    const { methods } = readDid(`
      // About the file.

      service : {
        // Adds one.
        //
        // And answers.
        inc : () -> (nat);
        get : () -> (nat) query; // behind
        /// Resets.
        reset : () -> ();
      }`);
    assert.deepEqual(
      methods.map(({ docs }) => docs),
      ['Adds one.\n\nAnd answers.', '', 'Resets.'],
    );
  });

  test('definitions may refer to each other in any order, and to themselves', () => {
    const { parameters } = only(`
      type Tree = variant { leaf : int; node : record { Tree; Tree } };
      type Alias = Tree;
      type Handler = func (Alias) -> (opt Alias) query;
      service : { walk : (Alias, Handler, service { on : Handler }) -> () }`);
    assert.equal(parameters.map(({ type }) => typeText(type)).join(), 'Alias,Handler,service { … }');
    const tree = resolve(parameters[0]?.type ?? { kind: 'null' });
    assert.equal(typeText(tree), 'variant { leaf : int; node : record { Tree; Tree } }');
  });

  test('a constructor, a named service, comments and escapes are read', () => {
    const did = String.raw`/* outer /* inner */ */ type S = service { "a\"b\u{e9}\c3\a9\n" : () -> () };
      service name : (opt record { x : nat }, text) -> S`;
    assert.equal(only(did).name, 'a"béé\n');
  });

  test('equal types that are written in other orders are two, and each keeps its order', () => {
    const [one, two] =
      readDid(`
      service : { f : (record { b : nat; a : text }, record { a : text; b : nat }, variant { y; x }) -> () }`)
        .methods[0]?.parameters ?? [];
    const text = (type: DidType | undefined): string => typeText(type ?? { kind: 'null' });
    assert.deepEqual(
      [text(one?.type), text(two?.type)],
      ['record { b : nat; a : text }', 'record { a : text; b : nat }'],
    );
  });

  test('a chain of definitions may be long, and nesting as deep as the server takes it', () => {
    const chain = Array.from({ length: 3_000 }, (_item, at) => `type T${at} = T${at + 1};`).join('\n');
    const { parameters } = only(`${chain} type T3000 = nat; service : { f : (T0) -> () }`);
    assert.equal(resolve(parameters[0]?.type ?? { kind: 'null' }).kind, 'nat');
    const nested = only(`service : { f : (${'opt '.repeat(200)}nat) -> () }`);
    assert.equal(nested.parameters[0]?.type.kind, 'opt');
  });

  test('names of fields and tags are known by their ids, and numbers are no names', () => {
    const { fieldNames } = readDid(`
      type Item = record { price : nat; 7 : text; tags : vec variant { sold; _ : null } };
      service : { f : (Item) -> (record { nat; func (record { inner : bool }) -> () }) }`);
    assert.deepEqual(new Set(fieldNames.values()), new Set(['price', 'tags', 'sold', '_', 'inner']));
    for (const [id, name] of fieldNames) assert.equal(id, hashName(name));
  });

  test('reads what the server reads: the interface of the management canister', () => {
    const here = readDid(MANAGEMENT_DID).methods;
    const there = parseDidOfServer(MANAGEMENT_DID);
    assert.deepEqual(
      here.map(({ name, kind, parameters, results }) => [name, kind, parameters.length, results.length]),
      there.methods.map(({ name, annotation, parameters, results }) => [
        name,
        annotation ?? 'update',
        parameters.length,
        results.length,
      ]),
    );
  });

  test('the text of a type is cut where it gets long', () => {
    const fields = Array.from({ length: 500 }, (_item, index) => `field${index} : nat`);
    const { parameters } = only(`service : { f : (record { ${fields.join('; ')} }) -> () }`);
    const text = typeText(parameters[0]?.type ?? { kind: 'null' });
    assert.ok(text.length <= 401 && text.endsWith('…'), text);
  });
});
