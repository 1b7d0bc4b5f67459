/** Functions that recurse without end, in the shapes that make frames large; each counts its frames in global 0. */
const COUNT = '(global.set $frames (i32.add (global.get $frames) (i32.const 1)))';
export const times = (count: number, text: (k: number) => string): string =>
  Array.from({ length: count }, (_, k) => text(k)).join(' ');

/** `go` recurses without end; `warm` recurses a little, so that V8 optimises. */
export function shape(functions: string, argumentsOf: (depth: number) => string, drop = 'drop'): string {
  return `(module (global $frames (mut i32) (i32.const 0)) (global $x (mut i32) (i32.const 0))
    (type $indirect (func (param i32) (result i32)))
    (table 1 funcref) ${functions.includes('$indirect') ? '(elem (i32.const 0) $f)' : ''}
    ${functions}
    (func (export "canister_update go") ${argumentsOf(-1)} call $f ${drop})
    (func (export "canister_update warm") ${argumentsOf(200)} call $f ${drop}))`;
}
const depthOnly = (depth: number): string => `i32.const ${depth}`;

function manyLocals(count: number, type: string, from: string): string {
  const sum = `${times(count, (k) => `local.get $l${k}`)} ${times(count - 1, () => `${type === 'v128' ? 'i32x4' : type}.add`)}`;
  return shape(
    `(func $f (param $n i32) (result ${type}) ${times(count, (k) => `(local $l${k} ${type})`)} ${COUNT}
      ${times(count, (k) => `(local.set $l${k} (${from} (i32.add (local.get $n) (i32.const ${k}))))`)}
      (if (local.get $n) (then (local.set $l0 (call $f (i32.sub (local.get $n) (i32.const 1))))))
      ${sum})`,
    depthOnly,
  );
}

/** Values that V8 computes once and keeps: here across the recursion. */
function shared(count: number, value: (k: number) => string, globals = ''): string {
  const all = times(count, (k) => `(global.set $x ${value(k)})`);
  return shape(
    `${globals} (func $f (param $n i32) ${COUNT} ${all}
      (if (local.get $n) (then (call $f (i32.sub (local.get $n) (i32.const 1))))) ${all})`,
    depthOnly,
    '',
  );
}

/** Callees that V8 inlines into a function with one parameter, which is long enough to have the budget for that. */
function inlined(callees: string, calls: string): string {
  return shape(
    `(memory 1) ${callees}
     (func $f (param $n i32) ${COUNT} ${times(250, (k) => `(global.set $x (i32.xor (global.get $x) (i32.const ${k + 1})))`)}
       ${calls} (if (local.get $n) (then (call $f (i32.sub (local.get $n) (i32.const 1))))) ${calls})`,
    depthOnly,
    '',
  );
}

export const STACK_SHAPES: Readonly<Record<string, string>> = {
  nothing: shape(
    `(func $f (param $n i32) ${COUNT} (if (local.get $n) (then (call $f (i32.sub (local.get $n) (i32.const 1))))))`,
    depthOnly,
    '',
  ),
  'a hundred locals': manyLocals(100, 'i64', 'i64.extend_i32_u'),
  'sixty vectors': manyLocals(60, 'v128', 'i32x4.splat'),
  'eighty operands': shape(
    `(func $f (param $n i32) (result i32) ${COUNT} ${times(80, (k) => `(i32.add (local.get $n) (i32.const ${k}))`)}
      (if (result i32) (local.get $n) (then (call $f (i32.sub (local.get $n) (i32.const 1)))) (else (i32.const 0))) ${times(80, () => 'i32.add')})`,
    depthOnly,
  ),
  'forty arguments': shape(
    `(func $f (param $n i32) ${times(40, (k) => `(param $p${k} i64)`)} (result i64) ${COUNT}
      (if (result i64) (local.get $n)
        (then (i64.add (local.get $p3) (call $f (i32.sub (local.get $n) (i32.const 1)) ${times(40, (k) => `(i64.add (local.get $p${k}) (i64.const ${k}))`)})))
        (else (i64.const 0))))`,
    (depth) => `i32.const ${depth} ${times(40, (k) => `i64.const ${k}`)}`,
  ),
  'a call through a table': shape(
    `(func $f (type $indirect) ${COUNT}
      (if (result i32) (local.get 0) (then (i32.add (local.get 0) (call_indirect (type $indirect) (i32.sub (local.get 0) (i32.const 1)) (i32.const 0)))) (else (i32.const 0))))`,
    depthOnly,
  ),
  'twenty functions between': shape(
    `(func $f (param $n i32) (result i64) ${COUNT} (if (result i64) (local.get $n) (then (call $c0 (i32.sub (local.get $n) (i32.const 1)))) (else (i64.const 0))))
     ${times(20, (k) => `(func $c${k} (param $n i32) (result i64) (local $a i64) (local.set $a (i64.extend_i32_u (local.get $n))) (i64.add (local.get $a) (call ${k === 19 ? '$f' : `$c${k + 1}`} (local.get $n))))`)}`,
    depthOnly,
  ),
  'a tail call that hands the stack back': shape(
    `(func $f (param $n i32) (result i32) ${COUNT} (if (result i32) (local.get $n) (then (i32.add (i32.const 1) (call $g (local.get $n)))) (else (i32.const 0))))
     (func $g (param $n i32) (result i32) (return_call $f (i32.sub (local.get $n) (i32.const 1))))`,
    depthOnly,
  ),
  'values computed before and after': shared(300, (k) => `(i32.mul (local.get $n) (i32.const ${2 * k + 3}))`),
  'immutable globals read before and after': shared(
    100,
    (k) => `(i32x4.extract_lane 0 (i32x4.add (global.get $g${k}) (i32x4.splat (global.get $x))))`,
    times(100, (k) => `(global $g${k} v128 (v128.const i32x4 ${k} 1 2 3))`),
  ),
  'inlined seven levels deep': inlined(
    times(
      7,
      (level) => `(func $d${level} (param $n i32) (result i32)
        ${times(60, (k) => `(i32.load offset=${1000 * level + 4 * k} (local.get $n))`)}
        ${level === 6 ? '(i32.load (i32.const 0))' : `(call $d${level + 1} (local.get $n))`} ${times(60, () => 'i32.add')})`,
    ),
    '(global.set $x (call $d0 (i32.and (local.get $n) (i32.const 0))))',
  ),
  'inlined siblings that share what they compute': inlined(
    times(
      6,
      (index) => `(func $s${index} (param $n i32) (result i32) (global.get $x)
        ${times(40, (k) => `(i32.mul (local.get $n) (i32.const ${100 * index + 2 * k + 3})) i32.xor`)})`,
    ),
    times(6, (index) => `(global.set $x (call $s${index} (local.get $n)))`),
  ),
  'nine hundred results': shape(
    `(func $g (result ${times(900, () => 'i64')}) ${times(900, (k) => `(i64.const ${k})`)})
     (func $f (param $n i32) ${COUNT} (call $g) ${times(900, () => 'drop')}
       (if (local.get $n) (then (call $f (i32.sub (local.get $n) (i32.const 1))))))`,
    depthOnly,
    '',
  ),
};
