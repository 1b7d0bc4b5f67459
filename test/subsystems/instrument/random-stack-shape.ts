/**
 * Functions of random shape that recurse without end: a random mix of everything that makes a frame of V8's large, on
 * either tier. The parts are locals and operands that live across the recursion, arguments and results beyond the
 * registers, values that V8 computes once and keeps, and callees that it inlines with all of theirs.
 */
import { type Seeded, seeded } from '../../support/seeded.ts';
import { shape, times } from './stack-shapes.ts';

const TYPES = ['i32', 'i64', 'f64', 'v128'] as const;
type Type = (typeof TYPES)[number];

/** Operators that make a value of each type from an i32. */
const FROM_I32: Readonly<Record<Type, string>> = {
  i32: 'i32.clz',
  i64: 'i64.extend_i32_u',
  f64: 'f64.convert_i32_u',
  v128: 'i32x4.splat',
};
const TO_I32: Readonly<Record<Type, string>> = {
  i32: 'i32.ctz',
  i64: 'i32.wrap_i64',
  f64: 'i32.trunc_sat_f64_u',
  v128: 'i32x4.extract_lane 0',
};
const GLOBALS = 40;

export function randomStackShape(seed: number): string {
  const random = seeded(seed);
  // Most shapes have few kinds of parts, and many of each: a frame with one local and hundreds of other values is the
  // worst.
  const some = (most: number): number => (random.oneIn(4) ? random.below(most) : 0);
  const type = (): Type => random.pick(TYPES);
  // Levels are at most seven deep, as V8 inlines; or siblings share their values before and after the recursion.
  const levels = some(8);
  const density = 10 + random.below(60);
  const siblings = some(10);
  const inlined =
    times(levels, (k) => nested(k, density, k + 1 < levels)) + times(siblings, (k) => sibling(random, k, density));
  const argumentTypes = Array.from({ length: some(60) }, type);
  const resultTypes = Array.from({ length: some(60) }, type);
  const locals = Array.from({ length: some(120) }, type);
  const operands = Array.from({ length: some(120) }, type);
  const shared = sharedValues(random, some(800));
  const body = `
    ${times(random.below(300), (k) => `(global.set $x (i32.xor (global.get $x) (i32.const ${k + 1})))`)}
    ${locals.map((of, k) => `(local.set $l${k} (${FROM_I32[of]} (i32.load offset=${4 * k} (local.get $z))))`).join(' ')}
    ${shared}
    ${times(siblings, (k) => `(global.set $x (call $s${k} (local.get $n)))`)}
    ${levels > 0 ? '(global.set $x (call $d0 (local.get $z)))' : ''}
    ${argumentTypes.length > 0 ? `(call $takes ${argumentTypes.map((of) => `(${FROM_I32[of]} (local.get $n))`).join(' ')})` : ''}
    ${resultTypes.length > 0 ? `(call $gives) ${consume(resultTypes)}` : ''}
    ${operands.map((of, k) => `(${FROM_I32[of]} (i32.load offset=${4 * k} (local.get $z)))`).join(' ')}
    (if (local.get $n) (then ${recursion(random)}))
    ${consume(operands)}
    ${shared}
    ${times(siblings, (k) => `(global.set $x (call $s${k} (local.get $n)))`)}
    ${locals.map((of, k) => `(global.set $x (${TO_I32[of]} (local.get $l${k})))`).join(' ')}`;
  return shape(
    `(memory 1)
    ${times(GLOBALS, (k) => `(global $g${k} i64 (i64.const ${k}))`)}
    ${inlined}
    (func $takes ${argumentTypes.map((of) => `(param ${of})`).join(' ')} (global.set $x (i32.const 1)))
    (func $gives (result ${resultTypes.join(' ')}) ${resultTypes.map((of) => `(${FROM_I32[of]} (i32.const 1))`).join(' ')})
    (func $f (type $indirect) (local $z i32) (local $sum i64) ${locals.map((of, k) => `(local $l${k} ${of})`).join(' ')}
      (global.set $frames (i32.add (global.get $frames) (i32.const 1)))
      ${body.replaceAll('$n', '0')}
      (i32.const 0))`,
    (depth) => `i32.const ${depth}`,
  );
}

function recursion(random: Seeded): string {
  const next = '(i32.sub (local.get $n) (i32.const 1))';
  return random.oneIn(3) ? `(drop (call_indirect (type $indirect) ${next} (i32.const 0)))` : `(drop (call $f ${next}))`;
}

function consume(types: readonly Type[]): string {
  return types
    .toReversed()
    .map((of) => `${TO_I32[of]} global.set $x`)
    .join(' ');
}

/** Returns operands that stay while the next level runs. */
function nested(level: number, density: number, goesOn: boolean): string {
  const below = goesOn ? `(call $d${level + 1} (local.get $z))` : '(i32.load (i32.const 0))';
  return `(func $d${level} (param $z i32) (result i32)
    ${times(density, (k) => `(i32.load offset=${1000 * level + 4 * k} (local.get $z))`)} ${below} ${times(density, () => 'i32.add')})`;
}

/** Returns a function that computes the same products at each call. */
function sibling(random: Seeded, index: number, density: number): string {
  const factor = random.below(1000);
  return `(func $s${index} (param $n i32) (result i32) (global.get $x)
    ${times(density, (k) => `(i32.mul (local.get $n) (i32.const ${1000 * index + factor + 2 * k + 3})) i32.xor`)})`;
}

/** Returns values that are computed before the recursion and again behind it. */
function sharedValues(random: Seeded, count: number): string {
  return times(count, (k) =>
    random.oneIn(4)
      ? `(local.set $sum (i64.xor (local.get $sum) (global.get $g${k % GLOBALS}))) (global.set $x (i32.wrap_i64 (local.get $sum)))`
      : `(global.set $x (i32.mul (local.get $n) (i32.const ${2 * k + 3})))`,
  );
}
