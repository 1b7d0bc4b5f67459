/**
 * Costs of instructions and system calls: the Internet Computer's weights (docs/metering.md, "What counts"). The
 * numbers are the replica's, not measured here; a program must count the same on both.
 */
import { MISC, OPCODE_COUNT, SIMD, type Ic0Name } from '../../wasm/index.ts';

/** Charged at the beginning of every function, so that even an empty one costs something. */
export const FUNCTION_ENTRY_COST = 1;

/** Cost by opcode (numbered as in wasm/opcodes.ts), without the part that depends on operands. */
const COSTS_32 = new Uint16Array(OPCODE_COUNT).fill(1);
function cost(instructions: number, ...opcodes: readonly number[]): void {
  for (const opcode of opcodes) COSTS_32[opcode] = instructions;
}
function range(first: number, last: number): number[] {
  return Array.from({ length: last - first + 1 }, (_, i) => first + i);
}
const simd = (instructions: number, ...opcodes: readonly number[]): void =>
  cost(instructions, ...opcodes.map((opcode) => SIMD + opcode));
const misc = (instructions: number, ...opcodes: readonly number[]): void =>
  cost(instructions, ...opcodes.map((opcode) => MISC + opcode));

// Control
cost(0, 0x02, 0x03, 0x05, 0x0b); // block loop else end
cost(2, 0x04, 0x0c, 0x0d, 0x0e); // if br br_if br_table
cost(5, 0x10); // call
cost(10, 0x11); // call_indirect
cost(3, 0x12); // return_call
cost(60, 0x13); // return_call_indirect
// Globals, tables, memory, references
cost(2, 0x23, 0x24); // global.get global.set
cost(5, 0x25, 0x26); // table.get table.set
cost(20, 0x3f); // memory.size
cost(300, 0x40); // memory.grow
cost(5, 0xd1); // ref.is_null
cost(130, 0xd2); // ref.func
misc(100, 8, 10, 11, 12, 14, 17); // memory.init copy fill, table.init copy fill
misc(300, 9, 13, 15); // data.drop elem.drop table.grow
misc(100, 16); // table.size
// Integers
cost(10, ...range(0x6d, 0x70), ...range(0x7f, 0x82)); // div and rem
// Floats
cost(3, ...range(0x5b, 0x66)); // comparisons
cost(2, ...range(0x8d, 0x90), ...range(0x9b, 0x9e)); // ceil floor trunc nearest
cost(2, 0x92, 0x93, 0x94, 0xa0, 0xa1, 0xa2); // add sub mul
cost(3, 0x95); // f32.div
cost(5, 0xa3); // f64.div
cost(5, 0x91); // f32.sqrt
cost(8, 0x9f); // f64.sqrt
cost(18, 0x96, 0x97, 0xa4, 0xa5); // min max
cost(2, 0x98); // f32.copysign
cost(3, 0xa6); // f64.copysign
cost(20, ...range(0xa8, 0xab), ...range(0xae, 0xb1)); // float to integer
misc(20, ...range(0, 7)); // float to integer, saturating
cost(3, 0xb2, 0xb4, 0xb7, 0xb9); // signed integer to float
cost(16, 0xb3, 0xb5, 0xb8, 0xba); // unsigned integer to float
// SIMD
simd(3, 13); // shuffle
simd(2, 38, 40, 48, 50, 58, 60); // unsigned lt and gt of i8x16 i16x8 i32x4
simd(3, 98); // i8x16.popcnt
simd(3, 107, 108); // i8x16 shl shr_s
simd(2, 109); // i8x16.shr_u
simd(2, ...range(139, 141), ...range(171, 173)); // i16x8 and i32x4 shifts
simd(2, 203, 205); // i64x2 shl shr_u
simd(3, 204); // i64x2.shr_s
simd(2, 181); // i32x4.mul
simd(4, 213); // i64x2.mul
simd(2, 125); // i16x8.extadd_pairwise_i8x16_u
simd(3, 127); // i32x4.extadd_pairwise_i16x8_u
simd(2, 157, 159); // i16x8.extmul_high
simd(2, ...range(188, 191)); // i32x4.extmul
simd(2, ...range(103, 106), 116, 117, 122, 148); // rounding
simd(2, 224, 225, 236, 237); // abs neg
simd(2, 228, 229, 230, 240, 241, 242); // add sub mul
simd(5, 227); // f32x4.sqrt
simd(14, 239); // f64x2.sqrt
simd(10, 231); // f32x4.div
simd(12, 243); // f64x2.div
simd(4, 232, 233, 244); // f32x4 min max, f64x2.min
simd(5, 245); // f64x2.max
simd(2, 248); // i32x4.trunc_sat_f32x4_s
simd(4, 249, 251); // i32x4.trunc_sat_f32x4_u, f32x4.convert_i32x4_u
simd(2, 252); // i32x4.trunc_sat_f64x2_s_zero
simd(3, 253); // i32x4.trunc_sat_f64x2_u_zero

/** In 64-bit modules loads and stores cost one more, because code checks their addresses. */
const COSTS_64 = COSTS_32.slice();
for (const opcode of [...range(0x28, 0x3e), ...[...range(0, 11), ...range(84, 93)].map((n) => SIMD + n)])
  COSTS_64[opcode] = 2;

/** Returns the costs by opcode for a module of this pointer width. */
export function instructionCosts(pointerWidth: 32 | 64): Uint16Array {
  return pointerWidth === 64 ? COSTS_64 : COSTS_32;
}

/** Cost of most system calls without the bytes they copy. */
const SYSTEM_CALL_OVERHEAD_DEFAULT = 500;
const SYSTEM_CALL_OVERHEAD: Partial<Record<Ic0Name, number>> = {
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
  stable_grow: 500,
  stable64_grow: 500,
  cost_http_request_v2: 10_000,
};

/**
 * Returns the fixed cost of a system call. The instrumenter charges it; hosts charge only the part that depends on the
 * arguments.
 */
export function systemCallOverhead(name: string): number {
  const overhead = Object.hasOwn(SYSTEM_CALL_OVERHEAD, name) ? SYSTEM_CALL_OVERHEAD[name as Ic0Name] : undefined;
  return overhead ?? SYSTEM_CALL_OVERHEAD_DEFAULT;
}
