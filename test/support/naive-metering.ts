/**
 * An independent computation of instruction counts, written from docs/metering.md alone: the replica's own scheme, a
 * global counter raised at the beginning of every basic block, added to the module's *text*. It shares nothing with the
 * instrumenter: not the decoder (wabt reads and writes the module), not the cost table (below, by name of instruction).
 */
import { wat, watOf } from './wat.ts';

/** Cost by name; names that are missing cost 1. `64:` marks names that cost one more in 64-bit modules. */
const COSTS = new Map<string, number>();
function costs(text: string): void {
  for (const line of text.trim().split('\n')) {
    const [cost, ...names] = line.trim().split(/\s+/);
    for (const name of names) COSTS.set(name, Number(cost));
  }
}
costs(`
  0 block loop else end
  1 nop drop return unreachable select
  2 if br br_if br_table
  5 call
  10 call_indirect
  3 return_call
  60 return_call_indirect
  2 global.get global.set
  20 memory.size
  300 memory.grow data.drop elem.drop table.grow
  100 memory.copy memory.fill memory.init table.copy table.fill table.init table.size
  5 table.get table.set ref.is_null
  130 ref.func
`);
for (const width of ['i32', 'i64']) {
  costs(`10 ${['div_s', 'div_u', 'rem_s', 'rem_u'].map((op) => `${width}.${op}`).join(' ')}`);
  for (const from of ['f32', 'f64']) {
    costs(
      `20 ${width}.trunc_${from}_s ${width}.trunc_${from}_u ${width}.trunc_sat_${from}_s ${width}.trunc_sat_${from}_u`,
    );
    costs(`3 ${from}.convert_${width}_s`);
    costs(`16 ${from}.convert_${width}_u`);
  }
}
costs(`
  3 f32.div
  5 f64.div f32.sqrt
  8 f64.sqrt
  2 f32.copysign
  3 f64.copysign
  18 f32.min f32.max f64.min f64.max
`);
for (const width of ['f32', 'f64']) {
  costs(`2 ${['add', 'sub', 'mul', 'ceil', 'floor', 'trunc', 'nearest'].map((op) => `${width}.${op}`).join(' ')}`);
  costs(`3 ${['eq', 'ne', 'lt', 'gt', 'le', 'ge'].map((op) => `${width}.${op}`).join(' ')}`);
}
costs(`
  3 i8x16.shuffle i8x16.popcnt i8x16.shl i8x16.shr_s
  2 i8x16.shr_u i8x16.lt_u i8x16.gt_u i16x8.lt_u i16x8.gt_u i32x4.lt_u i32x4.gt_u
  2 i16x8.shl i16x8.shr_s i16x8.shr_u i32x4.shl i32x4.shr_s i32x4.shr_u i64x2.shl i64x2.shr_u
  3 i64x2.shr_s
  2 i32x4.mul
  4 i64x2.mul
  2 i16x8.extadd_pairwise_i8x16_u
  3 i32x4.extadd_pairwise_i16x8_u
  2 i16x8.extmul_high_i8x16_s i16x8.extmul_high_i8x16_u
  2 i32x4.extmul_low_i16x8_s i32x4.extmul_high_i16x8_s i32x4.extmul_low_i16x8_u i32x4.extmul_high_i16x8_u
  5 f32x4.sqrt
  14 f64x2.sqrt
  10 f32x4.div
  12 f64x2.div
  4 f32x4.min f32x4.max f64x2.min
  5 f64x2.max
  2 i32x4.trunc_sat_f32x4_s i32x4.trunc_sat_f64x2_s_zero
  4 i32x4.trunc_sat_f32x4_u f32x4.convert_i32x4_u
  3 i32x4.trunc_sat_f64x2_u_zero
`);
for (const width of ['f32x4', 'f64x2']) {
  costs(
    `2 ${['ceil', 'floor', 'trunc', 'nearest', 'abs', 'neg', 'add', 'sub', 'mul'].map((op) => `${width}.${op}`).join(' ')}`,
  );
}

/** System calls with another overhead than 500. */
const OVERHEADS: Readonly<Record<string, number>> = {
  call_new: 1500,
  call_perform: 5000,
  is_controller: 1000,
  performance_counter: 200,
  debug_print: 100,
  stable_size: 20,
  stable64_size: 20,
  stable_read: 20,
  stable_write: 20,
  stable64_read: 20,
  stable64_write: 20,
  cost_http_request_v2: 10000,
};

/** Returns the cost of an instruction by its name, without the part that depends on operands. */
export function naiveCost(name: string, is64: boolean): number {
  const isAccess = /^[^.]+\.(load|store)/.test(name);
  return isAccess && is64 ? 2 : (COSTS.get(name) ?? 1);
}

const CLOSES_BLOCK = new Set([
  'loop',
  'if',
  'else',
  'end',
  'br',
  'br_if',
  'br_table',
  'return',
  'unreachable',
  'return_call',
  'return_call_indirect',
]);
const ADDS_SIZE = new Set(['memory.copy', 'memory.fill', 'memory.init']);

/** Returns the module with an exported mutable i64 global `naive_counter` that counts up. */
export function naiveMetered(bytes: Uint8Array): Uint8Array {
  const lines = watOf(bytes).split('\n');
  const is64 = lines.some((line) => /^\s*\(memory .*\bi64 /.test(line));
  const imported: string[] = [];
  for (const line of lines) {
    const match = /^\s*\(import "([^"]*)" "([^"]*)" \(func/.exec(line);
    if (match !== null) imported.push(match[2] ?? '');
  }
  const out: string[] = [];
  let inFunction = false;
  let block: string[] = [];
  let cost = 0;
  let depth = 0;
  const flush = (): void => {
    if (cost > 0) out.push(`global.get $naive_counter i64.const ${cost} i64.add global.set $naive_counter`);
    out.push(...block);
    block = [];
    cost = 0;
  };
  const locals = '(local $naive_size32 i32) (local $naive_size64 i64)';
  let localsPending = false;
  for (const raw of lines) {
    const line = raw.replace(/;;.*$/, '').trimEnd();
    if (!inFunction) {
      if (/^ {2}\(func /.test(line)) {
        inFunction = true;
        localsPending = true;
        cost = 1;
        depth = balance(line);
        out.push(depth === 0 ? `${line.slice(0, -1)} ${locals}` : line);
        if (depth === 0) {
          flush();
          out.push(')');
          inFunction = false;
        }
      } else {
        out.push(raw);
      }
      continue;
    }
    if (localsPending && /^ {4}\(local /.test(line)) {
      depth += balance(line);
      const text = depth === 0 ? line.slice(0, -1) : line;
      out.push(`${text} ${locals}`);
      localsPending = false;
      if (depth === 0) {
        flush();
        out.push(')');
        inFunction = false;
      }
      continue;
    }
    if (localsPending) out.push(locals);
    localsPending = false;
    depth += balance(line);
    const isLast = depth === 0;
    const text = (isLast ? line.slice(0, -1) : line).trim();
    const [name = '', argument = ''] = text.split(/\s+/);
    if (name !== '') {
      cost += naiveCost(name, is64);
      const callee = name === 'call' || name === 'return_call' ? imported[Number(argument)] : undefined;
      if (callee !== undefined) cost += OVERHEADS[callee] ?? 500;
      if (ADDS_SIZE.has(name)) block.push(addSize(is64 && name !== 'memory.init'));
      block.push(text);
      if (CLOSES_BLOCK.has(name)) flush();
    }
    if (isLast) {
      flush();
      out.push(')');
      inFunction = false;
    }
  }
  const end = out.lastIndexOf(out.findLast((line) => line.endsWith(')')) ?? ')');
  out[end] = (out[end] ?? ')').slice(0, -1);
  out.push('(global $naive_counter (mut i64) (i64.const 0)) (export "naive_counter" (global $naive_counter)))');
  return wat(out.join('\n'));
}

/** Returns code that counts the size on top of the stack, and leaves it there. */
function addSize(is64: boolean): string {
  const local = is64 ? '$naive_size64' : '$naive_size32';
  const widen = is64 ? '' : 'i64.extend_i32_u';
  return `local.tee ${local} global.get $naive_counter local.get ${local} ${widen} i64.add global.set $naive_counter`;
}

/** Returns the number of opening minus closing parentheses outside of strings. */
function balance(line: string): number {
  let depth = 0;
  for (const char of line.replace(/"(\\.|[^"\\])*"/g, '')) depth += char === '(' ? 1 : char === ')' ? -1 : 0;
  return depth;
}
