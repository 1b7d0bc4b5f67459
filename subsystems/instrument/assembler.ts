/** Builders for short pieces of wasm: each function returns the bytes of one or a few instructions. */
import { ByteWriter, MISC, OP, SIMD, VALUE_TYPE } from '../wasm/index.ts';

export type Code = readonly number[];

/** Memories by index in an instrumented module. */
export const HEAP = 0;
export const CONTROL_MEMORY = 1;

const scratch = new ByteWriter();

export function unsigned(value: number): number[] {
  scratch.length = 0;
  scratch.unsigned(value);
  return [...scratch.written()];
}
function signed(value: number): number[] {
  scratch.length = 0;
  scratch.signed(value);
  return [...scratch.written()];
}

/** Concatenates the pieces; a bare number is an opcode as in wasm/opcodes.ts. */
export function code(...parts: readonly (number | Code)[]): number[] {
  const bytes: number[] = [];
  for (const part of parts) {
    if (typeof part !== 'number') bytes.push(...part);
    else if (part < MISC) bytes.push(part);
    else if (part < SIMD) bytes.push(0xfc, ...unsigned(part - MISC));
    else bytes.push(0xfd, ...unsigned(part - SIMD));
  }
  return bytes;
}

export const get = (local: number): number[] => [OP.LOCAL_GET, ...unsigned(local)];
export const set = (local: number): number[] => [OP.LOCAL_SET, ...unsigned(local)];
export const tee = (local: number): number[] => [OP.LOCAL_TEE, ...unsigned(local)];
export const i32 = (value: number): number[] => [OP.I32_CONST, ...signed(value)];
export const i64 = (value: number): number[] => [OP.I64_CONST, ...signed(value)];
export const f64 = (value: number): number[] => [OP.F64_CONST, ...new Uint8Array(Float64Array.of(value).buffer)];
export const call = (functionIndex: number): number[] => [OP.CALL, ...unsigned(functionIndex)];
export const br = (depth: number): number[] => [OP.BR, ...unsigned(depth)];
export const brIf = (depth: number): number[] => [OP.BR_IF, ...unsigned(depth)];

/** Returns an `if` without results; the condition is on the stack. */
export function ifThen(...then: readonly (number | Code)[]): number[] {
  return code([OP.IF, 0x40], ...then, OP.END);
}
export function ifThenElse(then: Code, otherwise: Code): number[] {
  return code([OP.IF, 0x40], then, OP.ELSE, otherwise, OP.END);
}
/** Returns a `loop` without results. */
export function loop(...body: readonly (number | Code)[]): number[] {
  return code([OP.LOOP, 0x40], ...body, OP.END);
}
export function block(...body: readonly (number | Code)[]): number[] {
  return code([OP.BLOCK, 0x40], ...body, OP.END);
}

/** Returns a load or store of the control memory; the address is on the stack. */
export function controlAccess(opcode: number, offset = 0): number[] {
  return code(opcode, [0x40, CONTROL_MEMORY], unsigned(offset));
}

/** Returns code that reads a number of the control memory's header; `field` is its byte offset. */
export const readI32 = (field: number): number[] => code(i32(field), controlAccess(OP.I32_LOAD));
export const readF64 = (field: number): number[] => code(i32(field), controlAccess(OP.F64_LOAD));
/** Returns code that writes a number of the header: the value that `value` leaves on the stack. */
export const writeI32 = (field: number, value: Code): number[] => code(i32(field), value, controlAccess(OP.I32_STORE));
export const writeF64 = (field: number, value: Code): number[] => code(i32(field), value, controlAccess(OP.F64_STORE));

export const memorySize = (memory: number): number[] => [OP.MEMORY_SIZE, memory];

/**
 * Instructions on heap addresses, which are i32 or i64 by the module's width. `fromI32` and `toI32` convert a number
 * that is known to fit.
 */
export interface AddressCode {
  readonly type: number;
  readonly constant: (value: number) => number[];
  readonly fromI32: Code;
  readonly toI32: Code;
  readonly toI64: Code;
  readonly add: number;
  readonly sub: number;
  readonly shl: number;
  readonly shrU: number;
  readonly ltU: number;
}

export function addressCode(pointerWidth: 32 | 64): AddressCode {
  if (pointerWidth === 32) {
    return {
      type: VALUE_TYPE.i32,
      constant: i32,
      fromI32: [],
      toI32: [],
      toI64: [OP.I64_EXTEND_I32_U],
      add: OP.I32_ADD,
      sub: OP.I32_SUB,
      shl: OP.I32_SHL,
      shrU: OP.I32_SHR_U,
      ltU: OP.I32_LT_U,
    };
  }
  return {
    type: VALUE_TYPE.i64,
    constant: i64,
    fromI32: [OP.I64_EXTEND_I32_U],
    toI32: [OP.I32_WRAP_I64],
    toI64: [],
    add: OP.I64_ADD,
    sub: OP.I64_SUB,
    shl: OP.I64_SHL,
    shrU: OP.I64_SHR_U,
    ltU: OP.I64_LT_U,
  };
}
/** Returns code that adds bytes to a local. */
export const advance = (local: number, bytes: number): number[] => code(get(local), i32(bytes), OP.I32_ADD, set(local));
