import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { compareSignatures } from '../../../subsystems/compatibility/compare-signatures.ts';

const actorOf = (fields: string, types = ''): string => `// Version: 1.0.0\n${types}actor {\n${fields}\n};\n`;
const NONE = { added: [], removed: [], changed: [] };

suite('differences of stable signatures', () => {
  test('variables that came, went and changed are told with their types', () => {
    const before = actorOf('  stable var count : Nat;\n  stable name : Text;\n  stable var old : [Nat]');
    const after = actorOf('  stable var count : Int;\n  stable var name : Text;\n  stable fresh : {#a; #b : Nat}');
    assert.deepEqual(compareSignatures(before, after), {
      added: [{ path: 'fresh', type: '{#a; #b : Nat}' }],
      removed: [{ path: 'old', type: 'var [Nat]' }],
      changed: [
        { path: 'name', from: 'Text', to: 'var Text' },
        { path: 'count', from: 'Nat', to: 'Int' },
      ],
    });
  });

  test('inside records, variants, options, arrays and tuples the path leads to the place', () => {
    const before = actorOf('stable var m : {users : [{name : Text; age : ?Nat}]; var pair : (Nat, {#x; #y : Bool})}');
    const after = actorOf('stable var m : {users : [{name : Text; age : ?Int; mail : Text}]; var pair : (Nat, {#x})}');
    assert.deepEqual(compareSignatures(before, after), {
      added: [{ path: 'm.users[].mail', type: 'Text' }],
      removed: [{ path: 'm.pair.1["#y"]', type: 'Bool' }],
      changed: [{ path: 'm.users[].age', from: '?Nat', to: '?Int' }],
    });
  });

  test('names of types are followed, whatever they are called, and recursive ones end', () => {
    const list = (name: string, element: string): string => `type ${name} = ?(${element}, ${name});\n`;
    const before = actorOf(`stable var l : L__1; stable k : Nat`, list('L__1', 'Nat'));
    assert.deepEqual(
      compareSignatures(before, actorOf('stable var l : L__2; stable k : Nat', list('L__2', 'Nat'))),
      NONE,
    );
    assert.deepEqual(compareSignatures(before, actorOf('stable var l : L__2; stable k : Nat', list('L__2', 'Text'))), {
      ...NONE,
      changed: [{ path: 'l?.0', from: 'Nat', to: 'Text' }],
    });
    assert.deepEqual(
      compareSignatures(before, actorOf('stable var l : ?(Nat, L__2); stable k : Nat', list('L__2', 'Nat'))),
      NONE,
    );
  });

  test('of a signature with migrations the variables afterwards count', () => {
    const migrated = '// Version: 3.0.0\nactor ({\n  in var n : Nat\n}, {\n  stable var k : Int\n});\n';
    assert.deepEqual(compareSignatures(actorOf('stable var n : Nat'), migrated), {
      added: [{ path: 'k', type: 'var Int' }],
      removed: [{ path: 'n', type: 'var Nat' }],
      changed: [],
    });
    const chain = '// Version: 4.0.0\n{ "first" : {} -> {k : Int} } actor { stable var k : Int };\n';
    assert.deepEqual(compareSignatures(migrated, chain), NONE);
  });
});

suite('signatures that nobody should write', () => {
  test('what cannot be read is one change of everything', () => {
    for (const text of ['', 'garbage', 'actor {', 'actor { a : [Nat } }', 'type ;', `actor { a : ${'['.repeat(300)}`]) {
      const { changed } = compareSignatures(actorOf('stable a : Nat'), text);
      assert.deepEqual(
        changed.map(({ path }) => path),
        [''],
        text.slice(0, 20),
      );
    }
  });

  test('strings without an end are read once', () => {
    const usedBefore = process.cpuUsage();
    for (const text of ['"\\'.repeat(100_000), '\\"'.repeat(100_000), '"', '"\\', `"${'a'.repeat(1_000_000)}`])
      assert.equal(compareSignatures(actorOf('stable a : Nat'), text).changed.length, 1);
    // If the search for an end began at each quote, this would take 26 s.
    assert.ok(process.cpuUsage(usedBefore).user < 5_000_000);
    // The line's end ends the text, and the next line counts.
    assert.deepEqual(
      compareSignatures(actorOf('stable a : Nat'), `type "a\n = Nat;\n${actorOf('stable a : Nat')}`),
      NONE,
    );
  });

  test('definitions that lead back to themselves, and megabytes of fields, end with a bounded list', () => {
    const circle = actorOf('stable a : A', 'type A = B;\ntype B = A;\n');
    assert.deepEqual(compareSignatures(circle, actorOf('stable a : Nat')), NONE);
    const fields = (type: string): string =>
      Array.from({ length: 30_000 }, (_, at) => `stable variable_${at} : ${type}`).join(';\n');
    const { changed } = compareSignatures(actorOf(fields('Nat')), actorOf(fields('Int')));
    assert.equal(changed.length, 201);
    assert.equal(changed.at(-1)?.from, '… and 29800 more');
    // Makes types of which each definition of one side meets each of the other.
    const tangle = (count: number, step: number): string =>
      Array.from(
        { length: count },
        (_, at) => `type T${at} = {a : T${(at * step + 1) % count}; b : T${(at + step) % count}};\n`,
      ).join('');
    const tangled = (small: number, large: number) =>
      compareSignatures(actorOf('stable a : T0', tangle(small, 3)), actorOf('stable a : T0', tangle(large, 5)));
    assert.deepEqual(tangled(100, 101), NONE);
    assert.equal(tangled(1_000, 1_001).changed.at(-1)?.from, 'more than is compared');
  });
});
