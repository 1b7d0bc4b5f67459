/**
 * The allow-list: every instruction a canister may use, with its immediates, what it takes from and leaves on the
 * operand stack, and its name. What is not in here is refused, because nothing may run unmetered or write memory
 * unseen.
 *
 * Opcodes are one number: the byte itself, `0x100 + n` for the `0xfc` group, `0x200 + n` for SIMD (`0xfd`).
 */

/** Kinds of bytes that follow an opcode in the binary. */
export const IMMEDIATE = {
  REFUSED: 0,
  NONE: 1,
  BLOCK_TYPE: 2,
  INDEX: 3,
  TWO_INDICES: 4,
  LABELS: 5,
  TYPES: 6,
  CONSTANT: 7,
  FOUR_BYTES: 8,
  EIGHT_BYTES: 9,
  SIXTEEN_BYTES: 10,
  REFERENCE_TYPE: 11,
  MEMORY_ARGUMENT: 12,
  MEMORY_ARGUMENT_LANE: 13,
  LANE: 14,
  MEMORY: 15,
  TWO_MEMORIES: 16,
  DATA_MEMORY: 17,
} as const;

export const OPCODE_COUNT = 0x300;
export const MISC = 0x100;
export const SIMD = 0x200;

/** The opcodes that other files speak of. */
export const OP = {
  UNREACHABLE: 0x00,
  BLOCK: 0x02,
  LOOP: 0x03,
  IF: 0x04,
  ELSE: 0x05,
  END: 0x0b,
  BR: 0x0c,
  BR_IF: 0x0d,
  BR_TABLE: 0x0e,
  RETURN: 0x0f,
  CALL: 0x10,
  CALL_INDIRECT: 0x11,
  RETURN_CALL: 0x12,
  RETURN_CALL_INDIRECT: 0x13,
  DROP: 0x1a,
  SELECT: 0x1b,
  SELECT_TYPED: 0x1c,
  LOCAL_GET: 0x20,
  LOCAL_SET: 0x21,
  LOCAL_TEE: 0x22,
  GLOBAL_GET: 0x23,
  GLOBAL_SET: 0x24,
  TABLE_GET: 0x25,
  I32_LOAD: 0x28,
  I64_LOAD: 0x29,
  F64_LOAD: 0x2b,
  I32_LOAD8_U: 0x2d,
  I32_STORE: 0x36,
  I64_STORE: 0x37,
  F32_STORE: 0x38,
  F64_STORE: 0x39,
  I32_STORE8: 0x3a,
  I32_STORE16: 0x3b,
  I64_STORE32: 0x3e,
  MEMORY_SIZE: 0x3f,
  MEMORY_GROW: 0x40,
  I32_CONST: 0x41,
  I64_CONST: 0x42,
  F32_CONST: 0x43,
  F64_CONST: 0x44,
  I32_EQZ: 0x45,
  I32_EQ: 0x46,
  I32_NE: 0x47,
  I32_LT_S: 0x48,
  I32_LT_U: 0x49,
  I32_GT_S: 0x4a,
  I32_GT_U: 0x4b,
  I32_LE_U: 0x4d,
  I32_GE_U: 0x4f,
  I64_EQZ: 0x50,
  I64_EQ: 0x51,
  I64_NE: 0x52,
  I64_LT_S: 0x53,
  I64_LT_U: 0x54,
  I64_GT_S: 0x55,
  I64_GT_U: 0x56,
  I64_LE_U: 0x58,
  I64_GE_S: 0x59,
  I64_GE_U: 0x5a,
  F64_LT: 0x63,
  F64_GT: 0x64,
  I32_CTZ: 0x68,
  I32_ADD: 0x6a,
  I32_SUB: 0x6b,
  I32_MUL: 0x6c,
  I32_AND: 0x71,
  I32_OR: 0x72,
  I32_XOR: 0x73,
  I32_SHL: 0x74,
  I32_SHR_U: 0x76,
  I64_ADD: 0x7c,
  I64_SUB: 0x7d,
  I64_MUL: 0x7e,
  I64_AND: 0x83,
  I64_SHL: 0x86,
  I64_SHR_U: 0x88,
  F64_ADD: 0xa0,
  F64_SUB: 0xa1,
  I32_WRAP_I64: 0xa7,
  I64_EXTEND_I32_S: 0xac,
  I64_EXTEND_I32_U: 0xad,
  F64_CONVERT_I32_U: 0xb8,
  F64_CONVERT_I64_S: 0xb9,
  F64_CONVERT_I64_U: 0xba,
  I64_EXTEND32_S: 0xc4,
  REF_NULL: 0xd0,
  REF_FUNC: 0xd2,
  I32_TRUNC_SAT_F64_U: MISC + 3,
  I64_TRUNC_SAT_F64_S: MISC + 6,
  I64_TRUNC_SAT_F64_U: MISC + 7,
  MEMORY_INIT: MISC + 8,
  DATA_DROP: MISC + 9,
  MEMORY_COPY: MISC + 10,
  MEMORY_FILL: MISC + 11,
  ELEM_DROP: MISC + 13,
  V128_LOAD: SIMD + 0,
  V128_STORE: SIMD + 11,
  V128_OR: SIMD + 80,
  V128_XOR: SIMD + 81,
  V128_ANY_TRUE: SIMD + 83,
  V128_STORE8_LANE: SIMD + 88,
  V128_STORE64_LANE: SIMD + 91,
  I64X2_BITMASK: SIMD + 196,
  I64X2_NE: SIMD + 215,
} as const;

/** Immediates by opcode. */
export const IMMEDIATES = new Uint8Array(OPCODE_COUNT);
/** Operands taken and left; of control, calls and locals only what does not depend on types or labels. */
export const POPS = new Uint8Array(OPCODE_COUNT);
export const PUSHES = new Uint8Array(OPCODE_COUNT);
/** Bytes a store writes; 0 for anything else. */
export const STORE_BYTES = new Uint8Array(OPCODE_COUNT);
const names: (string | undefined)[] = new Array<string | undefined>(OPCODE_COUNT);

function define(first: number, immediate: number, pops: number, pushes: number, text: string): void {
  let opcode = first;
  for (const name of text.split(/\s+/)) {
    if (name !== '') {
      if (name !== '-') {
        IMMEDIATES[opcode] = immediate;
        POPS[opcode] = pops;
        PUSHES[opcode] = pushes;
        names[opcode] = name;
      }
      opcode++;
    }
  }
}
const I = IMMEDIATE;

// Control
define(0x00, I.NONE, 0, 0, 'unreachable nop');
define(0x02, I.BLOCK_TYPE, 0, 0, 'block loop');
define(0x04, I.BLOCK_TYPE, 1, 0, 'if');
define(0x05, I.NONE, 0, 0, 'else');
define(0x0b, I.NONE, 0, 0, 'end');
define(0x0c, I.INDEX, 0, 0, 'br');
define(0x0d, I.INDEX, 1, 0, 'br_if');
define(0x0e, I.LABELS, 1, 0, 'br_table');
define(0x0f, I.NONE, 0, 0, 'return');
define(0x10, I.INDEX, 0, 0, 'call');
define(0x11, I.TWO_INDICES, 1, 0, 'call_indirect');
define(0x12, I.INDEX, 0, 0, 'return_call');
define(0x13, I.TWO_INDICES, 1, 0, 'return_call_indirect');
define(0x1a, I.NONE, 1, 0, 'drop');
define(0x1b, I.NONE, 3, 1, 'select');
define(0x1c, I.TYPES, 3, 1, 'select');
// Variables and tables
define(0x20, I.INDEX, 0, 1, 'local.get');
define(0x21, I.INDEX, 1, 0, 'local.set');
define(0x22, I.INDEX, 1, 1, 'local.tee');
define(0x23, I.INDEX, 0, 1, 'global.get');
define(0x24, I.INDEX, 1, 0, 'global.set');
define(0x25, I.INDEX, 1, 1, 'table.get');
// Memory
define(
  0x28,
  I.MEMORY_ARGUMENT,
  1,
  1,
  `i32.load i64.load f32.load f64.load i32.load8_s i32.load8_u i32.load16_s i32.load16_u
  i64.load8_s i64.load8_u i64.load16_s i64.load16_u i64.load32_s i64.load32_u`,
);
define(
  0x36,
  I.MEMORY_ARGUMENT,
  2,
  0,
  'i32.store i64.store f32.store f64.store i32.store8 i32.store16 i64.store8 i64.store16 i64.store32',
);
define(0x3f, I.MEMORY, 0, 1, 'memory.size');
define(0x40, I.MEMORY, 1, 1, 'memory.grow');
// Constants
define(0x41, I.CONSTANT, 0, 1, 'i32.const i64.const');
define(0x43, I.FOUR_BYTES, 0, 1, 'f32.const');
define(0x44, I.EIGHT_BYTES, 0, 1, 'f64.const');
// Comparisons
define(0x45, I.NONE, 1, 1, 'i32.eqz');
define(0x46, I.NONE, 2, 1, 'i32.eq i32.ne i32.lt_s i32.lt_u i32.gt_s i32.gt_u i32.le_s i32.le_u i32.ge_s i32.ge_u');
define(0x50, I.NONE, 1, 1, 'i64.eqz');
define(
  0x51,
  I.NONE,
  2,
  1,
  `i64.eq i64.ne i64.lt_s i64.lt_u i64.gt_s i64.gt_u i64.le_s i64.le_u i64.ge_s i64.ge_u
  f32.eq f32.ne f32.lt f32.gt f32.le f32.ge f64.eq f64.ne f64.lt f64.gt f64.le f64.ge`,
);
// Arithmetic
define(0x67, I.NONE, 1, 1, 'i32.clz i32.ctz i32.popcnt');
define(
  0x6a,
  I.NONE,
  2,
  1,
  `i32.add i32.sub i32.mul i32.div_s i32.div_u i32.rem_s i32.rem_u i32.and i32.or i32.xor i32.shl i32.shr_s i32.shr_u
  i32.rotl i32.rotr`,
);
define(0x79, I.NONE, 1, 1, 'i64.clz i64.ctz i64.popcnt');
define(
  0x7c,
  I.NONE,
  2,
  1,
  `i64.add i64.sub i64.mul i64.div_s i64.div_u i64.rem_s i64.rem_u i64.and i64.or i64.xor i64.shl i64.shr_s i64.shr_u
  i64.rotl i64.rotr`,
);
define(0x8b, I.NONE, 1, 1, 'f32.abs f32.neg f32.ceil f32.floor f32.trunc f32.nearest f32.sqrt');
define(0x92, I.NONE, 2, 1, 'f32.add f32.sub f32.mul f32.div f32.min f32.max f32.copysign');
define(0x99, I.NONE, 1, 1, 'f64.abs f64.neg f64.ceil f64.floor f64.trunc f64.nearest f64.sqrt');
define(0xa0, I.NONE, 2, 1, 'f64.add f64.sub f64.mul f64.div f64.min f64.max f64.copysign');
// Conversions
define(
  0xa7,
  I.NONE,
  1,
  1,
  `i32.wrap_i64 i32.trunc_f32_s i32.trunc_f32_u i32.trunc_f64_s i32.trunc_f64_u i64.extend_i32_s i64.extend_i32_u
  i64.trunc_f32_s i64.trunc_f32_u i64.trunc_f64_s i64.trunc_f64_u f32.convert_i32_s f32.convert_i32_u f32.convert_i64_s f32.convert_i64_u
  f32.demote_f64 f64.convert_i32_s f64.convert_i32_u f64.convert_i64_s f64.convert_i64_u f64.promote_f32 i32.reinterpret_f32
  i64.reinterpret_f64 f32.reinterpret_i32 f64.reinterpret_i64 i32.extend8_s i32.extend16_s i64.extend8_s i64.extend16_s i64.extend32_s`,
);
// References
define(0xd0, I.REFERENCE_TYPE, 0, 1, 'ref.null');
define(0xd1, I.NONE, 1, 1, 'ref.is_null');
define(0xd2, I.INDEX, 0, 1, 'ref.func');
// 0xfc: saturating conversions and bulk memory; instructions that change tables stay out, see REASONS
define(
  MISC + 0,
  I.NONE,
  1,
  1,
  `i32.trunc_sat_f32_s i32.trunc_sat_f32_u i32.trunc_sat_f64_s i32.trunc_sat_f64_u i64.trunc_sat_f32_s i64.trunc_sat_f32_u
  i64.trunc_sat_f64_s i64.trunc_sat_f64_u`,
);
define(MISC + 8, I.DATA_MEMORY, 3, 0, 'memory.init');
define(MISC + 9, I.INDEX, 0, 0, 'data.drop');
define(MISC + 10, I.TWO_MEMORIES, 3, 0, 'memory.copy');
define(MISC + 11, I.MEMORY, 3, 0, 'memory.fill');
define(MISC + 13, I.INDEX, 0, 0, 'elem.drop');
define(MISC + 16, I.INDEX, 0, 1, 'table.size');
// 0xfd: fixed-width SIMD
define(
  SIMD + 0,
  I.MEMORY_ARGUMENT,
  1,
  1,
  `v128.load v128.load8x8_s v128.load8x8_u v128.load16x4_s v128.load16x4_u v128.load32x2_s v128.load32x2_u
  v128.load8_splat v128.load16_splat v128.load32_splat v128.load64_splat`,
);
define(SIMD + 11, I.MEMORY_ARGUMENT, 2, 0, 'v128.store');
define(SIMD + 12, I.SIXTEEN_BYTES, 0, 1, 'v128.const');
define(SIMD + 13, I.SIXTEEN_BYTES, 2, 1, 'i8x16.shuffle');
define(SIMD + 14, I.NONE, 2, 1, 'i8x16.swizzle');
define(SIMD + 15, I.NONE, 1, 1, 'i8x16.splat i16x8.splat i32x4.splat i64x2.splat f32x4.splat f64x2.splat');
define(SIMD + 21, I.LANE, 1, 1, 'i8x16.extract_lane_s i8x16.extract_lane_u');
define(SIMD + 23, I.LANE, 2, 1, 'i8x16.replace_lane');
define(SIMD + 24, I.LANE, 1, 1, 'i16x8.extract_lane_s i16x8.extract_lane_u');
define(SIMD + 26, I.LANE, 2, 1, 'i16x8.replace_lane');
define(SIMD + 27, I.LANE, 1, 1, 'i32x4.extract_lane');
define(SIMD + 28, I.LANE, 2, 1, 'i32x4.replace_lane');
define(SIMD + 29, I.LANE, 1, 1, 'i64x2.extract_lane');
define(SIMD + 30, I.LANE, 2, 1, 'i64x2.replace_lane');
define(SIMD + 31, I.LANE, 1, 1, 'f32x4.extract_lane');
define(SIMD + 32, I.LANE, 2, 1, 'f32x4.replace_lane');
define(SIMD + 33, I.LANE, 1, 1, 'f64x2.extract_lane');
define(SIMD + 34, I.LANE, 2, 1, 'f64x2.replace_lane');
define(
  SIMD + 35,
  I.NONE,
  2,
  1,
  `i8x16.eq i8x16.ne i8x16.lt_s i8x16.lt_u i8x16.gt_s i8x16.gt_u i8x16.le_s i8x16.le_u i8x16.ge_s i8x16.ge_u
  i16x8.eq i16x8.ne i16x8.lt_s i16x8.lt_u i16x8.gt_s i16x8.gt_u i16x8.le_s i16x8.le_u i16x8.ge_s i16x8.ge_u
  i32x4.eq i32x4.ne i32x4.lt_s i32x4.lt_u i32x4.gt_s i32x4.gt_u i32x4.le_s i32x4.le_u i32x4.ge_s i32x4.ge_u
  f32x4.eq f32x4.ne f32x4.lt f32x4.gt f32x4.le f32x4.ge f64x2.eq f64x2.ne f64x2.lt f64x2.gt f64x2.le f64x2.ge`,
);
define(SIMD + 77, I.NONE, 1, 1, 'v128.not');
define(SIMD + 78, I.NONE, 2, 1, 'v128.and v128.andnot v128.or v128.xor');
define(SIMD + 82, I.NONE, 3, 1, 'v128.bitselect');
define(SIMD + 83, I.NONE, 1, 1, 'v128.any_true');
define(SIMD + 84, I.MEMORY_ARGUMENT_LANE, 2, 1, 'v128.load8_lane v128.load16_lane v128.load32_lane v128.load64_lane');
define(
  SIMD + 88,
  I.MEMORY_ARGUMENT_LANE,
  2,
  0,
  'v128.store8_lane v128.store16_lane v128.store32_lane v128.store64_lane',
);
define(SIMD + 92, I.MEMORY_ARGUMENT, 1, 1, 'v128.load32_zero v128.load64_zero');
define(
  SIMD + 94,
  I.NONE,
  1,
  1,
  `f32x4.demote_f64x2_zero f64x2.promote_low_f32x4 i8x16.abs i8x16.neg i8x16.popcnt i8x16.all_true i8x16.bitmask`,
);
define(SIMD + 101, I.NONE, 2, 1, 'i8x16.narrow_i16x8_s i8x16.narrow_i16x8_u');
define(SIMD + 103, I.NONE, 1, 1, 'f32x4.ceil f32x4.floor f32x4.trunc f32x4.nearest');
define(
  SIMD + 107,
  I.NONE,
  2,
  1,
  'i8x16.shl i8x16.shr_s i8x16.shr_u i8x16.add i8x16.add_sat_s i8x16.add_sat_u i8x16.sub i8x16.sub_sat_s i8x16.sub_sat_u',
);
define(SIMD + 116, I.NONE, 1, 1, 'f64x2.ceil f64x2.floor');
define(SIMD + 118, I.NONE, 2, 1, 'i8x16.min_s i8x16.min_u i8x16.max_s i8x16.max_u');
define(SIMD + 122, I.NONE, 1, 1, 'f64x2.trunc');
define(SIMD + 123, I.NONE, 2, 1, 'i8x16.avgr_u');
define(
  SIMD + 124,
  I.NONE,
  1,
  1,
  `i16x8.extadd_pairwise_i8x16_s i16x8.extadd_pairwise_i8x16_u i32x4.extadd_pairwise_i16x8_s i32x4.extadd_pairwise_i16x8_u
  i16x8.abs i16x8.neg`,
);
define(SIMD + 130, I.NONE, 2, 1, 'i16x8.q15mulr_sat_s');
define(SIMD + 131, I.NONE, 1, 1, 'i16x8.all_true i16x8.bitmask');
define(SIMD + 133, I.NONE, 2, 1, 'i16x8.narrow_i32x4_s i16x8.narrow_i32x4_u');
define(
  SIMD + 135,
  I.NONE,
  1,
  1,
  'i16x8.extend_low_i8x16_s i16x8.extend_high_i8x16_s i16x8.extend_low_i8x16_u i16x8.extend_high_i8x16_u',
);
define(
  SIMD + 139,
  I.NONE,
  2,
  1,
  'i16x8.shl i16x8.shr_s i16x8.shr_u i16x8.add i16x8.add_sat_s i16x8.add_sat_u i16x8.sub i16x8.sub_sat_s i16x8.sub_sat_u',
);
define(SIMD + 148, I.NONE, 1, 1, 'f64x2.nearest');
define(SIMD + 149, I.NONE, 2, 1, 'i16x8.mul i16x8.min_s i16x8.min_u i16x8.max_s i16x8.max_u');
define(
  SIMD + 155,
  I.NONE,
  2,
  1,
  'i16x8.avgr_u i16x8.extmul_low_i8x16_s i16x8.extmul_high_i8x16_s i16x8.extmul_low_i8x16_u i16x8.extmul_high_i8x16_u',
);
define(SIMD + 160, I.NONE, 1, 1, 'i32x4.abs i32x4.neg');
define(SIMD + 163, I.NONE, 1, 1, 'i32x4.all_true i32x4.bitmask');
define(
  SIMD + 167,
  I.NONE,
  1,
  1,
  'i32x4.extend_low_i16x8_s i32x4.extend_high_i16x8_s i32x4.extend_low_i16x8_u i32x4.extend_high_i16x8_u',
);
define(SIMD + 171, I.NONE, 2, 1, 'i32x4.shl i32x4.shr_s i32x4.shr_u i32x4.add');
define(SIMD + 177, I.NONE, 2, 1, 'i32x4.sub');
define(SIMD + 181, I.NONE, 2, 1, 'i32x4.mul i32x4.min_s i32x4.min_u i32x4.max_s i32x4.max_u i32x4.dot_i16x8_s');
define(
  SIMD + 188,
  I.NONE,
  2,
  1,
  'i32x4.extmul_low_i16x8_s i32x4.extmul_high_i16x8_s i32x4.extmul_low_i16x8_u i32x4.extmul_high_i16x8_u',
);
define(SIMD + 192, I.NONE, 1, 1, 'i64x2.abs i64x2.neg');
define(SIMD + 195, I.NONE, 1, 1, 'i64x2.all_true i64x2.bitmask');
define(
  SIMD + 199,
  I.NONE,
  1,
  1,
  'i64x2.extend_low_i32x4_s i64x2.extend_high_i32x4_s i64x2.extend_low_i32x4_u i64x2.extend_high_i32x4_u',
);
define(SIMD + 203, I.NONE, 2, 1, 'i64x2.shl i64x2.shr_s i64x2.shr_u i64x2.add');
define(SIMD + 209, I.NONE, 2, 1, 'i64x2.sub');
define(
  SIMD + 213,
  I.NONE,
  2,
  1,
  `i64x2.mul i64x2.eq i64x2.ne i64x2.lt_s i64x2.gt_s i64x2.le_s i64x2.ge_s
  i64x2.extmul_low_i32x4_s i64x2.extmul_high_i32x4_s i64x2.extmul_low_i32x4_u i64x2.extmul_high_i32x4_u`,
);
define(SIMD + 224, I.NONE, 1, 1, 'f32x4.abs f32x4.neg - f32x4.sqrt');
define(SIMD + 228, I.NONE, 2, 1, 'f32x4.add f32x4.sub f32x4.mul f32x4.div f32x4.min f32x4.max f32x4.pmin f32x4.pmax');
define(SIMD + 236, I.NONE, 1, 1, 'f64x2.abs f64x2.neg - f64x2.sqrt');
define(SIMD + 240, I.NONE, 2, 1, 'f64x2.add f64x2.sub f64x2.mul f64x2.div f64x2.min f64x2.max f64x2.pmin f64x2.pmax');
define(
  SIMD + 248,
  I.NONE,
  1,
  1,
  `i32x4.trunc_sat_f32x4_s i32x4.trunc_sat_f32x4_u f32x4.convert_i32x4_s f32x4.convert_i32x4_u
  i32x4.trunc_sat_f64x2_s_zero i32x4.trunc_sat_f64x2_u_zero f64x2.convert_low_i32x4_s f64x2.convert_low_i32x4_u`,
);

for (const [opcode, bytes] of [
  [0x36, 4],
  [0x37, 8],
  [0x38, 4],
  [0x39, 8],
  [0x3a, 1],
  [0x3b, 2],
  [0x3c, 1],
  [0x3d, 2],
  [0x3e, 4],
  [SIMD + 11, 16],
  [SIMD + 88, 1],
  [SIMD + 89, 2],
  [SIMD + 90, 4],
  [SIMD + 91, 8],
] as const) {
  STORE_BYTES[opcode] = bytes;
}

/** Reasons for which opcodes are refused, for those that toolchains do emit. */
const REASONS = new Map<number, string>([
  [0x26, 'table.set: tables cannot change at run time, because they are rebuilt from the module'],
  [MISC + 12, 'table.init: tables cannot change at run time, because they are rebuilt from the module'],
  [MISC + 14, 'table.copy: tables cannot change at run time, because they are rebuilt from the module'],
  [MISC + 15, 'table.grow: tables cannot change at run time, because they are rebuilt from the module'],
  [MISC + 17, 'table.fill: tables cannot change at run time, because they are rebuilt from the module'],
]);

/** The name of an opcode, or undefined for one that is not allowed. */
export function opcodeName(opcode: number): string | undefined {
  return names[opcode];
}

/**
 * Returns why an opcode is not allowed, in words for a message. `opcode` may be any of the encoding, also beyond the
 * table.
 */
export function reasonForRefusal(first: number, second: number | undefined): string {
  const known = first === 0xfc ? REASONS.get(MISC + (second ?? 0)) : REASONS.get(first);
  if (known !== undefined) return known;
  const code = `opcode 0x${first.toString(16)}${second === undefined ? '' : ` 0x${second.toString(16)}`}`;
  if (first === 0xfe) return `${code}: threads and atomics are not supported`;
  if (first === 0xfd && (second ?? 0) >= 0x100)
    return `${code}: relaxed SIMD is not supported, its results differ between machines`;
  if (first === 0xfb) return `${code}: garbage collection is not supported`;
  if ((first >= 0x06 && first <= 0x0a) || first === 0x18 || first === 0x19 || first === 0x1f)
    return `${code}: exception handling is not supported`;
  if (first === 0x14 || first === 0x15 || (first >= 0xd3 && first <= 0xd6))
    return `${code}: typed function references are not supported`;
  return `${code} is unknown`;
}
