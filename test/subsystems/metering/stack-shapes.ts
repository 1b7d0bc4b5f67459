/** Functions that recurse without end, in the shapes that make frames large; each counts its frames in global 0. */
const COUNT = '(global.set $frames (i32.add (global.get $frames) (i32.const 1)))';
const times = (count: number, text: (k: number) => string): string =>
  Array.from({ length: count }, (_, k) => text(k)).join(' ');

/** `go` recurses without end; `warm` recurses a little, so that V8 optimises. */
function shape(functions: string, argumentsOf: (depth: number) => string, drop = 'drop'): string {
  return `(module (global $frames (mut i32) (i32.const 0))
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
};
