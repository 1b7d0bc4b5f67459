import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { codec, codecOf, fromCandid, refuses, roundTrip, toCandid } from './support.ts';
import { startCpuTimer } from '../../support/cpu-timer.ts';

describe('what a .did file may say', () => {
  test('methods have their kinds', () => {
    const { methods } = codec.parseInterface(`service : {
      a : () -> ();
      b : () -> () query;
      c : (nat) -> (text) composite_query;
      d : (nat) -> () oneway;
    }`);
    assert.deepEqual(
      [...methods].map(([name, method]) => [name, method.name, method.kind]),
      [
        ['a', 'a', 'update'],
        ['b', 'b', 'query'],
        ['c', 'c', 'composite_query'],
        ['d', 'd', 'oneway'],
      ],
    );
  });

  test('a method may have any text as its name, and a named function as its type', () => {
    const { methods } = codec.parseInterface(
      'type F = func (nat) -> (nat) query; type G = F; service : { "" : F; "two words\\n" : G; "__proto__" : F };',
    );
    assert.deepEqual([...methods.keys()], ['', 'two words\n', '__proto__']);
    assert.ok([...methods.values()].every((method) => method.kind === 'query'));
  });

  test('the service may have a name, be a named type, and be a constructor', () => {
    const byName = codec.parseInterface('type S = service { m : () -> () }; service counter : S');
    assert.deepEqual([...byName.methods.keys()], ['m']);
    assert.equal(byName.initArgs, undefined);
    const constructed = codec.parseInterface(
      'type S = service { m : () -> () }; service : (init : nat, opt text) -> S;',
    );
    assert.ok(constructed.initArgs !== undefined);
    assert.equal(fromCandid(constructed.initArgs, toCandid(constructed.initArgs, '[5,null]')), '[5,null]');
    assert.ok(codec.parseInterface('service : () -> { }').initArgs !== undefined);
  });

  test('the semicolon before the service may be left out, as the grammar has it', () => {
    for (const did of [
      'type A = nat64 service : { m : (A) -> (A) }',
      'type A = record { x : nat }\nservice counter : { m : (A) -> () }',
      'type S = service { m : () -> () } service : S',
      'type F = func () -> () query service : (F) -> { m : F }',
      'type A = nat; type B = opt A // the last one\n service : { m : (B) -> () };',
    ]) {
      assert.deepEqual([...codec.parseInterface(did).methods.keys()], ['m'], did);
    }
    refuses(
      () => codec.parseInterface('type A = nat type B = nat; service : {}'),
      'line 1, column 14: expected ";", found "type"',
      'bad-interface',
    );
    refuses(() => codec.parseInterface('type A = nat serv : {}'), 'line 1, column 14: expected ";", found "serv"');
    refuses(() => codec.parseInterface('type A = nat service'), /expected ":", found the end/);
  });

  test('the init arguments may come apart and use the definitions', () => {
    const { initArgs } = codec.parseInterface('type T = record { a : nat }; service : {}', '(T, opt T)');
    assert.ok(initArgs !== undefined);
    assert.equal(fromCandid(initArgs, toCandid(initArgs, '[{"a":1},null]')), '[{"a":1},null]');
    refuses(
      () => codec.parseInterface('service : {}', '(T)'),
      'line 1, column 2: the type "T" is not defined',
      'bad-interface',
    );
    refuses(() => codec.parseInterface('service : {}', '(nat) x'), /line 1, column 7: expected the end/);
  });

  test('comments, nested ones too, separators at the end, and all forms of numbers', () => {
    const { methods } = codec.parseInterface(`
      // a line /* that opens nothing
      /* a block /* in a block */ // still */
      type T = record { 0xff : nat; };
      type U = record { 1_000 : nat; text; };
      service : { m : (T, U,) -> (nat,); };`);
    const args = methods.get('m')?.args;
    assert.ok(args !== undefined);
    assert.equal(
      fromCandid(args, toCandid(args, '[{"_255_":1},{"_1000_":2,"_1001_":"x"}]')),
      '[{"_255_":1},{"_1000_":2,"_1001_":"x"}]',
    );
  });

  test('fields without names count on from the last id; named parameters and quoted names', () => {
    assert.equal(
      roundTrip(codecOf('record { nat; nat; 5 : nat; nat }'), '{"_0_":1,"_1_":2,"_5_":3,"_6_":4}'),
      '{"_0_":1,"_1_":2,"_5_":3,"_6_":4}',
    );
    assert.equal(
      roundTrip(codecOf('"quoted name" : record { opt nat; vec record { text; blob } }'), '[1,[["x","AA=="]]]'),
      '[1,[["x","AA=="]]]',
    );
    assert.equal(roundTrip(codecOf('variant { 3; "two words"; named : record {} }'), '"_3_"'), '{"_3_":null}');
  });

  test('escapes in names', () => {
    assert.equal(
      roundTrip(codecOf('record { "\\u{e9}\\c3\\a9\\n\\t\\\\\\"\\\'" : null }'), '{"éé\\n\\t\\\\\\"\'":null}'),
      '{"éé\\n\\t\\\\\\"\'":null}',
    );
  });

  test('definitions may refer to each other in any order, through functions and services too', () => {
    const definitions = `
      type A = record { b : opt B; f : func (A) -> (B) query; s : S };
      type B = vec A;
      type S = service { m : F };
      type F = func (S) -> (A);
      type N = Alias; type Alias = nat;`;
    const json = '{"b":[],"f":{"principal":"aaaaa-aa","method":"m"},"s":"aaaaa-aa"}';
    assert.equal(roundTrip(codecOf('A', definitions), json), json);
    assert.equal(roundTrip(codecOf('N', definitions), '5'), '5');
  });

  test('a long chain of definitions is no problem', () => {
    const count = 5_000;
    const chain = Array.from({ length: count }, (_, index) => `type T${index} = opt T${index + 1};`).join('\n');
    assert.equal(roundTrip(codecOf('T0', `${chain} type T${count} = nat;`), '[[[[]]]]'), '[[[[]]]]');
    const aliases = Array.from({ length: count }, (_, index) => `type T${index} = T${index + 1};`).join('\n');
    assert.equal(roundTrip(codecOf('T0', `${aliases} type T${count} = nat;`), '7'), '7');
  });

  test('types that share parts do not grow without end', () => {
    const count = 60;
    const doubling = Array.from(
      { length: count },
      (_, index) => `type T${index} = record { a : opt T${index + 1}; b : opt T${index + 1} };`,
    ).join('\n');
    const tuple = codecOf('T0', `${doubling} type T${count} = nat;`);
    assert.equal(roundTrip(tuple, '{"a":null,"b":{"a":null,"b":null}}'), '{"a":null,"b":{"a":null,"b":null}}');
    assert.ok(toCandid(tuple, '[{}]').length < 2_000);
  });
});

test('an interface of thousands of methods over one web of types is parsed in a moment and little memory', () => {
  const count = 5_000;
  const types = Array.from(
    { length: count },
    (_, index) => `type T${index} = record { a : nat; b : opt T${(index + 1) % count} };`,
  );
  const methods = Array.from({ length: count }, (_, index) => `m${index} : (T${index}) -> (T0)`);
  const before = process.memoryUsage().heapUsed;
  const cpuMs = startCpuTimer();
  const parsed = codec.parseInterface(`${types.join('\n')} service : { ${methods.join(';')} }`);
  // Types have one node each: with a graph for each method this would take gigabytes.
  assert.ok(cpuMs() < 2_000);
  assert.ok(process.memoryUsage().heapUsed - before < 100_000_000);
  const args = parsed.methods.get('m7')?.args;
  assert.ok(args !== undefined);
  assert.equal(roundTrip(args, '{"a":1,"b":null}'), '{"a":1,"b":null}');
});

describe('what is refused, with line and column', () => {
  const rows: readonly (readonly [string, string | RegExp])[] = [
    ['', 'line 1, column 1: the file describes no service'],
    ['type T = nat;', 'line 1, column 14: the file describes no service'],
    ['service : {', 'line 1, column 12: expected the name of a method, found the end of the text'],
    ['service : { m : () -> ()', 'line 1, column 25: expected ";" or "}", found the end of the text'],
    ['service : { m : nat -> () }', 'line 1, column 21: expected ";" or "}", found "->"'],
    ['service : { m : nat }', 'line 1, column 13: the type of method "m" is not a function'],
    ['service : { m : (nat -> () }', 'line 1, column 22: expected "," or ")", found "->"'],
    [
      'service : {}\n  service : {}',
      'line 2, column 3: expected the end of the file after the service, found "service"',
    ],
    ['type nat = int; service : {}', 'line 1, column 6: "nat" is the name of a primitive type; choose another'],
    ['type opt = int; service : {}', 'line 1, column 6: expected the name of a type, found the keyword "opt"'],
    ['type T = nat;\ntype T = int; service : {}', 'line 2, column 6: the type "T" is defined twice'],
    ['type T = vec U; service : {}', 'line 1, column 14: the type "U" is not defined'],
    [
      'type A = B; type B = A; service : {}',
      'line 1, column 6: the type "A" stands for itself: it is defined by names only',
    ],
    ['type A = A; service : {}', /line 1, column 6: the type "A" stands for itself/],
    ['service : T', 'line 1, column 11: the type "T" is not defined'],
    ['type T = nat; service : T', 'line 1, column 25: the type "T" is not a service'],
    ['service : nat', 'line 1, column 11: the type "nat" is not a service'],
    ['service : () -> reserved', 'line 1, column 17: the type "reserved" is not a service'],
    ['service : { a : () -> (); a : () -> () }', 'line 1, column 27: the method "a" stands there twice'],
    ['service : { a : () -> (nat) oneway }', /a oneway function has no results/],
    ['service : { a : () -> () query oneway }', /a function is either query or oneway/],
    ['type T = record { a : nat; a : nat }; service : {}', 'line 1, column 28: the field "a" stands there twice'],
    [
      'type T = record { a : nat; 97 : nat }; service : {}',
      'line 1, column 28: the field "_97_" has the same id 97 as "a"',
    ],
    ['type T = variant { a; "a" }; service : {}', 'line 1, column 23: the tag "a" stands there twice'],
    ['type T = record { 4294967296 : nat }; service : {}', 'line 1, column 19: expected a field id below 2^32'],
    ['type T = record { 4294967295 : nat; nat }; service : {}', /after the id 2\^32 - 1/],
    ['type T = record { -1 : nat }; service : {}', 'line 1, column 19: expected a field id below 2^32'],
    [
      'type T = record { "_5_" : nat }; service : {}',
      /line 1, column 19: the name "_5_" is how a field without name is written/,
    ],
    ['type T = record { "a" nat }; service : {}', /expected ":" and a type, found "nat"/],
    ['type T = record { "\\ff" : nat }; service : {}', 'line 1, column 19: the text is not UTF-8'],
    ['type T = record { "\\q" : nat }; service : {}', /line 1, column 20: an unknown escape/],
    ['type T = record { "\\u{d800}" : nat }; service : {}', /an unknown escape/],
    ['type T = record { "abc', 'line 1, column 19: the text lacks its closing quote'],
    ['/* /* */ service : {}', 'line 1, column 1: a comment lacks its closing */'],
    ['service : {} $', 'line 1, column 14: unexpected character "$"'],
    [
      'import "other.did"; service : {}',
      'line 1, column 1: imports are not resolved here; put the imported definitions into the file',
    ],
    ['import service "other.did"; service : {}', /imports are not resolved here/],
    ['type T = service; service : {}', /expected "{", found ";"/],
    ['type T = query; service : {}', 'line 1, column 10: expected a type, found the keyword "query"'],
    [`type T = ${'opt '.repeat(300)} nat; service : {}`, /types are nested deeper than 256 levels/],
    [`type T = ${'record {'.repeat(100_000)}`, /types are nested deeper than 256 levels/],
    [
      `${Array.from({ length: 10_001 }, (_, index) => `type T${index} = nat;`).join('\n')} service : {}`,
      /line 10001, column 6: there are more than 10000 type names/,
    ],
    [
      `type T = variant { ${Array.from({ length: 50_001 }, (_, index) => index).join(';')} }; service : {}`,
      /more than 50000 fields/,
    ],
    [' '.repeat(1_048_577), /the text has 1048577 characters; at most 1048576 are accepted/],
  ];
  for (const [source, message] of rows) {
    test(source.slice(0, 70).replaceAll('\n', ' '), () =>
      refuses(() => codec.parseInterface(source), message, 'bad-interface'),
    );
  }

  test('two names with the same id', () => {
    // Found by search: different names with equal Candid hashes.
    const [left, right] = collidingNames();
    refuses(
      () => codec.parseInterface(`type T = record { ${left} : nat; ${right} : nat }; service : {}`),
      /has the same id \d+ as/,
    );
  });
});

/** Returns two names of the same id, found by the hash's own rule: h = h·223 + byte. */
function collidingNames(): readonly [string, string] {
  const seen = new Map<number, string>();
  const letters = 'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ';
  for (let number = 0; ; number++) {
    let name = 'n';
    for (let rest = number * 7_919 + 1; rest > 0; rest = Math.floor(rest / letters.length))
      name += letters.charAt(rest % letters.length);
    let hash = 0;
    for (const letter of Buffer.from(name)) hash = (Math.imul(hash, 223) + letter) >>> 0;
    const other = seen.get(hash);
    if (other !== undefined) return [other, name];
    seen.set(hash, name);
  }
}
