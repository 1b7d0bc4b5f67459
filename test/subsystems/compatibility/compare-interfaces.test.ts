import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { IDL } from '@dfinity/candid';
import { interfaceTypes } from '../../../subsystems/codec/interface-types/index.ts';
import { compareInterfaces, type InterfaceComparison } from '../../../subsystems/compatibility/compare-interfaces.ts';
import { ProofSeeds } from '../../support/proof-seeds.ts';
import { seeded } from '../../support/seeded.ts';
import { changedInterface, didOf, idlOf, randomInterface } from './random-interfaces.ts';

const compare = (before: string, after: string, workMax?: number): InterfaceComparison =>
  compareInterfaces(interfaceTypes(before), interfaceTypes(after), workMax);
/** Compares two services with one method `m`. */
const compareMethod = (before: string, after: string): InterfaceComparison =>
  compare(`service : { m : ${before} }`, `service : { m : ${after} }`);
const NONE = { added: [], removed: [], changed: [] };
const HARMLESS = { breaks: false, why: null };
const NULLED = { breaks: false, why: 'what does not fit reads as null, without an error' };

/** A type before and after, and whether the change is compatible where callers send it, and where they get it. */
const RULES: readonly (readonly [before: string, after: string, sent: boolean, gotten: boolean])[] = [
  ['nat', 'nat', true, true],
  ['nat', 'int', true, false],
  ['int', 'nat', false, true],
  ['nat', 'text', false, false],
  ['nat8', 'nat16', false, false],
  ['nat', 'nat8', false, false],
  ['float32', 'float64', false, false],
  ['nat', 'reserved', true, false],
  ['reserved', 'nat', false, true],
  ['empty', 'nat', true, false],
  ['nat', 'empty', false, true],
  ['service {}', 'principal', true, false],
  ['principal', 'service {}', false, true],
  ['principal', 'text', false, false],
  ['null', 'opt nat', true, false],
  ['opt nat', 'null', false, true],
  ['nat', 'opt nat', true, false],
  ['nat', 'opt text', true, false],
  ['opt nat', 'nat', false, true],
  ['opt nat', 'opt text', true, true],
  ['reserved', 'opt nat', true, true],
  ['vec nat', 'vec int', true, false],
  ['blob', 'vec nat8', true, true],
  ['vec nat8', 'vec nat', false, false],
  ['record { a : nat }', 'record { a : nat; b : nat }', false, true],
  ['record { a : nat }', 'record { a : nat; b : opt nat }', true, true],
  ['record { a : nat }', 'record { a : nat; b : reserved }', true, true],
  ['record { a : nat }', 'record { a : nat; b : null }', true, true],
  ['record { a : nat; b : text }', 'record { a : nat }', true, false],
  ['record { nat; text }', 'record { nat }', true, false],
  ['record { a : nat }', 'record { b : nat }', false, false],
  ['variant { a }', 'variant { a; b }', true, false],
  ['variant { a; b }', 'variant { a }', false, true],
  ['variant { a : nat }', 'variant { a : int }', true, false],
  ['variant { a }', 'variant { b }', false, false],
  ['func (nat) -> (int)', 'func (int) -> (nat)', false, true],
  ['func (int) -> (nat)', 'func (nat) -> (int)', true, false],
  ['func () -> () query', 'func () -> ()', false, false],
  ['func () -> () oneway', 'func () -> ()', false, false],
  ['func () -> (nat)', 'func () -> ()', true, false],
  ['func (nat) -> ()', 'func () -> ()', false, true],
  ['func () -> ()', 'func (opt nat) -> ()', true, true],
  ['service { a : () -> () }', 'service {}', true, false],
  ['service { a : (nat) -> () }', 'service { a : (int) -> () }', false, true],
];

suite('what callers may rely on', () => {
  test('each rule of subtyping holds for what they send, and the other way round for what they get', () => {
    for (const [before, after, sent, gotten] of RULES) {
      const what = `${before} → ${after}`;
      assert.equal(compareMethod(`(${before}) -> ()`, `(${after}) -> ()`).isCompatible, sent, `sent: ${what}`);
      assert.equal(compareMethod(`() -> (${before})`, `() -> (${after})`).isCompatible, gotten, `gotten: ${what}`);
    }
  });

  test('methods may be added and not removed, and are called as before', () => {
    const [one, two] = ['service : { a : () -> () }', 'service : { a : () -> (); "odd name" : (nat) -> () query }'];
    assert.deepEqual(compare(one, two), {
      ...NONE,
      isCompatible: true,
      added: [{ path: '["odd name"]', type: 'func (nat) -> () query', ...HARMLESS }],
    });
    assert.deepEqual(compare(two, one), {
      ...NONE,
      isCompatible: false,
      removed: [
        {
          path: '["odd name"]',
          type: 'func (nat) -> () query',
          breaks: true,
          why: 'callers that use the method fail',
        },
      ],
    });
    assert.deepEqual(compareMethod('() -> () query', '() -> () composite_query').changed, [
      { path: 'm', from: 'query', to: 'composite_query', breaks: true, why: 'it is called in another way' },
    ]);
  });

  test('a missing argument or result counts as null', () => {
    assert.equal(compareMethod('() -> ()', '(opt nat) -> ()').isCompatible, true);
    assert.equal(compareMethod('() -> ()', '(nat) -> ()').isCompatible, false);
    assert.equal(compareMethod('(nat) -> ()', '() -> ()').isCompatible, true);
    assert.equal(compareMethod('() -> (nat)', '() -> (nat, nat)').isCompatible, true);
    assert.equal(compareMethod('() -> (nat, opt nat)', '() -> (nat)').isCompatible, true);
    assert.equal(compareMethod('() -> (nat, nat)', '() -> (nat)').isCompatible, false);
  });
});

suite('where interfaces differ', () => {
  test('paths lead to the place, and each difference says what it means', () => {
    const before =
      'type U = record { name : text; age : nat }; service : { put : (vec U, opt text) -> (variant { ok : U; no }) }';
    const after =
      'type U = record { name : text; age : int; mail : opt text; tag : nat }; service : { put : (vec U, opt nat) -> (variant { ok : U; no; late }) }';
    const { added, removed, changed, isCompatible } = compare(before, after);
    assert.equal(isCompatible, false);
    assert.deepEqual(removed, []);
    assert.deepEqual(added, [
      { path: 'put.results[0].late', type: 'null', breaks: true, why: 'callers do not know it' },
      { path: 'put.args[0][].tag', type: 'nat', breaks: true, why: 'callers do not send it' },
      { path: 'put.args[0][].mail', type: 'opt text', ...HARMLESS },
      { path: 'put.results[0].ok.tag', type: 'nat', ...HARMLESS },
      { path: 'put.results[0].ok.mail', type: 'opt text', ...HARMLESS },
    ]);
    assert.deepEqual(changed, [
      { path: 'put.args[1]?', from: 'text', to: 'nat', ...NULLED },
      { path: 'put.args[0][].age', from: 'nat', to: 'int', ...HARMLESS },
      { path: 'put.results[0].ok.age', from: 'nat', to: 'int', breaks: true, why: 'int is no nat' },
    ]);
  });

  test('below an opt nothing breaks, and what would is told all the same', () => {
    const lost = compareMethod('(opt record { a : nat }) -> ()', '(opt record { a : text; b : nat }) -> ()');
    assert.equal(lost.isCompatible, true);
    assert.deepEqual(lost.changed, [{ path: 'm.args[0]?.a', from: 'nat', to: 'text', ...NULLED }]);
    assert.deepEqual(lost.added, [{ path: 'm.args[0]?.b', type: 'nat', ...NULLED }]);
    // The same pair of types in a place where it may break.
    const both = compareMethod('(opt variant { a }, variant { a }) -> ()', '(opt variant { b }, variant { b }) -> ()');
    assert.equal(both.isCompatible, false);
    const swapped = compareMethod(
      '(variant { a }, opt variant { a }) -> ()',
      '(variant { b }, opt variant { b }) -> ()',
    );
    assert.equal(swapped.isCompatible, false);
  });

  test('recursive types end, whatever their definitions are called, also when they are unrolled', () => {
    const list = (name: string, element: string): string =>
      `type ${name} = opt record { head : ${element}; tail : ${name} }; service : { m : (${name}) -> (${name}) }`;
    assert.deepEqual(compare(list('L', 'nat'), list('M', 'nat')), { ...NONE, isCompatible: true });
    const tree = (element: string): string =>
      `type T = record { v : ${element}; kids : vec T }; service : { m : (T) -> (T) }`;
    const unrolled = `type T = record { v : nat; kids : vec record { v : nat; kids : vec T } }; service : { m : (T) -> (T) }`;
    assert.deepEqual(compare(tree('nat'), unrolled), { ...NONE, isCompatible: true });
    assert.deepEqual(
      compare(tree('nat'), tree('int')).changed.map(({ path, breaks }) => [path, breaks]),
      [
        ['m.args[0].v', false],
        ['m.results[0].v', true],
      ],
    );
  });

  test('types are written as in a .did, and cut where they are long', () => {
    const long = `record { ${Array.from({ length: 100 }, (_, at) => `field_${at} : nat`).join('; ')} }`;
    const [entry] = compareMethod('() -> ()', `() -> (variant { a : ${long} }, record { nat; text }, blob)`).added;
    assert.ok(entry !== undefined);
    assert.ok(entry.type.length < 250, entry.type);
    assert.ok(entry.type.startsWith('variant {a : record {'), entry.type);
    const texts = compareMethod(
      '() -> ()',
      '() -> (record { nat; text }, blob, service { "a b" : (nat) -> () oneway }, record { 5 : nat; x : null })',
    );
    assert.deepEqual(
      texts.added.map(({ type }) => type),
      ['record {nat; text}', 'blob', 'service {"a b" : (nat) -> () oneway}', 'record {5 : nat; x : null}'],
    );
  });
});

suite('random interfaces', () => {
  test('the verdict is that of the reference library, and an interface may follow itself', () => {
    const seeds = new ProofSeeds(500);
    const counts = { compatible: 0, incompatible: 0 };
    for (const seed of seeds) {
      const random = seeded(seed);
      const before = randomInterface(random);
      const after = random.oneIn(10) ? randomInterface(random) : changedInterface(random, before);
      IDL.resetSubtypeCache();
      const expected = IDL.subtype(idlOf(after), idlOf(before));
      const found = compare(didOf(before), didOf(after));
      assert.equal(found.isCompatible, expected, `seed ${seed}\n${didOf(before)}\n\n${didOf(after)}`);
      assert.deepEqual(compare(didOf(before), didOf(before)), { ...NONE, isCompatible: true });
      const all = [...found.added, ...found.removed, ...found.changed];
      assert.equal(
        all.some(({ breaks }) => breaks),
        !expected,
        'a break is told, and only then',
      );
      counts[expected ? 'compatible' : 'incompatible']++;
    }
    assert.ok(Math.min(counts.compatible, counts.incompatible) > seeds.count / 10, JSON.stringify(counts));
    seeds.saw(counts);
  });
});

suite('interfaces that nobody should write', () => {
  /** Makes types of which each definition of one side meets each of the other. */
  const tangle = (count: number, step: number): string =>
    `${Array.from({ length: count }, (_, at) => `type T${at} = record { a : T${(at * step + 1) % count}; b : vec T${(at + step) % count} };`).join('\n')}
    service : { m : (T0) -> (T0) }`;

  test('types that are entangled on purpose end as a break that says so', () => {
    const found = compare(tangle(2_000, 3), tangle(2_003, 5));
    assert.equal(found.isCompatible, false);
    assert.match(found.changed[0]?.why ?? '', /too entangled, to be compared in 1000000 steps/);
    assert.equal(compare(tangle(60, 3), tangle(61, 5)).isCompatible, true);
    assert.equal(compare(tangle(60, 3), tangle(61, 5), 1_000).isCompatible, false);
  });

  test('chains as long as interfaces may be, and lists of differences, are bounded', () => {
    const chain = (end: string): string =>
      `${Array.from({ length: 9_000 }, (_, at) => `type T${at} = record { a : T${at + 1} };`).join('\n')} type T9000 = ${end};
      service : { m : (T0) -> () }`;
    const [entry] = compare(chain('nat'), chain('text')).changed;
    const { path = '' } = entry ?? {};
    assert.ok(path.startsWith('…') && path.endsWith('.a.a') && path.length < 310, path);
    const wide = (type: string): string =>
      `service : { m : (record { ${Array.from({ length: 20_000 }, (_, at) => `f${at} : ${type}`).join('; ')} }) -> () }`;
    const { changed, isCompatible } = compare(wide('nat'), wide('text'));
    assert.equal(isCompatible, false);
    assert.deepEqual([changed.length, changed.at(-1)?.from], [201, '… and 19800 more']);
  });
});
