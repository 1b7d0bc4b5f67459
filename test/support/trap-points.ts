/**
 * A module with a trap that can be set to any point: before each store, call, growth, bulk operation and change of a
 * global, the module counts down a global of its own and traps at zero. The points are added to the module's text, so
 * the instrumenter sees an ordinary program, and a trap is at a place where any program might have trapped.
 */
import { wat, watOf } from './wat.ts';

const POINT =
  /^\s+(?:\w+\.store\S*|v128\.store\S*|call|call_indirect|return_call|return_call_indirect|global\.set|memory\.(?:grow|copy|fill|init)|data\.drop|elem\.drop)\b/;

/**
 * The counter is the module's last mutable global, an i64 that begins at 0; counting down from there never reaches 0.
 */
export function withTrapPoints(bytes: Uint8Array): Uint8Array {
  const lines = watOf(bytes).split('\n');
  const end = lines.findLastIndex((line) => line.endsWith(')'));
  const last = lines[end];
  if (last === undefined) throw new Error('the module has no end');
  const out = lines
    .slice(0, end)
    .concat(last.slice(0, -1))
    .flatMap((line) => (POINT.test(line) ? ['    call $trap_point', line] : [line]));
  return wat(`${out.join('\n')}
    (func $trap_point
      (global.set $trap_at (i64.sub (global.get $trap_at) (i64.const 1)))
      (if (i64.eqz (global.get $trap_at)) (then unreachable)))
    (global $trap_at (mut i64) (i64.const 0)))`);
}
